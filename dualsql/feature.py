"""What a feature is: an ability of a server that the kernel does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from starlette.routing import Route

from dualsql.errors import ConfigurationError
from dualsql.extension import Extension, Parts
from dualsql.http.router import FeatureRoutes
from dualsql.results.create import StatementForms
from dualsql.server import ResultServer
from dualsql.settings import SettingsGroup

EXTENSION_POINTS = (
    ("access", "links"),
    ("access", "require_rate"),
    ("views", "kept"),
    ("creator", "runner"),
    ("creator", "profiler"),
    ("creator", "sampler"),
    ("creator", "refine"),
    ("creator", "answer_within"),
    ("creator", "open_text"),
)
"""Attributes of the parts that at most one feature sets, in `attach`."""


class Feature(Extension):
    """An ability of a server, one object in its list of features. A subclass overrides what it adds.

    A feature that works with another one gets it by `server.features.get(Other)`: in `attach` if it is among `needs` or
    `uses`, later in any case.
    """

    needs: ClassVar[Sequence[type[Feature]]] = ()
    """Features without which a server does not take this one. They are attached before it, wherever they stand."""

    uses: ClassVar[Sequence[type[Feature]]] = ()
    """Features that are attached before this one where the server has them."""

    statement_forms: ClassVar[Sequence[StatementForms]] = ()
    """Statements that the feature derives from a result. Where other code than SQLAlchemy writes SQL, `create_response`
    compiles them, so that a result of which they cannot be derived is refused."""

    settings_group: ClassVar[type[SettingsGroup] | None] = None
    """Its settings, which its constructor takes: for `docs/settings.md`, and for programs that make options of them."""

    is_attached = False
    """Whether a server has it."""

    _known_routes: FeatureRoutes | None = None

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """Build the parts of the feature, when the server is created.

        Raises:
            ConfigurationError: the feature lacks a package, or its settings contradict those of the server.
        """

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """The REST routes of the feature; called once."""
        return FeatureRoutes()


def attach_features(server: ResultServer, features: Any) -> None:
    """Give a server its features.

    Raises:
        ConfigurationError: one is no feature, is given twice, lacks another one, or cannot be attached; or two of them
            set one extension point.
    """
    if not isinstance(features, Sequence):
        raise ConfigurationError(
            f"features must be a list, and is a {type(features).__name__}.",
            hint="Write features=default_features(...), or features=[Queries(), ...].",
        )
    for position, feature in enumerate(features):
        if not isinstance(feature, Feature):
            name = feature.__name__ if isinstance(feature, type) else type(feature).__name__
            raise ConfigurationError(f"{name} is no feature.", hint="Give objects, such as Queries().")
        if any(feature is other for other in features[:position]):
            raise ConfigurationError(
                f"One feature is given twice: {type(feature).__name__}.", hint="Leave one out."
            )
        if feature.is_attached:
            raise ConfigurationError(
                f"The feature {type(feature).__name__} belongs to another server.",
                hint="Create one object for each server.",
            )
    owners: dict[tuple[str, str], Feature] = {}
    for feature in _in_order(features):
        feature.is_attached = True
        server.features.add(feature)
        before = _points_of(server.parts)
        feature.attach(server, server.parts)
        for point, value in _points_of(server.parts).items():
            if value is not before[point]:
                _claim(owners, point, ".".join(point), feature)
        server.parts.creator.forms.extend(feature.statement_forms)


def _in_order(features: Sequence[Feature]) -> list[Feature]:
    """The features, each after those that it needs and uses."""
    ordered: list[Feature] = []
    waiting: list[Feature] = []

    def add(feature: Feature) -> None:
        if feature in waiting:
            names = " and ".join(type(each).__name__ for each in waiting[waiting.index(feature) :])
            raise ConfigurationError(f"{names} need each other.", hint="Remove one from `needs` or `uses`.")
        if feature in ordered:
            return
        waiting.append(feature)
        for kind in (*feature.needs, *feature.uses):
            matches = [each for each in features if isinstance(each, kind)]
            if not matches and kind in feature.needs:
                raise ConfigurationError(
                    f"The feature {type(feature).__name__} needs the feature {kind.__name__}.",
                    hint=f"Add it: features=[..., {kind.__name__}(...)].",
                )
            for each in matches:
                add(each)
        waiting.pop()
        ordered.append(feature)

    for feature in features:
        add(feature)
    return ordered


def _points_of(parts: Parts) -> dict[tuple[str, str], Any]:
    return {(part, name): getattr(getattr(parts, part), name) for part, name in EXTENSION_POINTS}


def _claim(owners: dict[Any, Feature], key: Any, what: str, feature: Feature) -> None:
    """Note that a feature sets what no other may set."""
    owner = owners.setdefault(key, feature)
    if owner is not feature:
        raise ConfigurationError(
            f"The features {type(owner).__name__} and {type(feature).__name__} both set {what}.",
            hint="Leave one of them out.",
        )


def feature_routes(server: ResultServer) -> list[FeatureRoutes]:
    """The routes of each feature, which is asked for them once.

    Raises:
        ConfigurationError: two features have routes of one path, or answer in one media type.
    """
    routes: list[FeatureRoutes] = []
    owners: dict[Any, Feature] = {}
    for feature in server.features:
        if isinstance(feature, Feature):
            feature._known_routes = known = feature._known_routes or feature.routes(server)  # noqa: SLF001
            routes.append(known)
            for what in _claims(routes[-1]):
                _claim(owners, what, what, feature)
    return routes


def _claims(routes: FeatureRoutes) -> Iterator[str]:
    paths = [route.path for route in (*routes.routes, *routes.documents) if isinstance(route, Route)]
    yield from (f"the path {path}" for path in dict.fromkeys(paths))
    yield from (f"the representation {name} of a result" for name in routes.representations)
    yield from (f"the representation {name} of a listing" for name in routes.listing_representations)
