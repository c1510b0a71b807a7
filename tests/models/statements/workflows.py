"""As Airflow, Prefect, Dagster and Buildbot ask: states, joins over keys of several parts, latest rows, lists."""

from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import UUID

from sqlalchemy import (
    DateTime,
    String,
    and_,
    case,
    cast,
    desc,
    distinct,
    exists,
    false,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    text,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import aliased, contains_eager, joinedload, load_only, selectinload

from tests.models.models import (
    Dag,
    DagRun,
    Flow,
    FlowRun,
    TaskInstance,
    builders,
    builds,
    event_logs,
    steps,
)
from tests.models.rows import START

TI, DR = TaskInstance, DagRun
NOW = START + dt.timedelta(days=2)

_latest_run = (
    select(DR.dag_id, func.max(DR.logical_date).label("latest"))
    .where(DR.logical_date.is_not(None))
    .group_by(DR.dag_id)
    .subquery("latest_run")
)
_ranked = select(
    DR.dag_id,
    DR.run_id,
    func.row_number().over(partition_by=DR.dag_id, order_by=DR.id.desc()).label("rank"),
).subquery("ranked")
_slots = select(TI.dag_id, func.sum(TI.pool_slots).label("slots")).group_by(TI.dag_id).cte("slots")
_other_ti = aliased(TI, name="other_ti")
_parent_run = aliased(FlowRun, name="parent_run")

AIRFLOW: dict[str, Any] = {
    "dags": select(Dag),
    "dags, ordered": select(Dag).order_by(Dag.is_paused, Dag.dag_id.desc()),
    "active dags": select(Dag.dag_id).where(Dag.is_paused.is_(False)).order_by(Dag.dag_id),
    "owners": select(Dag.owners).where(Dag.owners.ilike("%DATA%")),
    "dag schedules": select(Dag.dag_id, Dag.schedule, Dag.starts_on, Dag.at),
    "dag runs": select(DR).order_by(DR.id),
    "dag runs, loaded with their dags": select(DR).options(joinedload(DR.dag)),
    "dag runs with dags in the row": select(DR).join(DR.dag).options(contains_eager(DR.dag)),
    "dag runs, few columns": select(DR).options(load_only(DR.id, DR.run_id)),
    "queued runs": select(DR).where(DR.state == "queued").order_by(DR.logical_date.nulls_first(), DR.id),
    "runs by synonym": select(DR.state, DR.run_id).where(DR.state == "running"),
    "run and dag": select(DR, Dag).join(DR.dag),
    "run with dag's column": select(DR.run_id, Dag.owners).join(Dag),
    "runs of a dag": select(DR).where(DR.dag_id == "dag_2"),
    "runs of several dags": select(DR.id, DR.dag_id).where(DR.dag_id.in_(["dag_1", "dag_3"])),
    "runs before": select(DR.run_id, DR.logical_date).where(DR.logical_date < NOW),
    "runs between": select(DR.run_id).where(DR.logical_date.between(START, NOW)).order_by(DR.run_id),
    "runs without a date": select(DR.run_id).where(DR.logical_date.is_(None)),
    "run conf": select(DR.id, DR.conf).where(DR.id > 3),
    "conf at a path": select(DR.id, DR.conf["deep"]["list"].label("list")),
    "conf number": select(DR.id, DR.conf["n"].as_integer().label("n")).where(DR.conf["n"].as_integer() > 4),
    "conf as text": select(DR.conf["deep", "list", 1].as_string().label("word")),
    "latest run of each dag": select(Dag.dag_id, _latest_run.c.latest).outerjoin(
        _latest_run, _latest_run.c.dag_id == Dag.dag_id
    ),
    "run that is the latest": select(DR).join(
        _latest_run, and_(DR.dag_id == _latest_run.c.dag_id, DR.logical_date == _latest_run.c.latest)
    ),
    "last run by rank": select(_ranked.c.dag_id, _ranked.c.run_id).where(_ranked.c["rank"] == 1),
    "runs in their dag": select(
        DR.dag_id,
        DR.run_id,
        func.count().over(partition_by=DR.dag_id).label("of"),
        func.lag(DR.run_id).over(partition_by=DR.dag_id, order_by=DR.id).label("previous"),
    ),
    "moving maximum": select(
        DR.id, func.max(DR.id).over(order_by=DR.id, rows=(-2, 0)).label("highest")
    ).order_by(DR.id),
    "run counts": select(DR.dag_id, DR.state, func.count(DR.id)).group_by(DR.dag_id, DR.state),
    "run counts by synonym": select(DR.state, func.count("*").label("n"))
    .group_by(DR.state)
    .order_by("n", DR.state),
    "many runs": select(DR.dag_id).group_by(DR.dag_id).having(func.count() > 2),
    "task instances": select(TI),
    "task instances, ordered": select(TI).order_by(
        TI.start_date.desc().nulls_last(), TI.task_id, TI.map_index
    ),
    "ti and its run": select(TI, DR).join(TI.dag_run),
    "ti by alias": select(_other_ti).where(_other_ti.state == "success"),
    "ti pairs": select(TI.task_id, _other_ti.task_id.label("other")).join(
        _other_ti,
        and_(TI.dag_id == _other_ti.dag_id, TI.run_id == _other_ti.run_id, TI.task_id < _other_ti.task_id),
    ),
    "ti by key": select(TI).where(
        tuple_(TI.dag_id, TI.run_id).in_([("dag_2", "manual__1"), ("dag_3", "manual__2")])
    ),
    "ti states": select(TI.state, func.count().label("n")).group_by(TI.state).order_by(desc("n"), TI.state),
    "ti state or none": select(TI.task_id, func.coalesce(TI.state, "none").label("state")),
    "ti durations": select(
        TI.task_id, func.avg(TI.duration), func.max(TI.duration).label("longest"), func.sum(TI.duration)
    ).group_by(TI.task_id),
    "ti of failed runs": select(TI.task_id, TI.run_id).where(
        exists().where(DR.dag_id == TI.dag_id, DR.run_id == TI.run_id, DR.state == "failed")
    ),
    "ti, any run running": select(Dag.dag_id).where(Dag.runs.any(DR.state == "running")),
    "ti, has a run": select(TI.task_id).where(TI.dag_run.has(DR.id > 5)),
    "ti proxy": select(TI.task_id, TI.run_id).where(TI.logical_date < NOW),
    "ti unfinished": select(TI.task_id).where(
        or_(TI.state.is_(None), TI.state.not_in(["success", "failed"]))
    ),
    "ti mapped": select(TI.task_id, TI.map_index).where(TI.map_index >= 0).order_by(TI.task_id, TI.map_index),
    "ti distinct tasks": select(TI.task_id).distinct(),
    "ti distinct, ordered": select(TI.task_id, TI.pool_slots)
    .distinct()
    .order_by(TI.pool_slots.desc(), TI.task_id),
    "ti distinct function": select(distinct(TI.task_id)),
    "ti distinct method": select(TI.state.distinct()).order_by(TI.state),
    "ti distinct, labelled": select(distinct(TI.state).label("state")),
    "ti distinct prefix": select(TI.dag_id).prefix_with("DISTINCT"),
    "ti count distinct": select(func.count(distinct(TI.task_id)), func.count(TI.state.distinct())),
    "ti pool slots": select(Dag.dag_id, func.coalesce(_slots.c.slots, 0).label("slots")).outerjoin(
        _slots, Dag.dag_id == _slots.c.dag_id
    ),
    "ti executor": select(TI.task_id, TI.executor_config),
    "ti first two": select(TI.task_id, TI.run_id)
    .order_by(TI.run_id, TI.task_id, TI.map_index)
    .limit(5)
    .offset(2),
    "ti locked": select(TI.task_id, TI.run_id).where(TI.state == "queued").with_for_update(skip_locked=True),
    "ti hybrid of a case": select(
        TI.task_id,
        case((TI.state == "success", "green"), (TI.state.in_(["failed"]), "red"), else_="grey").label(
            "colour"
        ),
    ),
    "dags and counts": select(Dag.dag_id, func.count(DR.id)).outerjoin(Dag.runs).group_by(Dag.dag_id),
    "dags with a count each": select(
        Dag,
        select(func.count(DR.id)).where(DR.dag_id == Dag.dag_id).scalar_subquery().label("runs"),
    ),
    "three tables": select(Dag.dag_id, DR.run_id, TI.task_id)
    .join(DR, DR.dag_id == Dag.dag_id)
    .join(TI, and_(TI.dag_id == DR.dag_id, TI.run_id == DR.run_id)),
    "three tables by relationship": select(Dag.owners, TI.state).join(Dag.runs).join(DR.task_instances),
    "three tables, outer": select(Dag.dag_id, TI.task_id).outerjoin(Dag.runs).outerjoin(DR.task_instances),
    "three entities": select(Dag, DR, TI).join(Dag.runs).join(DR.task_instances),
    "union of states": select(DR.state.label("state")).union(select(TI.state)).order_by("state"),
    "union all of ids": union_all(
        select(DR.dag_id, literal("run").label("what")), select(TI.dag_id, literal("task"))
    ).order_by("what", "dag_id"),
    "nothing": select(DR).where(false()),
    "not in a subquery": select(Dag.dag_id).where(Dag.dag_id.not_in(select(TI.dag_id))),
    "eager by a second query": select(Dag).options(selectinload(Dag.runs)),
}

PREFECT: dict[str, Any] = {
    "flows": select(Flow),
    "flow by id": select(Flow.name).where(Flow.id == UUID(int=2)),
    "flow tags": select(Flow.id, Flow.tags).order_by(Flow.name, Flow.id),
    "flow runs": select(FlowRun),
    "flow runs, ordered": select(FlowRun).order_by(
        FlowRun.expected_start_time.desc().nulls_last(), FlowRun.id
    ),
    "flow runs of flows": select(FlowRun.name, Flow.name).join(FlowRun.flow),
    "flow run and flow": select(FlowRun, Flow).join(Flow, Flow.id == FlowRun.flow_id),
    "flow runs by state": select(FlowRun.state_type, func.count(FlowRun.id)).group_by(FlowRun.state_type),
    "flow runs by states": select(FlowRun.id).where(FlowRun.state_type.in_(["RUNNING", "FAILED"])),
    "flow run times": select(FlowRun.id, FlowRun.total_run_time, FlowRun.start_time),
    "long flow runs": select(FlowRun.name).where(FlowRun.total_run_time > dt.timedelta(minutes=2)),
    "late": select(FlowRun.id, (FlowRun.expected_start_time < NOW).label("is_late")),
    "parameters": select(FlowRun.id, FlowRun.parameters),
    "parameter": select(FlowRun.id).where(FlowRun.parameters["n"].as_integer() == 1),
    "subflows": select(FlowRun.id, _parent_run.name.label("parent")).join(
        FlowRun.parent.of_type(_parent_run)
    ),
    "subflows, outer": select(FlowRun, _parent_run).outerjoin(
        _parent_run, _parent_run.id == FlowRun.parent_id
    ),
    "run counts": select(FlowRun.run_count, func.count())
    .group_by(FlowRun.run_count)
    .order_by(FlowRun.run_count),
    "earliest": select(
        func.min(FlowRun.start_time).label("first"), func.max(FlowRun.start_time).label("last")
    ),
    "earliest of each": select(Flow.name, func.min(FlowRun.start_time)).join(Flow.runs).group_by(Flow.name),
    "flows without runs": select(Flow).where(~Flow.runs.any()),
    "flow by name of runs": select(Flow).where(Flow.runs.any(FlowRun.name == "run-1")),
    "is distinct from": select(FlowRun.id).where(FlowRun.state_type.is_distinct_from("RUNNING")),
}

_tree = select(FlowRun.id, FlowRun.parent_id, literal(0).label("depth")).where(FlowRun.parent_id.is_(None))
_tree_cte = _tree.cte("tree", recursive=True)
_tree_cte = _tree_cte.union_all(
    select(FlowRun.id, FlowRun.parent_id, _tree_cte.c.depth + 1).join(
        _tree_cte, FlowRun.parent_id == _tree_cte.c.id
    )
)
PREFECT["tree"] = select(_tree_cte.c.id, _tree_cte.c.depth).order_by(_tree_cte.c.depth, _tree_cte.c.id)

_events = event_logs.c
_latest_event = (
    select(func.max(_events.id).label("id"))
    .where(_events.dagster_event_type == "ASSET_MATERIALIZATION")
    .group_by(_events.asset_key)
    .subquery("latest_event")
)
DAGSTER: dict[str, Any] = {
    "events": select(event_logs),
    "events of a run": select(_events.id, _events.event)
    .where(_events.run_id == "run1")
    .order_by(_events.id.asc()),
    "events after": select(_events.id).where(_events.id > 10).order_by(_events.id.desc()).limit(7),
    "types": select(_events.dagster_event_type).distinct(),
    "type counts": select(
        _events.dagster_event_type,
        func.count().label("n_events_of_type"),
        func.max(_events.timestamp).label("last_event_timestamp"),
    ).group_by("dagster_event_type"),
    "step keys": select(_events.step_key).where(_events.step_key.is_not(None)).group_by(_events.step_key),
    "latest materialization": select(_events.event, _events.asset_key).where(
        _events.id.in_(select(_latest_event.c.id))
    ),
    "latest by join": select(event_logs).join(_latest_event, _latest_event.c.id == _events.id),
    "partitions": select(_events.partition, func.count(_events.id))
    .where(_events.partition != null())
    .group_by(_events.partition),
    "window": select(
        _events.run_id,
        func.first_value(_events.event).over(partition_by=_events.run_id, order_by=_events.id).label("first"),
        func.ntile(4).over(order_by=_events.id).label("quarter"),
    ),
    "cast": select(_events.id.cast(String).label("id"), _events.timestamp),
    "labels": select(event_logs.alias("e").c.id.label("event_id")),
    "run duration": select(
        _events.run_id,
        func.min(_events.timestamp).label("started"),
        func.max(_events.timestamp).label("ended"),
    )
    .group_by(_events.run_id)
    .having(func.count(_events.id) > 2)
    .order_by(_events.run_id),
    "text with columns": text("SELECT id, run_id FROM event_logs WHERE id < :most")
    .bindparams(most=9)
    .columns(_events.id, _events.run_id),
    "text in a subquery": select(
        text("SELECT run_id, step_key FROM event_logs")
        .columns(_events.run_id, _events.step_key)
        .subquery()
        .c.step_key
    ),
    "chain of and": select(_events.id).where(_events.id >= 3).where(_events.id <= 12, not_(_events.id == 5)),
}

p, b, s = builders.c, builds.c, steps.c
BUILDBOT: dict[str, Any] = {
    "builders": select(builders),
    "builds": select(builds).order_by(b.number.desc(), b.id),
    "builders join builds": select(builders).join(builds),
    "chain of joins": select(builders).join(builds).join(steps),
    "chain of joins, on": select(builders).join(builds, p.id == b.builderid).join(steps, b.id == s.buildid),
    "chain of joins, columns": select(p.id, p.name).join(builds).join(steps).order_by(p.name, p.id),
    "chain of outer joins": select(builders).outerjoin(builds).outerjoin(steps),
    "outer, then inner": select(p.name, s.name)
    .outerjoin(builds, p.id == b.builderid)
    .join(steps, s.buildid == b.id),
    "full chain in from": select(p.name, s.number).select_from(builders.join(builds).join(steps)),
    "join_from": select(p.name).join_from(builders, builds).join(steps),
    "joined columns of both": select(p.name, b.number).join(builds),
    "join of two, all columns": select(builders, builds).join(builds),
    "join of three, all columns": select(builders, builds, steps).join_from(builders, builds).join(steps),
    "alias of builds": select((ba := builds.alias("ba")).c.number).where(ba.c.results == 0),
    "self join": select(builds.c.id, ba.c.id.label("later")).join(
        ba, and_(builds.c.builderid == ba.c.builderid, builds.c.id < ba.c.id)
    ),
    "latest build": select(b.builderid, func.max(b.number)).group_by(b.builderid),
    "unfinished": select(b.id).where(b.complete_at == null()),
    "duration": select(b.id, (b.complete_at - b.started_at).label("duration")),
    "cross join": select(p.name, s.name).join(steps, true()).where(p.id == 1),
    "cartesian": select(p.id, b.results).where(p.id == b.builderid),
    "steps not hidden": select(s.name)
    .where(s.hidden == 0)
    .group_by(s.name)
    .order_by(func.count().desc(), s.name),
    "results": select(
        b.builderid,
        func.sum(case((b.results == 0, 1), else_=0)).label("good"),
        func.sum(case((b.results != 0, 1), else_=0)).label("bad"),
    ).group_by(b.builderid),
    "share of good": select(
        b.builderid, func.avg(case((b.results == 0, 1), else_=0.5)).label("share")
    ).group_by(b.builderid),
    "in a subquery": select(builds).where(b.builderid.in_(select(p.id).where(p.projectid == 1))),
    "correlated": select(
        p.name,
        select(func.max(b.number))
        .where(b.builderid == p.id)
        .correlate(builders)
        .scalar_subquery()
        .label("last"),
    ),
    "exists": select(p.name).where(select(b.id).where(b.builderid == p.id, b.results == 1).exists()),
    "group by two": select(b.builderid, b.state_string, func.count()).group_by(b.builderid, b.state_string),
    "except": select(p.id).except_(select(b.builderid)),
    "intersect": select(b.number).intersect(select(s.number)),
    "union, limited": select(p.id).union(select(b.id)).order_by("id").limit(6).offset(1),
    "modulo": select(b.id % 3, b.id / 2, b.id // 2, -b.id).where(b.id < 9),
    "concatenation": select((p.name + ":" + b.state_string).label("title")).join(builds),
    "limit of a subquery": select((first := select(b.id).order_by(b.id).limit(3).subquery()).c.id),
}

STATEMENTS = {
    f"{application}: {name}": statement
    for application, each in (
        ("airflow", AIRFLOW),
        ("prefect", PREFECT),
        ("dagster", DAGSTER),
        ("buildbot", BUILDBOT),
    )
    for name, statement in each.items()
}

_last = (
    select(TI.task_id, TI.start_date)
    .where(TI.dag_id == Dag.dag_id)
    .order_by(TI.start_date.desc().nulls_last(), TI.task_id, TI.run_id, TI.map_index)
    .limit(2)
    .lateral("last_two")
)
POSTGRESQL: dict[str, Any] = {
    "airflow: lateral": select(Dag.dag_id, _last.c.task_id, _last.c.start_date).join(_last, true()),
    "airflow: distinct on": select(DR.dag_id, DR.run_id)
    .ext(distinct_on(DR.dag_id))
    .order_by(DR.dag_id, DR.id.desc()),
    "airflow: filter clause": select(
        TI.task_id, func.count().filter(TI.state == "success").label("good")
    ).group_by(TI.task_id),
    "airflow: full outer": select(Dag.dag_id, DR.run_id).join(DR, Dag.dag_id == DR.dag_id, full=True),
    "airflow: json contains": select(DR.id).where(DR.conf.op("@>")({"n": 3})),
    "prefect: date_trunc": select(
        func.date_trunc("day", FlowRun.start_time).label("day"), func.count().label("n")
    )
    .group_by("day")
    .order_by("day"),
    "prefect: interval arithmetic": select(
        FlowRun.id, (cast(FlowRun.start_time, DateTime(timezone=True)) + dt.timedelta(hours=1)).label("later")
    ),
    "prefect: difference": select(
        FlowRun.id, (FlowRun.start_time - FlowRun.expected_start_time).label("delay")
    ),
    "buildbot: rollup": select(b.builderid, b.results, func.count()).group_by(
        func.rollup(b.builderid, b.results)
    ),
    "dagster: greatest": select(func.greatest(_events.id, 7)),
    "dagster: fetch first": select(_events.id).order_by(_events.id).fetch(5),
    "dagster: string_agg": select(_events.run_id, func.string_agg(_events.step_key, ",")).group_by(
        _events.run_id
    ),
}
