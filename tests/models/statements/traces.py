"""As Phoenix, Galaxy and google-adk ask: spans of traces, scores, datasets of histories, events of sessions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    JSON,
    Float,
    Integer,
    and_,
    case,
    cast,
    desc,
    distinct,
    except_,
    func,
    intersect,
    literal,
    null,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.orm import aliased, contains_eager, selectin_polymorphic, with_polymorphic

from tests.models.models import (
    Annotation,
    Asset,
    Cluster,
    Collection,
    Dataset,
    History,
    Item,
    Licence,
    Machine,
    Mail,
    Notification,
    Slack,
    Span,
    StorageEvent,
    StorageSession,
    Trace,
    User,
)
from tests.models.rows import PLAIN, START

ParentSpan = aliased(Span, name="parent_span")
_per_trace = (
    select(
        Span.trace_rowid,
        func.count().label("spans"),
        func.sum(Span.latency_ms).label("latency"),
    )
    .group_by(Span.trace_rowid)
    .subquery("per_trace")
)
_errors = (
    select(func.count(Span.id))
    .where(Span.trace_rowid == Trace.id, Span.status_code == "ERROR")
    .scalar_subquery()
)
_descendants = (
    select(Span.id, Span.span_id, literal(0).label("depth"))
    .where(Span.parent_id.is_(None))
    .cte("descendants", recursive=True)
)
_descendants = _descendants.union_all(
    select(Span.id, Span.span_id, _descendants.c.depth + 1).where(Span.parent_id == _descendants.c.span_id)
)
_scores = (
    select(Annotation.span_rowid, Annotation.name, func.avg(Annotation.score).label("mean_score"))
    .group_by(Annotation.span_rowid, Annotation.name)
    .cte("scores")
)

PHOENIX: dict[str, Any] = {
    "traces": select(Trace),
    "traces, newest": select(Trace).order_by(Trace.start_time.desc()),
    "traces with errors": select(Trace.trace_id, _errors.label("errors")),
    "traces by errors": select(Trace.trace_id).order_by(_errors.desc(), Trace.id),
    "traces, where errors": select(Trace.id).where(_errors > 1),
    "trace and its figures": select(Trace.trace_id, _per_trace.c.spans, _per_trace.c.latency).join(
        _per_trace, _per_trace.c.trace_rowid == Trace.id
    ),
    "spans": select(Span),
    "spans, slowest": select(Span.id, Span.latency_ms).order_by(Span.latency_ms.desc(), Span.id),
    "spans slower than": select(Span.name).where(Span.latency_ms > 5),
    "spans, hybrid labelled": select(Span.latency_ms.label("ms"), func.count()).group_by(Span.latency_ms),
    "tokens": select(Span.id, Span.tokens),
    "token sums": select(Span.name, func.sum(Span.tokens).label("tokens")).group_by(Span.name),
    "tokens by coalesce": select(
        func.coalesce(func.sum(Span.tokens_prompt), 0), func.sum(Span.tokens_completion)
    ),
    "roots": select(Span.id, Span.span_id).where(Span.parent_id.is_(None)),
    "parents": select(Span.name, ParentSpan.name.label("parent")).join(
        ParentSpan, ParentSpan.span_id == Span.parent_id
    ),
    "parents, outer": select(Span, ParentSpan).outerjoin(ParentSpan, ParentSpan.span_id == Span.parent_id),
    "descendants": select(_descendants.c.span_id, _descendants.c.depth),
    "deepest": select(func.max(_descendants.c.depth)),
    "attributes": select(Span.id, Span.attributes),
    "model names": select(Span.attributes["llm"]["model"].as_string().label("model"), func.count()).group_by(
        "model"
    ),
    "model names, by path": select(Span.id).where(Span.attributes[("llm", "model")].as_string() == "m1"),
    "numbers in attributes": select(Span.id, Span.attributes["llm"]["n"].as_integer()).order_by(Span.id),
    "part of attributes": select(Span.id, Span.attributes["llm"].label("llm")),
    "status": select(Span.status_code, func.count()).group_by(Span.status_code).order_by(desc(func.count())),
    "kinds": select(distinct(Span.span_kind)),
    "span and trace": select(Span, Trace).join(Span.trace),
    "spans of a trace": select(Span.span_id).join(Trace).where(Trace.trace_id == f"{3:032x}"),
    "spans of late traces": select(Span.id)
    .join(Span.trace)
    .where(Trace.start_time > START + dt.timedelta(days=1)),
    "span page": select(Span.id, Span.name)
    .where(tuple_(Span.start_ms, Span.id) > (50, 5))
    .order_by(Span.start_ms, Span.id)
    .limit(6),
    "annotations": select(Annotation),
    "annotations of spans": select(Span.name, Annotation.label, Annotation.score).join(Span.annotations),
    "annotation means": select(
        Annotation.name, func.avg(Annotation.score), func.count(Annotation.score)
    ).group_by(Annotation.name),
    "scores": select(Span.id, _scores.c.name, _scores.c.mean_score).join(
        _scores, _scores.c.span_rowid == Span.id
    ),
    "label fractions": select(
        Annotation.name,
        Annotation.label,
        (cast(func.count(), Float) / func.sum(func.count()).over(partition_by=Annotation.name)).label(
            "fraction"
        ),
    ).group_by(Annotation.name, Annotation.label),
    "spans without annotations": select(Span.id).where(~Span.annotations.any()),
    "explanations": select(Annotation.id, Annotation.explanation).where(Annotation.explanation.is_not(None)),
    "two ctes": select(
        (quick := select(Span.id, Span.trace_rowid).where(Span.latency_ms < 5).cte("quick")).c.id,
        Trace.trace_id,
    ).join(Trace, Trace.id == quick.c.trace_rowid),
    "of an anonymous column": select(
        select(func.count(Span.tokens_prompt), func.count(Span.tokens_completion)).subquery().c[1]
    ),
    "of another anonymous column": select(
        select(func.count(Span.tokens_prompt), func.count(Span.tokens_completion)).subquery().c[0]
    ),
}

Anything = with_polymorphic(Asset, "*", flat=True)
Machines = with_polymorphic(Asset, [Machine, Cluster])
SomeItem = aliased(Item, name="some_item")
SomeDataset = aliased(Dataset, flat=True)
GALAXY: dict[str, Any] = {
    "items": select(Item),
    "items, ordered": select(Item).order_by(Item.create_time.desc(), Item.id),
    "item names": select(Item.id, Item.name).where(Item.name.is_not(None)),
    "items of a kind": select(Item.id).where(Item.kind == "dataset"),
    "item kinds": select(Item.kind, func.count(Item.id)).group_by(Item.kind),
    "datasets": select(Dataset),
    "datasets, few": select(Dataset.id, Dataset.name, Dataset.file_size),
    "large datasets": select(Dataset).where(Dataset.file_size > Decimal(2_000_000_000)).order_by(Dataset.id),
    "dataset sizes": select(func.sum(Dataset.file_size), func.max(Dataset.file_size).label("largest")),
    "extensions": select(Dataset.extension).distinct(),
    "collections": select(Collection),
    "dataset of an item": select(Item.name, Dataset.extension).join(Dataset, Dataset.id == Item.id),
    "items by alias": select(SomeItem.id, SomeItem.kind).where(SomeItem.history_id == 1),
    "histories": select(History),
    "histories, columns": select(History.id, History.name, History.user_id),
    "histories not deleted": select(History.id).where(~History.deleted),
    "history and user": select(History, User).join(History.user),
    "history and items": select(History.name, Item.name).join(History.items).order_by(History.id, Item.id),
    "history and datasets": select(History.id, Dataset.file_size).join(History.items.of_type(Dataset)),
    "history, any dataset": select(History.id).where(
        History.items.of_type(Dataset).any(Dataset.extension == "bam")
    ),
    "history sizes": select(History.id, func.sum(SomeDataset.file_size).label("size"))
    .join(SomeDataset, SomeDataset.history_id == History.id)
    .group_by(History.id),
    "items of histories": select(Item).join(Item.history).options(contains_eager(Item.history)),
    "items without": select(Item.id).where(Item.history == None),  # noqa: E711
    "assets": select(Asset),
    "assets of all kinds": select(Anything),
    "assets of all kinds, ordered": select(Anything).order_by(Anything.label, Anything.id),
    "assets, some kinds": select(Machines),
    "assets, columns of kinds": select(Anything.id, Anything.Machine.cores, Anything.Licence.expires),
    "assets, by a kind's column": select(Anything.label).where(
        or_(Anything.Machine.cores > 8, Anything.Licence.expires.is_not(None))
    ),
    "assets, later queries": select(Asset).options(selectin_polymorphic(Asset, [Machine, Licence])),
    "machines": select(Machine),
    "machines, ordered": select(Machine).order_by(Machine.cores.desc(), Machine.id),
    "machines by price": select(Machine.label, Machine.price).where(Machine.price > Decimal("2.00")),
    "clusters": select(Cluster),
    "clusters, columns": select(Cluster.label, Cluster.cores, Cluster.nodes),
    "cores in all": select(func.sum(Cluster.cores * Cluster.nodes)),
    "licences": select(Licence).order_by(Licence.expires.nulls_last(), Licence.id),
    "asset types": select(Asset.type, func.count()).group_by(Asset.type),
    "notifications": select(Notification),
    "mails": select(Mail),
    "mails to": select(Mail.id, Mail.body).where(Mail.recipient == "u1@example.com"),
    "slacks": select(Slack).order_by(Slack.sent, Slack.id),
    "slacks, columns": select(Slack.id, Slack.room),
    "rooms": select(Slack.room, func.count()).group_by(Slack.room),
    "either": select(with_polymorphic(Notification, [Mail, Slack])),
    "mail joined to user": select(User.name, Mail.body).join(Mail, Mail.id == User.id),
    "mails but not": except_(select(Notification.id), select(Mail.id)),
}

Ses, Ev = StorageSession, StorageEvent
_last_event = (
    select(Ev.session_id, func.max(Ev.timestamp).label("latest"))
    .group_by(Ev.session_id)
    .subquery("last_event")
)
ADK: dict[str, Any] = {
    "sessions": select(Ses),
    "sessions of an app": select(Ses).where(Ses.app_name == "app1").order_by(Ses.update_time.desc()),
    "sessions of a user": select(Ses.id).filter_by(app_name="app0", user_id="u1"),
    "session states": select(Ses.id, Ses.state),
    "session and last event": select(Ses.id, _last_event.c.latest).outerjoin(
        _last_event, _last_event.c.session_id == Ses.id
    ),
    "events": select(Ev),
    "events of a session": select(Ev)
    .where(Ev.app_name == "app0", Ev.user_id == "u2", Ev.session_id == "s2")
    .order_by(Ev.timestamp.desc()),
    "events after": select(Ev.id, Ev.timestamp).where(Ev.timestamp > PLAIN + dt.timedelta(milliseconds=200)),
    "events by relationship": select(Ses.id, Ev.author).join(Ses.storage_events),
    "events, both": select(Ev, Ses).join(Ev.storage_session),
    "contents": select(Ev.id, Ev.content),
    "contents, without": select(Ev.id).where(Ev.content.is_(None)),
    "partial": select(Ev.partial, func.count()).group_by(Ev.partial),
    "not partial": select(Ev.id).where(Ev.partial.is_not(True)),
    "authors": select(Ev.author, Ev.session_id).distinct().order_by(Ev.author, Ev.session_id),
    "first events": select(
        Ev.session_id,
        func.first_value(Ev.id).over(partition_by=Ev.session_id, order_by=Ev.timestamp).label("first"),
    ).distinct(),
    "sessions with events of an agent": select(Ses).where(Ses.storage_events.any(Ev.author == "agent")),
    "sessions of two apps": intersect(
        select(Ses.user_id).where(Ses.app_name == "app0"), select(Ses.user_id).where(Ses.app_name == "app1")
    ),
    "counts beside": select(Ses.id, select(func.count()).where(Ev.session_id == Ses.id).scalar_subquery()),
    "times": select(func.min(Ses.create_time), func.max(Ses.update_time).label("last")),
    "null beside": select(Ses.id, null().label("empty"), true().label("yes")),
    "pages by key": select(Ev.id)
    .where(or_(Ev.timestamp > PLAIN, and_(Ev.timestamp == PLAIN, Ev.id > "e12")))
    .order_by(Ev.timestamp, Ev.id),
    "recent of each": select(
        numbered := select(
            Ev.id,
            Ev.session_id,
            func.row_number()
            .over(partition_by=Ev.session_id, order_by=(Ev.timestamp.desc(), Ev.id))
            .label("n"),
        ).subquery("numbered")
    ).where(numbered.c.n == 1),
    "all ids": union_all(select(Ses.id, Ses.app_name), select(Ev.id, Ev.app_name)),
    "case of authors": select(case({"user": 1, "agent": 2}, value=Ev.author, else_=0).label("rank"), Ev.id),
}

STATEMENTS = {
    f"{application}: {name}": statement
    for application, each in (("phoenix", PHOENIX), ("galaxy", GALAXY), ("adk", ADK))
    for name, statement in each.items()
}
_top = (
    select(Span.id, Span.name)
    .where(Span.trace_rowid == Trace.id)
    .order_by(Span.latency_ms.desc(), Span.id)
    .limit(2)
    .lateral("top")
)
POSTGRESQL: dict[str, Any] = {
    "phoenix: top spans": select(Trace.trace_id, _top.c.id, _top.c.name).join(_top, true()),
    "phoenix: time buckets": select(
        func.date_bin(dt.timedelta(hours=6), Trace.start_time, START).label("bucket"), func.count()
    ).group_by("bucket"),
    "phoenix: latency": select(Trace.id, (Trace.end_time - Trace.start_time).label("latency")),
    "phoenix: filtered counts": select(
        func.count().filter(Span.status_code == "OK").label("ok"),
        func.count().filter(Span.parent_id.is_(None)),
    ),
    "phoenix: deviation": select(
        Span.name, func.stddev(Span.latency_ms), func.variance(Span.latency_ms)
    ).group_by(Span.name),
    "phoenix: json built": select(Span.id, func.jsonb_build_object("n", Span.name, type_=JSON)),
    "galaxy: greatest": select(Dataset.id, func.greatest(Dataset.id, 4, type_=Integer)),
}
