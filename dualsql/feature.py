"""What a feature is: an ability of a server that the kernel does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dualsql.errors import ConfigurationError
from dualsql.extension import Extension, Parts
from dualsql.http.router import FeatureRoutes
from dualsql.results.create import StatementForms
from dualsql.server import ResultServer


class Feature(Extension):
    """An ability of a server, one object in its list of features. A subclass overrides what it adds.

    A feature that needs another one gets it by `server.features.get(Other)`: in `attach` from those before it in the
    list, later from all.
    """

    is_attached = False
    """Whether a server has it."""

    statement_forms: ClassVar[Sequence[StatementForms]] = ()
    """Statements that the feature derives from a result. `create_response` compiles them, so that a result of which
    SQLAlchemy cannot derive them is refused."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """Build the parts of the feature, when the server is created.

        Raises:
            ConfigurationError: the feature lacks a package, or its settings contradict those of the server.
        """

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """The REST routes of the feature."""
        return FeatureRoutes()


def attach_features(server: ResultServer, features: Sequence[Feature]) -> None:
    """Give a server its features.

    Raises:
        ConfigurationError: one is no feature, or is given twice, or cannot be attached.
    """
    for feature in features:
        if not isinstance(feature, Feature):
            raise ConfigurationError(
                f"{type(feature).__name__} is no feature.", hint="Give objects: features=[Queries(), ...]."
            )
        if feature.is_attached:
            raise ConfigurationError(
                f"The feature {type(feature).__name__} belongs to another server.",
                hint="Create one object for each server.",
            )
        feature.is_attached = True
        server.features.add(feature)
        feature.attach(server, server.parts)
        server.parts.creator.compile_checks.add(feature.statement_forms)
