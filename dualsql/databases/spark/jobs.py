"""Spark's own list of jobs, over the REST API of its pages: jobs of stopped statements are ended there.

The Thrift server cancels the jobs of a statement at most twice (see `driver`). What a starved driver plans later begins
all the same, and computes to its end. With the address of Spark's pages, these jobs are found and ended as they begin.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener
from uuid import uuid4

from dualsql.errors import ConfigurationError

_log = logging.getLogger(__name__)

_WATCHED = 60.0
"""Seconds from the stop of a statement, or from the last of its jobs, in which more of them may begin."""
_PAUSE, _SLOW_PAUSE, _SOON = 0.2, 1.0, 10.0
_SECONDS = 10.0
"""For one answer of Spark's pages."""
_TOKEN = re.compile(r'name="csrfToken"[^>]*?value="([^"]+)"')
_REDIRECTS = (301, 302, 303)
_MOST_BYTES = 16 * 1024 * 1024


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None: the answer to a job that was ended leads to a page for people."""


_OPENER = build_opener(_NoRedirects)


class JobList:
    """The jobs of one Spark application.

    Args:
        address: of its pages, such as http://driver.example:4040.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(
                "The ui of a Spark URL is no address of Spark's pages.",
                hint="Write hive://host:10000/schema?ui=http://host:4040.",
            )
        self._address = address.rstrip("/")
        self._token = ""
        self._stopped: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def end(self, tag: str) -> None:
        """End the jobs of a statement that have begun, and those that begin later. Returns at once."""
        now = time.monotonic()
        with self._lock:
            is_idle = not self._stopped
            self._stopped[tag] = now, now + _WATCHED
        if is_idle:
            threading.Thread(target=self._watch, daemon=True, name="dualsql-spark-jobs").start()

    def _watch(self) -> None:
        is_reported = False
        while True:
            try:
                self._end_jobs()
            except Exception as error:  # noqa: BLE001 - the server may restart; statements are cancelled without it, too
                if not is_reported:
                    _log.warning("Spark's list of jobs could not be read: %s", type(error).__name__)
                is_reported = True
            with self._lock:
                now = time.monotonic()
                self._stopped = {tag: times for tag, times in self._stopped.items() if times[1] > now}
                if not self._stopped:
                    return
                is_soon = any(now - begun < _SOON for begun, _ in self._stopped.values())
            time.sleep(_PAUSE if is_soon else _SLOW_PAUSE)

    def _end_jobs(self) -> None:
        with self._lock:
            tags = list(self._stopped)
        for job in self._running():
            tag = next((tag for tag in tags if tag in str(job.get("description"))), None)
            if tag is not None:
                self._end_job(int(job["jobId"]))
                with self._lock:
                    self._stopped[tag] = self._stopped[tag][0], time.monotonic() + _WATCHED

    def _end_job(self, number: int) -> None:
        """Send the form of Spark's page of jobs, which has a token against other sites since Spark 4.3."""
        for is_last in (False, True):
            form = urlencode({"id": number, "csrfToken": self._token}).encode()
            try:
                self._ask("jobs/job/kill/", form)
            except HTTPError as error:
                if error.code in _REDIRECTS:  # to the page, for people
                    return
                if is_last:
                    raise
                token = _TOKEN.search(self._ask("jobs/").decode("utf-8", "replace"))
                self._token = "" if token is None else token[1]
            else:
                return

    def _running(self) -> Iterator[dict[str, Any]]:
        for application in json.loads(self._ask("api/v1/applications")):
            yield from json.loads(self._ask(f"api/v1/applications/{application['id']}/jobs?status=running"))

    def _ask(self, path: str, form: bytes | None = None) -> bytes:
        request = Request(f"{self._address}/{path}", form)  # noqa: S310 - the operator's own address
        with _OPENER.open(request, timeout=_SECONDS) as answer:
            body: bytes = answer.read(_MOST_BYTES)
            return body


def new_tag() -> str:
    """A text that finds a statement in the descriptions of its jobs."""
    return f"dualsql:{uuid4().hex}"


_LISTS: dict[str, JobList] = {}


def job_list(address: str) -> JobList:
    """The list at an address, one for all connections."""
    return _LISTS.setdefault(address, JobList(address))
