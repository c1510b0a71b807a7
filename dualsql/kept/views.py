"""Reads kept rows in place of the database, where the reader may and where they mean the same."""

from __future__ import annotations

import logging
from collections.abc import Iterable, MutableMapping, Sequence
from datetime import datetime
from hashlib import sha256

from sqlalchemy import Compiled, util

from dualsql.databases.comparison import compares_by_code_point
from dualsql.databases.session import in_session
from dualsql.databases.source import Source
from dualsql.errors import DualResponseError
from dualsql.freeze.values import exact_forms
from dualsql.kept.cells import uses_of
from dualsql.kept.files import statement_of_file
from dualsql.kept.service import FileGoneError, ResultKeeper, UnusableError
from dualsql.kept.settings import KeptSettings
from dualsql.log import log_failure
from dualsql.resource import UNCOUNTED, KeptRows, Resource, Total, instant
from dualsql.results.kept_rows import ROWS_OF_NOW, KeptView, Original, require_of_kept_rows
from dualsql.results.view import Derived, ReadTarget, View
from dualsql.settings import Settings
from dualsql.tenancy.compiler import TableForms
from dualsql.tenancy.policy import ActiveRules, Policy
from dualsql.tenancy.visibility import reads_others
from dualsql_client.wire import KeptDescription, SortKey

_log = logging.getLogger(__name__)

_NARROWED = "The database narrows the rows by its own policies."

LATE_HINT = "POST to /refresh of the result: its query runs once, and any order of its rows is fast then."
"""What to do where a page of rows that are not kept takes too long."""

_MOST_PLANS = 16
"""Files, and statements of results, whose compiled forms are cached."""


