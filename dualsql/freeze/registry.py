"""What documents may name, and which types may read values of any origin (trusted types).

Reading a PickleType unpickles. A document that applied such a type to another column's content, by a cast, a coalesce
or a UNION, would run that content. Therefore an expression with a type that is not trusted has to be its column, or
consist only of expressions with the same type. Databases find columns by name, so no other source and no other output
may have that column's name (see `shadowing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from hashlib import sha256
from itertools import repeat
from typing import Any, NamedTuple

from sqlalchemy import Dialect, Enum as SQLEnum, MetaData, Table, inspect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Bundle, Mapper, RelationshipProperty, registry as orm_registry
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql import coercions, elements, roles, selectable
from sqlalchemy.sql.base import SyntaxExtension
from sqlalchemy.sql.elements import ClauseElement, WrapsColumnExpression
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import FromClause, TableClause
from sqlalchemy.sql.sqltypes import TypeDecorator
from sqlalchemy.sql.type_api import TypeEngine
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import ConfigurationError, refuse_mistaken
from dualsql.freeze import sqlalchemy_internals as private, types
from dualsql.freeze.document import malformed
from dualsql.freeze.types import FUNCTIONS, OP_STRINGS
from dualsql.freeze.values import Values

ONE_MEBIBYTE = 1024 * 1024

# These objects are never garbage collected, so their ids stay unique.
_TRUSTED = {id(plain): True for plain in types.PLAIN.values() if types.is_safe(plain)}


class MappedSource(NamedTuple):
    """A source in FROM that belongs to a mapping and is no table.

    Attributes:
        role: `whole`, `local` or `polymorphic`: what the mapper calls it; or `target`, `target source`: the alias that
            a relationship leads to, and what the alias reads.
        key: the relationship.
        size: how many elements it consists of.
    """

    mapper: Mapper[Any]
    role: str
    key: str | None
    element: Any
    tables: Sequence[Table]
    size: int


class Registry:
    """The tables, mapped classes, functions, operators and types that a stored statement may name.

    Args:
        tables: a declarative base (a DeclarativeBase subclass, or SQLModel), a MetaData, a mapped class, a Table,
            or a sequence of these. A MetaData includes the classes that are mapped to its tables. Tables and
            classes defined later are not registered.
        functions: names allowed besides `types.FUNCTIONS`; "package.name" for `func.package.name`. Allow
            only functions without side effects. For a class of functions of your own, pass the class;
            documents use its class name.
        types: TypeDecorators and other own types, by the name that documents use for them. They may
            read the values of every column.
        elements: classes of your own, made of ColumnElement or SyntaxExtension with a function under
            `@compiles`; documents use their class names. They may hold expressions, whole numbers and
            flags. The function may get any expression, so it has to write its own parentheses, and to
            render only the results of `compiler.process`.
        operators: texts allowed in `.op(...)` besides `types.OP_STRINGS`.
        converters: class of values without a JSON form, such as those of a TypeDecorator -> function that
            returns plain text, numbers, lists and dictionaries for a value.
        comparable: own types whose stored values compare and sort as the shown values do, such as an
            instant that is stored as a number.
        allow_text: accept text(), literal_column() and TextualSelect. They are rendered as written and
            can read every table of the database.
        maximum_size: bytes of a document before compression.
    """

    def __init__(
        self,
        tables: Any,
        *,
        functions: Iterable[str | type[FunctionElement[Any]]] = (),
        types: Mapping[str, type[TypeEngine[Any]] | TypeEngine[Any]] | None = None,
        elements: Iterable[type[ClauseElement]] = (),
        operators: Iterable[str] = (),
        converters: Mapping[type[Any], Callable[[Any], Any]] | None = None,
        comparable: Iterable[type[TypeEngine[Any]]] = (),
        allow_text: bool = False,
        maximum_size: int = ONE_MEBIBYTE,
    ) -> None:
        self.allow_text = allow_text
        self.maximum_size = maximum_size
        functions = list(functions)
        self.functions = FUNCTIONS | {name.lower() for name in functions if isinstance(name, str)}
        self.function_classes = {cls.__name__: cls for cls in functions if isinstance(cls, type)}
        self.element_classes = {cls.__name__: _checked_element(cls) for cls in elements}
        self.operators = OP_STRINGS | set(operators)
        self.converters = dict(converters or {})
        self.comparable = tuple(comparable)
        self.types = {
            name: item() if isinstance(item, type) else item for name, item in (types or {}).items()
        }
        self.tables: dict[str, FromClause] = {}
        self.mappers: dict[str, Mapper[Any]] = {}
        self._names: dict[int, str] = {}  # id of a table or mapper -> its name
        self._column_names: dict[int, tuple[str, str]] = {}  # id of a column -> its table's name and its key
        # An id in _column_names is unique only while its column lives.
        self._alive: list[Any] = []
        self.type_owners: dict[int, Any] = {}  # id of a type -> the first column that has it
        self._type_wires: dict[int, Any] = {}
        self._trusted = dict(_TRUSTED)  # id of a type -> whether it is trusted
        self._prints: dict[tuple[str, str], str] = {}
        for source in _flattened(tables):
            self._add(source)
        self._name_mappers()
        self.values = Values(self._enums())

    def __repr__(self) -> str:
        return f"Registry({len(self.tables)} tables, {len(self.mappers)} mapped classes)"

    def name_of(self, item: Any) -> str | None:
        """The registered name of a table or mapper."""
        return self._names.get(id(item))

    @cached_property
    def mapped_sources(self) -> Mapping[int, MappedSource]:
        """id of a subquery, or of an alias of a class, that a mapping reads -> its role in the mapping.

        A document refers to it: a copy would be another source to the ORM, which would read both. A source with an
        unregistered table is not among them.
        """
        sources: dict[int, MappedSource] = {}
        for mapper in self.mappers.values():
            for source in _sources_of(mapper):
                if all(id(table) in self._names for table in source.tables):
                    sources.setdefault(id(source.element), source)
        return sources

    def how_to_register(self, what: str) -> str:
        """A hint for a table or a class that is not registered."""
        names = ", ".join(sorted(self.tables)[:10]) or "none"
        return (
            f"Pass it, too: tables=[Base, {what}]. Registered tables: {names}{', ...' * (len(self.tables) > 10)}. "
            "What is defined after the server was made is not registered: import its module before."
        )

    def columns_in(self, tables: Iterable[Any]) -> Iterator[tuple[str, str]]:
        """(table name, column key) of each column of the registered tables among these."""
        for table in tables:
            name = self.name_of(table)
            if name is not None:
                yield from zip(repeat(name), map(str, table.c.keys()), strict=False)

    def name_of_column(self, column: Any) -> tuple[str, str] | None:
        """(table name, key in `table.c`) of a registered table's column."""
        return self._column_names.get(id(column))

    def name_of_type(self, type_: TypeEngine[Any]) -> str | None:
        """The registered name of an own type: the same object, or an equal one of the same class."""
        for name, own in self.types.items():
            if own is type_ or (type(own) is type(type_) and _same(own, type_)):
                return name
        return None

    def wire_of_type(self, type_: TypeEngine[Any]) -> Any:
        """The type by name as JSON; UnnameableError if it has no name."""
        wire = self._type_wires.get(id(type_))
        if wire is None:
            try:
                wire = types.write_type(type_)
            except types.UnnameableError:
                name = self.name_of_type(type_)
                if name is None:
                    raise
                wire = ["own", name]
            if id(type_) in self.type_owners:  # the registry keeps it alive, so its id is unique
                self._type_wires[id(type_)] = wire
        return wire

    def is_trusted(self, type_: TypeEngine[Any]) -> bool:
        """Whether `type_` may read values of any origin."""
        trusted = self._trusted.get(id(type_))
        if trusted is None:
            trusted = types.is_safe(type_) or self.name_of_type(type_) is not None
            if id(type_) in self.type_owners:  # as in `wire_of_type`
                self._trusted[id(type_)] = trusted
        return trusted

    def writes_alike(self, dialect: Dialect, kinds: Iterable[TypeEngine[Any]]) -> bool:
        """Whether code of SQLAlchemy alone writes statements whose columns have these types, wherever they stand."""
        is_sqlalchemys = dialect.statement_compiler.__module__.startswith("sqlalchemy.")
        has_own = self.element_classes or self.function_classes
        return is_sqlalchemys and not has_own and all(map(types.is_safe, kinds))

    @cached_property
    def tables_with_own_types(self) -> frozenset[str]:
        """Names of the tables with a column whose type is not trusted."""
        return frozenset(
            name
            for name, table in self.tables.items()
            if not all(self.is_trusted(column.type) for column in table.c)
        )

    def fingerprint(self, columns: Iterable[tuple[str, str]]) -> str:
        """A digest of the current declarations of these (table name, column key) pairs."""
        lines = sorted([self._prints.get(column) or self._print(*column) for column in columns])
        return sha256("\n".join(lines).encode()).hexdigest()[:24]

    def _print(self, table: str, key: str) -> str:
        column: Any = self.tables[table].c[key]
        owner = getattr(self.tables[table], "fullname", table)
        # A description of the type that is the same in every process.
        try:
            kind = str(types.write_type(column.type))
        except types.UnnameableError:
            kind = f"{type(column.type).__module__}.{type(column.type).__qualname__}"
        text = self._prints[table, key] = f"{owner}.{key}={column.name}:{kind}"
        return text

    def _add(self, source: Any) -> None:
        if isinstance(source, MetaData):
            for table in source.tables.values():
                self._add_table(table)
            self._add_classes_of(source)
        elif isinstance(source, TableClause):
            self._add_table(source)
        elif _is_mapped(source):
            self._add_mapper(inspect(source))
        elif isinstance(mappings := private.registry_of(source), orm_registry):
            self._add(source.metadata)
            # Relationships that name their class by a text are resolved now, and not in the middle of a request.
            mappings.configure(cascade=True)
            for mapper in mappings.mappers:
                self._add_mapper(mapper)
        else:
            refuse_mistaken("tables", source)
            raise ConfigurationError(
                f"tables cannot be {source!r}."[:200],
                hint="Pass a declarative base, a MetaData, mapped classes or Tables.",
            )

    def _add_classes_of(self, metadata: MetaData) -> None:
        """Add the classes whose tables all belong to `metadata`. Tables of another MetaData stay unregistered."""
        own = set(metadata.tables.values())

        def is_inside(mapper: Mapper[Any]) -> bool:
            tables = [table for relative in mapper.self_and_descendants for table in relative.tables]
            return bool(tables) and set(tables) <= own

        for registry in private.all_registries():
            if registry.metadata is metadata or any(map(is_inside, private.mapped_in(registry))):
                registry.configure(cascade=True)
                for mapper in filter(is_inside, private.mapped_in(registry)):
                    self._add_mapper(mapper)

    def _add_table(self, table: Any) -> None:
        if id(table) in self._names:
            return
        base = getattr(table, "key", None) or table.name
        name, count = base, 1
        while name in self.tables:
            count += 1
            name = f"{base}#{count}"
        self.tables[name] = table
        self._names[id(table)] = name
        for key, column in table.c.items():
            self.type_owners.setdefault(id(column.type), column)
            self._column_names[id(column)] = name, str(key)
            self._alive.append(column)

    def _add_mapper(self, mapper: Mapper[Any]) -> None:
        if id(mapper) in self._names:
            return
        self._names[id(mapper)] = f"{mapper.class_.__module__}.{mapper.class_.__qualname__}"
        self.mappers[self._names[id(mapper)]] = mapper
        for table in mapper.tables:
            self._add_table(table)
        for relative in mapper.self_and_descendants:
            self._add_mapper(relative)

    def _name_mappers(self) -> None:
        """Name each mapper by its class, and add the module if the class name is not unique."""
        mappers = list(self.mappers.values())
        short = [mapper.class_.__name__ for mapper in mappers]
        for mapper, name in zip(mappers, short, strict=True):
            if short.count(name) == 1:
                del self.mappers[self._names[id(mapper)]]
                self._names[id(mapper)] = name
                self.mappers[name] = mapper

    def _enums(self) -> dict[str, type[Enum]]:
        columns = (column for table in self.tables.values() for column in table.c)
        classes = {cls for column in columns for cls in _enums_of(column.type)}
        return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in classes}


