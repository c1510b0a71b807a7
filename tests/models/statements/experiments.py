"""As Optuna and MLflow ask: best trials, latest metrics, filters by tags and parameters, pages by keys."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import (
    Float,
    Integer,
    String,
    and_,
    asc,
    case,
    cast,
    desc,
    func,
    literal,
    or_,
    select,
    tuple_,
    type_coerce,
    union,
)
from sqlalchemy.orm import Bundle, aliased, defer, joinedload, raiseload, undefer

from tests.models.models import (
    Direction,
    LatestMetric,
    Metric,
    Run,
    RunTag,
    Study,
    StudyDirection,
    Trial,
    TrialParam,
    TrialState,
    TrialValue,
)
from tests.models.rows import PLAIN, START

_best = (
    select(Trial.study_id, func.min(TrialValue.value).label("best"))
    .join(Trial.values)
    .where(Trial.state == TrialState.COMPLETE)
    .group_by(Trial.study_id)
    .subquery("best")
)
_param = aliased(TrialParam, name="other_param")
_duration = (Trial.datetime_complete - Trial.datetime_start).label("duration")
_ranked_values = select(
    TrialValue.trial_id,
    TrialValue.value,
    func.rank().over(partition_by=TrialValue.objective, order_by=TrialValue.value.desc()).label("place"),
).cte("ranked_values")

OPTUNA: dict[str, Any] = {
    "studies": select(Study),
    "study names": select(Study.study_name).order_by(Study.study_id),
    "study by name": select(Study).where(Study.study_name == "study-2"),
    "studies with a count": select(Study.study_name, Study.number_of_trials),
    "studies by count": select(Study.study_id)
    .where(Study.number_of_trials > 0)
    .order_by(Study.number_of_trials.desc(), Study.study_id),
    "directions": select(StudyDirection).order_by(StudyDirection.study_id, StudyDirection.objective),
    "study and direction": select(Study, StudyDirection).join(Study.directions),
    "minimized": select(Study.study_name)
    .join(Study.directions)
    .where(StudyDirection.direction == Direction.MINIMIZE),
    "direction names": select(StudyDirection.direction).distinct().order_by(StudyDirection.direction),
    "trials": select(Trial),
    "trials of a study": select(Trial).where(Trial.study_id == 2).order_by(Trial.trial_id),
    "trials in states": select(Trial.trial_id, Trial.state).where(
        Trial.state.in_([TrialState.COMPLETE, TrialState.PRUNED])
    ),
    "trial states": select(Trial.state, func.count(Trial.trial_id)).group_by(Trial.state),
    "trial count": select(func.count(Trial.trial_id)).where(Trial.study_id == 1),
    "finished, by hybrid": select(Trial.trial_id).where(Trial.is_finished),
    "finished, shown": select(Trial.trial_id, Trial.is_finished),
    "finished, labelled": select(Trial.number, Trial.is_finished.label("done")).order_by(Trial.trial_id),
    "values": select(TrialValue),
    "values of trials": select(Trial.number, TrialValue.value).join(
        TrialValue, TrialValue.trial_id == Trial.trial_id
    ),
    "values, joined load off": select(Trial).options(raiseload(Trial.values)),
    "values, joined load on": select(Trial).options(joinedload(Trial.params)),
    "trials without values": select(Trial).where(~Trial.values.any()),
    "best value": select(func.min(TrialValue.value)).where(TrialValue.objective == 0),
    "best trial": select(Trial)
    .join(TrialValue)
    .where(TrialValue.objective == 0)
    .order_by(
        desc(case((TrialValue.value_type == "INF_POS", 1), else_=0)), TrialValue.value.desc(), Trial.trial_id
    )
    .limit(1),
    "best of each study": select(Study.study_name, _best.c.best).outerjoin(
        _best, _best.c.study_id == Study.study_id
    ),
    "ranked values": select(_ranked_values).where(_ranked_values.c.place <= 3),
    "infinite": select(TrialValue.trial_id, TrialValue.value_type).where(TrialValue.value_type == "INF_POS"),
    "value types": select(TrialValue.value_type, func.count()).group_by(TrialValue.value_type),
    "params": select(TrialParam.param_name, TrialParam.param_value, TrialParam.distribution_json),
    "param names": select(TrialParam.param_name).distinct().order_by(TrialParam.param_name),
    "params of a trial": select(TrialParam).where(TrialParam.trial_id == 3),
    "params by relationship": select(Trial.number, TrialParam.param_name).join(Trial.params),
    "params of one another": select(TrialParam.param_id, _param.param_id.label("other")).join(
        _param, and_(TrialParam.trial_id == _param.trial_id, TrialParam.param_id < _param.param_id)
    ),
    "param ranges": select(
        TrialParam.param_name,
        func.min(TrialParam.param_value),
        func.max(TrialParam.param_value).label("high"),
    ).group_by(TrialParam.param_name),
    "pivot": select(
        TrialParam.trial_id,
        func.max(case((TrialParam.param_name == "lr", TrialParam.param_value))).label("lr"),
        func.max(case((TrialParam.param_name == "depth", TrialParam.param_value))).label("depth"),
    ).group_by(TrialParam.trial_id),
    "json in a text": select(TrialParam.param_id).where(TrialParam.distribution_json.like('%"high": 2%')),
    "started after": select(Trial.trial_id, Trial.datetime_start).where(
        Trial.datetime_start >= PLAIN + dt.timedelta(minutes=2)
    ),
    "started, ordered": select(Trial.trial_id, Trial.datetime_start).order_by(
        Trial.datetime_start.asc().nulls_last(), Trial.trial_id.desc()
    ),
    "started exactly": select(Trial.trial_id).where(Trial.datetime_start == PLAIN + dt.timedelta(minutes=1)),
    "number of each": select(Trial.trial_id, func.row_number().over(order_by=Trial.trial_id).label("n")),
    "numbers in a study": select(
        Trial.study_id,
        Trial.trial_id,
        func.dense_rank().over(partition_by=Trial.study_id, order_by=Trial.number).label("rank"),
    ),
    "running average": select(
        TrialValue.trial_value_id,
        func.avg(TrialValue.value).over(order_by=TrialValue.trial_value_id).label("average"),
    ),
    "orphans": select(Trial).where(Trial.study_id.is_(None)),
    "outer, both entities": select(Trial, Study).outerjoin(Trial.study),
    "outer, other way": select(Study, Trial).outerjoin(Study.trials).order_by(Study.study_id, Trial.trial_id),
    "study of a trial by subquery": select(
        Trial.trial_id,
        select(Study.study_name).where(Study.study_id == Trial.study_id).scalar_subquery().label("study"),
    ),
    "trial numbers in a bundle": select(Bundle("trial", Trial.trial_id, Trial.number)),
    "trial and a column of its own": select(Trial.number, Trial).where(Trial.trial_id < 5),
    "direction twice": select(StudyDirection, StudyDirection).where(StudyDirection.study_id < 3),
    "columns twice": select(Trial.number, Trial.number),
    "exists with values": select(Study.study_id).where(
        select(TrialValue.trial_value_id).join(Trial).where(Trial.study_id == Study.study_id).exists()
    ),
    "enum compared": select(Trial.trial_id, (Trial.state == TrialState.FAIL).label("failed")),
    "enum in a case": select(
        Trial.trial_id,
        case((Trial.number > 3, Trial.state), else_=literal(TrialState.RUNNING, Trial.state.type)),
    ),
    "enum as text": select(cast(Trial.state, String).label("state"), Trial.trial_id),
    "float arithmetic": select(TrialValue.trial_value_id, (TrialValue.value * 2 + 1).label("x")),
    "float in a range": select(TrialValue.trial_value_id).where(TrialValue.value.between(0.5, 2)),
    "coalesced to a half": select(TrialValue.trial_value_id, func.coalesce(TrialValue.value, 0.5).label("v")),
    "whole or half": select(Trial.trial_id, case((Trial.number > 3, 1), else_=0.5).label("share")),
    "mean of whole numbers": select(Trial.study_id, func.avg(Trial.number).label("mean")).group_by(
        Trial.study_id
    ),
    "rounded": select(TrialParam.param_id, func.round(TrialParam.param_value)),
}

_latest = (
    select(Metric.run_uuid, Metric.key, func.max(Metric.step).label("step"))
    .group_by(Metric.run_uuid, Metric.key)
    .subquery("latest")
)
_loss = select(LatestMetric).where(LatestMetric.key == "loss").subquery("loss")
_user = (
    select(RunTag).where(RunTag.key == "mlflow.user", RunTag.value == "mlflow.user-1").subquery("user_tag")
)
_tag = aliased(RunTag, name="env")
_loss_entity = aliased(LatestMetric, _loss)

MLFLOW: dict[str, Any] = {
    "runs": select(Run),
    "active runs": select(Run)
    .where(Run.lifecycle_stage == "active")
    .order_by(Run.start_time.desc(), Run.run_uuid),
    "run ids": select(Run.run_uuid).where(Run.status.in_(("FINISHED", "FAILED"))),
    "runs by metric": select(Run)
    .outerjoin(_loss, Run.run_uuid == _loss.c.run_uuid)
    .order_by(case((_loss.c.value.is_(None), 1), else_=0), _loss.c.value.desc(), Run.run_uuid),
    "runs with their metric": select(Run, _loss.c.value.label("loss")).join(
        _loss, Run.run_uuid == _loss.c.run_uuid
    ),
    "runs with an aliased metric": select(Run.run_uuid, _loss_entity).join(
        _loss_entity, _loss_entity.run_uuid == Run.run_uuid
    ),
    "runs by tag": select(Run).join(_user, Run.run_uuid == _user.c.run_uuid),
    "runs by two tags": select(Run.name)
    .join(_tag, and_(_tag.run_uuid == Run.run_uuid, _tag.key == "env"))
    .where(Run.tags.any(RunTag.key == "mlflow.source")),
    "runs without tags": select(Run.run_uuid).outerjoin(RunTag).where(RunTag.key.is_(None)),
    "runs, tag count": select(Run.run_uuid, func.count(RunTag.key).label("tags"))
    .outerjoin(Run.tags)
    .group_by(Run.run_uuid),
    "run names": select(Run.name).where(Run.name.ilike("%A%")),
    "run names, starting": select(Run.name).where(Run.name.startswith("al", autoescape=True)),
    "run names, regular": select(Run.name).where(Run.name.like("%,%")),
    "run names, distinct": select(Run.name).distinct(),
    "run times": select(Run.run_uuid, Run.start_time, Run.end_time),
    "run ended after": select(Run.run_uuid).where(Run.end_time > START + dt.timedelta(seconds=4)),
    "run times, ordered": select(Run).order_by(Run.end_time.desc().nulls_last(), Run.run_uuid),
    "runs started": select(Run.start_time, func.count()).group_by(Run.start_time),
    "after a key": select(Run.run_uuid).where(Run.run_uuid > f"{5:032x}").order_by(Run.run_uuid).limit(3),
    "metrics": select(Metric),
    "metrics, ordered": select(Metric).order_by(Metric.timestamp, Metric.step, Metric.value),
    "metric history": select(Metric.step, Metric.value)
    .where(Metric.run_uuid == f"{4:032x}", Metric.key == "acc")
    .order_by(Metric.timestamp),
    "metric is nan": select(Metric.key, Metric.value, Metric.is_nan).where(Metric.is_nan.is_(True)),
    "metric keys": select(Metric.key).group_by(Metric.key).order_by(func.count().desc(), Metric.key),
    "latest metrics": select(LatestMetric),
    "latest by join": select(Metric).join(
        _latest,
        and_(
            Metric.run_uuid == _latest.c.run_uuid, Metric.key == _latest.c.key, Metric.step == _latest.c.step
        ),
    ),
    "metric by tuple": select(Metric.value).where(
        tuple_(Metric.key, Metric.step).in_([("acc", 1), ("loss", 2)])
    ),
    "metric as text": select(cast(Metric.value, String(10)), cast(Metric.step, Float)).where(Metric.step < 2),
    "coerced": select(type_coerce(Metric.step, Integer).label("step")).distinct(),
    "tags": select(RunTag),
    "tag values": select(RunTag.key, RunTag.value).order_by(
        RunTag.key.asc(), RunTag.value.desc(), RunTag.run_uuid
    ),
    "tag keys": select(RunTag.key, func.count("*")).group_by(RunTag.key),
    "tag and run": select(RunTag, Run).join(RunTag.run),
    "tag, no value": select(RunTag.key, RunTag.run_uuid).where(RunTag.value == None),  # noqa: E711
    "tags by or": select(RunTag.key).where(or_(RunTag.value == "env-1", RunTag.key == "mlflow.user")),
    "deleted, by execution": select(Run.run_uuid)
    .where(Run.lifecycle_stage != "active")
    .order_by(asc(Run.run_uuid)),
    "union of keys": union(select(RunTag.key), select(Metric.key)).order_by("key"),
    "union of entities": select(Metric.key, literal("metric").label("kind")).union_all(
        select(RunTag.key, literal("tag"))
    ),
    "columns deferred by option": select(Run).options(defer(Run.artifact_uri)),
    "columns undeferred by option": select(Study).options(undefer(Study.study_name)),
    "of a subquery of an entity": select(
        aliased(Run, select(Run).where(Run.status == "FAILED").subquery("failed"))
    ),
    "entity of a union": select(
        aliased(
            Run,
            union(
                select(Run).where(Run.status == "FAILED"), select(Run).where(Run.status == "RUNNING")
            ).subquery("two"),
        )
    ),
    "share of finished": select(
        (func.sum(case((Run.status == "FINISHED", 1.0), else_=0.0)) / func.count()).label("share")
    ),
}

STATEMENTS = {
    f"{application}: {name}": statement
    for application, each in (("optuna", OPTUNA), ("mlflow", MLFLOW))
    for name, statement in each.items()
}
POSTGRESQL: dict[str, Any] = {
    "optuna: durations": select(Trial.trial_id, _duration),
    "optuna: durations, ordered": select(Trial.trial_id, _duration).order_by(
        _duration.desc().nulls_last(), Trial.trial_id
    ),
    "optuna: percentiles": select(
        TrialParam.param_name,
        func.percentile_cont(0.5).within_group(TrialParam.param_value).label("median"),
    ).group_by(TrialParam.param_name),
    "optuna: seconds": select(Trial.trial_id, func.extract("epoch", _duration.element).label("seconds")),
    "mlflow: array of keys": select(Metric.run_uuid, func.array_agg(Metric.key.distinct())).group_by(
        Metric.run_uuid
    ),
    "mlflow: true if any": select(Metric.key, func.bool_or(Metric.is_nan)).group_by(Metric.key),
}
