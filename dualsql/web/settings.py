"""The settings of pages."""

from __future__ import annotations

from dataclasses import dataclass

from dualsql.settings import SettingsGroup, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings(SettingsGroup):
    """The arguments of `Pages`."""

    pages_in_text: bool = setting(
        False,
        "The text of a result ends in the URLs of its page and of a CSV file with all rows. A person can open them, if "
        "they may read the result. `dualsql serve` has it on.",
    )
    pages_show_sql: bool = setting(
        False,
        "Pages show the SQL of a result, without its values, to those who may read it. It names tables and columns. "
        "`dualsql serve` has it on.",
    )
    pages_show_values: bool = setting(
        False,
        "The SQL on pages has its values, so that a person can run it elsewhere. `dualsql serve` has it on.",
    )
