"""Scripts, styles and templates: read once, sent with the headers that keep a page safe."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import NoMatchFound

from dualsql.http.parameters import preferred_coding
from dualsql.http.problems import problem_response
from dualsql.packages import require_package
from dualsql.results.access import not_found
from dualsql.web.words import visible, vocabulary

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = "/assets/{fingerprint}/{name:path}"
HOME = "dualsql_home"
"""The name of the home page's route."""

_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_IMPORT = re.compile(r'^import (?:(\{[^}]*\}) from )?"\./([^"]+)";\n', re.MULTILINE)
_EXPORT_LIST = re.compile(r"^(.*)export\{[^}]*\};$|^//# sourceMappingURL=.*$", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_IMMUTABLE = "public, max-age=31536000, immutable"

PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    # Under "no-referrer" a form sends `Origin: null`, which the host check refuses.
    "Referrer-Policy": "same-origin",
    "Vary": "Accept, Cookie",
}


class Asset(NamedTuple):
    """A file as it is."""

    media_type: str
    content: bytes


@cache
def assets() -> Mapping[str, Asset]:
    """Every file of the folder static, by its path there."""
    folder = files("dualsql.web").joinpath("static")
    folders = [("", folder), ("vendor/", folder.joinpath("vendor"))]
    return {
        f"{prefix}{each.name}": Asset(_MEDIA_TYPES[suffix], each.read_bytes())
        for prefix, inside in folders
        for each in inside.iterdir()
        if each.is_file() and (suffix := f".{each.name.rpartition('.')[2]}") in _MEDIA_TYPES
    }


@cache
def script_of(name: str) -> str:
    """A script with the modules that it imports, each a function whose exports are a constant: one request for 20."""
    modules: dict[str, str] = {}

    def write(name: str) -> None:
        if name in modules:
            return
        source = assets()[name].content.decode()
        for _, imported in _IMPORT.findall(source):
            write(imported)
        source = _EXPORT_LIST.sub(r"\1", source)  # of regular-table, which is used by its element's name
        exports = _exports(source)
        body = _EXPORT.sub(r"\1", _IMPORT.sub(_as_constant, source))
        modules[name] = f"const {_constant(name)} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"

    write(name)
    exports = _exports(assets()[name].content.decode())
    own = [f"export const {{ {exports} }} = {_constant(name)};"] if exports else []
    return "\n".join([*modules.values(), *own])


def _exports(source: str) -> str:
    return ", ".join(name for _, name in _EXPORT.findall(source))


def _as_constant(imported: re.Match[str]) -> str:
    return f"const {imported[1]} = {_constant(imported[2])};\n" if imported[1] else ""


def _constant(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name)


def _content(name: str) -> bytes:
    """A file as a browser gets it: a script is whole."""
    asset = assets()[name]
    return script_of(name).encode() if asset.media_type == _MEDIA_TYPES[".js"] else asset.content


@cache
def compressed_asset(name: str, coding: str) -> bytes:
    """A file as it is sent, in a coding of `_codings`: once, since "br" takes 200 ms of all files together."""
    content = _content(name)
    if coding == "gzip":
        # The same bytes in each process.
        return gzip.compress(content, mtime=0)
    import brotli

    body: bytes = brotli.compress(content)
    return body


@cache
def _codings() -> Sequence[str]:
    return ("gzip",) if find_spec("brotli") is None else ("br", "gzip")


@cache
def assets_fingerprint() -> str:
    """A hash of all files: they import each other by name, so one that changes gives all a new address."""
    digest = sha256()
    for name, asset in sorted(assets().items()):
        digest.update(name.encode() + b"\0" + asset.content)
    return digest.hexdigest()[:16]


async def answer_asset(request: Request) -> Response:
    """GET of a file. An address of another version answers with the present one, which is not kept."""
    name = request.path_params["name"]
    asset = assets().get(name)
    if asset is None:
        return problem_response(not_found())
    coding = preferred_coding(request.headers.getlist("accept-encoding"), _codings())
    is_current = request.path_params["fingerprint"] == assets_fingerprint()
    headers = {"Cache-Control": _IMMUTABLE if is_current else "no-store", "Vary": "Accept-Encoding"}
    content = _content(name)
    if coding is not None:
        headers["Content-Encoding"] = coding
        content = await asyncio.to_thread(
            compressed_asset, name, coding
        )  # other callers are answered meanwhile
    return Response(content, media_type=asset.media_type, headers=headers)


@cache
def environment() -> Environment:
    """The templates; the extra `web` is installed."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("dualsql.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["visible"] = visible
    templates.globals["vocabulary"] = vocabulary
    return templates


def require_templates() -> None:
    """Raises ConfigurationError where the extra `web` is not installed."""
    require_package(
        "jinja2",
        "Pages and the MCP App need a package that is not installed.",
        hint='pip install "dualsql[web]"',
    )


def render(
    template: str,
    request: Request,
    values: Mapping[str, Any],
    *,
    root: str | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A page.

    Args:
        values: what the template shows; with `is_known`, its head links to the caller's results.
        root: the path from the page to the collection of resources, with a slash at its end; `root_of` the request
            unless given.
    """
    root = root or root_of(request)
    defaults = {
        "root": root,
        "assets": f"{root}assets/{assets_fingerprint()}/",
        "is_known": False,
        "is_link": False,
    }
    text = environment().get_template(template).render({**defaults, "has_home": has_home(request), **values})
    return Response(text, status, {**PAGE_HEADERS, **(headers or {})}, "text/html")


def root_of(request: Request) -> str:
    """The path from this page to the collection, under whatever path the router is mounted."""
    path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return "../" * path.strip("/").count("/") or "./"


def has_home(request: Request) -> bool:
    """Whether the application has a home page beside the collection, as `dualsql serve` has."""
    try:
        request.scope["router"].url_path_for(HOME)
    except NoMatchFound:
        return False
    return True