def _enums_of(type_: Any) -> Iterator[type[Enum]]:
    """The Enum classes of a type, of the items of an array, and of what a TypeDecorator stores."""
    while isinstance(type_, TypeDecorator):
        type_ = type_.impl_instance
    if isinstance(type_, SQLEnum) and type_.enum_class is not None:
        yield type_.enum_class
    items = getattr(type_, "item_type", None)
    if items is not None:
        yield from _enums_of(items)


def mapped_element(mapper: Mapper[Any], role: str, key: str | None) -> Any:
    """What `MappedSource.element` is, or None if the mapping has nothing there."""
    if key is None:
        return _OF_MAPPERS[role](mapper) if role in _OF_MAPPERS else None
    property_ = mapper.attrs.get(key)
    if not isinstance(property_, RelationshipProperty) or not property_.entity.is_aliased_class:
        return None
    return {"target": property_.entity, "target source": property_.entity.selectable}.get(role)


_OF_MAPPERS: Mapping[str, Callable[[Mapper[Any]], Any]] = {
    "whole": lambda mapper: mapper.persist_selectable,
    "local": lambda mapper: mapper.local_table,
    "polymorphic": lambda mapper: mapper.selectable,
}


def _sources_of(mapper: Mapper[Any]) -> Iterator[MappedSource]:
    roles: list[tuple[str, str | None]] = [(role, None) for role in _OF_MAPPERS]
    roles += [(role, each.key) for each in mapper.relationships for role in ("target", "target source")]
    for role, key in roles:
        element = mapped_element(mapper, role, key)
        # The ORM does not distinguish the tables and joins of a mapping from others.
        if element is None or isinstance(element, Table | selectable.Join):
            continue
        parts = list(iterate(element.selectable if isinstance(element, AliasedInsp) else element))
        tables = [internals.unannotated(part) for part in parts if isinstance(part, Table)]
        yield MappedSource(mapper, role, key, element, tables, len(parts))


