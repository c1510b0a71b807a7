"""Spark's own list of jobs, over the REST API of its pages: jobs of stopped statements are ended there.

The Thrift server cancels the jobs of a statement at most twice (see `driver`). What a starved driver plans later begins
all the same, and computes to its end. With the address of Spark's pages, these jobs are found and ended as they begin.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from dualsql.errors import ConfigurationError

_log = logging.getLogger(__name__)

_WATCHED = 60.0
"""Seconds from the stop of a statement, or from the last of its jobs, in which more of them may begin."""
_PAUSE, _SLOW_PAUSE, _SOON = 0.2, 1.0, 10.0
"""Seconds from one look at the list to the next: in the first 10 after a stop, and later. Of 37 heavy joins that were
stopped after 0 to 5 seconds, one had a job 2 seconds later (Spark 4.3, a load of 13 on two cores)."""
_SECONDS = 10.0
"""For one whole answer of Spark's pages."""
_MOST_BYTES = 16 * 1024 * 1024
_TAG = re.compile(r"dualsql:[0-9a-f]{32}")
_TOKEN = re.compile(r'name="csrfToken"[^>]{0,200}?value="([^"]{1,200})"')
_OK, _REDIRECTS = 200, (301, 302, 303)


class _PagesError(Exception):
    """Spark's pages cannot be used; the message says why."""


class JobList:
    """The jobs of one Spark application.

    Args:
        address: of its pages, such as http://driver.example:4040.

    Raises:
        ConfigurationError: it is no such address.
    """

    def __init__(self, address: str) -> None:
        try:
            parts = urlsplit(address)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # of a port, or of brackets
            is_address = False
        # Spark's pages have no login.
        if not is_address or parts.query or parts.fragment or parts.username is not None:
            raise ConfigurationError(
                "The ui of a Spark URL is no address of Spark's pages.",
                hint="Write hive://host:10000/schema?ui=http://host:4040.",
            )
        self._kind: type[HTTPConnection] = HTTPConnection
        self._options: dict[str, Any] = {}
        if parts.scheme == "https":
            self._kind, self._options = HTTPSConnection, {"context": ssl.create_default_context()}
        self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._token = ""
        self._stopped: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def end(self, tag: str) -> None:
        """End the jobs of a statement that have begun, and those that begin later. Returns at once; raises nothing."""
        now = time.monotonic()
        with self._lock:
            is_idle = not self._stopped
            self._stopped[tag] = now, now + _WATCHED
            if is_idle:
                try:
                    threading.Thread(target=self._watch, daemon=True, name="dualsql-spark-jobs").start()
                except RuntimeError as error:  # the process has no more threads
                    self._stopped.clear()
                    self._report(error)

    def _watch(self) -> None:
        is_reported = False
        while True:
            try:
                self._end_jobs()
            except Exception as error:  # noqa: BLE001 - the server may restart; statements are cancelled without it, too
                if not is_reported:
                    self._report(error)
                is_reported = True
            with self._lock:
                now = time.monotonic()
                self._stopped = {tag: times for tag, times in self._stopped.items() if times[1] > now}
                if not self._stopped:
                    return
                is_soon = any(now - start < _SOON for start, _ in self._stopped.values())
            time.sleep(_PAUSE if is_soon else _SLOW_PAUSE)

    def _report(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, _PagesError) else type(error).__name__
        address = f"{self._host}:{self._port or self._kind.default_port}{self._path}"
        _log.warning(
            "Jobs of stopped statements may go on: Spark's list of jobs at %s cannot be used: %s. "
            "Check the ui of the Spark URL.",
            address,
            reason,
        )

    def _end_jobs(self) -> None:
        for job in self._running():
            tags = set(_TAG.findall(str(job.get("description"))))
            with self._lock:
                tag = next(iter(tags & self._stopped.keys()), None)
            if tag is None:
                continue
            self._end_job(int(job["jobId"]))
            with self._lock:
                self._stopped[tag] = self._stopped[tag][0], time.monotonic() + _WATCHED

    def _end_job(self, number: int) -> None:
        """Send the form of Spark's page of jobs, which has a token against other sites since Spark 4.3."""
        # The answer to a job that was ended leads to a page for people.
        if self._send_form("/jobs/job/kill/", number):
            return
        token = _TOKEN.search(self._read("/jobs/").decode("utf-8", "replace"))
        self._token = "" if token is None else token[1]
        if not self._send_form("/jobs/job/kill/", number):
            raise _PagesError("a job could not be ended (spark.ui.killEnabled)")

    def _send_form(self, path: str, number: int) -> bool:
        form = urlencode({"id": number, "csrfToken": self._token})
        status, _ = self._ask("POST", path, form, {"Content-Type": "application/x-www-form-urlencoded"})
        return status == _OK or status in _REDIRECTS

    def _running(self) -> Iterator[Mapping[str, Any]]:
        applications = self._objects("/api/v1/applications")
        if len(applications) != 1:  # a History Server has those of the past
            raise _PagesError("it is that of no driver, or of several")
        name = quote(str(applications[0].get("id")), safe="")
        yield from self._objects(f"/api/v1/applications/{name}/jobs?status=running")

    def _objects(self, path: str) -> list[Mapping[str, Any]]:
        try:
            answer = json.loads(self._read(path))
        except (ValueError, RecursionError) as error:
            raise _PagesError("its answer is not JSON") from error
        if not isinstance(answer, list) or not all(isinstance(each, dict) for each in answer):
            raise _PagesError("its answer is no list of objects")
        return answer

    def _read(self, path: str) -> bytes:
        status, body = self._ask("GET", path)
        if status != _OK:
            raise _PagesError(f"it answered with the status {status}")
        return body

    def _ask(
        self, method: str, path: str, form: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status and the body of an answer. Redirects are not followed; an environment's proxy is not used."""
        connection = self._kind(self._host, self._port, timeout=_SECONDS, **self._options)
        try:
            connection.connect()
            with _whole_within_time(connection.sock):
                connection.request(method, self._path + path, form, dict(headers or {}))
                answer: HTTPResponse = connection.getresponse()
                body = answer.read(_MOST_BYTES + 1)
        except TimeoutError as error:
            raise _PagesError(f"there was no whole answer within {_SECONDS:g} seconds") from error
        except OSError as error:
            raise _PagesError(str(error)) from error
        except HTTPException as error:  # whose message may be what came instead of HTTP
            raise _PagesError(type(error).__name__) from error
        finally:
            connection.close()
        if len(body) > _MOST_BYTES:
            raise _PagesError(f"its answer has more than {_MOST_BYTES:,} bytes")
        if answer.length:
            raise _PagesError("its answer broke off")
        return answer.status, body


@contextmanager
def _whole_within_time(connection: socket.socket) -> Iterator[None]:
    """End a connection when the time of its answer is over: a read alone ends in time with one byte.

    Raises:
        TimeoutError: it is over.
    """
    is_late = False

    def end() -> None:
        nonlocal is_late
        is_late = True
        with suppress(OSError):  # it is closed
            connection.shutdown(socket.SHUT_RDWR)

    clock = threading.Timer(_SECONDS, end)
    clock.daemon = True
    clock.start()
    try:
        yield
    except (OSError, HTTPException):
        if not is_late:
            raise
    finally:
        clock.cancel()
    if is_late:
        raise TimeoutError


def new_tag() -> str:
    """A text that finds a statement in the descriptions of its jobs."""
    return f"dualsql:{uuid4().hex}"


_LISTS: dict[str, JobList] = {}


def job_list(address: str) -> JobList:
    """The list at an address, one for all connections."""
    return _LISTS.setdefault(address, JobList(address))