class KeptViews:
    """Opens the kept rows of one server's results; a `KeptReader`."""

    def __init__(
        self, keeper: ResultKeeper, policy: Policy, settings: Settings, kept_settings: KeptSettings
    ) -> None:
        self._keeper = keeper
        self._policy = policy
        self._settings = settings
        self._kept_settings = kept_settings
        self._plans: MutableMapping[str, tuple[Derived, ActiveRules]] = util.LRUCache(_MOST_PLANS)
        self._statements: MutableMapping[tuple[Derived, TableForms], Compiled] = util.LRUCache(_MOST_PLANS)
        self._by_code_point: dict[str, bool] = {}

    async def view(self, resource: Resource, live: View) -> KeptView | None:
        if resource.kept is None:
            return None
        try:
            return await self.usable_view(resource, resource.kept, live)
        except UnusableError:
            return None

    async def target(self, live: ReadTarget, sort: Sequence[SortKey]) -> ReadTarget:
        view = await self.view(live.resource, live.view)
        if view is None:
            return live
        if sort and not await self.can_use(view, live.view, ((key["field"], "sorted") for key in sort)):
            return live._replace(notes=[ROWS_OF_NOW])

        async def instead(error: DualResponseError) -> ReadTarget:
            require_of_kept_rows(error)
            return live._replace(total=UNCOUNTED)

        assert view.kept is not None
        total = Total(view.kept["rows"], "exact")
        key = f"{live.key}{view.run}"
        return live._replace(view=view, key=key, total=total, notes=(), late_hint="", instead=instead)

    async def usable_view(self, resource: Resource, record: KeptRows, live: View) -> KeptView:
        """The kept rows of a resource.

        Raises:
            UnusableError: they have to be read from the database.
            TamperedError: see `KeptReader.view`.
        """
        fingerprint = self.fingerprint(live)
        # What came after the rows were kept is not in their fingerprint: a policy of the database, a rule of a restart.
        if (obstacle := await self.obstacle_to_keeping(live, fingerprint)) is not None:
            raise UnusableError(obstacle)
        try:
            file = await self._keeper.open_file(resource, record, fingerprint)
        except FileGoneError:
            newer = await self._keeper.of(resource.id)  # refreshed since the resource was read
            if newer is None or newer.get("file") == record["file"]:
                raise
            record = newer
            file = await self._keeper.open_file(resource, record, fingerprint)
        plans = self._plans.get(record["file"])
        if plans is None:
            if len(record["cells"]) != len(live.columns):
                raise UnusableError("The rows were kept by another release.")
            statement = statement_of_file(live.shape, record["cells"])
            derived = Derived(statement.select, file.source.meanings, number=statement.number)
            plans = self._plans[record["file"]] = derived, statement.rules
        return KeptView(
            file.source,
            *plans,
            live.settings,
            # The file has the rows of this reader only: an estimate discloses nothing of others (decision 10).
            may_estimate=True,
            cache=None,
            original=Original(live.derived, live.dialect, record["copied"]),
            run=f"@{record['digest'][:32]}",
            as_of=datetime.fromisoformat(record["as_of"]),
            kept=record,
        )

    async def describe(self, resource: Resource, live: View) -> KeptDescription:
        record = resource.kept or KeptRows()
        try:
            view = await self.usable_view(resource, record, live)
        except UnusableError as error:
            return KeptDescription(kept=False, reason=str(error))
        record = view.kept or record
        as_of = instant(datetime.fromisoformat(record["as_of"]))
        return KeptDescription(kept=True, as_of=as_of, rows=record["rows"], bytes=record["bytes"])

    async def can_use(self, view: View, live: View, uses: Iterable[tuple[str, str]]) -> bool:
        needs = list(uses)
        if view.kept is None or not needs:
            return True
        is_by_code_point = await self.compares_by_code_point(live.source)
        names = {name for name, _ in needs}
        cells = zip(view.kept["cells"], live.columns, strict=True)
        usable = {
            column.name: uses_of(cell, column, by_code_point=is_by_code_point)
            for cell, column in cells
            if column.name in names
        }
        # A name that is not there is refused later.
        return all(use in usable[name] for name, use in needs if name in usable)

    async def compares_by_code_point(self, source: Source) -> bool:
        """Whether a database is known to compare and sort all of its texts by code point."""
        is_by_code_point = self._by_code_point.get(source.name)
        if is_by_code_point is None:
            try:
                is_by_code_point = await compares_by_code_point(source)
            except DualResponseError as error:
                log_failure(_log, error, "asking the database how it sorts texts", level=logging.WARNING)
                return False
            self._by_code_point[source.name] = is_by_code_point
        return is_by_code_point

    def fingerprint(self, view: View) -> str | None:
        """A digest of a statement under the rules of its view and their values; None if a value has no clear form.

        Two readers with the same one see the same rows, as far as rules decide it.
        """
        sql = self._compiled(view)
        bound = sql.construct_params(dict(view.rules.values)) or {}
        values = exact_forms(part for name in sorted(bound) for part in (name, bound[name]))
        if values is None:
            return None
        parts = (
            view.source.name,
            str(sql),
            view.shape.limit,
            view.shape.offset,
            values,
            list(view.rules.settings),
        )
        # A text may hold lone surrogates, which UTF-8 has no bytes for.
        return sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()

    async def obstacle_to_keeping(self, view: View, fingerprint: str | None) -> str | None:
        """Why the rows of a view with this fingerprint may not be kept; None if they may."""
        obstacle = self._obstacle_of_rules(view, fingerprint)
        if obstacle is not None or self._kept_settings.keep_past_rule_changes:
            return obstacle
        try:
            rights = view.source.backend.rights
            is_narrowed = rights is not None and await in_session(
                view.source, None, rights.has_policies, timeout=self._settings.query_timeout
            )
        except DualResponseError as error:
            log_failure(_log, error, "asking the database for its policies", level=logging.WARNING)
            is_narrowed = True
        return _NARROWED if is_narrowed else None

    def _obstacle_of_rules(self, view: View, fingerprint: str | None) -> str | None:
        if fingerprint is None:
            return "A value of the statement or of a rule cannot be compared later."
        if self._kept_settings.keep_past_rule_changes:
            return None
        if self._policy.has_functions:
            return "The rows are narrowed by functions."
        if view.rules.form.conditions and reads_others(view.rules.form, self._compiled(view)):
            return "A rule for the rows reads other rows."
        return _NARROWED if self._policy.secured else None

    def _compiled(self, view: View) -> Compiled:
        """The SQL of a view in its own order, under its rules."""
        key = (view.derived, view.rules.form)
        compiled = self._statements.get(key)
        if compiled is None:
            dialect = view.rules.dialect(view.source.engine.dialect)
            compiled = self._statements[key] = view.ordered().arranged.compile(dialect=dialect)
        return compiled
