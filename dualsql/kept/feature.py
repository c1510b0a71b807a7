"""The feature Kept: rows of slow queries, and of those that ask for it, are kept in files and read from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.middleware import Middleware

from dualsql.changes import Changes
from dualsql.errors import BadParameterError
from dualsql.extension import Parts
from dualsql.http.parameters import read_body, refuse_query, resource_id_of
from dualsql.http.problems import RETRY_SOON, BodyTooLargeError, JSONAnswer, method_route
from dualsql.http.router import FeatureRoutes, of_header
from dualsql.kept.late_pages import ACCEPTED, METHODS, LatePages
from dualsql.kept.objects import storage_at
from dualsql.kept.refresh import Refreshes
from dualsql.kept.runs import KeptRunner
from dualsql.kept.service import ResultKeeper
from dualsql.kept.settings import KeptSettings
from dualsql.kept.views import LATE_HINT, KeptViews
from dualsql.openapi.operations import READS, DescribedFeature, FurtherAnswer, Operation, in_json
from dualsql.pending.progress import RunRecords
from dualsql.resource import Principal
from dualsql.results.kept_rows import storage_missing
from dualsql.settings import Settings, require_duration, takes
from dualsql_client.wire import ResourceDescription

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dualsql.server import ResultServer

REFRESH = "/{resource_id}/refresh"
REFRESH_METHODS = ("OPTIONS", "POST")
_REFRESH_NAME = "refresh"


class Kept(DescribedFeature):
    """Kept results; see docs/kept-results.md.

    Args:
        storage: where the rows are kept: a folder, the URL of an object store (s3://bucket/prefix), or a
            `ResultStorage`. Without one, rows are read from their databases.

    The further arguments are its settings: see `KeptSettings`.
    """

    settings_group = KeptSettings

    @takes(KeptSettings)
    def __init__(self, settings: KeptSettings) -> None:
        self.settings = settings
        self.keeper: ResultKeeper | None = None
        self.refreshes: Refreshes | None = None

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self._server = server
        settings, storage = self.settings, self.settings.storage
        if storage is None:
            if settings.keep is True:
                raise storage_missing()
            return
        if isinstance(storage, str | Path):
            storage = storage_at(storage, settings)
        self.keeper = keeper = ResultKeeper(
            storage, parts.store, parts.seal, parts.clock, settings=parts.settings, kept_settings=settings
        )
        views = KeptViews(keeper, parts.policy, parts.settings, settings)
        runner = KeptRunner(keeper, views, parts.views, parts.sources, parts.creator, kept_settings=settings)
        self.refreshes = Refreshes(
            parts.access,
            keeper,
            RunRecords.of(parts),
            settings=parts.settings,
            run=runner.run_again,
            tell=self._tell,
        )
        parts.views.kept, parts.views.late_hint, parts.creator.runner = views, LATE_HINT, runner
        server.features.add(keeper)
        server.features.add(self.refreshes)

    def _tell(self, resource_id: str) -> None:
        """Notify those who are subscribed to a result that its rows were replaced."""
        if Changes in self._server.features:
            self._server.features.get(Changes).notifier.notify(resource_id)

    async def refresh(
        self, resource_id: str, principal: Principal | None, *, wait: timedelta | None = None
    ) -> ResourceDescription:
        """Run the query of a result again and keep its rows; see docs/kept-results.md.

        Readers get the old rows until the new ones are complete, and then the new ones. Cursors of the old rows are
        refused from then on. A result that was read from its database becomes a kept one.

        Args:
            wait: how long to wait for the query. If it takes longer, it runs on, and the metadata have its progress.
                None waits until it ends.

        Returns:
            The metadata of the result.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `open_resource`.
            ResourcePendingError, ResourceFailedError: the result has no rows.
            BadParameterError: the server has no `storage`.
            LimitExceededError: the rows cannot be kept. The result stays as it was, as after other errors.
            TooManyQueriesError: `Settings.maximum_pending` refreshes run already.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: the database failed, or took longer than
                `Settings.pending_timeout`.
        """
        if wait is not None:
            require_duration("wait", wait, failure=BadParameterError)
        resource = await self._server.open_resource(resource_id, principal, "refresh")
        resource.require_ready()
        if self.refreshes is None:
            raise BadParameterError(
                "This server keeps no results.", hint="Read the result: its rows are those of the database."
            )
        await self.refreshes.answer(resource, principal, wait)
        return await self._server.describe(resource_id, principal)

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""

        async def refresh(request: Request) -> Response:
            """POST of /refresh: read the rows of a kept result again."""
            refuse_query(request.scope["query_string"])
            await _refuse_body(request, server.settings)
            principal = await server.access.identify(request)
            wait = self.settings.keep_after
            metadata = await self.refresh(resource_id_of(request), principal, wait=wait)
            is_running = "rows_so_far" in metadata.get("kept", {})
            return JSONAnswer(metadata, headers=RETRY_SOON if is_running else {})

        pages = Middleware(LatePages, server=server, refresh=self.refresh, other=REFRESH)
        late = Middleware(of_header, name=b"prefer", middleware=pages)
        return FeatureRoutes(
            routes=[method_route(REFRESH, {"POST": refresh}, REFRESH_METHODS)],
            inner=[late] if self._offers_late_pages else (),
        )

    @property
    def _offers_late_pages(self) -> bool:
        return self.refreshes is not None and self.settings.keep is not False

    def extended(self, operation: Operation) -> Operation:
        """The operation with 202, if it reads rows of a result: those may be late."""
        is_read = operation.path.startswith("/{id}") and operation.name != _REFRESH_NAME
        is_late = is_read and "QUERY_TIMEOUT" in operation.errors and operation.method in METHODS
        if not (self._offers_late_pages and is_late):
            return operation
        answer = FurtherAnswer(
            "It took too long. The query of the result runs once more, and its rows are kept: ask for the metadata "
            "until `kept.rows_so_far` is gone, and repeat the request.",
            answers=in_json("ResourceDescription"),
            headers=("Preference-Applied", "Retry-After"),
            asks=("Prefer",),
        )
        return replace(operation, further={ACCEPTED: answer})

    def operations(self, settings: Settings) -> Sequence[Operation]:
        return [
            Operation(
                method="POST",
                path="/{id}/refresh",
                name=_REFRESH_NAME,
                summary="Run the query of a result again and keep its rows. If that takes long, `kept` says how far "
                "it is.",
                methods=REFRESH_METHODS,
                answers=in_json("ResourceDescription"),
                headers=("Retry-After",),
                errors=READS,
            )
        ]


async def _refuse_body(request: Request, settings: Settings) -> None:
    """Refuse a body of an operation that has none."""
    try:
        body = await read_body(request, settings)
    except BodyTooLargeError:
        body = b"more"
    if body:
        raise BadParameterError(
            "This request takes no body.", hint="Send it without one: the stored query runs again as it is."
        )