_BUILT_ON = frozenset((*WrapsColumnExpression.__mro__, *SyntaxExtension.__mro__))


def _checked_element(cls: type[ClauseElement]) -> type[ClauseElement]:
    """`cls`, unless it is a Select, a bound parameter or an operator, for which other rules exist."""
    bases = {base for base in cls.__mro__ if base.__module__.startswith("sqlalchemy.")}
    if bases <= _BUILT_ON:
        return cls
    raise ConfigurationError(
        f"{cls.__qualname__} cannot be registered as an element."[:200],
        hint="Derive it from ColumnElement, or from SyntaxExtension and ClauseElement.",
    )


def _flattened(tables: Any) -> Iterator[Any]:
    if isinstance(tables, Sequence | set | frozenset) and not isinstance(tables, str):
        for item in tables:
            yield from _flattened(item)
    else:
        yield tables


def _is_mapped(source: Any) -> bool:
    try:
        return isinstance(inspect(source), Mapper)
    except NoInspectionAvailable:
        return False


def _same(one: TypeEngine[Any], other: TypeEngine[Any]) -> bool:
    """Whether two types of one class were made with the same arguments."""
    # Some types omit an argument in their repr, others in their cache key.
    return repr(one) == repr(other) and internals.type_key(one) == internals.type_key(other)


