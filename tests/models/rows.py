"""Rows for the models: ties, NULLs, orphans, equal rows, and values that are hard to write down."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from tests.models import models as m, sources as s

START = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)
PLAIN = START.replace(tzinfo=None)
WORDS = ("alpha", "Beta", "gamma", "alpha", "", 'say "hi"', "a,b", "two\nlines", "Zoë", "=1+1", "null", " x ")


def _at(number: int) -> dt.datetime:
    return START + dt.timedelta(hours=number * 7, microseconds=number * 1500)


def people() -> list[Any]:
    """Keystone and JupyterHub."""
    users = [
        m.User(
            id=number,
            name=f"user{number % 5}",
            first=None if number == 4 else WORDS[number % 4],
            last=f"Last{number % 3}",
            role=list(m.Role)[number % 3],
            created=_at(number % 6),
            last_activity=None if number % 4 == 0 else PLAIN + dt.timedelta(minutes=number % 5),
            is_active=number % 3 != 0,
            password_hash=None if number == 2 else bytes([number, 255, 0]),
            extra=None if number % 3 == 0 else {"theme": "dark", "n": number % 2, "list": [1, None]},
        )
        for number in range(1, 13)
    ]
    groups = [
        m.Group(id=n, name=f"group{n}", properties={"level": n % 2} if n > 1 else {}) for n in range(1, 6)
    ]
    members = [
        m.UserGroup(user_id=user, group_id=group, since=dt.date(2020 + group, 1, user))
        for user in range(1, 13)
        for group in range(1, 5)
        if (user * group) % 3 == 1
    ]
    servers = [
        m.Server(
            id=n,
            name="" if n % 2 else f"gpu{n}",
            user_id=None if n == 7 else n % 5 + 1,
            state=None if n % 2 else {"pid": n},
            started=None if n == 3 else PLAIN + dt.timedelta(days=n),
        )
        for n in range(1, 9)
    ]
    tokens = [
        m.Token(
            id=n,
            user_id=n % 4 + 1,
            prefix=f"tok{n % 3}",
            note=WORDS[n % 12],
            expires_at=None if n % 3 == 0 else _at(n),
            scopes=["read", "write"][: n % 3],
        )
        for n in range(1, 12)
    ]
    projects = [
        m.Project(
            id=n,
            name=f"project {n % 4}",
            parent_id=None if n in (1, 2) else n // 2,
            owner_id=None if n % 4 == 0 else n,
            budget=None if n % 5 == 0 else Decimal(n * 1000) / 8,
            tags=None if n % 3 == 0 else ["a", f"b{n % 2}"],
        )
        for n in range(1, 12)
    ]
    return [*users, *groups, *members, *servers, *tokens, *projects]


def experiments() -> list[Any]:
    """Optuna and MLflow."""
    studies = [m.Study(study_id=n, study_name=f"study-{n}") for n in range(1, 5)]
    directions = [
        m.StudyDirection(
            study_direction_id=n * 2 + o,
            direction=list(m.Direction)[(n + o) % 2],
            study_id=n,
            objective=o,
        )
        for n in range(1, 4)
        for o in range(n % 2 + 1)
    ]
    trials = [
        m.Trial(
            trial_id=n,
            number=n % 7,
            study_id=None if n == 20 else n % 3 + 1,
            state=list(m.TrialState)[n % 4],
            datetime_start=None if n % 6 == 0 else PLAIN + dt.timedelta(minutes=n % 5),
            datetime_complete=None if n % 4 == 0 else PLAIN + dt.timedelta(minutes=n % 5, seconds=n * 11),
        )
        for n in range(1, 22)
    ]
    values = [
        m.TrialValue(
            trial_value_id=n,
            trial_id=n % 15 + 1,
            objective=n % 2,
            value=None if n % 9 == 0 else n / 7,
            value_type="INF_POS" if n % 9 == 0 else "FINITE",
        )
        for n in range(1, 26)
    ]
    params = [
        m.TrialParam(
            param_id=n,
            trial_id=n % 18 + 1,
            param_name=("lr", "depth", "drop")[n % 3],
            param_value=n * 0.1,
            distribution_json=json.dumps({"name": "FloatDistribution", "low": 0, "high": n % 3}),
        )
        for n in range(1, 31)
    ]
    runs = [
        m.Run(
            run_uuid=f"{n:032x}",
            name=None if n % 5 == 0 else WORDS[n % 12],
            status=("RUNNING", "FINISHED", "FAILED")[n % 3],
            start_time=None if n == 3 else 1_767_225_600_000 + n % 4,
            end_time=None if n % 3 == 0 else START + dt.timedelta(milliseconds=n * 1001),
            lifecycle_stage="deleted" if n % 4 == 0 else "active",
            artifact_uri=None if n % 2 else f"s3://bucket/{n}/artifacts",
        )
        for n in range(1, 13)
    ]
    metrics = [
        m.Metric(
            key=("loss", "acc")[n % 2],
            value=(n % 5) / 3,
            timestamp=1_767_225_600_000 + n,
            step=n % 4,
            is_nan=n % 7 == 0,
            run_uuid=f"{n % 10 + 1:032x}",
        )
        for n in range(1, 33)
    ]
    latest = [
        m.LatestMetric(key=key, run_uuid=f"{n:032x}", value=n / 9, step=n % 3)
        for n in range(1, 10)
        for key in ("acc", "loss")
        if (n, key) != (4, "acc")
    ]
    tags = [
        m.RunTag(key=key, value=None if n == 2 else f"{key}-{n % 2}", run_uuid=f"{n:032x}")
        for n in range(1, 9)
        for key in ("mlflow.user", "mlflow.source", "env")[: n % 3 + 1]
    ]
    return [*studies, *directions, *trials, *values, *params, *runs, *metrics, *latest, *tags]


STATES = (None, "queued", "running", "success", "failed")


def workflows() -> list[Any]:
    """Airflow and Prefect."""
    dags = [
        m.Dag(
            dag_id=f"dag_{n}",
            is_paused=n % 2 == 0,
            schedule=None if n == 3 else dt.timedelta(days=n, seconds=1.5),
            owners=None if n == 4 else "ops,data" if n % 2 else "ops",
            starts_on=None if n == 2 else dt.date(2025, 12, 31) + dt.timedelta(days=n),
            at=None if n == 5 else dt.time(n, 30, 0, n * 10),
        )
        for n in range(1, 7)
    ]
    runs = [
        m.DagRun(
            id=n,
            dag_id=f"dag_{n % 5 + 1}",
            run_id=f"manual__{n}",
            logical_date=None if n % 6 == 0 else _at(n % 8),
            _state=STATES[n % 5],
            conf=None if n % 4 == 0 else {"n": n, "deep": {"list": [n, "x"]}},
        )
        for n in range(1, 15)
    ]
    instances = [
        m.TaskInstance(
            task_id=("extract", "load", "notify")[t],
            dag_id=f"dag_{n % 5 + 1}",
            run_id=f"manual__{n}",
            map_index=index,
            start_date=None if t == 2 else _at(n),
            end_date=None if t else _at(n + 1),
            duration=None if t else n * 1.25,
            state=STATES[(n + t) % 5],
            try_number=n % 3,
            pool_slots=1 + t,
            executor_config=None if n % 2 else {"pod": t},
        )
        for n in range(1, 12)
        for t in range(n % 3 + 1)
        for index in ((-1,) if t < 2 else (0, 1))
    ]
    flows = [
        m.Flow(id=UUID(int=n), name=f"flow {n % 2}", created=_at(n), tags=["etl", "x"][: n % 3])
        for n in range(1, 5)
    ]
    flow_runs = [
        m.FlowRun(
            id=UUID(int=100 + n),
            flow_id=UUID(int=n % 3 + 1),
            name=f"run-{n % 4}",
            state_type=(None, "SCHEDULED", "RUNNING", "COMPLETED", "FAILED")[n % 5],
            run_count=n % 3,
            expected_start_time=None if n == 5 else _at(n % 4),
            start_time=None if n % 3 == 0 else _at(n % 4 + 1),
            total_run_time=dt.timedelta(seconds=n % 5 * 61, microseconds=n % 2 * 250_000),
            parameters={"n": n % 3} if n % 4 else {},
            parent_id=None if n < 6 else UUID(int=100 + n - 5),
        )
        for n in range(1, 15)
    ]
    return [*dags, *runs, *instances, *flows, *flow_runs]


def traces() -> list[Any]:
    """Phoenix, Galaxy and google-adk."""
    actual: list[Any] = [
        m.Trace(id=n, trace_id=f"{n:032x}", start_time=_at(n), end_time=_at(n + 1)) for n in range(1, 7)
    ]
    actual += [
        m.Span(
            id=n,
            trace_rowid=n % 5 + 1,
            span_id=f"{n:016x}",
            parent_id=None if n < 6 else f"{n - 5:016x}",
            name=("llm", "tool", "retriever")[n % 3],
            span_kind=("LLM", "TOOL", "CHAIN")[n % 3],
            start_ms=n * 10,
            end_ms=n * 10 + n % 4 * 3,
            attributes={"llm": {"model": f"m{n % 2}", "n": n}, "tags": ["a"][: n % 2]},
            status_code=("OK", "ERROR", "UNSET")[n % 3],
            tokens_prompt=None if n % 4 == 0 else n,
            tokens_completion=None if n % 3 == 0 else n % 5,
        )
        for n in range(1, 24)
    ]
    actual += [
        m.Annotation(
            id=n,
            span_rowid=n % 9 + 1,
            name=("correct", "toxic")[n % 2],
            label=None if n % 5 == 0 else ("yes", "no")[n % 2],
            score=None if n % 4 == 0 else n / 8,
            explanation=WORDS[n % 12] if n % 3 else None,
        )
        for n in range(1, 18)
    ]
    actual += [
        m.History(
            id=n,
            name=None if n == 3 else f"history {n % 2}",
            user_id=None if n == 4 else n,
            deleted=n % 2 == 0,
            hid_counter=n,
        )
        for n in range(1, 6)
    ]
    created = [PLAIN + dt.timedelta(days=n % 3) for n in range(20)]
    actual += [
        m.Dataset(
            id=n,
            name=WORDS[n % 4],
            create_time=created[n],
            history_id=n % 4 + 1,
            file_size=None if n % 4 == 0 else Decimal(10**9 * n + 1),
            extension=("bam", "txt", None)[n % 3],
        )
        for n in range(1, 9)
    ]
    actual += [
        m.Collection(
            id=n,
            name=None,
            create_time=created[n],
            history_id=None,
            element_count=n % 3 or None,
            extension="list",
        )
        for n in range(9, 13)
    ]
    actual += [m.Item(id=n, name=f"item {n}", create_time=created[n], history_id=1) for n in range(13, 15)]
    actual += [
        m.Machine(id=n, label=f"machine {n % 2}", cores=n * 4, price=Decimal(n) + Decimal("0.05"))
        for n in range(1, 5)
    ]
    actual += [m.Cluster(id=n, label="cluster", cores=64, price=None, nodes=n) for n in range(5, 8)]
    actual += [
        m.Licence(id=n, label="licence", expires=dt.date(2027, n, 28) if n % 2 else None)
        for n in range(8, 11)
    ]
    actual += [m.Asset(id=11, label="chair"), m.Notification(id=1, body="x", sent=None)]
    actual += [
        m.Mail(id=n, body=WORDS[n], sent=PLAIN, recipient=f"u{n % 2}@example.com") for n in range(2, 6)
    ]
    actual += [m.Slack(id=n, body="hi", sent=None if n % 2 else PLAIN, room="#ops") for n in range(6, 10)]
    actual += [
        m.StorageSession(
            app_name=f"app{n % 2}",
            user_id=f"u{n % 3}",
            id=f"s{n}",
            state={"step": n} if n % 2 else {},
            create_time=PLAIN + dt.timedelta(seconds=n % 4),
            update_time=PLAIN + dt.timedelta(hours=n),
        )
        for n in range(1, 9)
    ]
    actual += [
        m.StorageEvent(
            id=f"e{n}",
            app_name=f"app{(n % 8 + 1) % 2}",
            user_id=f"u{(n % 8 + 1) % 3}",
            session_id=f"s{n % 8 + 1}",
            author=("user", "agent", "tool")[n % 3],
            timestamp=PLAIN + dt.timedelta(milliseconds=n % 6 * 100),
            content=None if n % 4 == 0 else {"parts": [{"text": WORDS[n % 12]}], "role": "user"},
            partial=(None, True, False)[n % 3],
        )
        for n in range(1, 25)
    ]
    return actual


def orders() -> list[Any]:
    """Customers, orders, lines, and numbers of every kind."""
    customers = [
        m.Customer(
            id=n,
            name=WORDS[n % 12] or "nobody",
            country=("DE", "FR", None)[n % 3],
            born=None if n == 6 else dt.date(1970 + n, 2, 28),
            home=m.Point(None if n == 2 else n * 1.5, n / 3),
            credit=Decimal(n * 100) + Decimal("0.10"),
            key=None if n % 4 == 0 else UUID(int=2**127 + n),
        )
        for n in range(1, 10)
    ]
    placed = [
        m.Order(
            id=n,
            customer_id=n % 7 + 1,
            status=list(m.OrderStatus)[n % 3],
            placed=PLAIN + dt.timedelta(days=n % 6, seconds=n % 2),
            due=None if n % 5 == 0 else dt.date(2026, 1 + n % 12, 1),
            at=None if n % 3 == 0 else dt.time(n % 24, 15),
            discount=None if n % 4 == 0 else Decimal(n % 3) / 8,
            shipping=None if n % 6 == 0 else Decimal(n % 4) + Decimal("0.99"),
            scores=None if n % 5 == 0 else [n, n % 3, 0][: n % 4],
            note=None if n % 7 == 0 else WORDS[n % 12],
        )
        for n in range(1, 24)
    ]
    lines = [
        m.Line(
            order_id=order,
            position=position,
            product=("apple", "pear", "plum")[(order + position) % 3],
            amount=position,
            cents=order * 5 + position,
        )
        for order in range(1, 21)
        for position in range(1, order % 4 + 1)
    ]
    ledger = [
        m.Ledger(
            id=n,
            small=None if n % 5 == 0 else n % 3 - 1,
            big=None if n == 4 else 2**62 + n % 4,
            exact=None if n % 6 == 0 else Decimal(n) + Decimal("0.000125"),
            loose=None if n == 7 else Decimal(n % 4) / 8,
            ratio=None if n % 7 == 0 else n / 3,
            blob=None if n % 4 == 0 else bytes(range(n % 5)),
            word=None if n % 9 == 0 else WORDS[n % 12],
            flag=(True, False, None)[n % 3],
            day=None if n == 5 else dt.date(1999 + n, 12, 31),
            clock=None if n % 4 == 0 else dt.time(n % 24, 0, n % 60, n % 3 * 1000),
            moment=None if n == 9 else PLAIN + dt.timedelta(seconds=n % 6, microseconds=n % 2),
            span=None if n % 5 == 0 else dt.timedelta(hours=n % 7, microseconds=n % 2 * 10),
            code=None if n == 8 else UUID(int=n % 6),
            doc=None if n % 4 == 0 else {"n": n % 3, "s": WORDS[n % 12]},
        )
        for n in range(1, 22)
    ]
    return [*customers, *placed, *lines, *ledger]


TABLES: dict[Any, list[dict[str, Any]]] = {
    m.builders: [
        {"id": n, "name": f"builder {n}", "projectid": None if n == 4 else n % 3 + 1} for n in range(1, 6)
    ],
    m.builds: [
        {
            "id": n,
            "number": n % 6,
            "builderid": n % 4 + 1,
            "started_at": 1000 + n % 5,
            "complete_at": None if n % 3 == 0 else 1000 + n * 2,
            "results": None if n % 3 == 0 else n % 2,
            "state_string": ("finished", "building", "")[n % 3],
        }
        for n in range(1, 18)
    ],
    m.steps: [
        {
            "id": n,
            "number": n % 3,
            "name": f"step{n % 3}",
            "buildid": None if n == 19 else n % 10 + 1,
            "hidden": n % 2,
        }
        for n in range(1, 26)
    ],
    m.event_logs: [
        {
            "id": n,
            "run_id": None if n == 5 else f"run{n % 4}",
            "event": json.dumps({"n": n}),
            "dagster_event_type": ("STEP_START", "ASSET_MATERIALIZATION", None)[n % 3],
            "timestamp": PLAIN + dt.timedelta(seconds=n % 7, microseconds=n),
            "step_key": None if n % 4 == 0 else f"op_{n % 2}",
            "asset_key": '["a", "b"]' if n % 3 == 1 else None,
            "partition": None if n % 5 else f"2026-01-0{n // 5}",
        }
        for n in range(1, 25)
    ],
    m.visits: [
        {"page": ("/", "/a", None)[n % 3], "day": dt.date(2026, 1, 1 + n % 2), "seconds": n % 2 or None}
        for n in range(18)
    ],
    s.Employee.__table__: [{"id": n, "name": ("Ada", "Bo", "Cy")[n % 3]} for n in range(1, 6)],
    s.Chief.__table__: [
        {"id": n, "name": ("Ada", "Di")[n % 2], "bonus": None if n == 2 else n} for n in (1, 2, 7)
    ],
    s.Car.__table__: [
        {"id": n, "label": f"car {n % 2}", "doors": None if n == 2 else n} for n in range(1, 5)
    ],
    s.Boat.__table__: [{"id": n, "label": "car 1", "mast": None if n == 2 else "wood"} for n in (1, 2)],
    s.Shelf.__table__: [{"id": n, "room": f"room {n % 2}"} for n in range(1, 5)],
    s.Book.__table__: [
        {"id": n, "shelf_id": None if n == 8 else n % 3 + 1, "title": f"book {n % 4}", "year": 1890 + n * 11}
        for n in range(1, 9)
    ],
}


def fill(connection: Connection) -> None:
    """Make the tables and put the rows into them."""
    m.Base.metadata.create_all(connection)
    with Session(connection) as session:
        for part in (people, experiments, workflows, traces, orders):
            # Rows whose parents are rows of the same table come after them.
            for row in part():
                session.add(row)
            session.flush()
        for table, rows in TABLES.items():
            session.execute(table.insert(), rows)
        session.commit()
