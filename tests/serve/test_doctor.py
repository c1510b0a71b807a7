"""`dualsql doctor`: each thing that may be wrong is found, said with what to do, and without a secret."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import make_url
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Mount, Route
from typer.testing import CliRunner

from dualsql import ConfigurationError, LocalResultStorage
from dualsql.cli.commands import app
from dualsql.cli.doctor import examine
from dualsql.cli.options import ServeOptions
from dualsql.features import DualResponseServer
from dualsql.http.router import HostCheck
from dualsql.store import SQLResourceStore, upgrade
from tests.client.hosting import listening_socket, origin_of, serving
from tests.engines import PostgreSQL
from tests.http.application import METADATA
from tests.mariadb import MariaDB
from tests.serve.conftest import PROGRAM, environment

SECRET = "a secret of at least thirty-two characters"
TOKEN = "a-token-of-more-than-sixteen-characters"


def doctor(*arguments: str, **variables: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
    """The exit code, and by check its state, what it told and the hint."""
    result = CliRunner().invoke(app, ["doctor", *arguments, "--json"], env=variables)
    document = json.loads(result.stdout)
    assert document["healthy"] is (result.exit_code == 0)
    return result.exit_code, {
        each["check"]: (each["state"], each["message"], each["hint"]) for each in document["checks"]
    }


def states(found: dict[str, tuple[str, str, str]]) -> dict[str, str]:
    return {check: state for check, (state, _, _) in found.items()}


def test_a_sound_configuration(shop: str, tmp_path_store: str) -> None:
    upgrade(tmp_path_store)
    code, findings = doctor("--database", shop, "--all", "--store", tmp_path_store, DUALSQL_SECRET=SECRET)
    assert code == 0
    assert states(findings) == dict.fromkeys(
        ["configuration", "authentication", "database", "read-only", "tables", "rights", "connections", "store",
         "clock", "base URL"],
        "ok",
    )  # fmt: skip
    assert findings["tables"][1] == "3 tables can be read."
    assert "has no users" in findings["rights"][1]


@pytest.fixture
def tmp_path_store(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/store.sqlite"


def test_a_person_reads_lines_with_what_to_do(shop: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--database", shop, "--all"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("warning  store")]
    assert "memory" in lines[at] and "--store" in lines[at + 1]


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("arguments", "variables", "check", "told"),
    [
        (["--store", "sqlite:///nowhere.db"], {}, "configuration", "requires a secret"),
        (["--store", "sqlite:///nowhere.db"], {"DUALSQL_SECRET": "short"}, "configuration", "32"),
        (["--token", TOKEN, "--authenticate", "a:b"], {}, "configuration", "cannot be combined"),
        (["--authenticate", "no.such.module:who"], {}, "configuration", "cannot be imported"),
        (["--workers", "2"], {}, "configuration", "--workers requires --store"),
        (["--metrics"], {}, "configuration", "requires --admin-port"),
        (["--notes", "nowhere.txt"], {}, "configuration", "cannot be read"),
        (["--trusted-proxies", "0.0.0.0/0"], {}, "configuration", "every address"),
        (["--host", "0.0.0.0", "--token", TOKEN], {}, "authentication", "--base-url is required"),
        (["--host", "192.0.2.1", "--token", TOKEN], {}, "authentication", "Cannot listen on"),
        (["--cors-origins", "app.example.com"], {}, "configuration", "is not an origin"),
        (["--rate-limits", "create=60,fetch=5"], {}, "configuration", "'fetch=5' is not a rate"),
        (["--address-rate-limits", "ask=1,ask=2"], {}, "configuration", "'ask=2' is not a rate"),
        (["--rate-limits", "ask=often"], {}, "configuration", "'ask=often' is not a rate"),
        (["--rate-limits", "ask=0"], {}, "configuration", "positive whole numbers"),
        (["--base-url", "api.example.com"], {}, "configuration", "base_url"),
        (["--base-url", "ftp://api.example.com", "--token", TOKEN], {}, "configuration", "base_url"),
        (["--host", "0.0.0.0"], {}, "authentication", "requires authentication"),
        (["--base-url", "https://127.0.0.1.example.com"], {}, "authentication", "requires authentication"),
        (["--tables", "parts,nothing"], {}, "tables", "nothing"),
        (["--schema", "nothing"], {}, "tables", "schema"),
        (["--read-only-role", "reader"], {}, "database", "has no roles"),
    ],
)
def test_faults_of_the_configuration(
    shop: str,
    arguments: list[str],
    variables: dict[str, str],
    check: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    everything = [] if {"--tables", "--schema"} & set(arguments) else ["--all"]
    code, findings = doctor("--database", shop, *everything, *arguments, **variables)
    assert code == 1
    assert findings[check][0] == "fault" and told in findings[check][1] and findings[check][2]
    assert not list(tmp_path.glob("nowhere*")), "no file is made"


def test_tokens_over_http_are_a_warning(shop: str) -> None:
    _, findings = doctor("--database", shop, "--all", "--base-url", "http://api.invalid", "--token", TOKEN)
    assert findings["authentication"][0] == "warning" and "TLS" in findings["authentication"][2]


def test_the_tables_of_the_store_are_checked(shop: str, tmp_path_store: str) -> None:
    arguments = ("--database", shop, "--all", "--store", tmp_path_store)
    code, findings = doctor(*arguments, DUALSQL_SECRET=SECRET)
    assert (code, findings["store"][0]) == (1, "fault") and "dualsql migrate" in findings["store"][2]


def test_the_folder_of_kept_results_is_checked(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(folder: Path) -> tuple[str, str, str]:
        return doctor("--database", shop, "--all", "--keep", str(folder))[1]["kept results"]

    state, message, _ = checked(tmp_path / "a" / "kept")
    assert (state, "GiB free" in message) == ("ok", True)
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert checked(tmp_path / "file")[:2] == ("fault", "The folder of kept results is a file.")
    assert checked(tmp_path / "file" / "kept")[0] == "fault"
    state, message, hint = checked(tmp_path / "open")
    assert (state, "other users" in message, "chmod 700" in hint) == ("fault", True, True)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert checked(tmp_path)[0] == "fault"
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1024**3))
    assert checked(tmp_path / "a")[:2] == (
        "warning", "The disk of the folder has 1.0 GiB free; one result may take 4.0.",
    )  # fmt: skip


def serve_refuses(folder: Path) -> str:
    """What a server says that starts with this folder; empty if it starts."""
    try:
        asyncio.run(LocalResultStorage(folder).open())
    except ConfigurationError as error:
        return error.message
    return ""


def lock_up(path: Path, options: str) -> None:
    mounting = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(path)]
    if shutil.which("mount") is None or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("full", "No space left on device"),
        ("read-only", "Read-only file system"),
        ("below a file", "Not a directory"),
        ("a link to nothing", "No such file or directory"),
        ("a folder in place of the mark", "Is a directory"),
    ],
)
def test_doctor_finds_what_serve_would_refuse(fault: str, cause: str, shop: str, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    if fault in ("full", "read-only"):
        folder.mkdir(mode=0o700)
        lock_up(folder, "ro" if fault == "read-only" else "nr_blocks=2,nr_inodes=10")
    if fault == "full":
        (folder / "lost+found").mkdir()
        with suppress(OSError), (folder / "lost+found" / "x").open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    if fault == "below a file":
        folder.write_text("")
        folder = folder / "kept"
    if fault == "a link to nothing":
        folder.symlink_to(tmp_path / "nothing")
    if fault == "a folder in place of the mark":
        folder.mkdir(mode=0o700)
        (folder / "storage-id").mkdir()
    try:
        state, message, _ = doctor("--database", shop, "--all", "--keep", str(folder))[1]["kept results"]
        assert (state, message) == ("fault", f"The folder of kept results cannot be used: {cause}.")
        assert serve_refuses(folder)
    finally:
        subprocess.run(["umount", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
@pytest.mark.parametrize("fault", ["no TLS there", "no certificate here"])
async def test_tls_is_told_from_a_database_that_is_not_there(fault: str, driver: str) -> None:
    """A server that has no TLS answers the request for it with one letter (PostgreSQL, 55.2.10)."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(b"N")
        await reader.read()
        writer.close()

    option = "ssl" if driver == "asyncpg" else "sslmode"
    query = f"?{option}=require"
    if fault == "no certificate here":
        query = "?sslmode=verify-full&sslrootcert=/missing.pem"
    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        url = f"postgresql+{driver}://reader@127.0.0.1:{port}/shop{query}"
        arguments = ("--database", url, "--all")
        code, findings = await asyncio.to_thread(doctor, *arguments)
    assert code == 1
    state, message, _ = findings["database"]
    expected = "The encrypted connection to the database was refused, or one of its certificates"
    if fault == "no certificate here" and driver == "asyncpg":
        expected = "The driver of the database has no option 'sslrootcert'."
    assert state == "fault" and message.startswith(expected)