# Functions that return one of their arguments unchanged, or the same instant in one spelling. Others, even lower(),
# change its bytes.
_UNCHANGING = frozenset(
    "any_value coalesce dualsql_instant first_value ifnull lag last_value lead max min".split()
)


def check(statement: Any, registry: Registry) -> None:
    """Raise MalformedError if the statement applies an untrusted type to anything but its column."""
    if isinstance(statement, selectable.CompoundSelect):
        _check_compound(statement, registry)
    elif isinstance(statement, selectable.TextualSelect):
        for column in statement.column_args:
            if not registry.is_trusted(column.type):
                malformed("own type of a column on text")
    else:
        for column in internals.raw_columns(statement):
            check_column(column, registry)


def check_column(column: Any, registry: Registry) -> None:
    """Raise MalformedError if an expression passes other content through an untrusted type."""
    # A stack and no recursion: the document decides how deep it is.
    waiting = [column]
    while waiting:
        element = waiting.pop()
        waiting += listed(element)
        kind = getattr(element, "type", None)
        if kind is None or registry.is_trusted(kind):
            continue
        operands = _operands(element)
        if operands is None or any(operand.type is not kind for operand in operands):
            malformed("own type of a column on something else")
        waiting += operands


def listed(element: Any) -> list[Any]:
    """The expressions of a Bundle, which the ORM selects separately."""
    if isinstance(element, elements.ClauseList):
        return list(element.clauses)
    if isinstance(element, Bundle):
        expressions: Any = element.exprs
        return [coercions.expect(roles.ColumnsClauseRole, expression) for expression in expressions]
    return []


