"""What SQLAlchemy notes on elements; the rule: an entity by reference, a plain value as itself, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Bundle, Mapper
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.util import immutabledict

from dualsql.freeze import names
from dualsql.freeze.fields import LEAVE, Field
from dualsql.freeze.refusals import expect, malformed, refuse

if TYPE_CHECKING:
    from dualsql.freeze.decode import Decoder
    from dualsql.freeze.encode import Encoder

# Notes that SQLAlchemy reads and takes for entities and the like; none of them is ever a plain value.
_MEANT = frozenset(
    """parententity parentmapper entity_namespace proxy_owner proxy_key bundle dml_table for_loader_criteria
    compile_state_plugin plugin_subject additional_entity_criteria warn_on_attribute_access""".split()
)


def write_plugin(enc: Encoder, value: Any) -> Any:
    """The ORM entity that makes a statement an ORM statement; False for a statement of no entity."""
    if set(value) != {"compile_state_plugin", "plugin_subject"} or value["compile_state_plugin"] != "orm":
        refuse(
            "a statement of a compile plugin other than the ORM", "Use select() of tables or mapped classes."
        )
    subject = value["plugin_subject"]
    return False if subject is None else enc.ref(subject)


def read_plugin(dec: Decoder, wire: Any) -> Any:
    """The reverse of `write_plugin`."""
    subject = None if wire is False else dec.neighbour(wire)
    if not isinstance(subject, Mapper | AliasedInsp | Bundle | None):
        malformed("something else where an entity is due")
    return immutabledict({"compile_state_plugin": "orm", "plugin_subject": subject})


ORM = Field(name="orm", attribute="_propagate_attrs", write=write_plugin, read=read_plugin, absent=LEAVE)


def is_plain(key: Any, value: Any) -> bool:
    """Whether SQLAlchemy takes the note for nothing but a part of the cache key."""
    if (
        key == "_no_filter_by"
    ):  # on the secondary table of a write-only collection; only filter_by() asks for it
        return value is True
    named = type(key) is str and names.is_identifier(key) and not key.startswith("_") and key not in _MEANT
    return named and (
        value is None or type(value) in (bool, int) or (type(value) is str and len(value) < 200)
    )


def _write_plain(enc: Encoder, notes: Any) -> dict[str, Any]:
    for key, value in notes.items():
        if not is_plain(key, value):
            refuse(f"a statement annotated with {key}"[:120], "Pass the statement as select() made it.")
    return dict(notes)


def _read_plain(dec: Decoder, wire: Any) -> Any:
    if not all(is_plain(key, value) for key, value in expect(wire, dict).items()):
        malformed("annotation")
    return immutabledict(wire)


PLAIN_NOTES = Field(
    name="notes", attribute="_annotations", write=_write_plain, read=_read_plain, absent=LEAVE
)
NOTED = (ORM, PLAIN_NOTES)
