"""The files of examples/operations name flags, ports and times as the server has them; systemd accepts its unit."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url
from typer.core import TyperGroup
from typer.main import get_command

from dualsql.cli.commands import app
from dualsql.kept.settings import KeptSettings
from dualsql.serve.listening import GRACE_SECONDS, KEEP_ALIVE_SECONDS
from dualsql.settings import Settings
from dualsql.store import upgrade
from tests.failures.cluster import cluster
from tests.serve.conftest import TOKEN, calling, serving_process
from tests.serve.test_stopping import SECRET

FOLDER = Path(__file__).parents[2] / "examples" / "operations"
LONGEST_STOP = Settings().drain_timeout.total_seconds() + GRACE_SECONDS


def written(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def known() -> set[str]:
    """Flags and variables of `dualsql serve`."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    options = group.commands["serve"].params
    names = {name for each in options for name in each.opts}
    variables = {str(each.envvar) for each in options if each.envvar}
    return names | variables | {"DUALSQL_SECRET"}


def test_flags_and_variables_exist() -> None:
    for name in ("Dockerfile", "compose.yaml", "dualsql.service", "nginx.conf", "Caddyfile", "haproxy.cfg"):
        lines = [line for line in written(name).splitlines() if "dualsql" in line.lower() or "CMD" in line]
        matches = set(re.findall(r"(?<![\\w-])--[a-z][a-z-]+|DUALSQL_[A-Z_]+", "\n".join(lines)))
        of_others = {
            "--from",
            "--username",
            "--no-create-home",
            "--system",
            "--shell",
            "--uid",
            "--no-cache-dir",
            "--constraint",
            "--create",
            "--directory",
            "--owner",
            "--group",
            "--mode",
        }
        assert matches - known() - of_others - {"DUALSQL_METRICS"} == set(), name


def test_the_image_runs_as_nobody_and_tells_its_health() -> None:
    last = written("Dockerfile").rpartition("\nFROM ")[2]
    user = re.search(r"^USER (\d+):(\d+)$", last, re.MULTILINE)
    assert user and int(user[1]) > 0 and user.start() < last.index("ENTRYPOINT")
    assert "/ready" in last[last.index("HEALTHCHECK") :]
    assert "root" not in last.replace("root file system", "")


def test_the_compose_file_is_valid() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*command, FOLDER / "compose.yaml"], check=True)