def _operands(element: Any) -> list[Any] | None:
    """The expressions whose values this one may return unchanged; None if it computes new values."""
    if isinstance(element, elements.ColumnClause):
        return [] if element.table is not None else None
    if isinstance(element, elements.BindParameter):
        return [] if _is_written_by_its_type(element) else None
    if isinstance(element, elements.Label | elements.Grouping | elements.Over):
        return [element.element]
    if isinstance(element, selectable.ScalarSelect):
        columns: Any = internals.all_selected_columns(element.element)
        # A scalar subquery gives the value of its only column.
        return list(columns)[:1]
    if isinstance(element, FunctionElement):
        return list(element.clauses) or None if element.name in _UNCHANGING else None
    if isinstance(element, elements.Case):
        results = [result for _, result in element.whens]
        return results if isinstance(element.else_, elements.Null | None) else [*results, element.else_]
    return None


def _is_written_by_its_type(bind: Any) -> bool:
    """Whether the type wrote the value that it reads. A type that only reads would receive raw bytes."""
    cls: Any = type(bind.type)
    writes = (
        cls.process_bind_param is not TypeDecorator.process_bind_param
        or cls.bind_processor is not TypeDecorator.bind_processor
        if issubclass(cls, TypeDecorator)
        else cls.bind_processor is not TypeEngine.bind_processor
    )
    return writes and not bind.literal_execute


def _check_compound(statement: Any, registry: Registry) -> None:
    rows = [list(internals.all_selected_columns(select)) for select in statement.selects]
    for position, first in enumerate(rows[0]):
        for row in rows[1:]:
            if position >= len(row) or not _agree(first.type, row[position].type, registry):
                malformed(
                    "a union of a column that has a type of its own with another type",
                    "Select columns of that type in each part of the union, or cast() both to a standard type.",
                )


def _agree(one: Any, other: Any, registry: Registry) -> bool:
    """Whether values of both types may be read by the code of either."""
    if one is other or (registry.is_trusted(one) and registry.is_trusted(other)):
        return True
    # An application's type has a key only with `cache_ok = True`. To SQLAlchemy, types with equal keys are one type.
    key = internals.type_key(one)
    return isinstance(key, tuple) and key == internals.type_key(other)