def test_the_object_store_of_kept_results_is_checked(shop: str, tmp_path: Path) -> None:
    def checked(url: str, **environment: str) -> tuple[str, str, str]:
        arguments = ("--database", shop, "--all", "--keep", url, "--keep-cache", str(tmp_path / "cache"))
        return doctor(*arguments, **environment)[1]["kept results"]

    assert checked((tmp_path / "objects").as_uri())[:2] == ("ok", "The object store can be read.")
    assert not (tmp_path / "cache").exists() and list((tmp_path / "objects").iterdir()) == []
    state, message, hint = checked("ftp://example.com/rows")
    assert (state, "example" in message, "s3://bucket" in hint) == ("fault", False, True)
    with listening_socket() as nobody:
        port = nobody.getsockname()[1]
        state, message, hint = checked(
            "s3://bucket/rows",
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
            AWS_ALLOW_HTTP="true",
            AWS_ACCESS_KEY_ID="someone",
            AWS_SECRET_ACCESS_KEY="EXAMPLEKEYdonotshow",
        )
    assert (state, "object store" in message, "credentials" in hint) == ("fault", True, True)
    assert "EXAMPLE" not in message + hint and str(port) not in message + hint


def test_a_database_that_is_not_there(tmp_path: Any) -> None:
    code, findings = doctor("--database", f"sqlite:///{tmp_path}/missing.sqlite", "--all")
    assert (code, findings["database"][0]) == (1, "fault")
    assert not (tmp_path / "missing.sqlite").exists()


