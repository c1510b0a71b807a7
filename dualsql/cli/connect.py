"""`dualsql connect`: writes a server into the configuration of a host, after asking, with a copy of the old one."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from dualsql.errors import ConfigurationError

HostName = Literal["claude-code", "claude-desktop", "vscode", "cursor"]
Entry = Mapping[str, Any]

_SECRETS = frozenset({"DUALSQL_DATABASE_URL", "DUALSQL_TOKEN", "DUALSQL_SECRET", "DUALSQL_STORE"})
_OF_PIP = re.compile(r'pip install "dualsql\[(?P<extra>[a-z0-9,]+)\]"')


class _Host(NamedTuple):
    """The file in which a host keeps its servers.

    Attributes:
        key: of the object that has the servers by name.
        project: the file in a project's folder; None where there is none.
        user: the file of the user, in a folder of the system; None where other things are kept in it, too.
        has_types: whether an entry says its transport.
    """

    key: str
    project: str | None
    user: tuple[str, ...] | None
    has_types: bool


_HOSTS: Mapping[HostName, _Host] = {
    "claude-code": _Host("mcpServers", ".mcp.json", None, has_types=True),
    "claude-desktop": _Host(
        "mcpServers", None, ("{config}", "Claude", "claude_desktop_config.json"), has_types=False
    ),
    "vscode": _Host("servers", ".vscode/mcp.json", ("{config}", "Code", "User", "mcp.json"), has_types=True),
    "cursor": _Host("mcpServers", ".cursor/mcp.json", ("{home}", ".cursor", "mcp.json"), has_types=False),
}


def configuration_file(
    host: HostName,
    *,
    is_users: bool = False,
    platform: str = sys.platform,
    variables: Mapping[str, str] = os.environ,
) -> Path:
    """The file of a host: in the project, which is the working directory, or that of the user on this system.

    Raises:
        ConfigurationError: the host keeps no servers there.
    """
    host_format = _HOSTS[host]
    if host_format.project is not None and not is_users:
        return Path.cwd() / host_format.project
    if host_format.user is None:
        raise ConfigurationError(
            f"{host} keeps more than servers in the file of the user.",
            hint="Use its own command: claude mcp add --scope user ...",
        )
    home = Path(variables.get("USERPROFILE" if platform == "win32" else "HOME") or Path.home())
    if platform == "win32":
        config = Path(variables.get("APPDATA") or home / "AppData" / "Roaming")
    elif platform == "darwin":
        config = home / "Library" / "Application Support"
    else:
        config = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    first, *rest = host_format.user
    return Path(first.format(config=config, home=home)).joinpath(*rest)


def entry_over_http(host: HostName, url: str) -> Entry:
    """The entry of a server at a URL.

    Raises:
        ConfigurationError: the host only starts servers itself, or this is no URL.
    """
    if host == "claude-desktop":
        raise ConfigurationError(
            "The file of claude-desktop has only servers that it starts itself.",
            hint="Give the files or the database instead of --url, or add the URL as a connector in its settings.",
        )
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(
            "--url must be the URL of an MCP endpoint, such as http://127.0.0.1:8000/mcp."
        )
    return {"type": "http", "url": url} if _HOSTS[host].has_types else {"url": url}


def entry_over_stdio(host: HostName, arguments: Sequence[str], variables: Mapping[str, str]) -> Entry:
    """The entry of a server that the host starts: this very program, with `arguments`."""
    command, *first = _program()
    entry: dict[str, Any] = {"type": "stdio"} if _HOSTS[host].has_types else {}
    entry |= {"command": command, "args": [*first, *arguments]}
    return {**entry, "env": dict(variables)} if variables else entry


def _program() -> list[str]:
    """How a host starts this program. Hosts on a desktop do not have the PATH of a shell."""
    program = Path(sys.argv[0])
    if program.stem == "dualsql" and program.is_file():
        return [str(program.absolute())]
    command = shutil.which("dualsql")
    # A host may start it in any folder: -P leaves out the modules there.
    return [command] if command else [sys.executable, "-P", "-c", "from dualsql.cli import main; main()"]


def missing(module: str | None, extra: str, prefix: str = sys.prefix) -> str:
    """The line for a package that is not installed, with what installs it where this program runs."""
    return f"dualsql: {module} is not installed. Try: {_installing(extra, prefix)}"


def with_the_line_that_installs(message: str, prefix: str = sys.prefix) -> str:
    """A message with `pip install "dualsql[extra]"` replaced by what installs the extra where this program runs."""
    return _OF_PIP.sub(lambda match: _installing(match["extra"], prefix), message)


def _installing(extra: str, prefix: str) -> str:
    command = " ".join(sys.argv[1:2])
    # The environment of uvx or pipx is made anew, so it needs what the command needs, too.
    whole = extra if command != "serve" or "serve" in extra.split(",") else f"serve,{extra}"
    is_of_uv = _is_of("uv", prefix, "UV_CACHE_DIR", "UV_TOOL_DIR")
    # pipx makes its environments with uv if there is one, which may be on no PATH.
    if is_of_uv and (shutil.which("uvx") or not shutil.which("pipx")):
        return f'uvx --from "dualsql[{whole}]" dualsql {command} ...'
    if is_of_uv or _is_of("pipx", prefix, "PIPX_HOME", "PIPX_GLOBAL_HOME"):
        return f'pipx run --spec "dualsql[{whole}]" dualsql {command} ...'
    return f'pip install "dualsql[{extra}]"'


def _is_of(program: str, prefix: str, *homes: str) -> bool:
    """Whether the program made this environment: below a folder of its name, or of one of its variables."""
    folder = Path(prefix).resolve()
    folders = [
        Path(home_folder).expanduser().resolve() for home in homes if (home_folder := os.environ.get(home))
    ]
    return program in {part.lower() for part in folder.parts} or any(map(folder.is_relative_to, folders))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry to write into one file.

    Attributes:
        path: of the file, where links have been followed: a link stays one.
        before: the bytes of the file; None where there is none yet.
        after: the new text.
        entry: the new entry.
        replaced: the entry of that name until now; None if there is none.
    """

    path: Path
    before: bytes | None
    after: str
    entry: Entry
    earlier: object = None

    @property
    def is_needed(self) -> bool:
        """Whether the file does not have this entry already."""
        return self.earlier != self.entry

    def write(self) -> Path | None:
        """Write the file at once, and return the copy of the old one, if there was one.

        Raises:
            ConfigurationError: the file was changed since it was read.
            OSError: it cannot be written.
        """
        if _bytes_of(self.path) != self.before:
            raise ConfigurationError(
                f"{str(self.path)!r} was changed by another program.", hint="Run the command again."
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        copy = self._copy()
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            # The entry may hold the URL of a database, so only the user may read a new file.
            mode = 0o600 if self.before is None else self.path.stat().st_mode & 0o777
            _write_new(part, self.after.encode(), mode)
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)
        return copy

    def _copy(self) -> Path | None:
        if self.before is None:
            return None
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        copy = self.path.with_name(f"{self.path.name}.{stamp}.backup")
        _write_new(copy, self.before, self.path.stat().st_mode & 0o777)
        return copy


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that does not exist yet, not through a link, and unreadable until it has its mode."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    path.chmod(mode)


