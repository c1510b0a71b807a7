"""A Select stored as a safe document. `thaw` returns the statement that was passed to `freeze`, or raises an error.

    registry = Registry(Base, functions=["my_pure_function"])
    document = freeze(select(User).where(User.name == "ada"), registry, dialect=engine.dialect)
    statement = thaw(document, registry)

Read in this order: kinds (the table of what a document can hold), fields, codec, verify, document.
"""

from __future__ import annotations

import logging
import zlib
from contextlib import suppress
from typing import Any

from sqlalchemy import CompoundSelect, Select, TextualSelect
from sqlalchemy.engine import Dialect

from dualsql.errors import DualResponseError, NotFreezableError
from dualsql.freeze.codec import Decoder, Encoder
from dualsql.freeze.document import (
    MalformedError,
    Seal,
    Statement,
    deflate,
    dump,
    expect,
    malformed,
    parse,
    refuse,
    tampered,
    unpack,
)
from dualsql.freeze.kinds_options import has_options
from dualsql.freeze.registry import Registry
from dualsql.freeze.verify import Proofs, prove_equal

__all__ = ["Proofs", "Registry", "Seal", "freeze", "is_bound_to_dialect", "thaw"]

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
    if has_options(statement):
        # Most loader options shape objects and do not change the SQL. The comparison below finds those that do.
        with suppress(NotFreezableError):
            return _prove(statement, Encoder(registry, leaves_options_out=True), dialect, proofs)
    return _prove(statement, Encoder(registry), dialect, proofs)


def _prove(statement: Statement, encoder: Encoder, dialect: Dialect | None, proofs: Proofs | None) -> bytes:
    plain = _dump(statement, encoder)
    key = None if proofs is None else proofs.key(statement, plain)
    if proofs is None or not proofs.has(key):
        _compare(statement, plain, encoder, dialect)
    if proofs is not None:
        proofs.add(key)
    return deflate(plain)


def _compare(statement: Statement, plain: bytes, encoder: Encoder, dialect: Dialect | None) -> None:
    # The document is read back from its JSON and compared, so that an error in writing or reading is detected.
    decoder = Decoder(encoder.registry)
    try:
        thawed = _read(parse(plain), decoder)
        if decoder.named != encoder.named:
            malformed("other tables and columns than were written")
    except Exception as error:  # noqa: BLE001 - as in `thaw`; here, a construct can be written but not read
        _log.debug("a document of ours could not be read back", exc_info=error)
        hint = getattr(error, "hint", None)
        what = f"a construct that does not survive storing ({error})" if hint is None else str(error)
        refuse(what[:200], hint or _SIMPLER, where=encoder.where(decoder.position))
    prove_equal(statement, thawed, dialect)


def encode(statement: Statement, registry: Registry) -> bytes:
    """`freeze` without reading the document back; for measurements."""
    return deflate(_dump(statement, Encoder(registry)))


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
        "print": encoder.registry.fingerprint(encoder.named),
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
        decoder.check_fingerprint(body["print"])
    except DualResponseError:
        raise
    except Exception as error:
        _log.warning("a stored document was refused: %s", type(error).__name__)
        raise tampered() from error
    return statement


def is_bound_to_dialect(document: bytes, registry: Registry) -> bool:
    """Whether the document contains text that is rendered as written. It may then run on its own kind of database only.

    Raises:
        TamperedError: dualsql did not write the document.
    """
    try:
        return unpack(document, registry.maximum_size)["text"] is True
    except (MalformedError, KeyError, ValueError, zlib.error) as error:
        raise tampered() from error


def _read(body: dict[str, Any], decoder: Decoder) -> Statement:
    """The statement of a body. The caller checks the fingerprint."""
    statement = decoder.decode(expect(body["nodes"], list), body["clones"])
    if not isinstance(statement, Select | CompoundSelect | TextualSelect):
        malformed("a document that is not a statement")
    # The flag decides on which databases the statement may run, so a forged document must not be able to omit it.
    if decoder.uses_text is not body["text"]:
        malformed("mark of a text")
    return statement