async def test_clocks_that_differ_are_a_warning(
    shop: str, tmp_path_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def clock(_: SQLResourceStore) -> datetime:
        return datetime.now(UTC) - timedelta(hours=1)

    upgrade(tmp_path_store)
    monkeypatch.setattr(SQLResourceStore, "clock", clock)
    monkeypatch.setenv("DUALSQL_SECRET", SECRET)
    options = ServeOptions(database=shop, everything=True, store=tmp_path_store)
    [finding] = [each for each in await examine(options) if each.check == "clock"]
    assert finding.state == "warning"
    assert "3,600 seconds ahead of" in finding.message and "NTP" in finding.hint


@pytest.fixture
def database(postgresql_server: PostgreSQL) -> Iterator[str]:
    """A URL of a database with one table, as its superuser."""
    with postgresql_server.database() as url:
        postgresql_server.execute("CREATE TABLE parts (id integer PRIMARY KEY)", str(make_url(url).database))
        yield url


@pytest.fixture
def reader(postgresql_server: PostgreSQL, database: str) -> Iterator[str]:
    """The URL with a user who may only read, and open three connections."""
    name, role = str(make_url(database).database), f"reader_{uuid4().hex}"
    postgresql_server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2' CONNECTION LIMIT 3")
    postgresql_server.execute(f"GRANT SELECT ON parts TO {role}", name)
    yield make_url(database).set(username=role, password="hunter2").render_as_string(hide_password=False)
    postgresql_server.execute(f"DROP OWNED BY {role}", name)
    postgresql_server.execute(f"DROP ROLE {role}")


def test_rights_and_connections_of_a_postgresql_user(database: str, reader: str) -> None:
    code, as_owner = doctor("--database", database, "--all")
    assert code == 0
    assert as_owner["rights"][0] == "warning" and "parts" in as_owner["rights"][1]
    assert "SELECT" in as_owner["rights"][2]
    assert as_owner["connections"][0] == "ok" and "enough for" in as_owner["connections"][1]
    code, as_reader = doctor("--database", reader, "--all")
    assert code == 1
    assert as_reader["rights"][0] == "ok"
    assert as_reader["connections"][0] == "fault" and "allows this user 3" in as_reader["connections"][1]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("grants", "may_write"),
    [
        (["SELECT ON {schema}.* TO {user}"], ""),
        (["SELECT ON {schema}.* TO {user}", "ALL ON {other}.* TO {user}"], ""),
        (["SELECT ON {schema}.* TO {user}", "DELETE ON {schema}.others TO {user}"], "others"),
        (["SELECT, UPDATE (n) ON {schema}.parts TO {user}"], "parts"),
        (["SELECT ON {schema}.* TO {user}", "ALTER ON `test\\_%`.* TO {user}"], "others, parts"),
        (["SELECT ON {schema}.* TO {user}", "INSERT ON {schema}.parts TO {role}"], "parts"),
        (["ALL ON *.* TO {user}"], "others, parts"),
    ],
)
def test_rights_and_connections_of_a_mariadb_user(
    mariadb_server: MariaDB, grants: list[str], may_write: str
) -> None:
    """Rights of a schema, by its name or a pattern, of a table, of a column, of everything, and of a role."""
    user, role = f"reader_{uuid4().hex[:12]}", f"writer_{uuid4().hex[:12]}"
    with mariadb_server.database() as url, mariadb_server.database() as other:
        schema = str(make_url(url).database)
        named = {"schema": schema, "other": make_url(other).database, "user": user, "role": role}
        for table in ("parts", "others"):
            mariadb_server.execute(f"CREATE TABLE {schema}.{table} (id integer PRIMARY KEY, n integer)")
        mariadb_server.execute(f"CREATE USER {user} IDENTIFIED BY 'hunter2' WITH MAX_USER_CONNECTIONS 3")
        mariadb_server.execute(f"CREATE ROLE {role}")
        mariadb_server.execute(f"GRANT {role} TO {user}")
        mariadb_server.execute(f"SET DEFAULT ROLE {role} FOR {user}")
        for grant in grants:
            mariadb_server.execute(f"GRANT {grant.format(**named)}")
        as_user = make_url(url).set(username=user, password="hunter2").render_as_string(hide_password=False)
        code, findings = doctor("--database", as_user, "--all")
        mariadb_server.execute(f"DROP USER {user}")
        mariadb_server.execute(f"DROP ROLE {role}")
    state, message, hint = findings["rights"]
    assert (state, may_write in message) == ("warning" if may_write else "ok", True), message
    assert "hunter2" not in message and ("SELECT" in hint) is bool(may_write)
    assert "--read-only-role" not in hint, "MariaDB's sessions take none"
    assert (code, findings["connections"][0]) == (1, "fault")
    assert "allows this user 3" in findings["connections"][1]