def test_the_containers_are_hardened_and_have_time_to_drain() -> None:
    composed: Any = import_module("yaml").safe_load(written("compose.yaml"))
    services = composed["services"]
    assert services.keys() == {"postgres", "migrate", "dualsql", "prometheus", "grafana"}
    for name in services.keys() - {"postgres"}:
        service = services[name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert float(services["dualsql"]["stop_grace_period"].removesuffix("s")) > LONGEST_STOP
    assert set(services["dualsql"]["secrets"]) <= composed["secrets"].keys()
    scraped: Any = import_module("yaml").safe_load(written("prometheus.yml"))
    assert scraped["scrape_configs"][0]["static_configs"] == [{"targets": ["dualsql:8001"]}]


def test_prometheus_and_grafana_find_the_rules_the_dashboard_and_each_other() -> None:
    """Each mounted file is there, and where its reader looks for it."""
    load: Any = import_module("yaml").safe_load
    services = load(written("compose.yaml"))["services"]
    mounts: dict[str, dict[str, str]] = {}
    for name in ("prometheus", "grafana"):
        files = [each.split(":") for each in services[name]["volumes"] if each.startswith("./")]
        mounts[name] = {inside: source for source, inside, mode in files if mode == "ro"}
        assert len(mounts[name]) == len(files)
        assert all((FOLDER / source).is_file() for source in mounts[name].values())
    settings = PurePosixPath("/etc/prometheus/prometheus.yml")
    [rules] = load(written(mounts["prometheus"].pop(str(settings))))["rule_files"]
    assert mounts["prometheus"] == {str(settings.parent / rules): "./prometheus-alerts.yml"}
    provisioned: dict[str, Any] = {}
    for kind in ("datasources", "dashboards"):
        at = f"/etc/grafana/provisioning/{kind}/dualsql.yml"
        provisioned[kind] = load(written(mounts["grafana"].pop(at)))
        assert provisioned[kind]["apiVersion"] == 1
    [source] = provisioned["datasources"]["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    [provider] = provisioned["dashboards"]["providers"]
    assert mounts["grafana"] == {f"{provider['options']['path']}/dualsql.json": "./grafana-dashboard.json"}
    wanted = {
        each["type"]: each for each in json.loads(written("grafana-dashboard.json"))["templating"]["list"]
    }
    assert wanted["datasource"]["query"] == source["type"] and source["isDefault"]


def seconds(file: str, name: str) -> float:
    """A time limit in the configuration of a proxy."""
    [found] = re.findall(rf"\b{name}\s+(\d+)([smh])\b", written(file))
    return int(found[0]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[found[1]]


def test_proxies_wait_as_long_as_the_server_takes_and_close_idle_connections_first() -> None:
    settings = Settings()
    first_byte = (2 * settings.queue_timeout + settings.query_timeout).total_seconds()
    stalled, body = (settings.stream_stall_timeout.total_seconds(), settings.body_timeout.total_seconds())
    for file, name in (
        ("nginx.conf", "proxy_read_timeout"), ("Caddyfile", "response_header_timeout"),
        ("haproxy.cfg", "timeout server"),
    ):  # fmt: skip
        assert seconds(file, name) > first_byte, file
    assert (
        seconds("nginx.conf", "send_timeout") >= stalled
        and seconds("haproxy.cfg", "timeout client") > stalled
    )
    for file, name in (
        ("nginx.conf", "client_body_timeout"), ("Caddyfile", "read_body"), ("haproxy.cfg", "timeout http-request"),
    ):  # fmt: skip
        assert seconds(file, name) == body, file
    assert seconds("haproxy.cfg", "timeout tunnel") >= settings.maximum_stream_duration.total_seconds()
    for file, name in (
        ("nginx.conf", "keepalive_timeout"), ("Caddyfile", "keepalive"), ("haproxy.cfg", "pool-purge-delay"),
    ):  # fmt: skip
        assert seconds(file, name) < KEEP_ALIVE_SECONDS, file
        assert f"dualsql closes after {KEEP_ALIVE_SECONDS}" in written(file)


@pytest.mark.long
async def test_the_users_of_the_compose_file_are_no_superusers_and_suffice(tmp_path: Path) -> None:
    """The store's user owns its database; a server runs with the rights that docs/migrations.md lists."""
    script = written("postgres-init.sql").replace("/run/secrets", str(tmp_path))
    for name in ("reader", "store"):
        (tmp_path / name).write_text("a 'secret'")
    with cluster() as database:

        def run(
            text: str, user: str = "postgres", name: str = "postgres"
        ) -> subprocess.CompletedProcess[str]:
            command = [
                "psql",
                "-h",
                database.socket_folder,
                "-U",
                user,
                "-d",
                name,
                "-qAt",
                "-v",
                "ON_ERROR_STOP=1",
            ]
            return subprocess.run(command, input=text, text=True, capture_output=True, check=False)

        assert run(script).stderr == ""
        # of a role that is not the owner: GRANT is the owner's
        run("CREATE ROLE serving LOGIN; GRANT CONNECT ON DATABASE dualsql TO serving")
        assert run("CREATE TABLE parts AS SELECT generate_series(1, 50) AS id", name="shop").stderr == ""
        assert run("SELECT count(*) FROM parts", "reader", "shop").stdout == "50\n"
        for text, user, name in (
            ("DELETE FROM parts", "reader", "shop"), ("CREATE TABLE mine (id int)", "reader", "shop"),
            ("SELECT 1", "reader", "dualsql"), ("SELECT 1", "store", "shop"), ("SELECT 1", "store", "postgres"),
        ):  # fmt: skip
            assert "denied" in run(text, user, name).stderr, (text, user, name)
        assert run("SELECT count(*) FROM pg_roles WHERE rolsuper AND rolcanlogin").stdout == "1\n"
        store = make_url(database.url("dualsql"))
        await asyncio.to_thread(upgrade, store.set(username="store"))
        granted = (
            "GRANT SELECT, INSERT, UPDATE, DELETE ON dualsql_resources, dualsql_links TO serving;"
            "GRANT SELECT ON dualsql_alembic_version TO serving"
        )
        assert run(granted, "store", "dualsql").stderr == ""
        urls = (make_url(database.url("shop")).set(username="reader"), store.set(username="serving"))
        data, kept = (each.render_as_string(hide_password=False) for each in urls)
        async with serving_process(
            "--database", data, "--all",
            DUALSQL_STORE=kept, DUALSQL_SECRET=SECRET, DUALSQL_TOKEN=TOKEN,
        ) as served:  # fmt: skip
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with calling(served.origin, headers) as model:
                result: Any = await model.call_tool(
                    "execute_query", {"query": "SELECT id FROM parts ORDER BY id"}
                )
            url = result.structured_content["resource"]["url"]
            async with httpx.AsyncClient(headers=headers) as http:
                assert len((await http.get(url, params={"limit": 50})).json()["data"]) == 50
                assert (await http.delete(url)).status_code == 204


def limit_of_memory(text: str) -> int:
    """The bytes of 4G or 4g."""
    return int(text[:-1]) * 1024**3 if text[-1] in "Gg" else 0


def test_the_files_have_room_for_kept_results() -> None:
    """Memory above keep_memory, and a folder that can be written to, where nothing else can."""
    unit = dict(re.findall(r"^(\w+)=(.*)$", written("dualsql.service"), re.MULTILINE))
    service = import_module("yaml").safe_load(written("compose.yaml"))["services"]["dualsql"]
    for memory in (unit["MemoryMax"], service["mem_limit"]):
        assert limit_of_memory(memory) >= 2 * KeptSettings().keep_memory
    assert unit["ProtectSystem"] == "strict" and unit["StateDirectoryMode"] == "0700"
    assert f"--keep /var/lib/{unit['StateDirectory']}/" in unit["ExecStart"] and unit["UMask"] == "0077"
    # ProtectHome hides the home of the user, where asyncpg looks for files.
    assert unit["ProtectHome"] == "yes"
    assert f"\nEnvironment=HOME=/var/lib/{unit['StateDirectory']}\n" in written("dualsql.service")
    assert service["read_only"] and service["volumes"] == ["kept:/var/lib/dualsql"]
    assert service["environment"]["DUALSQL_KEEP"].startswith("/var/lib/dualsql/")
    assert "--mode 0700 /var/lib/dualsql\n" in written("Dockerfile") and "kept]" in written("Dockerfile")
    # Five starts fit into the interval, with the pause before each and half a minute for each.
    pause = float(unit["RestartSec"])
    assert int(unit["StartLimitIntervalSec"]) > int(unit["StartLimitBurst"]) * (pause + 30)


def test_the_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    unit = written("dualsql.service")
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert stop and int(stop[1]) > LONGEST_STOP
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / "dualsql.service"
    copy.write_text(unit.replace("/opt/dualsql/bin/dualsql", sys.executable))
    verified = subprocess.run([program, "verify", copy], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        [program, "security", "--offline=true", "--threshold=20", copy],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout
