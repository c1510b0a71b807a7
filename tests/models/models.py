"""Mapped classes as applications write them: experiments, workflows, traces, people, datasets, agents, orders.

The shapes are those of Optuna, MLflow, Dagster, Phoenix, Galaxy, Airflow, Prefect, Keystone, Buildbot, JupyterHub and
google-adk: what they do with SQLAlchemy is done here, on tables of our own. Nothing here knows dualsql.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import JSON, ForeignKey, ForeignKeyConstraint, Numeric, String, Text, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.associationproxy import AssociationProxy, association_proxy
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.ext.mutable import MutableDict
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    column_property,
    composite,
    declared_attr,
    deferred,
    mapped_column,
    relationship,
    synonym,
)


class Base(DeclarativeBase):
    """All of it."""


# --- types of the applications' own -------------------------------------------------------------------------------


class UTCDateTime(sa.TypeDecorator[dt.datetime]):
    """Airflow's: instants have a zone in Python whatever the database keeps."""

    impl = sa.TIMESTAMP(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: sa.Dialect) -> dt.datetime | None:
        return None if value is None else value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: sa.Dialect) -> dt.datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class JSONText(sa.TypeDecorator[Any]):
    """SQLAlchemy's recipe, and Keystone's JsonBlob: JSON in a text column."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else json.dumps(value, sort_keys=True)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        return None if value is None else json.loads(value)


class DynamicJSON(sa.TypeDecorator[Any]):
    """google-adk's: JSONB where there is one, JSON in a text elsewhere."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.JSONB())
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else json.dumps(value, sort_keys=True)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else json.loads(value)


class TrimmedString(sa.TypeDecorator[str]):
    """Galaxy's: blanks at the ends are never stored, and nothing is longer than its column."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else value.strip()[:255]


class EpochMillis(sa.TypeDecorator[dt.datetime]):
    """MLflow keeps milliseconds since 1970; this shows them as the instant they are."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: sa.Dialect) -> int | None:
        return None if value is None else round(value.timestamp() * 1000)

    def process_result_value(self, value: int | None, dialect: sa.Dialect) -> dt.datetime | None:
        return None if value is None else dt.datetime.fromtimestamp(value / 1000, dt.UTC)


class Cents(sa.TypeDecorator[Decimal]):
    """Money as whole cents."""

    impl = sa.Integer
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: sa.Dialect) -> int | None:
        return None if value is None else int(value * 100)

    def process_result_value(self, value: int | None, dialect: sa.Dialect) -> Decimal | None:
        return None if value is None else Decimal(value).scaleb(-2)


JSONB = JSON().with_variant(postgresql.JSONB(), "postgresql")
NUMBERS = JSON().with_variant(postgresql.ARRAY(sa.Integer), "postgresql")


# --- people and projects: Keystone, JupyterHub --------------------------------------------------------------------


class Role(enum.Enum):
    """Kept by name."""

    ADMIN = "admin"
    MEMBER = "member"
    GUEST = "guest"


class UserGroup(Base):
    """Membership, with a word of its own: an association object."""

    __tablename__ = "user_groups"

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("groups.id"), primary_key=True)
    since: Mapped[dt.date]
    user: Mapped[User] = relationship(back_populates="memberships")
    group: Mapped[Group] = relationship(back_populates="memberships")


class Group(Base):
    __tablename__ = "groups"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    properties: Mapped[dict[str, Any]] = mapped_column(MutableDict.as_mutable(JSON()), default=dict)
    memberships: Mapped[list[UserGroup]] = relationship(back_populates="group")
    users: Mapped[list[User]] = relationship(secondary="user_groups", viewonly=True)


class User(Base):
    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(60))
    first: Mapped[str | None] = mapped_column("first_name", String(40))
    last: Mapped[str | None] = mapped_column("last_name", String(40))
    role: Mapped[Role]
    created: Mapped[dt.datetime] = mapped_column(UTCDateTime())
    last_activity: Mapped[dt.datetime | None]
    is_active: Mapped[bool] = mapped_column(default=True)
    password_hash: Mapped[bytes | None] = deferred(mapped_column(sa.LargeBinary))
    extra: Mapped[dict[str, Any] | None] = mapped_column(JSONText())
    login = synonym("name")
    memberships: Mapped[list[UserGroup]] = relationship(back_populates="user")
    groups: Mapped[list[Group]] = relationship(secondary="user_groups", viewonly=True)
    group_names: AssociationProxy[list[str]] = association_proxy("groups", "name")
    member_since: AssociationProxy[list[dt.date]] = association_proxy("memberships", "since")
    servers: Mapped[list[Server]] = relationship(back_populates="user", lazy="joined")
    tokens: Mapped[list[Token]] = relationship(back_populates="user", lazy="raise")

    @hybrid_property
    def full_name(self) -> str:
        return f"{self.first} {self.last}"

    @full_name.inplace.expression
    @classmethod
    def _full_name(cls) -> sa.ColumnElement[Any]:
        return cls.first + " " + cls.last

    @hybrid_method
    def joined_after(self, moment: dt.datetime) -> bool:
        return self.created > moment


class Server(Base):
    """One that a user started: its user comes with it."""

    __tablename__ = "servers"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), default="")
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    state: Mapped[dict[str, Any] | None] = mapped_column(JSONText())
    started: Mapped[dt.datetime | None]
    user: Mapped[User | None] = relationship(back_populates="servers", lazy="joined")


class Token(Base):
    """An API token; joined to its user, who must exist."""

    __tablename__ = "api_tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    prefix: Mapped[str] = mapped_column(String(8))
    note: Mapped[str] = mapped_column(default="")
    expires_at: Mapped[dt.datetime | None] = mapped_column(sa.DateTime(timezone=True))
    scopes: Mapped[list[str]] = mapped_column(JSONText())
    user: Mapped[User] = relationship(back_populates="tokens", lazy="joined", innerjoin=True)


class Project(Base):
    """Projects in projects."""

    __tablename__ = "projects"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(60))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("projects.id"))
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    budget: Mapped[Decimal | None] = mapped_column(Numeric(14, 2))
    tags: Mapped[list[Any] | None] = mapped_column(JSONB)
    parent: Mapped[Project | None] = relationship(
        remote_side="Project.id", back_populates="children", lazy="joined", join_depth=2
    )
    children: Mapped[list[Project]] = relationship(back_populates="parent")
    owner: Mapped[User | None] = relationship()


# --- experiments: Optuna, MLflow ----------------------------------------------------------------------------------


class Direction(enum.Enum):
    MINIMIZE = 1
    MAXIMIZE = 2


class TrialState(enum.Enum):
    RUNNING = 0
    COMPLETE = 1
    PRUNED = 2
    FAIL = 3


class Study(Base):
    __tablename__ = "studies"

    study_id: Mapped[int] = mapped_column(primary_key=True)
    study_name: Mapped[str] = mapped_column(String(512), unique=True)
    directions: Mapped[list[StudyDirection]] = relationship(
        lazy="selectin", order_by="StudyDirection.objective"
    )
    trials: Mapped[list[Trial]] = relationship(back_populates="study")
    number_of_trials: ClassVar[Any]


class StudyDirection(Base):
    __tablename__ = "study_directions"
    __table_args__ = (sa.UniqueConstraint("study_id", "objective"),)

    study_direction_id: Mapped[int] = mapped_column(primary_key=True)
    direction: Mapped[Direction]
    study_id: Mapped[int] = mapped_column(ForeignKey("studies.study_id"))
    objective: Mapped[int]


class Trial(Base):
    __tablename__ = "trials"

    trial_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int]
    study_id: Mapped[int | None] = mapped_column(ForeignKey("studies.study_id"), index=True)
    state: Mapped[TrialState]
    datetime_start: Mapped[dt.datetime | None]
    datetime_complete: Mapped[dt.datetime | None]
    study: Mapped[Study | None] = relationship(back_populates="trials")
    values: Mapped[list[TrialValue]] = relationship(back_populates="trial", lazy="joined")
    params: Mapped[list[TrialParam]] = relationship(back_populates="trial", lazy="select")

    @hybrid_property
    def is_finished(self) -> bool:
        return self.state != TrialState.RUNNING


class TrialValue(Base):
    __tablename__ = "trial_values"

    trial_value_id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.trial_id"))
    objective: Mapped[int]
    value: Mapped[float | None] = mapped_column(sa.Float(precision=53))
    value_type: Mapped[str] = mapped_column(sa.Enum("FINITE", "INF_POS", "INF_NEG", name="valuetype"))
    trial: Mapped[Trial] = relationship(back_populates="values")


class TrialParam(Base):
    __tablename__ = "trial_params"

    param_id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.trial_id"))
    param_name: Mapped[str] = mapped_column(String(512))
    param_value: Mapped[float] = mapped_column(sa.Float(precision=53))
    distribution_json: Mapped[str] = mapped_column(Text)
    trial: Mapped[Trial] = relationship(back_populates="params")


# Of every study, how many trials it has: a column of its own class.
Study.number_of_trials = column_property(
    select(func.count(Trial.trial_id))
    .where(Trial.study_id == Study.study_id)
    .correlate_except(Trial)
    .scalar_subquery()
)


class Run(Base):
    """MLflow's: a key of 32 letters, instants as milliseconds."""

    __tablename__ = "runs"

    run_uuid: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(250))
    status: Mapped[str] = mapped_column(String(20))
    start_time: Mapped[int | None] = mapped_column(sa.BigInteger)
    end_time: Mapped[dt.datetime | None] = mapped_column(EpochMillis())
    lifecycle_stage: Mapped[str] = mapped_column(String(20), default="active")
    artifact_uri: Mapped[str | None] = mapped_column(String(200))
    metrics: Mapped[list[Metric]] = relationship(back_populates="run")
    latest_metrics: Mapped[list[LatestMetric]] = relationship(back_populates="run")
    tags: Mapped[list[RunTag]] = relationship(back_populates="run")

    @declared_attr.directive
    @classmethod
    def __mapper_args__(cls) -> dict[str, Any]:
        return {"eager_defaults": True}


class Metric(Base):
    __tablename__ = "metrics"

    key: Mapped[str] = mapped_column(String(250), primary_key=True)
    value: Mapped[float] = mapped_column(sa.Float(precision=53), primary_key=True)
    timestamp: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    step: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, default=0)
    is_nan: Mapped[bool] = mapped_column(primary_key=True, default=False)
    run_uuid: Mapped[str] = mapped_column(ForeignKey("runs.run_uuid"), primary_key=True)
    run: Mapped[Run] = relationship(back_populates="metrics")


class LatestMetric(Base):
    __tablename__ = "latest_metrics"

    key: Mapped[str] = mapped_column(String(250), primary_key=True)
    run_uuid: Mapped[str] = mapped_column(ForeignKey("runs.run_uuid"), primary_key=True)
    value: Mapped[float]
    step: Mapped[int] = mapped_column(sa.BigInteger)
    run: Mapped[Run] = relationship(back_populates="latest_metrics")


class RunTag(Base):
    __tablename__ = "tags"

    key: Mapped[str] = mapped_column(String(250), primary_key=True)
    value: Mapped[str | None] = mapped_column(String(8000))
    run_uuid: Mapped[str] = mapped_column(ForeignKey("runs.run_uuid"), primary_key=True)
    run: Mapped[Run] = relationship(back_populates="tags", lazy="joined")


# --- workflows: Airflow, Prefect, Buildbot, Dagster ---------------------------------------------------------------


class Dag(Base):
    __tablename__ = "dag"

    dag_id: Mapped[str] = mapped_column(String(250), primary_key=True)
    is_paused: Mapped[bool] = mapped_column(default=True)
    schedule: Mapped[dt.timedelta | None] = mapped_column(sa.Interval)
    owners: Mapped[str | None] = mapped_column(String(2000))
    starts_on: Mapped[dt.date | None]
    at: Mapped[dt.time | None]
    runs: Mapped[list[DagRun]] = relationship(back_populates="dag")


class DagRun(Base):
    __tablename__ = "dag_run"
    __table_args__ = (sa.UniqueConstraint("dag_id", "run_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    dag_id: Mapped[str] = mapped_column(ForeignKey("dag.dag_id"))
    run_id: Mapped[str] = mapped_column(String(250))
    logical_date: Mapped[dt.datetime | None] = mapped_column(UTCDateTime())
    _state: Mapped[str | None] = mapped_column("state", String(50), default="queued")
    conf: Mapped[Any | None] = mapped_column(JSONB)
    dag: Mapped[Dag] = relationship(back_populates="runs", lazy="joined", innerjoin=True)
    task_instances: Mapped[list[TaskInstance]] = relationship(back_populates="dag_run")

    @declared_attr
    @classmethod
    def state(cls) -> Any:
        return synonym("_state", descriptor=property(lambda self: self._state))


class TaskInstance(Base):
    """A key of four parts, and a foreign key of two."""

    __tablename__ = "task_instance"
    __table_args__ = (ForeignKeyConstraint(["dag_id", "run_id"], ["dag_run.dag_id", "dag_run.run_id"]),)

    task_id: Mapped[str] = mapped_column(String(250), primary_key=True)
    dag_id: Mapped[str] = mapped_column(String(250), primary_key=True)
    run_id: Mapped[str] = mapped_column(String(250), primary_key=True)
    map_index: Mapped[int] = mapped_column(primary_key=True, default=-1)
    start_date: Mapped[dt.datetime | None] = mapped_column(UTCDateTime())
    end_date: Mapped[dt.datetime | None] = mapped_column(UTCDateTime())
    duration: Mapped[float | None]
    state: Mapped[str | None] = mapped_column(String(20))
    try_number: Mapped[int] = mapped_column(default=0)
    pool_slots: Mapped[int] = mapped_column(default=1)
    executor_config: Mapped[Any | None] = mapped_column(JSONText())
    dag_run: Mapped[DagRun] = relationship(
        back_populates="task_instances", lazy="joined", innerjoin=True, viewonly=True
    )
    logical_date: AssociationProxy[dt.datetime | None] = association_proxy("dag_run", "logical_date")


class Flow(Base):
    """Prefect's: UUID keys, tags as JSON."""

    __tablename__ = "flow"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    created: Mapped[dt.datetime] = mapped_column(UTCDateTime())
    tags: Mapped[list[Any]] = mapped_column(JSONB)
    runs: Mapped[list[FlowRun]] = relationship(back_populates="flow", lazy="raise")


class FlowRun(Base):
    __tablename__ = "flow_run"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    flow_id: Mapped[UUID] = mapped_column(ForeignKey("flow.id"))
    name: Mapped[str]
    state_type: Mapped[str | None] = mapped_column(
        sa.Enum("SCHEDULED", "RUNNING", "COMPLETED", "FAILED", "CRASHED", name="state_type")
    )
    run_count: Mapped[int] = mapped_column(default=0, server_default="0")
    expected_start_time: Mapped[dt.datetime | None] = mapped_column(UTCDateTime())
    start_time: Mapped[dt.datetime | None] = mapped_column(UTCDateTime())
    total_run_time: Mapped[dt.timedelta] = mapped_column(sa.Interval, default=dt.timedelta)
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB)
    parent_id: Mapped[UUID | None] = mapped_column(ForeignKey("flow_run.id"))
    flow: Mapped[Flow] = relationship(back_populates="runs", lazy="raise")
    parent: Mapped[FlowRun | None] = relationship(remote_side="FlowRun.id", lazy="raise")


builders = sa.Table(
    "builders",
    Base.metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("projectid", sa.Integer, sa.ForeignKey("projects.id")),
)
builds = sa.Table(
    "builds",
    Base.metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("builderid", sa.Integer, sa.ForeignKey("builders.id"), nullable=False),
    sa.Column("started_at", sa.Integer, nullable=False),
    sa.Column("complete_at", sa.Integer),
    sa.Column("results", sa.SmallInteger),
    sa.Column("state_string", sa.Text, nullable=False, server_default=""),
)
steps = sa.Table(
    "steps",
    Base.metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("name", sa.String(50), nullable=False),
    sa.Column("buildid", sa.Integer, sa.ForeignKey("builds.id")),
    sa.Column("hidden", sa.SmallInteger, nullable=False, server_default="0"),
)
# Dagster's: no class, and in the body of an event whatever it was.
event_logs = sa.Table(
    "event_logs",
    Base.metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("run_id", sa.String(255), index=True),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("dagster_event_type", sa.Text),
    sa.Column("timestamp", sa.types.TIMESTAMP),
    sa.Column("step_key", sa.Text),
    sa.Column("asset_key", sa.Text),
    sa.Column("partition", sa.Text),
)
# No key, and rows that are equal.
visits = sa.Table(
    "visits",
    Base.metadata,
    sa.Column("page", sa.String(40)),
    sa.Column("day", sa.Date),
    sa.Column("seconds", sa.Integer),
)


# --- traces: Phoenix ----------------------------------------------------------------------------------------------


class Trace(Base):
    __tablename__ = "traces"

    id: Mapped[int] = mapped_column(primary_key=True)
    trace_id: Mapped[str] = mapped_column(String(32), unique=True)
    start_time: Mapped[dt.datetime] = mapped_column(UTCDateTime())
    end_time: Mapped[dt.datetime] = mapped_column(UTCDateTime())
    spans: Mapped[list[Span]] = relationship(back_populates="trace", lazy="dynamic")


class Span(Base):
    __tablename__ = "spans"

    id: Mapped[int] = mapped_column(primary_key=True)
    trace_rowid: Mapped[int] = mapped_column(ForeignKey("traces.id"))
    span_id: Mapped[str] = mapped_column(String(16))
    parent_id: Mapped[str | None] = mapped_column(String(16))
    name: Mapped[str]
    span_kind: Mapped[str]
    start_ms: Mapped[int]
    end_ms: Mapped[int]
    attributes: Mapped[dict[str, Any]] = mapped_column(JSONB)
    status_code: Mapped[str] = mapped_column(
        sa.CheckConstraint("status_code IN ('OK', 'ERROR', 'UNSET')", name="valid_status"), default="UNSET"
    )
    tokens_prompt: Mapped[int | None]
    tokens_completion: Mapped[int | None]
    trace: Mapped[Trace] = relationship(back_populates="spans")
    annotations: Mapped[list[Annotation]] = relationship(back_populates="span")

    @hybrid_property
    def latency_ms(self) -> int:
        return self.end_ms - self.start_ms

    @hybrid_property
    def tokens(self) -> int:
        return (self.tokens_prompt or 0) + (self.tokens_completion or 0)

    @tokens.inplace.expression
    @classmethod
    def _tokens(cls) -> sa.ColumnElement[int]:
        return func.coalesce(cls.tokens_prompt, 0) + func.coalesce(cls.tokens_completion, 0)


class Annotation(Base):
    __tablename__ = "span_annotations"

    id: Mapped[int] = mapped_column(primary_key=True)
    span_rowid: Mapped[int] = mapped_column(ForeignKey("spans.id"))
    name: Mapped[str]
    label: Mapped[str | None]
    score: Mapped[float | None]
    explanation: Mapped[str | None]
    span: Mapped[Span] = relationship(back_populates="annotations")


# --- datasets: Galaxy ---------------------------------------------------------------------------------------------


class Item(Base):
    """Joined inheritance, all of whose columns are always asked for."""

    __tablename__ = "item"

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(20))
    name: Mapped[str | None] = mapped_column(TrimmedString(255))
    create_time: Mapped[dt.datetime]
    history_id: Mapped[int | None] = mapped_column(ForeignKey("history.id"))
    history: Mapped[History | None] = relationship(back_populates="items")
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "item", "with_polymorphic": "*"}


class Dataset(Item):
    __tablename__ = "dataset"

    id: Mapped[int] = mapped_column(ForeignKey("item.id"), primary_key=True)
    file_size: Mapped[Decimal | None] = mapped_column(Numeric(15, 0))
    extension: Mapped[str | None] = mapped_column(String(64))
    __mapper_args__ = {"polymorphic_identity": "dataset"}


class Collection(Item):
    __tablename__ = "collection"

    id: Mapped[int] = mapped_column(ForeignKey("item.id"), primary_key=True)
    element_count: Mapped[int | None]
    extension: Mapped[str | None] = mapped_column(String(64))
    __mapper_args__ = {"polymorphic_identity": "collection"}


class History(Base):
    __tablename__ = "history"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None] = mapped_column(TrimmedString(255))
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    deleted: Mapped[bool] = mapped_column(default=False)
    hid_counter: Mapped[int] = mapped_column(default=1)
    items: Mapped[list[Item]] = relationship(back_populates="history", order_by="Item.id")
    # A history without a user is not loaded at all.
    user: Mapped[User | None] = relationship(lazy="joined", innerjoin=True)


class Asset(Base):
    """Joined inheritance of two levels, nothing of the lower ones until it is asked for."""

    __tablename__ = "asset"

    id: Mapped[int] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(String(20))
    label: Mapped[str]
    __mapper_args__ = {"polymorphic_on": "type", "polymorphic_identity": "asset"}


class Machine(Asset):
    __tablename__ = "machine"

    asset_id: Mapped[int] = mapped_column(ForeignKey("asset.id"), primary_key=True)
    cores: Mapped[int]
    price: Mapped[Decimal | None] = mapped_column(Cents())
    __mapper_args__ = {"polymorphic_identity": "machine"}


class Cluster(Machine):
    __tablename__ = "cluster"

    machine_id: Mapped[int] = mapped_column(ForeignKey("machine.asset_id"), primary_key=True)
    nodes: Mapped[int]
    __mapper_args__ = {"polymorphic_identity": "cluster"}


class Licence(Asset):
    __tablename__ = "licence"

    asset_id: Mapped[int] = mapped_column(ForeignKey("asset.id"), primary_key=True)
    expires: Mapped[dt.date | None]
    __mapper_args__ = {"polymorphic_identity": "licence"}


class Notification(Base):
    """Single-table inheritance."""

    __tablename__ = "notifications"

    id: Mapped[int] = mapped_column(primary_key=True)
    channel: Mapped[str] = mapped_column(String(10))
    body: Mapped[str]
    sent: Mapped[dt.datetime | None]
    __mapper_args__ = {"polymorphic_on": "channel", "polymorphic_identity": "none"}


class Mail(Notification):
    recipient: Mapped[str | None] = mapped_column(String(80))
    __mapper_args__ = {"polymorphic_identity": "mail"}


class Slack(Notification):
    room: Mapped[str | None] = mapped_column(String(80))
    __mapper_args__ = {"polymorphic_identity": "slack"}


# --- agents: google-adk -------------------------------------------------------------------------------------------


class StorageSession(Base):
    __tablename__ = "sessions"

    app_name: Mapped[str] = mapped_column(String(128), primary_key=True)
    user_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    id: Mapped[str] = mapped_column(String(128), primary_key=True)
    state: Mapped[dict[str, Any]] = mapped_column(MutableDict.as_mutable(DynamicJSON()), default=dict)
    create_time: Mapped[dt.datetime] = mapped_column(sa.DateTime, default=func.now())
    update_time: Mapped[dt.datetime] = mapped_column(sa.DateTime, default=func.now(), onupdate=func.now())
    storage_events: Mapped[list[StorageEvent]] = relationship(back_populates="storage_session")