def test_no_secret_is_printed(database: str, reader: str, shop: str) -> None:
    wrong = make_url(reader).set(username="nobody_of_this_name").render_as_string(hide_password=False)
    for url in (reader, wrong, "postgresql://u:hunter2@127.0.0.1:9/x", "nonsense://u:hunter2@h/x", "hunter2"):
        for options in ([], ["--json"]):
            arguments = ["--database", url, "--all", "--token", f"hunter2{TOKEN}", "--store", url, *options]
            result = CliRunner().invoke(
                app, ["doctor", *arguments], env={"DUALSQL_SECRET": f"hunter2{SECRET}"}
            )
            assert result.exit_code == 1
            assert "hunter2" not in result.output, result.output
            assert "Traceback" not in result.output


@asynccontextmanager
async def answering(kind: str, shop: str) -> AsyncIterator[str]:
    """A base URL at which something answers."""
    with listening_socket() as listening:
        origin = origin_of(listening)
        server = DualResponseServer(shop, base_url=f"{origin}/resources", tables=METADATA)
        apps: dict[str, Starlette] = {
            "server": Starlette(routes=[Mount("/resources", server.router())]),
            "prefix": Starlette(routes=[Mount("/data", Starlette(routes=[Mount("/resources", server.router())]))]),
            "text": Starlette(routes=[Route("/{path:path}", lambda _: PlainTextResponse("hello"))]),
            "redirect": Starlette(routes=[Route("/{path:path}", lambda _: RedirectResponse("https://127.0.0.1:9/"))]),
            "host": Starlette(
                routes=[Mount("/resources", server.router())],
                middleware=[Middleware(HostCheck, hosts=["other.example.com"], origins=[])],
            ),
            "broken": Starlette(routes=[Route("/{path:path}", lambda _: PlainTextResponse("", 502))]),
        }  # fmt: skip
        async with serving(apps[kind], listening):
            yield f"{origin}/data" if kind == "prefix" else origin


