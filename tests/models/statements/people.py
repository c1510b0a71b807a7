"""As Keystone and JupyterHub ask: who is where, role by role, tokens that expire, trees of projects."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import (
    String,
    and_,
    case,
    cast,
    collate,
    distinct,
    exists,
    extract,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    text,
    union,
)
from sqlalchemy.orm import aliased, joinedload, load_only, selectinload, undefer, with_loader_criteria

from tests.models.models import Group, Project, Role, Server, Token, User, UserGroup
from tests.models.rows import PLAIN, START

Parent, Child = aliased(Project, name="parent"), aliased(Project, name="child")
Boss = aliased(User, name="boss")
_members = (
    select(UserGroup.group_id, func.count().label("members")).group_by(UserGroup.group_id).cte("members")
)
_newest = select(func.max(User.created)).scalar_subquery()
_path = (
    select(Project.id, Project.name, literal(0).label("level"))
    .where(Project.parent_id.is_(None))
    .cte("path", recursive=True)
)
_path = _path.union_all(
    select(Project.id, Project.name, _path.c.level + 1).where(Project.parent_id == _path.c.id)
)

KEYSTONE: dict[str, Any] = {
    "users": select(User),
    "users, ordered": select(User).order_by(User.name, User.id),
    "users with the deferred": select(User).options(undefer(User.password_hash)),
    "users, few": select(User).options(load_only(User.name)),
    "users without servers in the row": select(User).options(selectinload(User.servers)),
    "the deferred alone": select(User.id, User.password_hash),
    "by synonym": select(User.login).where(User.login == "user2"),
    "by synonym, ordered": select(User.id, User.login).order_by(User.login.desc(), User.id),
    "by hybrid": select(User.id).where(User.full_name == "alpha Last1"),
    "hybrid shown": select(User.id, User.full_name),
    "hybrid, ordered": select(User.full_name).order_by(User.full_name.nulls_last(), User.id),
    "hybrid, grouped": select(User.full_name.label("full_name"), func.count()).group_by("full_name"),
    "by method": select(User.id).where(User.joined_after(START + dt.timedelta(hours=20))),
    "by proxy": select(User.id).where(User.group_names.contains("group1")),
    "by proxy of dates": select(User.id).where(User.member_since > dt.date(2023, 1, 1)),
    "columns of another name": select(User.first, User.last).where(User.first.is_not(None)),
    "roles": select(User.role, func.count().label("n")).group_by(User.role).order_by(User.role),
    "admins": select(User).where(User.role == Role.ADMIN),
    "not admins": select(User.name).where(User.role != Role.ADMIN).order_by(User.id),
    "roles listed": select(User.id).where(User.role.in_([Role.GUEST, Role.MEMBER]), User.is_active),
    "active": select(User.id, User.is_active).where(User.is_active == True),  # noqa: E712
    "inactive": select(User.name, not_(User.is_active).label("is_gone")),
    "newest": select(User.id).where(User.created == _newest),
    "newest, shown": select(User.id, (_newest == User.created).label("is_newest")),
    "extra": select(User.id, User.extra),
    "extra, without": select(User.id).where(User.extra.is_(None)),
    "last active": select(User.id, User.last_activity).order_by(
        User.last_activity.desc().nulls_first(), User.id
    ),
    "active on a day": select(func.date(User.last_activity).label("day"), func.count()).group_by(
        func.date(User.last_activity)
    ),
    "year": select(User.id, extract("year", User.created).label("year")),
    "groups": select(Group),
    "group properties": select(Group.name, Group.properties),
    "memberships": select(UserGroup),
    "members": select(User.name, Group.name).join(User.groups),
    "members, both": select(User, Group).join(User.groups),
    "members, object": select(User.name, UserGroup.since, Group.name)
    .join(User.memberships)
    .join(UserGroup.group)
    .order_by(UserGroup.since),
    "members, object outer": select(Group.name, User.name)
    .outerjoin(Group.memberships)
    .outerjoin(UserGroup.user),
    "members of a group": select(User).where(User.groups.any(Group.name == "group2")),
    "members of none": select(User.id).where(~User.memberships.any()),
    "groups with many": select(Group.name, _members.c.members).join(
        _members, _members.c.group_id == Group.id
    ),
    "groups, count": select(Group.name, func.count(UserGroup.user_id))
    .outerjoin(Group.memberships)
    .group_by(Group.id, Group.name),
    "groups having": select(Group.name)
    .join(Group.users)
    .group_by(Group.name)
    .having(func.count(User.id) >= 3),
    "through the secondary": select(User.id)
    .join(UserGroup, UserGroup.user_id == User.id)
    .where(UserGroup.group_id == 1),
    "in a group, by in": select(User.name).where(
        User.id.in_(select(UserGroup.user_id).where(UserGroup.group_id == 2))
    ),
    "users or groups": union(
        select(User.id, User.name.label("name"), literal("user").label("type")),
        select(Group.id, Group.name, literal("group")),
    ).order_by("type", "id"),
    "projects": select(Project),
    "projects, ordered": select(Project).order_by(Project.parent_id.nulls_first(), Project.id),
    "roots": select(Project).where(Project.parent_id.is_(None)),
    "children": select(Project.name, Child.name.label("child")).join(Child, Project.children),
    "parents": select(Project.id, Parent.name).join(Project.parent.of_type(Parent)),
    "parents, outer": select(Project, Parent).outerjoin(Parent, Parent.id == Project.parent_id),
    "grandparents": select(Project.id, Parent.id, Child.id)
    .join(Parent, Project.parent_id == Parent.id)
    .join(Child, Parent.parent_id == Child.id),
    "tree": select(_path).order_by(_path.c.level, _path.c.id),
    "tree joined": select(Project, _path.c.level).join(_path, _path.c.id == Project.id),
    "has children": select(Project.id).where(Project.children.any()),
    "owners": select(Project.name, User.name).outerjoin(Project.owner),
    "owner of a kind": select(Project.id).where(Project.owner.has(User.role == Role.GUEST)),
    "same name": select(Project.id).where(
        exists().where(and_(Child.name == Project.name, Child.id != Project.id))
    ),
    "budgets": select(Project.id, Project.budget, (Project.budget * 2).label("double")),
    "budget sum": select(func.sum(Project.budget), func.avg(Project.budget), func.min(Project.budget)),
    "budget by owner": select(Project.owner_id, func.sum(Project.budget).label("sum")).group_by(
        Project.owner_id
    ),
    "tags": select(Project.id, Project.tags).where(Project.tags[0].as_string() == "a"),
    "name contains": select(Project.name).where(Project.name.contains("3")),
    "name upper": select(func.upper(Project.name).label("name"), func.length(Project.name)).distinct(),
    "name parts": select(func.substr(Project.name, 1, 7), func.replace(Project.name, "project ", "p")),
    "criteria": select(Project).options(with_loader_criteria(Project, Project.budget > 500)),
    "criteria of the joined": select(User.name, Server.name)
    .join(User.servers)
    .options(with_loader_criteria(Server, Server.id > 3)),
}

_running = select(Server.user_id, func.count().label("n")).group_by(Server.user_id).subquery("running")
JUPYTERHUB: dict[str, Any] = {
    "servers": select(Server),
    "servers of users": select(Server.name, User.name).join(User),
    "server and user": select(Server, User).join(Server.user),
    "server and user, outer": select(Server, User).outerjoin(Server.user).order_by(Server.id),
    "users and servers": select(User).join(User.servers).where(Server.name != ""),
    "users once": select(User.id, User.name).join(User.servers).distinct(),
    "users with a server": select(User).where(User.servers.any()),
    "servers loaded with users": select(Server).options(joinedload(Server.user)),
    "state": select(Server.id, Server.state).where(Server.state.is_not(None)),
    "started": select(Server.id, Server.started).where(Server.started > PLAIN + dt.timedelta(days=2)),
    "how many run": select(User.name, func.coalesce(_running.c.n, 0).label("running")).outerjoin(
        _running, _running.c.user_id == User.id
    ),
    "named servers": select(func.count(Server.id)).where(Server.name != ""),
    "tokens": select(Token),
    "tokens, ordered": select(Token).order_by(Token.expires_at.desc().nulls_last(), Token.id),
    "expired tokens": select(Token.id).where(Token.expires_at < START + dt.timedelta(days=1)),
    "token notes": select(Token.id, Token.note).where(Token.note != ""),
    "token scopes": select(Token.id, Token.scopes),
    "tokens of a user": select(Token).where(Token.user_id == 2),
    "tokens with the user's name": select(Token, User.name).join(Token.user),
    "token prefixes": select(Token.prefix, func.count(distinct(Token.user_id)).label("users")).group_by(
        Token.prefix
    ),
    "users with tokens": select(User.name).where(
        select(Token.id).where(Token.user_id == User.id).correlate(User).exists()
    ),
    "active or named": select(User.id).where(or_(User.is_active, User.name == "user3")).order_by(User.id),
    "literal": select(literal("hub").label("what"), func.count()).select_from(User),
    "literal column": select(User.id, literal_column("1").label("one")),
    "text condition": select(User.id).where(text("users.id > 4")),
    "cast": select(cast(User.id, String).label("text"), User.name).order_by(User.name, User.id),
    "kind of activity": select(
        case(
            (User.last_activity.is_(None), "never"),
            (User.last_activity < PLAIN + dt.timedelta(minutes=2), "before"),
            else_="lately",
        ).label("kind"),
        func.count(),
    ).group_by("kind"),
    "two levels": select(
        (
            per_user := select(Token.user_id, func.count().label("n"))
            .group_by(Token.user_id)
            .subquery("per_user")
        ).c.n,
        func.count().label("users"),
    ).group_by(per_user.c.n),
    "boss by alias": select(User.name, Boss.name).where(Boss.id == User.id + 1),
    "window of users": select(
        User.role,
        User.id,
        func.row_number().over(partition_by=User.role, order_by=User.created.desc()).label("n"),
    ),
    "all of three": select(User.name, Server.name, Token.prefix)
    .join(Server, Server.user_id == User.id)
    .join(Token, Token.user_id == User.id),
}

STATEMENTS = {
    f"{application}: {name}": statement
    for application, each in (("keystone", KEYSTONE), ("jupyterhub", JUPYTERHUB))
    for name, statement in each.items()
}
POSTGRESQL: dict[str, Any] = {
    "keystone: collated": select(User.name).order_by(collate(User.name, "C").desc(), User.id),
    "keystone: ages": select(User.id, func.age(User.last_activity, PLAIN).label("age")),
    "keystone: tags contain": select(Project.id).where(Project.tags.op("@>")(["a"])),
    "keystone: tags exploded": select(
        Project.id,
        (element := func.jsonb_array_elements_text(Project.tags).table_valued("value", name="tag")).c.value,
    )
    .select_from(Project)
    .join(element, literal(value=True))
    .where(func.jsonb_typeof(Project.tags) == "array"),
    "jupyterhub: similar": select(Token.note).where(Token.note.regexp_match("^[a-z]+$")),
    "jupyterhub: month": select(
        func.to_char(Token.expires_at, "YYYY-MM").label("month"), func.count()
    ).group_by("month"),
}
