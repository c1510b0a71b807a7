"""Vega-Lite to a picture; the rule: the renderer reaches nothing, neither the network nor a file."""

from __future__ import annotations

from typing import Literal, NamedTuple

from dualsql.charts.vegalite import VegaLite
from dualsql.errors import ConfigurationError, QueryExecutionError

PictureFormat = Literal["png", "svg"]

_SCALE = 1.5
_NOWHERE: list[str] = []
"""The addresses data may come from. Left out, vl-convert would fetch any."""


class Picture(NamedTuple):
    """An image and its media type."""

    content: bytes
    media_type: str


def picture(drawn: VegaLite, kind: PictureFormat) -> Picture:
    """The picture; takes a core for about a tenth of a second, a few seconds the first time.

    Raises:
        ConfigurationError: the extra `charts` is not installed.
        QueryExecutionError: it could not be drawn.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise ConfigurationError(
            "Pictures need vl-convert-python.", hint='pip install "dualsql[charts]"'
        ) from error
    try:
        if kind == "png":
            content = vl_convert.vegalite_to_png(drawn, scale=_SCALE, allowed_base_urls=_NOWHERE)
            return Picture(content, "image/png")
        svg = vl_convert.vegalite_to_svg(drawn, allowed_base_urls=_NOWHERE)
        return Picture(svg.encode(), "image/svg+xml")
    except ValueError as error:
        raise QueryExecutionError("The chart could not be drawn.", hint="Ask for it as Vega-Lite.") from error
