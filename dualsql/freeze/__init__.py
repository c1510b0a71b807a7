"""A Select stored as a safe document. `thaw` returns the statement that was passed to `freeze`, or raises an error.

    registry = Registry(Base, functions=["my_pure_function"])
    document = freeze(select(User).where(User.name == "ada"), registry, dialect=engine.dialect)
    statement = thaw(document, registry)

Read in this order: codec (with the table of what a document can hold), fields, document. A document is stored only if
it gives the same SQL, parameters and columns: a plain one has the form of its statement, any other is compiled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any, NoReturn

from sqlalchemy import Column, CompoundSelect, Select, TextualSelect, util
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.default import StrCompileDialect
from sqlalchemy.exc import SQLAlchemyError

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
from dualsql.freeze.sqlalchemy_internals import has_column_expression
from dualsql.freeze.values import exact_forms

__all__ = ["UNCOMPILABLE", "Proofs", "Registry", "Seal", "freeze", "thaw"]

_SIMPLER = "Write it in a simpler way. Register custom types: Registry(..., types={'name': TheType})."

_log = logging.getLogger(__name__)
_PLAIN = StrCompileDialect()
# Anonymous names differ in their seed, which is a memory address.
_SEED = re.compile(r"%\(\S+ ")
_LARGEST_KEPT = 8 * 1024
"""Bytes of a document that is kept."""
UNCOMPILABLE = (
    SQLAlchemyError,
    RecursionError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
)
"""What SQLAlchemy raises for statements that a dialect cannot render."""


class Proofs(util.LRUCache[object, tuple[bytes, bytes]]):
    """Documents that were compared with their statements, by `form_of` these, for one dialect and one registry.

    Each with the digest of its JSON, which is empty where the form alone tells the document. Of a large document, an
    empty one is kept in its place.
    """

    # Several threads may use SQLAlchemy's LRUCache: statements of texts are frozen in worker threads.
    def __init__(self) -> None:
        super().__init__(500)
        self.last: tuple[bytes, Statement | None] = (b"", None)
        self._form: tuple[Statement | None, object] = (None, None)

    def known(self, statement: Statement) -> bytes | None:
        """The document of a plain statement; None if it has to be written."""
        form = form_of(statement)
        digest, document = self.get(form) or (None, b"")
        if digest == b"":
            return document
        self._form = statement, form
        return None

    def form_of(self, statement: Statement) -> object | None:
        """`form_of` a statement, which is made once if this is the last one that was not `known`."""
        (last, form), self._form = self._form, (None, None)
        return form if last is statement else form_of(statement)

    def note_renamed(self, statement: Statement, written: Statement) -> None:
        """The document of `written`, if it is `known`, is also that of a `statement` whose columns it has labelled."""
        entry = self.get(form_of(written))
        if entry is not None and entry[0] == b"" and (form := form_of(statement)) is not None:
            self[form] = entry

    def taken(self, document: bytes) -> Statement | None:
        """What was read back from this document to be compared, once, if it is the last one that was written."""
        (last, statement), self.last = self.last, (b"", None)
        return statement if last is document else None


def freeze(
    statement: Statement,
    registry: Registry,
    *,
    dialect: Dialect | None = None,
    proofs: Proofs | None = None,
) -> bytes:
    """Return the statement as a document, which `thaw` turns back into the same statement in any process.

    The document is read back, and both statements are compared: plain ones by `form_of`, all others compiled on
    `dialect`, the engine's own.

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
    form = form_of(statement) if proofs is None else proofs.form_of(statement)
    digest = sha256(plain).digest()
    known_digest, known = (None if form is None or proofs is None else proofs.get(form)) or (None, b"")
    if known_digest == digest:
        return known or deflate(plain)
    thawed, is_by_form = _compared(statement, plain, encoder, dialect, form)
    document = deflate(plain)
    if proofs is not None:
        proofs.last = document, thawed
        if form is not None:
            is_small = len(document) <= _LARGEST_KEPT
            proofs[form] = b"" if is_by_form and is_small else digest, document if is_small else b""
    return document


