"""Two tenants look at one catalogue over real HTTP, and each sees their own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.server.auth.provider import AccessToken
from sqlalchemy import Table, false, select

from dualsql import Mask, Principal, RowFilter, SavedQuery, Shared
from dualsql.identity import BearerTokens
from dualsql.mcp import add_catalogue, add_execute_query
from tests.client.hosting import listening_socket, origin_of
from tests.mcp.conftest import Host, MakeDual
from tests.mcp.reading import Reader
from tests.mcp.test_identity import Verifier, calling, guarded, running
from tests.schools import Program, School, visits

RULES = (
    RowFilter(Program, lambda who: Program.level > 0 if who.tenant == "acme" else false()),
    Mask(School.tuition, unless=lambda who: who.tenant == "acme"),
    Shared(School, visits),
)
EARNINGS = SavedQuery("earnings", select(Program.earnings))
PROGRAMS = "catalog://default/schema/default/table/programs"
SCHOOLS = "catalog://default/schema/default/table/schools"
VISITS = "catalog://default/schema/default/table/visits"


def only_acme_sees_visits(who: Principal | None, table: Table) -> bool:
    return table is not visits or (who is not None and who.tenant == "acme")


async def look(host: Host, origin: str, token: str) -> dict[str, Any]:
    """All that one caller is told, by every way there is."""
    async with calling(host, origin, token) as connection:
        reader = Reader(connection)
        uris = await reader.everything()
        texts = [json.dumps(await reader.read_json(uri)) for uri in uris]
        texts.append(json.dumps(await reader.read_json("catalog://default/catalog/contents")))
        for tool, arguments in (
            ("list_tables", {}),
            ("search_catalog", {"terms": ["programs", "visits", "earnings", "day"]}),
            ("describe_table", {"table": "schools"}),
            ("describe_table", {"table": "programz"}),
        ):
            texts.append(json.dumps((await connection.call(tool, **arguments)).structured_content))
        table = "catalog://{source}/schema/{schema}/table/{table}"
        texts.append(json.dumps(await reader.complete(table, "table", "")))
        schools = await reader.read_json(SCHOOLS)
        foreign: dict[str, Any] = {}
        if PROGRAMS not in uris:
            refused = await connection.call("describe_table", table="programs")
            unknown = await connection.call("describe_table", table="programt")
            foreign = {
                "read": await reader.refusal(PROGRAMS),
                "query": await reader.refusal("catalog://default/query/earnings"),
                "describe": refused.structured_content,
                "unknown": unknown.structured_content,
            }
        masked = [column["name"] for column in schools["definition"]["columns"] if column.get("masked")]
        return {"uris": uris, "said": "\n".join(texts), "masked": masked, "foreign": foreign}


@pytest.mark.quick(1)
async def test_each_tenant_sees_what_the_rules_let_it_see(make_dual: MakeDual, host: Host) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(
            base_url=f"{origin}/resources",
            authenticate=BearerTokens(Verifier()),
            hooks=RULES,
            saved_queries=[EARNINGS],
        )
        server = guarded(host, origin)
        add_catalogue(dual, server, visible=only_acme_sees_visits)
        async with running(dual, server, listening):
            ana = await look(host, origin, "token-of-ana")
            bob = await look(host, origin, "token-of-bob")
    assert {PROGRAMS, VISITS, "catalog://default/query/earnings"} <= set(ana["uris"])
    assert (ana["masked"], bob["masked"]) == ([], ["tuition"])
    assert bob["uris"] == ["catalog://default/catalog", "catalog://default/schema/default", SCHOOLS]
    # What he searched for is said back to him.
    asked_for = bob["said"].replace('"unmatched": ["programs", "visits", "earnings"', "")
    for word in ("programs", "visits", "earnings"):
        assert word not in asked_for
    assert bob["foreign"]["read"].code == bob["foreign"]["query"].code == -32602
    denied, unknown = (json.dumps(bob["foreign"][way]) for way in ("describe", "unknown"))
    assert denied == unknown.replace("programt", "programs")


async def test_a_token_that_stands_for_nobody_sees_nothing(make_dual: MakeDual, host: Host) -> None:
    """It must not fall back to what everybody sees."""
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = guarded(host, origin)
        add_catalogue(dual, server)
        async with running(dual, server, listening), calling(host, origin, "token-of-nobody") as connection:
            reader = Reader(connection)
            assert (await reader.refusal(SCHOOLS)).code == -32603
            with pytest.raises(Exception, match="request failed"):
                await reader.page()
            assert (await connection.call("list_tables")).is_error


@pytest.mark.quick(1)
async def test_one_s_own_function_says_who_a_token_stands_for(make_dual: MakeDual, host: Host) -> None:
    def team(token: AccessToken) -> Principal:
        return Principal(id="team", tenant="acme")

    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", hooks=RULES)
        server = guarded(host, origin)
        add_catalogue(dual, server, principal=team)
        async with running(dual, server, listening), calling(host, origin, "token-of-bob") as connection:
            assert PROGRAMS in await Reader(connection).everything()
            assert not (await connection.call("describe_table", table="programs")).is_error


@pytest.mark.quick(1)
async def test_what_is_not_in_one_s_catalogue_is_unknown_to_one_s_sql(
    make_dual: MakeDual, host: Host
) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", hooks=RULES, saved_queries=[EARNINGS])
        server = guarded(host, origin)
        add_execute_query(dual, server)
        async with running(dual, server, listening):
            async with calling(host, origin, "token-of-ana") as connection:
                for question in ({"query": "SELECT level FROM programs"}, {"query_name": "earnings"}):
                    assert not (await connection.call("execute_query", **question)).is_error
            async with calling(host, origin, "token-of-bob") as connection:
                messages = {}
                for name in ("programs", "programt"):
                    refused = await connection.call("execute_query", query=f"SELECT level FROM {name}")
                    messages[name] = json.dumps(refused.structured_content)
                for name in ("earnings", "earningt"):
                    refused = await connection.call("execute_query", query_name=name)
                    messages[name] = json.dumps(refused.structured_content)
    assert messages["programs"] == messages["programt"].replace("programt", "programs")
    assert messages["earnings"] == messages["earningt"].replace("earningt", "earnings")
