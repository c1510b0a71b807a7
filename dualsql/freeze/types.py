"""SQL types in documents, and the functions and operators that a document may name.

A type that runs an application's code on values (PickleType, a TypeDecorator) is never built from a document. The
document refers to it by its registered name, or as "the type of that node". `registry.check_column` then allows it for
its column only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from inspect import getattr_static
from types import MappingProxyType
from typing import Any

from sqlalchemy import types as sqltypes
from sqlalchemy.sql import operators
from sqlalchemy.sql.operators import custom_op
from sqlalchemy.sql.type_api import NULLTYPE, TypeEngine
from sqlalchemy.util.langhelpers import get_cls_kwargs

from dualsql import sqlalchemy_dialects as dialects, sqlalchemy_internals as internals
from dualsql.freeze.document import expect, malformed
from dualsql.freeze.values import is_collation

UNITS = ("microsecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""Of time: each has a function of dualsql's own that moves a date by it, and one that counts it between two dates."""

# Functions without side effects: the result depends on the arguments, the row and the clock only. None of them reads a
# file, a catalogue, another table or the network, waits, locks, changes a setting, or runs SQL from a string.
AGGREGATES = frozenset(
    """any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or count every group_concat json_agg
    json_arrayagg json_group_array json_group_object json_object_agg json_objectagg jsonb_agg jsonb_group_array
    jsonb_group_object jsonb_object_agg listagg max median min mode percentile_cont percentile_disc range_agg
    range_intersect_agg regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy corr covar_pop covar_samp std stddev stddev_pop stddev_samp stdev stdevp string_agg sum total
    var_pop var_samp variance varp aggregate_strings approx_count_distinct count_big grouping grouping_id
    cube rollup grouping_sets any all some distinct arg_max arg_min count_if first last list max_by min_by
    quantile_cont quantile_disc
    """.split()
)
"""Functions that give one row of many, on some database."""

_WINDOWS = frozenset(
    """cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number
    """.split()
)

SET_FUNCTIONS = frozenset(
    """generate_series generate_subscripts json_array_elements json_array_elements_text json_each json_each_text
    json_object_keys json_to_record json_to_recordset json_tree jsonb_array_elements jsonb_array_elements_text
    jsonb_each jsonb_each_text jsonb_object_keys jsonb_path_query jsonb_to_record jsonb_to_recordset jsonb_tree openjson
    regexp_matches regexp_split_to_table string_to_table unnest
    """.split()
)
"""Functions that give several rows of one, on some database."""

_PARTS = frozenset("array bernoulli cast collate row system values".split())
"""Parts of statements that are written as functions."""

