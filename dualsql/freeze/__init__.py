"""A Select stored as a safe document. `thaw` returns the statement that was passed to `freeze`, or raises an error.

    registry = Registry(Base, functions=["my_pure_function"])
    document = freeze(select(User).where(User.name == "ada"), registry, dialect=engine.dialect)
    statement = thaw(document, registry)

Read in this order: kinds (the table of what a document can hold), fields, codec, verify, document.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from sqlalchemy import CompoundSelect, Select, TextualSelect
from sqlalchemy.engine import Dialect

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import DualResponseError, NotFreezableError
from dualsql.freeze.codec import Decoder, Encoder
from dualsql.freeze.document import (
    Seal,
    Statement,
    deflate,
    dump,
    expect,
    malformed,
    parse,
    refuse,
    refuse_changed,
    tampered,
    unpack,
)
from dualsql.freeze.registry import Registry
from dualsql.freeze.verify import Proofs, proof_key, prove_equal

__all__ = ["Proofs", "Registry", "Seal", "freeze", "thaw"]

_SIMPLER = "Write it in a simpler way. Register custom types: Registry(..., types={'name': TheType})."

_log = logging.getLogger(__name__)


def freeze(
    statement: Statement,
    registry: Registry,
    *,
    dialect: Dialect | None = None,
    proofs: Proofs | None = None,
) -> bytes:
    """Return the statement as a document, which `thaw` turns back into the same statement in any process.

    The document is read back and both statements are compiled on `dialect` (the engine's own) and compared.

    Args:
        proofs: remembers the comparisons for this registry and dialect; None to compare each time.

    Raises:
        NotFreezableError: it holds something that the registry does not allow or that no document can hold.
        LimitExceededError: it is larger than the registry's `maximum_size`.
    """
    parts = (statement, *internals.earlier_selects(statement))
    if any(map(internals.statement_options, parts)):  # SQLAlchemy ignores those of a subquery
        # Most loader options shape objects and do not change the SQL. The comparison below finds those that do.
        with suppress(NotFreezableError):
            return _prove(statement, Encoder(registry, leaves_options_out=True), dialect, proofs)
    return _prove(statement, Encoder(registry), dialect, proofs)


def _prove(statement: Statement, encoder: Encoder, dialect: Dialect | None, proofs: Proofs | None) -> bytes:
    plain = _dump(statement, encoder)
    key = None if proofs is None else proof_key(statement, plain)
    if proofs is None or key is None:
        _compare(statement, plain, encoder, dialect)
    elif proofs.get(key) is None:
        _compare(statement, plain, encoder, dialect)
        proofs[key] = True
    return deflate(plain)


def _compare(statement: Statement, plain: bytes, encoder: Encoder, dialect: Dialect | None) -> None:
    # The document is read back from its JSON and compared, so that an error in writing or reading is detected.
    decoder = Decoder(encoder.registry)
    try:
        thawed = _read(parse(plain), decoder)
        if decoder.dependencies != encoder.dependencies:
            malformed("other tables and columns than were written")
    except Exception as error:  # noqa: BLE001 - as in `thaw`; here, a construct can be written but not read
        _log.debug("a document of ours could not be read back", exc_info=error)
        hint = getattr(error, "hint", None)
        what = f"a construct that does not survive storing ({error})" if hint is None else str(error)
        refuse(what[:200], hint or _SIMPLER, where=encoder.where(decoder.position))
    prove_equal(statement, thawed, dialect)


def _dump(statement: Statement, encoder: Encoder) -> bytes:
    """The document before compression."""
    if not isinstance(statement, Select | CompoundSelect | TextualSelect):
        refuse(
            f"a {type(statement).__qualname__}",
            "Pass a select(), a union of selects, or text().columns().",
            where="statement",
        )
    body = {
        "nodes": encoder.encode(statement),
        "clones": encoder.clones(),
        "print": encoder.registry.fingerprint(encoder.dependencies),
        "text": encoder.uses_text,
    }
    return dump(body, encoder.registry.maximum_size)


def thaw(document: bytes, registry: Registry) -> Statement:
    """Return the statement of a document.

    This function is safe with any bytes, but it cannot detect a changed document. Check its signature first (see
    `Seal`).

    Raises:
        TamperedError: dualsql did not write the document, or it names something that the registry does not allow.
        NotFreezableError: it was written in another format, or for tables that have changed since.
    """
    # A forged document can raise any exception in any step. The caller gets TamperedError for all of them.
    try:
        decoder = Decoder(registry)
        body = unpack(document, registry.maximum_size)
        statement = _read(body, decoder)
        # A column that was renamed or got another type would return other values under the old name.
        if body["print"] != registry.fingerprint(decoder.dependencies):
            refuse_changed()
    except DualResponseError:
        raise
    except Exception as error:
        _log.warning("a stored document was refused: %s", type(error).__name__)
        raise tampered() from error
    return statement


def _read(body: dict[str, Any], decoder: Decoder) -> Statement:
    """The statement of a body. The caller checks the fingerprint."""
    statement = decoder.decode(expect(body["nodes"], list), body["clones"])
    if not isinstance(statement, Select | CompoundSelect | TextualSelect):
        malformed("a document that is not a statement")
    # The flag decides on which databases the statement may run, so a forged document must not be able to omit it.
    if decoder.uses_text is not body["text"]:
        malformed("mark of a text")
    return statement