def _compared(
    statement: Statement, plain: bytes, encoder: Encoder, dialect: Dialect | None, form: object | None
) -> tuple[Statement, bool]:
    """The statement of the document, which is equal to the one that was written; whether its `form` tells that."""
    # The document is read back from its JSON and compared, so that an error in writing or reading is detected.
    decoder = Decoder(encoder.registry)
    try:
        body = parse(plain)
        is_by_form = form is not None and is_plain(body)  # now: reading takes fields out
        thawed = _read(body, decoder)
        if decoder.dependencies != encoder.dependencies:
            malformed("other tables and columns than were written")
        is_by_form = is_by_form and form == form_of(thawed) and _is_written_alone(thawed, dialect or _PLAIN)
    except Exception as error:  # noqa: BLE001 - as in `thaw`; here, a construct can be written but not read
        _log.debug("a document of ours could not be read back", exc_info=error)
        hint = getattr(error, "hint", None)
        what = f"a construct that does not survive storing ({error})" if hint is None else str(error)
        refuse(what[:200], hint or _SIMPLER, where=encoder.where(decoder.position))
    if is_by_form:
        internals.note(thawed, internals.PLAIN, is_by_form)
    else:
        prove_equal(statement, thawed, dialect)
    return thawed, is_by_form


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


def thaw(document: bytes, registry: Registry, proofs: Proofs | None = None) -> Statement:
    """Return the statement of a document.

    This function is safe with any bytes, but it cannot detect a changed document. Check its signature first (see
    `Seal`).

    Args:
        proofs: those that the document was written with, if it was in this process: it may have been read back.

    Raises:
        TamperedError: dualsql did not write the document, or it names something that the registry does not allow.
        NotFreezableError: it was written in another format, or for tables that have changed since.
    """
    if proofs is not None and (statement := proofs.taken(document)) is not None:
        return statement
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


#
# The check on writing.


def form_of(statement: Any) -> object | None:
    """What a statement has in common with others of one SQL text: SQLAlchemy's cache key, and what that does not tell.

    SQLAlchemy runs all statements of one key by the SQL of the first. The key does not tell execution options, the
    values, names and kinds of parameters, the types of labels and how their names are quoted. None if there is no key,
    or a value without an unambiguous form.
    """
    is_statement = isinstance(statement, Select | CompoundSelect | TextualSelect)
    key = internals.cache_key(statement) if is_statement else None
    if key is None or key.params:
        return None
    values = exact_forms(bound.effective_value for bound in key.bindparams)
    if values is None:
        return None
    outputs = internals.outputs_of(statement) if isinstance(statement, Select) else ()
    labels = [_output_form(each) for each in outputs if not isinstance(each, Column)]
    options = sorted(statement.get_execution_options())
    # The number of columns: a table may have more of them since the last time.
    return (key.key, values, len(outputs), *options, *map(_parameter_form, key.bindparams), *labels)


# Not sets: what a document has there may be a list, which has no hash.
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_PLAIN_TYPES = ("Integer", "String", "BigInteger", "Boolean", "Date", "DateTime", "Float", "Numeric")
_PLAIN_FUNCTIONS = ("count", "sum", "avg", "min", "max")
# With `form_of`, a cache key tells all that these nodes compile to, and every dialect compiles them.
_PLAIN_NODES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "table": lambda fields: True,
    "column": lambda fields: "of" in fields or fields.keys() == {"star"},
    "label": lambda fields: type(fields["name"]) is str,
    "bind": lambda fields: fields["name"][:1] == ["anon"] and _type_name(fields.get("type")) in _PLAIN_TYPES,
    "binary": lambda fields: fields["operator"] in _COMPARISONS,
    "boolean": lambda fields: True,
    "unary": lambda fields: "operator" not in fields,
    "function": lambda fields: (
        fields.keys() <= {"name", "arguments", "type"}
        and fields["name"] in _PLAIN_FUNCTIONS
        and _type_name(fields.get("type", "Integer")) in _PLAIN_TYPES
    ),
    "grouping": lambda fields: fields.keys() == {"element"},
    "list": lambda fields: fields.keys() == {"operator", "clauses"} and fields["operator"] == "comma_op",
    "select": lambda fields: "params" not in fields,
}


def _type_name(wire: Any) -> Any:
    return wire[0] if type(wire) is list else wire


def is_plain(body: dict[str, Any]) -> bool:
    """Whether `form_of` sees all that compiling the statement of this body would tell."""
    if body["text"] or body["clones"]:
        return False
    return all((allows := _PLAIN_NODES.get(tag)) and allows(fields) for tag, fields in body["nodes"])


def _is_written_alone(thawed: Any, dialect: Dialect) -> bool:
    """Whether SQLAlchemy finds the sources of a plain statement, and no type has code that writes a column's SQL.

    It does not for a join without a condition, for example. Such code, or code that chooses a type for the dialect, may
    fail: the statement is compiled then, so that it has one error whether its form is known or not.
    """
    try:
        internals.note_froms(thawed)
        kinds = [column.type.dialect_impl(dialect) for column in internals.outputs_of(thawed)]
    except Exception:  # noqa: BLE001 - of an application's code; compiling the statement raises it
        return False
    return not any(map(has_column_expression, kinds))