ROW_FUNCTIONS = frozenset(
    # DuckDB's, and SQLite's hints to its planner
    """contains ends_with epoch isodow likelihood likely list_aggregate list_count list_sort list_value prefix
    regexp_extract regexp_full_match strlen strptime suffix unlikely
    """.split()
    # numbers
    + """abs acos acosh asin asinh atan atan2 atanh cbrt ceil ceiling cos cosh cot degrees div exp factorial floor
    gcd greatest lcm least ln log log10 log2 mod pi pow power radians round sign sin sinh sqrt square tan tanh
    trunc truncate width_bucket random rand min_scale scale trim_scale isnan
    """.split()
    # strings
    + """ascii btrim char char_length character_length charindex charset chr coalesce concat concat_ws difference elt
    encode decode field find_in_set format hex unhex ifnull iif initcap insert instr isnull lcase left len length
    locate lower lpad ltrim md5 mid nullif nvl nvl2 octet_length bit_length ord overlay position printf
    quote_literal quote_ident quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_replace
    regexp_split_to_array regexp_substr repeat replace replicate reverse right rpad rtrim sha1 sha2 sha224
    sha256 sha384 sha512 similarity word_similarity soundex space split_part starts_with strcmp strpos stuff
    substr substring substring_index to_hex translate translate_regex trim typeof ucase unaccent unicode upper
    zeroblob unistr string_to_array array_to_string normalize metaphone levenshtein
    """.split()
    # dates and times
    + """adddate addtime age clock_timestamp convert_tz curdate current_date current_time current_timestamp curtime
    date date_add date_bin date_diff date_format date_part date_sub date_trunc dateadd datediff datediff_big
    datefromparts datename datepart datetime datetrunc day dayname dayofmonth dayofweek dayofyear eomonth
    extract from_days from_unixtime getdate getutcdate hour isfinite julianday justify_days justify_hours
    justify_interval last_day localtime localtimestamp make_date make_interval make_time make_timestamp
    make_timestamptz makedate maketime microsecond minute month monthname now period_add period_diff quarter
    sec_to_time second statement_timestamp str_to_date strftime subdate subtime sysdate sysdatetime time
    time_format time_to_sec timediff timeofday timestamp timestampadd timestampdiff timezone to_char to_date
    to_days to_number to_seconds to_timestamp transaction_timestamp unix_timestamp unixepoch utc_date utc_time
    utc_timestamp week weekday weekofyear year yearweek months_between add_months
    """.split()
    # JSON
    + """json json_array json_array_insert json_array_length json_build_array json_build_object json_contains
    json_contains_path json_depth json_error_position json_exists json_extract json_extract_path
    json_extract_path_text json_insert json_keys json_length json_merge_patch json_merge_preserve json_object
    json_overlaps json_patch json_pretty json_query json_quote json_remove json_replace json_scalar json_search
    json_serialize json_set json_strip_nulls json_type json_typeof json_unquote json_valid json_value jsonb
    jsonb_array jsonb_array_length jsonb_build_array jsonb_build_object jsonb_extract jsonb_extract_path
    jsonb_extract_path_text jsonb_insert jsonb_object jsonb_patch jsonb_path_exists
    jsonb_path_match jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_remove jsonb_replace
    jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_typeof row_to_json to_json to_jsonb array_to_json
    """.split()
    # arrays, ranges, rows of numbers, full text, networks, sampling
    + """array_append array_cat array_dims array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_upper cardinality trim_array isempty lower_inc lower_inf
    upper_inc upper_inf range_merge multirange int4range int8range numrange tsrange tstzrange daterange
    int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange plainto_tsquery
    phraseto_tsquery to_tsquery to_tsvector ts_headline ts_rank ts_rank_cd websearch_to_tsquery numnode
    querytree setweight strip tsvector_to_array abbrev broadcast family host hostmask inet_merge
    inet_same_family masklen netmask network inet_aton inet_ntoa inet6_aton inet6_ntoa hstore akeys avals
    gen_random_uuid uuid newid string_split get_bit get_byte bit_count num_nonnulls num_nulls nanvl pg_typeof
    """.split()
    # dualsql's own, which it writes in terms of the database's (`Capabilities.own_functions`)
    + ["dualsql_instant", "dualsql_days_before", "dualsql_days_after", "dualsql_ordered"]
    + ["dualsql_hugeint", "dualsql_uhugeint"]
    + [name for unit in UNITS for name in (f"dualsql_add_{unit}s", f"dualsql_{unit}s_between")]
)
"""Functions that give one value for each row."""

FUNCTIONS = AGGREGATES | _WINDOWS | SET_FUNCTIONS | _PARTS | ROW_FUNCTIONS

_OPERATOR_NAMES = """add and_ contains eq floordiv ge getitem gt inv le lshift lt mod mul ne neg or_ pow_ rshift
    sub truediv matmul is_true is_false is_distinct_from is_not_distinct_from is_ is_not collate like_op
    not_like_op ilike_op not_ilike_op between_op not_between_op in_op not_in_op distinct_op any_op all_op
    startswith_op not_startswith_op istartswith_op not_istartswith_op endswith_op not_endswith_op iendswith_op
    not_iendswith_op contains_op not_contains_op icontains_op not_icontains_op match_op not_match_op
    regexp_match_op not_regexp_match_op regexp_replace_op comma_op filter_op concat_op desc_op asc_op
    nulls_first_op nulls_last_op json_getitem_op json_path_getitem_op bitwise_xor_op bitwise_or_op
    bitwise_and_op bitwise_not_op bitwise_lshift_op bitwise_rshift_op exists null_op from_ as_
    function_as_comparison_op""".split()

