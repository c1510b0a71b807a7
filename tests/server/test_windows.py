"""What Windows lacks is not needed but for kept results, which are refused in words.

Nobody has run it there. Each program is a process that has neither the modules of Unix, nor the functions of Python's
own modules that Windows lacks. In it, every module of ours is imported.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from tests.engines import opened
from tests.proxies.running import free_port
from tests.relay import Relay, relaying
from tests.serve.conftest import shop

__all__ = ["shop"]

pytestmark = pytest.mark.long

LACKING = (
    "fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "crypt", "spwd", "nis", "readline", "curses",
    "uvloop",
)  # fmt: skip
OF_MODULES = {
    "os": (
        "fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getgroups", "getpgid", "getpgrp",
        "getsid", "setsid", "setuid", "setgid", "fchmod", "fchown", "chown", "lchown", "chroot", "sysconf",
        "confstr", "pathconf", "pread", "pwrite", "preadv", "pwritev", "readv", "writev", "O_NOFOLLOW",
        "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "O_SYNC", "O_NOCTTY", "mkfifo", "mknod", "killpg", "uname",
        "statvfs", "fstatvfs", "sync", "fdatasync", "posix_fadvise", "posix_fallocate", "posix_spawn",
        "register_at_fork", "sched_getaffinity", "wait3", "wait4", "waitid", "WNOHANG", "nice", "getloadavg",
        "sendfile", "openpty", "lockf", "fchdir", "copy_file_range", "pipe2", "memfd_create",
    ),
    "signal": (
        "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGSTOP",
        "SIGCONT", "SIGTSTP", "SIGWINCH", "alarm", "setitimer", "pthread_kill", "pthread_sigmask", "sigwait",
        "SIG_BLOCK",
    ),
    "socket": (
        "AF_UNIX", "SO_REUSEPORT", "TCP_USER_TIMEOUT", "MSG_DONTWAIT", "SCM_RIGHTS", "send_fds", "recv_fds",
    ),
    "select": (
        "poll", "epoll",
    ),
    "time": (
        "tzset",
    ),
}  # fmt: skip
OF_LOOPS = ("add_signal_handler", "remove_signal_handler", "add_reader", "add_writer", "create_unix_server")
PACKAGES = ("dualsql", "dualsql_client")
# Packages of others and Python's own choose by the platform: they are imported before it is another one, and what they
# then use of it stays theirs. Ours are imported twice, the second time without.
BEFORE = f"""
import importlib, os, pkgutil, sys, warnings

warnings.simplefilter("ignore")

def every_module():
    for package in {PACKAGES!r}:
        path = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(path, package + "."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)

every_module()
import asyncio, multiprocessing.spawn, shutil, signal, socket
import aiosqlite, asyncpg, duckdb, httpx, openpyxl, opentelemetry.exporter.prometheus, pyarrow.parquet, uvicorn
for name in [name for name in sys.modules if name.split(".")[0] in {PACKAGES!r}]:
    del sys.modules[name]
for name in {LACKING!r}:
    sys.modules[name] = None

def usage(path, statvfs=os.statvfs):
    found = statvfs(path)
    return shutil._ntuple_diskusage(*(found.f_frsize * n for n in (found.f_blocks, 0, found.f_bavail)))

def pair(family=None, *others, made=socket.socketpair, default=socket.AF_UNIX):
    return made(family or default, *others)

shutil.disk_usage, socket.socketpair = usage, pair
for module, names in {OF_MODULES!r}.items():
    for name in names:
        vars(sys.modules[module]).pop(name, None)

def lacking(*arguments, **named):
    raise NotImplementedError

for name in {OF_LOOPS!r}:
    setattr(asyncio.SelectorEventLoop, name, lacking)
sys.platform = "win32"
every_module()
"""
LIVE = """
import dualsql, dualsql.server, dualsql.serve, dualsql.mcp, dualsql.cli, dualsql_client
from sqlalchemy import Column, Integer, MetaData, Table, select

items = Table("items", MetaData(), Column("id", Integer, primary_key=True))

async def main(url, folder):
    options = {"base_url": "http://127.0.0.1/resources", "tables": items.metadata}
    async with dualsql.DualResponseServer(url, **options) as dual:
        made = await dual.create_response(select(items).order_by(items.c.id), name="items")
        stream = await dual.stream(made.resource_id, None, dualsql.results.streams.StreamRequest(format="csv"))
        print(len(b"".join([chunk.data async for chunk in stream.chunks]).splitlines()))
    try:
        features = dualsql.default_features(dualsql.Kept(folder))
        async with dualsql.DualResponseServer(url, features=features, **options):
            pass
    except dualsql.errors.ConfigurationError as error:
        print(error.message)

asyncio.run(main(*sys.argv[1:]))
"""
SERVED = """
import threading, time
from dualsql.cli import main

def ask():
    origin = "http://127.0.0.1:PORT"
    for _ in range(300):
        try:
            if httpx.get(origin + "/resources/openapi.json").status_code == 200:
                break
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    call = {"name": "execute_query", "arguments": {"query": "SELECT * FROM makers"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    answer = httpx.post(origin + "/mcp", json=message, headers=accepted).text
    url = answer.partition('"url":"')[2].partition('"')[0]
    for format in ("csv", "ndjson", "json", "arrow", "parquet", "xlsx"):
        print(httpx.get(url + "/rows", params={"format": format}).status_code)
    print(*(httpx.get(each).status_code for each in (url, url + "/view", url + "/profile", origin + "/")))
    print("served", flush=True)
    os._exit(0)

threading.Thread(target=ask, daemon=True).start()
main()
"""


async def run(program: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", BEFORE + program, *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout).splitlines()


@asynccontextmanager
async def over_tcp(url: str) -> AsyncIterator[str]:
    """The URL of the database during the block, without a socket of Unix."""
    host = make_url(url).query.get("host")
    if host is None:
        yield url
        return
    async with relaying(Relay(f"{host}/.s.PGSQL.5432")) as relay:
        yield f"postgresql+asyncpg://postgres@127.0.0.1:{relay.port}/{make_url(url).database}"


async def test_live_results_are_read_and_kept_ones_refused(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url) as engine, engine.begin() as connection:
        await connection.execute(text("CREATE TABLE items (id INTEGER PRIMARY KEY)"))
        await connection.execute(text("INSERT INTO items VALUES (1), (2), (3)"))
    async with over_tcp(database_url) as url:
        lines = await run(LIVE, url, str(tmp_path / "kept"))
    assert lines[0] == "4"
    assert lines[1].startswith("Results cannot be kept on this system")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_tables_are_served(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue("shop" if engine == "sqlite" else "postgresql_url")
    if engine == "postgresql":
        async with opened(url) as database, database.begin() as connection:
            await connection.execute(text("CREATE TABLE makers AS SELECT 1 AS id, 'Maker 1' AS name"))
    port = str(free_port())
    async with over_tcp(url) as reached:
        arguments = ("serve", "--database", reached, "--all", "--port", port)
        lines = await run(SERVED.replace("PORT", port), *arguments)
        assert lines[-8:] == [*["200"] * 6, "200 200 200 200", "served"]
        with pytest.raises(AssertionError, match="Results cannot be kept on this system"):
            await run(SERVED.replace("PORT", port), *arguments, "--keep", str(tmp_path / "kept"))
