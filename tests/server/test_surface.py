"""What the package shows to the world changes on purpose only."""

from __future__ import annotations

import inspect
import pydoc
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import MetaData

import dualsql
from dualsql import ConfigurationError, DualResponseError, DualResponseServer, Settings, errors
from dualsql.settings import describe_settings

SEALED = """
BadCursorError BadParameterError ConfigurationError CountExecutionError DatabaseBusyError DatabaseUnreachableError
DualResponse DualResponseError DualResponseServer ForbiddenError ForbiddenSQLError Hook HookContext
InsufficientScopeError InvalidSQLError LimitExceededError Mask MemoryStore NoTotalOrderError NotFreezableError Principal
QueryCancelledError QueryExecutionError QueryInterruptedError QueryTimeoutError Registry Resource ResourceChanges
ResourceExpiredError ResourceFailedError ResourceNotFoundError ResourcePendingError ResourceStore ResultCache
ResultChangedError ResultPage RowFilter RowSecurity SQLResourceStore SavedQuery Settings Shared StorageError
TamperedError TenantFilter TooManyQueriesError UnauthenticatedError UnknownColumnError UnknownTableError
ValueNotRepresentableError
""".split()


def test_the_exports_are_sealed() -> None:
    assert sorted(dualsql.__all__) == sorted(SEALED)
    assert all(hasattr(dualsql, name) for name in SEALED)


def test_every_error_is_exported_and_has_a_code_of_its_own() -> None:
    defined = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, DualResponseError)
    ]
    assert {error.__name__ for error in defined} <= set(dualsql.__all__)
    assert len({error.code for error in defined}) == len(defined)
    tree = inspect.getdoc(errors)
    assert tree is not None
    for error in defined[1:]:
        assert f"{error.__name__} " in tree
        assert error.code in tree


def test_help_shows_every_setting_with_its_type_and_default() -> None:
    shown = pydoc.plain(pydoc.render_doc(DualResponseServer))
    words = pydoc.plain(pydoc.render_doc(Settings))
    described = {setting.name: setting for setting in describe_settings()}
    assert list(described) == [field.name for field in fields(Settings)]
    for name, setting in described.items():
        default = repr(getattr(Settings(), name))
        assert f"{name}: {setting.type} = {default}" in shown
        assert f"{name}: {setting.meaning}" in words


def test_help_shows_every_option_of_a_response_with_its_type_and_default() -> None:
    shown = inspect.signature(DualResponseServer.create_response).parameters
    kinds = {parameter.kind for parameter in shown.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    documented = inspect.getdoc(DualResponseServer.create_response) or ""
    for name, parameter in list(shown.items())[1:]:
        assert parameter.annotation is not parameter.empty
        assert f"    {name}: " in documented


def test_type_checkers_know_each_setting() -> None:
    """`make check` refuses an unused `type: ignore`: each line below is an error to mypy."""
    tables, url = MetaData(), "http://127.0.0.1/resources"
    with pytest.raises(ConfigurationError, match="default_page_size must be a int"):
        DualResponseServer("sqlite://", base_url=url, tables=tables, default_page_size="many")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Did you mean 'default_page_size'"):
        DualResponseServer("sqlite://", base_url=url, tables=tables, default_page_sise=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="base_url"):
        DualResponseServer("sqlite://", tables=tables)  # type: ignore[call-arg]


def test_a_setting_given_by_its_name_wins_over_settings() -> None:
    url, settings = "http://127.0.0.1/resources", Settings(default_page_size=7, count_cap=9)
    made = DualResponseServer(
        databases="sqlite://", base_url=url, tables=MetaData(), settings=settings, count_cap=10_000
    )
    assert made.settings == Settings(default_page_size=7)


@pytest.mark.parametrize(
    "option",
    [
        {"default_expiration": 900},
        {"default_sample_size": -1},
        {"query_timeout": timedelta(seconds=-1)},
        {"cors_origins": "https://a.example"},
        {"allow_text": "no"},
        {"uri_scheme": None},
        {"cleanup_interval": timedelta(0)},
        {"maximum_page_size": 0},
        {"anonymous_actions": {"raed"}},
        {"allowed_hosts": ["https://a.example"]},
    ],
)
def test_a_setting_that_can_only_be_a_mistake_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Settings(**option)


def test_the_specification_s_words() -> None:
    for name in (
        "create_response", "get_resource", "pin_resource", "delete_resource", "router", "shutdown"
    ):  # fmt: skip
        assert inspect.getdoc(getattr(DualResponseServer, name))
    assert (Settings().default_expiration.total_seconds(), Settings().default_sample_size) == (900, 15)
    assert Settings().cleanup_interval.total_seconds() == 60
