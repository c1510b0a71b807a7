"""A stream as a table in memory; the rule: the types are those that the server declared, whatever the values are."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any

from dualsql_client.errors import FetchError
from dualsql_client.extras import needed
from dualsql_client.framing import Block

if TYPE_CHECKING:
    import pyarrow as pa


async def read_table(blocks: AsyncIterable[Block]) -> pa.Table:
    """The messages of an Arrow stream as one table; their bytes are its memory.

    Raises:
        FetchError: they are none.
        MissingExtraError: pyarrow is not installed.
    """
    pyarrow = needed("pyarrow", "arrow")
    schema, batches = None, []
    async for block in blocks:
        try:
            if schema is None:
                schema = _schema(block)
            elif block.rows:
                batches.append(_batch(block, schema))
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise FetchError("The stream is no Arrow IPC stream.", status=200) from error
    if schema is None:
        raise FetchError("The stream has no schema.", status=200)
    return pyarrow.Table.from_batches(batches, schema)


def _schema(block: Block) -> Any:
    from pyarrow import ipc, py_buffer

    schema = ipc.read_schema(py_buffer(block.data))
    list(schema.names)  # a name that is no text is found now, and not by whoever asks for it
    return schema


def _batch(block: Block, schema: Any) -> Any:
    from pyarrow import ipc, py_buffer

    batch = ipc.read_record_batch(py_buffer(block.data), schema)
    # Arrow follows a batch's offsets wherever they lead; those of a stranger are looked at first.
    batch.validate(full=True)
    if batch.num_rows != block.rows:
        raise ValueError("another number of rows")
    return batch