def _output_form(output: Any) -> tuple[Any, ...]:
    """What a compiled statement has of a column that belongs to no table."""
    name = getattr(output, "name", None)
    return type(name), getattr(name, "quote", None), _type_form(output.type)


def _parameter_form(bound: Any) -> tuple[Any, ...]:
    """What a compiled statement has of a parameter besides its value."""
    flags = bound.unique, bound.required, bound.expanding, bound.isoutparam, bound.callable, bound.expand_op
    return _anonymized(bound.key), _type_form(bound.type), *flags


def prove_equal(statement: Any, thawed: Any, dialect: Dialect | None) -> None:
    """Raise NotFreezableError unless both statements compile to the same on `dialect`."""
    dialect = dialect or _PLAIN
    ours = _compiled(statement, dialect)
    theirs = _compiled(thawed, dialect)
    if ours.string != theirs.string:
        _refuse("SQL", f"{dialect.name}: {_difference(ours.string, theirs.string)}")
    if not _same(ours.params, theirs.params):
        _refuse("parameters", f"parameters on {dialect.name}")
    for aspect, names in _NAMES.items():
        one, other = names(ours), names(theirs)
        if one != other and [*map(_anonymized, one)] != [*map(_anonymized, other)]:
            _refuse(aspect, f"{aspect} on {dialect.name}")
    for aspect, types in _TYPES.items():
        if not all(map(_alike, types(ours), types(theirs))):  # equally many, because their names are equal
            _refuse(aspect, f"{aspect} on {dialect.name}")
    internals.note_froms(thawed, theirs)


def _compiled(statement: Any, dialect: Dialect) -> Any:
    try:
        return statement.compile(dialect=dialect)
    except UNCOMPILABLE as error:
        raise NotFreezableError(
            f"The statement cannot be stored: {dialect.name} cannot compile it ({type(error).__name__}).",
            hint="Run the statement on the database, and correct it until it works there.",
            details={"construct": "statement", "where": f"SQL of {dialect.name}"},
        ) from error


# Attributes of a compiled statement that execution uses besides the SQL, the values and their types.
_NAMES: dict[str, Callable[[Any], list[Any]]] = {
    "order of parameters": lambda compiled: compiled.positiontup or [],
    "columns": lambda compiled: [
        name for entry in internals.result_columns_of(compiled) for name in (entry.keyname, entry.name)
    ],
    "names of parameters": lambda compiled: list(compiled.bind_names.values()),
    "literal parameters": lambda compiled: _names(compiled, compiled.literal_execute_params),
    "expanding parameters": lambda compiled: _names(compiled, compiled.post_compile_params),
}

_TYPES: dict[str, Callable[[Any], list[Any]]] = {
    "types of columns": lambda compiled: [entry.type for entry in internals.result_columns_of(compiled)],
    "types of parameters": lambda compiled: [bind.type for bind in compiled.bind_names],
}


def _names(compiled: Any, binds: Iterable[Any]) -> list[str]:
    return sorted(compiled.bind_names[bind] for bind in binds)


def _refuse(aspect: str, where: str) -> NoReturn:
    refuse(f"{aspect} that would change", "Write it in a simpler way, or report the statement.", where=where)


def _difference(ours: str, theirs: str) -> str:
    """The words of the SQL around the first character that differs."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    start = next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    return " ".join(ours[max(0, start - 30) : start + 30].split())


def _anonymized(name: Any) -> Any:
    return _SEED.sub("%(", name) if isinstance(name, str) and "%(" in name else name


def _alike(one: Any, other: Any) -> bool:
    """Whether SQLAlchemy treats two types as the same."""
    if one is other:
        return True
    return _type_form(one) == _type_form(other)


def _type_form(type_: Any) -> tuple[type, str]:
    key = internals.type_key(type_)
    if isinstance(key, tuple):
        return type(type_), repr(key) if len(key) > 1 else ""  # a key of one item is the class itself
    return type(type_), repr(type_)


def _same(one: Any, other: Any) -> bool:
    """Whether two values and their types are equal: 1 is not True, and NaN equals NaN."""
    return (one == other and list(_leaves(one)) == list(_leaves(other))) or repr(one) == repr(other)


def _leaves(value: Any) -> Iterator[type]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield type(value)
