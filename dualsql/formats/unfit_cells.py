"""Records with cells that do not fit their column. Loaded with the first such cell."""

from __future__ import annotations

import math
from collections.abc import Collection

from dualsql.columns.exact import Unfit, WordedItems
from dualsql.errors import ValueNotRepresentableError
from dualsql_client.wire import UNFIT_KEY, Row


def with_unfit_columns(records: list[Row], computed: Collection[str]) -> list[Row]:
    """The records with the texts of cells that do not fit, and the names of their columns under UNFIT_KEY.

    Args:
        computed: names of the columns whose cells are shown as the database returned them, if JSON has such values.

    Raises:
        ValueNotRepresentableError: a column is called UNFIT_KEY.
    """
    for record in records:
        unfit = {name: value for name, value in record.items() if type(value) is Unfit}
        if unfit and UNFIT_KEY in record:
            raise ValueNotRepresentableError(
                f"The rows cannot be written: a column has the reserved name {UNFIT_KEY!r}.",
                hint="Rename the column, or use CSV.",
                details={"column": UNFIT_KEY},
            )
        for name, cell in unfit.items():
            value = cell.value
            if isinstance(value, WordedItems):
                record[name] = value.items
            else:
                is_plain = name in computed and type(value) in (str, int, float, bool)
                is_plain = is_plain and (type(value) is not float or math.isfinite(value))
                record[name] = value if is_plain else cell.text
        if unfit:
            record[UNFIT_KEY] = list(unfit)
    return records