OPERATORS: Mapping[str, Any] = MappingProxyType({name: getattr(operators, name) for name in _OPERATOR_NAMES})
OPERATOR_NAMES: Mapping[Any, str] = MappingProxyType({fn: name for name, fn in OPERATORS.items()})

# SQLAlchemy's own operator objects of PostgreSQL types, by name, so that a document cannot set their precedence.
# Operators with a number sign are missing, because it begins a comment on MySQL.
POSTGRESQL_OPERATORS: Mapping[str, custom_op[Any]] = MappingProxyType(
    {
        name: op
        for name, op in vars(dialects.operators).items()
        if isinstance(op, custom_op) and "#" not in op.opstring
    }
)

_WORD_OPERATORS = """REGEXP, RLIKE, GLOB, MATCH, LIKE, ILIKE, DIV, MOD, XOR, IS, IN, NOT LIKE, NOT ILIKE, NOT REGEXP,
    NOT GLOB, NOT MATCH, NOT IN, SIMILAR TO, NOT SIMILAR TO, SOUNDS LIKE, OVERLAPS, IS NOT, IS DISTINCT FROM,
    IS NOT DISTINCT FROM, AT TIME ZONE"""
_SIGN_OPERATORS = """= <> != < > <= >= <=> ~ ~* !~ !~* ~~ ~~* !~~ !~~* ^@ @> <@ && -|- << >> &< &> <<| |>> &<| |&>
    @@ @@@ @? ? ?| ?& -> ->> || | & ^ + - * / % %% <-> <+> <% %> <<% %>> @ |/ ||/ ** //"""

# Texts for `.op(...)`: comparison, matching, JSON, array, range, bit and distance operators.
WORD_OPERATORS = frozenset(" ".join(words.split()) for words in _WORD_OPERATORS.split(","))
OP_STRINGS = frozenset(_SIGN_OPERATORS.split()) | WORD_OPERATORS

# Rendered as written by Extract.
EXTRACT_FIELDS = frozenset(
    """century day decade dow doy epoch hour isodow isoyear julian microsecond microseconds millennium
    millisecond milliseconds minute month quarter second timezone timezone_hour timezone_minute week year
    day_hour day_microsecond day_minute day_second hour_microsecond hour_minute hour_second
    minute_microsecond minute_second second_microsecond year_month weekday dayofyear date time nanosecond
    iso_week""".split()
)

# Rendered as written by INTERVAL types (PostgreSQL).
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
INTERVAL_FIELDS = frozenset(_UNITS) | {
    f"{start} TO {end}" for start in _UNITS for end in _UNITS if start != end
}

# Rendered as written between SELECT and the columns, or after AS in a CTE.
PREFIXES = frozenset(
    """ALL DISTINCT DISTINCTROW STRAIGHT_JOIN HIGH_PRIORITY SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT
    SQL_NO_CACHE SQL_CACHE SQL_CALC_FOUND_ROWS MATERIALIZED""".split()
) | {"NOT MATERIALIZED"}

# Rendered as written after EXCLUDE in a window's frame.
FRAME_EXCLUSIONS = frozenset({"CURRENT ROW", "GROUP", "TIES", "NO OTHERS"})

# Execution options that do not change the meaning of a statement. They are not stored: dualsql sets its own.
DROPPED_OPTIONS = frozenset(
    """dualsql_notes yield_per stream_results max_row_buffer populate_existing autoflush prebuffer_rows identity_token
    logging_token preserve_rowcount _sa_orm_load_options _result_disable_adapt_to_context""".split()
)


_LARGEST = 2**31


class UnnameableError(Exception):
    """The type cannot be written by name; the message says why."""


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def is_flag(value: object) -> bool:
    """Whether it is True or False."""
    return type(value) is bool


def _collation(value: Any) -> bool:
    return type(value) is str and is_collation(value)


def _is_type(value: Any) -> bool:
    return isinstance(value, TypeEngine)


