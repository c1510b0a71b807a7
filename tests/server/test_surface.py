"""What the package shows to the world changes on purpose only."""

from __future__ import annotations

import inspect
from dataclasses import fields
from datetime import timedelta
from typing import Any, get_type_hints

import pytest

import dualsql
from dualsql import ConfigurationError, DualResponseError, DualResponseServer, Settings, errors
from dualsql.settings import SettingsOptions

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


def test_every_setting_is_a_keyword_of_the_server_and_documented() -> None:
    settings = {field.name for field in fields(Settings)}
    assert settings == set(get_type_hints(SettingsOptions))
    documented = inspect.getdoc(Settings)
    assert documented is not None
    for name in settings:
        assert f"{name}:" in documented


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
