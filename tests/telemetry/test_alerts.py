"""The alert rules, run by Prometheus over the figures of each fault: it fires its alert and no other."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from dualsql import errors
from dualsql.errors import DualResponseError
from dualsql.http.problems import KINDS
from dualsql.mcp.calls import cause_of_code

RULES = Path(__file__).parents[2] / "examples" / "operations" / "prometheus-alerts.yml"
MINUTES = 30

WELL: Mapping[str, str] = {
    'up{job="dualsql", instance="a"}': "1x30",
    'dualsql_ready{job="dualsql", instance="a", dualsql_part="store"}': "1x30",
    'dualsql_creations_total{job="dualsql", instance="a", dualsql_cause="none"}': "0+30x30",
    'dualsql_creations_total{job="dualsql", instance="a", dualsql_cause="caller"}': "0+1x30",
    'dualsql_creations_total{job="dualsql", instance="a", dualsql_cause="store"}': "0x30",
    'dualsql_errors_total{job="dualsql", instance="a", dualsql_surface="mcp", dualsql_cause="caller"}': "0+1x30",
    'dualsql_errors_total{job="dualsql", instance="a", dualsql_surface="mcp", dualsql_cause="database"}': "0x30",
    'mcp_server_operation_duration_seconds_count{job="dualsql", instance="a"}': "0+31x30",
    'http_server_request_duration_seconds_count{job="dualsql", instance="a"}': "0+300x30",
    'dualsql_background_failures_total{job="dualsql", instance="a", dualsql_work="Keeping"}': "0x30",
    'dualsql_background_failures_total{job="dualsql", instance="a", dualsql_work="Sweeping"}': "0x30",
    'dualsql_kept_free_bytes{job="dualsql", instance="a"}': "5000000000x30",
}


def like(name: str, label: str = "") -> str:
    [series] = [each for each in WELL if each.startswith(name) and label in each]
    return series


NONE_CREATED = {
    like("dualsql_creations", '"none"'): "100x30",
    like("dualsql_creations", '"store"'): "0+30x30",
    like("dualsql_errors", '"database"'): "0+30x30",
}
FAULTS: Mapping[str, tuple[Mapping[str, str], set[str]]] = {
    "nothing": ({}, set()),
    "the process is gone": ({like("up"): "0x30"}, {"DualsqlDown"}),
    "a part is not ready": ({like("dualsql_ready"): "0x30"}, {"DualsqlNotReady"}),
    "the store rejects every result": (NONE_CREATED, {"DualsqlNothingCreated"}),
    "no creation has ever succeeded": (
        {**NONE_CREATED, like("dualsql_creations", '"none"'): "_x30"},
        {"DualsqlNothingCreated"},
    ),
    "callers are wrong, and nothing is created": (
        {
            like("dualsql_creations", '"none"'): "100x30",
            like("dualsql_creations", '"caller"'): "0+30x30",
            like("dualsql_errors", '"caller"'): "0+31x30",
        },
        {"DualsqlToolErrors"},
    ),
    "some queries fail": ({like("dualsql_errors", '"database"'): "0+20x30"}, {"DualsqlErrors"}),
    "some fail, and there are no tools": (
        {
            like("dualsql_errors", '"caller"'): "_x30",
            like("dualsql_errors", '"database"'): "0+20x30",
            like("mcp_server"): "_x30",
        },
        {"DualsqlErrors"},
    ),
    "one caller's queries are too heavy": (
        {
            like("dualsql_errors", '"database"').replace("}", f', error_type="{code}"}}'): "0+20x30"
            for code in ("QUERY_TIMEOUT", "TOO_MANY_QUERIES")
        },
        set(),
    ),
    "a model calls wrongly": ({like("dualsql_errors", '"caller"'): "0+15x30"}, {"DualsqlToolErrors"}),
    "the keep folder is read-only": (
        {like("dualsql_background", "Keeping"): "0+2x30"},
        {"DualsqlKeepingFails"},
    ),
    "the keep folder is full": ({like("dualsql_kept_free"): "1000000x30"}, {"DualsqlKeepFolderFull"}),
    "sweeps fail": ({like("dualsql_background", "Sweeping"): "0+1x30"}, {"DualsqlSweepsFail"}),
}


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The alerts that fire after 28 minutes of each fault, by one run of `promtool test rules`."""
    rules: Any = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    names = [each["alert"] for each in rules["groups"][0]["rules"]]
    expectations = [{"eval_time": f"{MINUTES - 2}m", "alertname": name, "exp_alerts": []} for name in names]
    tests = [
        {
            "name": fault,
            "interval": "1m",
            "input_series": [{"series": one, "values": each} for one, each in {**WELL, **figures}.items()],
            "alert_rule_test": expectations,
        }
        for fault, (figures, _) in FAULTS.items()
    ]
    file = tmp_path_factory.mktemp("alerts") / "tests.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": tests}),
        encoding="utf-8",
    )
    ran = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    matches = re.findall(r"name: (.+),\n +alertname: (\w+), time: ", ran.stdout + ran.stderr)
    assert matches, ran.stdout + ran.stderr
    return {fault: {name for given, name in matches if given == fault} for fault in FAULTS}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fires_its_alert_and_no_other(fault: str, fired: dict[str, set[str]]) -> None:
    assert fired[fault] == FAULTS[fault][1]


def test_every_error_has_a_cause() -> None:
    """By its class and by its code alike; an error of the caller is answered with 4xx, and any other with 5xx."""
    classes = [DualResponseError]
    for each in classes:
        classes += each.__subclasses__()
    ours = [each for each in classes if each.__module__ in (errors.__name__, "dualsql.http.problems")]
    assert len(ours) > 30
    for each in ours:
        assert cause_of_code(each.code) == each.cause
        # The failed query of a result, and the cancellation that its caller wished.
        if each.code in KINDS and each.code not in ("RESOURCE_FAILED", "QUERY_CANCELLED"):
            assert (KINDS[each.code].status < 500) is (each.cause == "caller"), each
    assert cause_of_code("NEVER_SEEN") == "server"