def _without_secrets(url: str) -> str:
    """The URL with dots in place of a user, a password and a query string."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    netloc = f"...@{host}" if host != parts.netloc else host
    return parts._replace(netloc=netloc, query="..." if parts.query else "").geturl()


def snippet(host: HostName, name: str, entry: Entry) -> str:
    """The content of the file with the entry, as JSON, with dots in place of secrets."""
    safe_entry = dict(entry)
    if "url" in safe_entry:
        safe_entry["url"] = _without_secrets(safe_entry["url"])
    if "env" in safe_entry:
        safe_entry["env"] = {
            key: "..." if key in _SECRETS else value for key, value in safe_entry["env"].items()
        }
    return json.dumps({_HOSTS[host].key: {name: safe_entry}}, indent=2, ensure_ascii=False)


def plan_change(host: HostName, path: Path, name: str, entry: Entry) -> Change:
    """The change that puts the entry into the file. Nothing is written.

    Raises:
        ConfigurationError: the file is not plain JSON, or not a configuration.
    """
    path = path.resolve()
    before = _bytes_of(path)
    configuration = {} if before is None or not before.strip() else _parse(path, before)
    key = _HOSTS[host].key
    servers = configuration.setdefault(key, {})
    if not isinstance(servers, dict):
        raise _refusal(path, f"{key} is no object")
    earlier = servers.get(name)
    servers[name] = dict(entry)
    after = json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"
    return Change(path=path, before=before, after=after, entry=entry, earlier=earlier)


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text.decode(), object_pairs_hook=_without_duplicates, parse_float=_unchanged)
    except (ValueError, RecursionError):
        raise _refusal(path, "it is not plain JSON; comments would be lost") from None
    if not isinstance(document, dict):
        raise _refusal(path, "it is no object")
    return document


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a key twice")
    return names


def _unchanged(text: str) -> float:
    number = float(text)
    if json.dumps(number) != text:
        raise ValueError("a number that would be written in another way")
    return number


def _refusal(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{str(path)!r} is left as it is: {reason}.", hint="Add the entry yourself: --dry-run prints it."
    )
