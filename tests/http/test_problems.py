"""Every error becomes the one body with its status; nothing that dualsql did not write is in it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.exceptions import HTTPException

from dualsql import errors
from dualsql.http.problems import KINDS, METHODS, problem_response
from dualsql_client.wire import Problem

DOCUMENT = Path(__file__).parents[2] / "docs" / "errors.md"
SECRET = "postgresql://admin:hunter2@db/payroll"


def descendants(root: type[errors.DualResponseError]) -> Iterator[type[errors.DualResponseError]]:
    yield root
    for child in root.__subclasses__():
        yield from descendants(child)


def ours() -> set[str]:
    """Codes of every error class of the package, those of http included."""
    return {
        kind.code for kind in descendants(errors.DualResponseError) if kind.__module__.startswith("dualsql.")
    }


def read(error: Exception) -> tuple[int, dict[str, Any]]:
    response = problem_response(error)
    return response.status_code, orjson.loads(response.body)


def test_every_error_of_the_package_has_a_status_and_every_status_an_error() -> None:
    assert set(KINDS) == ours()


def test_every_code_is_documented_with_its_status() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([0-9]{3}|-) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert {code for code, _ in rows} == ours()
    # A dash stands for what no request should cause: should one do so all the same, any status will do.
    documented = {code: int(status) for code, status in rows if status != "-"}
    assert documented == {code: KINDS[code].status for code in documented}


@pytest.mark.parametrize("code", sorted(KINDS))
def test_every_problem_has_the_same_keys(code: str) -> None:
    kind = next(kind for kind in descendants(errors.DualResponseError) if kind.code == code)
    special: dict[type, errors.DualResponseError] = {
        errors.UnknownColumnError: errors.UnknownColumnError("nam", ["name"]),
        errors.BadCursorError: errors.BadCursorError(),
        errors.InsufficientScopeError: errors.InsufficientScopeError("It failed.", challenge="Bearer"),
    }
    status, problem = read(special.get(kind) or kind("It failed."))
    assert problem.keys() == Problem.__annotations__.keys()
    assert (status, problem["error"], problem["code"]) == (*KINDS[code], code)
    assert all(isinstance(problem[key], str) for key in ("error", "message", "code", "hint"))


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (errors.BadParameterError("no"), 400, "bad_request"),
        (errors.ForbiddenError("no"), 403, "forbidden"),
        (errors.ResourceNotFoundError("no"), 404, "not_found"),
        (errors.ResourceExpiredError("no"), 410, "expired"),
        (errors.UnknownColumnError("a", ["b"]), 422, "unprocessable"),
        (errors.TamperedError("no"), 500, "internal_error"),
        (errors.StorageError("no"), 503, "unavailable"),
        (errors.QueryTimeoutError("no"), 504, "timeout"),
    ],
)
def test_statuses_are_those_of_the_specification(error: Exception, status: int, word: str) -> None:
    assert (read(error)[0], read(error)[1]["error"]) == (status, word)


def test_message_hint_and_details_are_passed_on() -> None:
    _, problem = read(errors.UnknownColumnError("enrolment", ["enrollment", "name"]))
    assert problem["message"] == "The result has no column 'enrolment'."
    assert problem["hint"] == "Did you mean 'enrollment'?"
    assert problem["details"] == {
        "column": "enrolment",
        "suggestions": ["enrollment"],
        "columns": ["enrollment", "name"],
    }


def test_an_application_s_own_error_is_answered_as_its_parent() -> None:
    class EmbargoedError(errors.ForbiddenError):
        code = "EMBARGOED"

    status, problem = read(EmbargoedError("Not before noon."))
    assert (status, problem["error"], problem["code"]) == (403, "forbidden", "EMBARGOED")


def test_an_unexpected_exception_tells_nothing_but_the_number_under_which_the_log_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status, problem = read(RuntimeError(f"could not connect to {SECRET}"))
    assert status == 500
    assert "hunter2" not in str(problem)
    assert "RuntimeError" not in str(problem)
    [record] = caplog.records
    assert problem["details"]["incident"] in record.getMessage()
    assert record.exc_info
    assert SECRET in str(record.exc_info[1])


def test_the_cause_of_a_known_error_is_logged_and_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    error = errors.QueryExecutionError("The query failed.")
    error.__cause__ = RuntimeError(f'relation "salaries" does not exist at {SECRET}')
    _, problem = read(error)
    assert "salaries" not in str(problem)
    assert "hunter2" not in str(problem)
    assert caplog.records[0].levelno == logging.ERROR


def test_a_caller_s_mistake_is_not_an_incident(caplog: pytest.LogCaptureFixture) -> None:
    read(errors.BadParameterError("no"))
    assert not caplog.records


def test_headers_that_belong_to_a_status() -> None:
    assert problem_response(errors.StorageError("no")).headers["retry-after"].isdecimal()
    not_allowed = next(
        kind for kind in descendants(errors.DualResponseError) if kind.code == "METHOD_NOT_ALLOWED"
    )
    assert problem_response(not_allowed("no")).headers["allow"] == ", ".join(METHODS)


def test_an_authenticator_s_refusal_keeps_its_status_and_challenge() -> None:
    response = problem_response(HTTPException(401, "Sign in first.", headers={"WWW-Authenticate": "Bearer"}))
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    problem = orjson.loads(response.body)
    assert (problem["error"], problem["code"], problem["message"]) == (
        "unauthorized",
        "UNAUTHORIZED",
        "Sign in first.",
    )


def test_a_refusal_with_a_status_of_its_own_invention_is_still_answered() -> None:
    status, problem = read(HTTPException(499, "Gone."))
    assert (status, problem["code"]) == (499, "REFUSED")