@pytest.mark.parametrize(
    ("kind", "state", "told"),
    [
        ("server", "ok", "A dualsql server answers"),
        ("prefix", "ok", "A dualsql server answers"),
        ("text", "warning", "No dualsql server"),
        ("redirect", "fault", "redirect"),
        ("host", "fault", "refuses the host name"),
        ("broken", "warning", "Status 502"),
    ],
)
async def test_the_base_url_is_asked(shop: str, kind: str, state: str, told: str) -> None:
    async with answering(kind, shop) as base_url:
        options = ServeOptions(database=shop, everything=True, base_url=base_url, token=TOKEN)
        [finding] = [each for each in await examine(options) if each.check == "base URL"]
    assert finding.state == state and told in finding.message
    assert bool(finding.hint) is (state != "ok")


def test_nothing_answers_at_the_base_url(shop: str) -> None:
    with closing(listening_socket()) as taken:  # bound, and not listening
        code, findings = doctor("--database", shop, "--all", "--base-url", origin_of(taken))
    assert (code, findings["base URL"][0]) == (0, "warning")


def test_files_are_read_and_those_that_cannot_be_are_named(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("a,b\n1,2\n")
    (tmp_path / "ragged.csv").write_text("a,b\n1\n")
    code, findings = doctor(str(tmp_path / "good.csv"))
    assert (code, findings["files"][:2]) == (0, ("ok", "1 table is read."))
    assert findings["tables"][0] == "ok"
    code, findings = doctor(str(tmp_path))
    assert code == 0 and findings["files"][0] == "warning" and "ragged.csv" in findings["files"][1]
    code, findings = doctor(str(tmp_path / "ragged.csv"))
    assert code == 1 and findings["files"][0] == "fault" and list(findings) == ["files"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root may read every folder")
def test_a_home_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """asyncpg looks into it before it connects, also where the URL asks for no TLS."""
    home = tmp_path / "home"
    home.mkdir(mode=0)
    command = [*PROGRAM, "doctor", "--all", "--database", "postgresql://who@127.0.0.1:1/what"]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set", "-all", *command]
    try:
        outputs = [
            subprocess.run(
                command,
                env=environment(HOME=str(folder), COLUMNS="200"),
                capture_output=True,
                text=True,
                check=False,
            ).stdout
            for folder in (home, tmp_path)
        ]
    finally:
        home.chmod(0o700)
    assert "files in HOME" in outputs[0] and "No database answers" in outputs[1], outputs