# Argument -> what its value must be. An argument that is not listed makes the type unnameable.
_ARGUMENTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        "length precision scale decimal_return_scale dimensions second_precision day_precision display_width fsp "
        "binary_precision dim".split(),
        _number,
    ),
    **dict.fromkeys(
        "asdecimal timezone local_timezone as_tuple zero_indexes native as_uuid native_uuid none_as_null varying "
        "unsigned zerofill convert_int filestream ascii unicode binary national retrieve_as_bitwise".split(),
        is_flag,
    ),
    **dict.fromkeys(["collation", "charset"], _collation),
    "fields": lambda value: type(value) is str and value.upper() in INTERVAL_FIELDS,
    "item_type": _is_type,
    "astext_type": _is_type,
    "text_type": _is_type,
}

# Types that contain SQL text (DOMAIN), and classes that are not types.
_ABSTRACT = (TypeEngine, dialects.DOMAIN)
_SPECIAL = (sqltypes.PickleType, sqltypes.TypeDecorator, sqltypes.Enum, sqltypes.TupleType, sqltypes.Variant)


# Every concrete type that SQLAlchemy exports and that runs no code of the application, by its name in documents.
CLASSES: dict[str, type[TypeEngine[Any]]] = {}
CLASS_NAMES: dict[type[TypeEngine[Any]], str] = {}
# The types without arguments: one object each, shared by all documents.
PLAIN: dict[str, TypeEngine[Any]] = {}
_KEYWORDS: dict[type[TypeEngine[Any]], list[str]] = {}


def _add(prefix: str, classes: Mapping[str, Any]) -> None:
    """Add the types among what a module of SQLAlchemy exports."""
    for name, cls in classes.items():
        if not isinstance(cls, type) or not issubclass(cls, TypeEngine) or name.startswith("_"):
            continue
        # Interval is SQLAlchemy's own TypeDecorator.
        is_special = issubclass(cls, _SPECIAL) and cls is not sqltypes.Interval
        if cls in CLASS_NAMES or is_special or cls in _ABSTRACT:
            continue
        _KEYWORDS[cls] = sorted(get_cls_kwargs(cls) & _ARGUMENTS.keys())
        if "item_type" not in _KEYWORDS[cls]:
            PLAIN[prefix + name] = cls()
        CLASSES[prefix + name], CLASS_NAMES[cls] = cls, prefix + name


_add("", vars(sqltypes))
_add("JSON.", vars(sqltypes.JSON))


@cache
def _add_dialect(name: str) -> None:
    """Add the types of a dialect when one is first written or read: mssql and oracle take 27 ms to import."""
    _add(f"{name}.", vars(import_module(f"sqlalchemy.dialects.{name}")))


def _dialect_of(cls: type) -> str:
    """The dialect of SQLAlchemy whose module defines a type; empty for none."""
    package, _, module = cls.__module__.partition(".dialects.")
    return module.partition(".")[0] if package == "sqlalchemy" else ""


def _name_of(cls: type) -> str | None:
    """The name of a type in documents."""
    if cls not in CLASS_NAMES and (dialect := _dialect_of(cls)) in dialects.DIALECTS:
        _add_dialect(dialect)
    return CLASS_NAMES.get(cls)


def _known(name: Any) -> Any:
    """The name of a type as read, once the types of its dialect are added."""
    dialect, dot, _ = expect(name, str).partition(".")
    if dot and dialect in dialects.DIALECTS:
        _add_dialect(dialect)
    return name


# Attributes of types that are not stored and must have their defaults.
_IGNORED = frozenset({"dispatch", "_variant_mapping", "_has_events", "should_evaluate_none"})
_ENUMS: dict[type, str] = {
    sqltypes.Enum: "Enum",
    dialects.ENUM: f"{_dialect_of(dialects.ENUM)}.ENUM",
}


def write_type(type_: TypeEngine[Any]) -> Any:
    """A type as JSON: "Integer", or ["String", {"length": 20}].

    Raises:
        UnnameableError: the type has to be written as a reference or by a registered name.
    """
    cls = type(type_)
    name = _name_of(cls)
    if cls in _ENUMS:
        return _write_enum(type_)
    if name is None or internals.type_variants(type_) or vars(type_).get("should_evaluate_none"):
        raise UnnameableError(f"the type {cls.__name__}")
    arguments = dict(_written_arguments(type_, cls, name))
    return [name, arguments] if arguments else name