class StorageEvent(Base):
    __tablename__ = "events"
    __table_args__ = (
        ForeignKeyConstraint(
            ["app_name", "user_id", "session_id"], ["sessions.app_name", "sessions.user_id", "sessions.id"]
        ),
    )

    id: Mapped[str] = mapped_column(String(128), primary_key=True)
    app_name: Mapped[str] = mapped_column(String(128), primary_key=True)
    user_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    session_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    author: Mapped[str]
    timestamp: Mapped[dt.datetime]
    content: Mapped[dict[str, Any] | None] = mapped_column(DynamicJSON(), nullable=True)
    partial: Mapped[bool | None]
    storage_session: Mapped[StorageSession] = relationship(back_populates="storage_events")


# --- orders -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    """A place on a map."""

    x: float | None
    y: float | None


class Customer(MappedAsDataclass, Base, kw_only=True):
    """A dataclass, with two places."""

    __tablename__ = "customers"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    country: Mapped[str | None] = mapped_column(String(2))
    born: Mapped[dt.date | None]
    home: Mapped[Point] = composite(mapped_column("home_x"), mapped_column("home_y"))
    credit: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    key: Mapped[UUID | None]


class OrderStatus(enum.Enum):
    """Kept by value."""

    NEW = "new"
    PAID = "paid"
    SHIPPED = "shipped"


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    status: Mapped[OrderStatus] = mapped_column(
        sa.Enum(OrderStatus, values_callable=lambda known: [one.value for one in known], name="order_status")
    )
    placed: Mapped[dt.datetime]
    due: Mapped[dt.date | None]
    at: Mapped[dt.time | None]
    discount: Mapped[Decimal | None] = mapped_column(Numeric(5, 4))
    shipping: Mapped[Decimal | None] = mapped_column(Cents())
    scores: Mapped[list[int] | None] = mapped_column(NUMBERS)
    note: Mapped[str | None]
    customer: Mapped[Customer] = relationship(lazy="joined")
    lines: Mapped[list[Line]] = relationship(back_populates="order", lazy="subquery")
    total: ClassVar[Any]


class Line(Base):
    __tablename__ = "order_lines"

    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    product: Mapped[str] = mapped_column(String(40))
    amount: Mapped[int] = mapped_column()
    cents: Mapped[int] = mapped_column()
    order: Mapped[Order] = relationship(back_populates="lines")
    price = column_property(amount * cents)


# What an order comes to, in cents; asked for by those who want it.
Order.total = column_property(
    select(func.sum(Line.amount * Line.cents)).where(Line.order_id == Order.id).scalar_subquery(),
    deferred=True,
)


class Ledger(Base):
    """Numbers of every kind."""

    __tablename__ = "ledger"

    id: Mapped[int] = mapped_column(primary_key=True)
    small: Mapped[int | None] = mapped_column(sa.SmallInteger)
    big: Mapped[int | None] = mapped_column(sa.BigInteger)
    exact: Mapped[Decimal | None] = mapped_column(Numeric(20, 6))
    loose: Mapped[Decimal | None] = mapped_column(Numeric(12, 3))
    ratio: Mapped[float | None] = mapped_column(sa.Double)
    blob: Mapped[bytes | None]
    word: Mapped[str | None] = mapped_column(sa.Unicode(30))
    flag: Mapped[bool | None]
    day: Mapped[dt.date | None]
    clock: Mapped[dt.time | None]
    moment: Mapped[dt.datetime | None]
    span: Mapped[dt.timedelta | None] = mapped_column(sa.Interval)
    code: Mapped[UUID | None]
    doc: Mapped[Any | None] = mapped_column(JSONB)