def _written_arguments(type_: Any, cls: type, name: str) -> Iterator[tuple[str, Any]]:
    state = vars(type_)
    if not state:
        return
    plain = vars(PLAIN[name]) if name in PLAIN else {}
    keywords = _KEYWORDS[cls]
    for attribute, value in state.items():
        if attribute in _IGNORED or is_memoized(cls, attribute) or value == plain.get(attribute):
            continue
        if isinstance(value, TypeEngine) and repr(value) == repr(plain.get(attribute)):
            continue
        if attribute not in keywords or not _ARGUMENTS[attribute](value):
            raise UnnameableError(f"the type {cls.__name__} with {attribute}={value!r}")
        yield attribute, write_type(value) if isinstance(value, TypeEngine) else value


@cache
def is_memoized(cls: type, attribute: str) -> bool:
    """Whether the attribute is a value that SQLAlchemy memoizes on objects of the class."""
    # Its memoized descriptors are internal classes of several names (util/langhelpers.py).
    return "memoized" in type(getattr_static(cls, attribute, None)).__name__


def read_type(wire: Any) -> TypeEngine[Any]:
    """The reverse of `write_type`."""
    if type(wire) is str:
        return PLAIN[_known(wire)]
    name, arguments = wire
    enum = next((enum for enum, enum_name in _ENUMS.items() if enum_name == name), None)
    if enum is not None:
        return _read_enum(enum, arguments)
    cls = CLASSES[_known(name)]
    return cls(**{key: _read_argument(cls, key, value) for key, value in arguments.items()})


def _read_argument(cls: type[TypeEngine[Any]], key: str, wire: Any) -> Any:
    if key not in _KEYWORDS[cls]:
        malformed("argument of a type")
    check = _ARGUMENTS[key]
    value = read_type(wire) if check is _is_type else wire
    if value is not None and not check(value):
        malformed("value of a type's argument")
    return value


def _write_enum(type_: Any) -> Any:
    """Write an Enum of strings. An Enum of a Python class is written as the type of its column."""
    if type_.enum_class is not None or type_.validate_strings or internals.type_variants(type_):
        raise UnnameableError(f"the type {type(type_).__name__} over a Python class or with options")
    texts = [None if text is None else str(text) for text in (type_.name, type_.schema)]
    return [_ENUMS[type(type_)], [list(type_.enums), *texts, type_.native_enum]]


def _read_enum(cls: Any, arguments: Any) -> TypeEngine[Any]:
    values, name, schema, native = arguments
    for text in (*values, name or "", schema or ""):
        if type(text) is not str or len(text) > 1024 or "\x00" in text:
            malformed("value of an Enum")
    if type(native) is not bool:
        malformed("native_enum")
    enum: TypeEngine[Any] = cls(*values, name=name, schema=schema, native_enum=native)
    return enum


@lru_cache(256)
def is_safe(type_: TypeEngine[Any]) -> bool:
    """Whether reading a value of this type neither runs code of the application nor unpickles."""
    if not all(is_safe(variant) for variant in internals.type_variants(type_).values()):
        return False
    if isinstance(type_, sqltypes.ARRAY) and not is_safe(type_.item_type):
        return False
    if isinstance(type_, sqltypes.TupleType):
        return all(is_safe(item) for item in type_.types)
    if isinstance(type_, dialects.DOMAIN) and not is_safe(type_.data_type):
        return False
    return type(type_) in CLASS_NAMES or type_ is NULLTYPE or _is_builtin(type(type_))


# SQLModel's types of texts and instants read values as their SQLAlchemy types do.
_PACKAGES = ("sqlalchemy.", "sqlmodel.")


def _is_builtin(cls: type) -> bool:
    return cls.__module__.startswith(_PACKAGES) and not issubclass(cls, sqltypes.PickleType)
