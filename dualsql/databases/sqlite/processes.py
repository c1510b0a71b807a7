"""Starts, asks and ends a process that reads a SQLite file, and keeps idle ones; its program is `reader_process`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import orjson
from sqlalchemy import Dialect, types

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.own_types import SQLType
from dualsql.databases.sqlite import reader_process
from dualsql.formats import row_objects
from dualsql.formats.cells import Processor, Tolerant
from dualsql.formats.writer import PlainColumns

_PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ of Linux."""

_MOST_IDLE = 2

# Of the environment, the process gets what a library is found by, and where files of a sort are made.
_INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "SQLITE_TMPDIR", "TEMP", "TMP")

_FOLDER_OF_ORJSON = str(Path(orjson.__file__).parents[1])


class ReaderProcess:
    """A process that reads statements, one at a time. All but `kill` belongs to one thread at a time."""

    def __init__(self) -> None:
        folders = [_folder_of_apsw(), _FOLDER_OF_ORJSON]
        command = [sys.executable, "-I", "-S", reader_process.__file__, row_objects.__file__, *folders]
        self._process = subprocess.Popen(  # noqa: S603 - a program of this package
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            # An interrupt of the terminal is for the server, which ends its streams first.
            start_new_session=True,
        )
        requests: Any = self._process.stdin
        answers: Any = self._process.stdout
        self._in, self._out = requests, answers
        if sys.platform == "linux":
            # The default of 64 KiB holds no batch: the process would wait for each to be read. Linux refuses it to a
            # user who has many such pipes.
            with suppress(OSError, ImportError):
                import fcntl

                fcntl.fcntl(self._out.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)
                fcntl.fcntl(self._in.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)

    @property
    def has_ended(self) -> bool:
        """Whether the process can take no request."""
        return self._process.poll() is not None

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send a request, which answers with messages."""
        self._in.write(json.dumps(request).encode() + b"\n")

    def message(self) -> tuple[dict[str, Any], bytearray]:
        """The next message: its header and its body.

        Raises:
            EOFError: the process has ended.
        """
        header_size, body_size = reader_process.LENGTHS.unpack(self._read(reader_process.LENGTHS.size))
        return json.loads(self._read(header_size)), self._read(body_size)

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        left = memoryview(data)
        while left:
            count = self._out.readinto(left)
            if not count:
                raise EOFError("A reader process has ended.")
            left = left[count:]
        return data

    @property
    def pipes(self) -> tuple[int, int]:
        """The descriptors of its requests, and of its answers."""
        return self._in.fileno(), self._out.fileno()

    def kill(self) -> None:
        """End the process, whatever it does. Who reads gets an EOFError. May be called by any thread, and again."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and free what it had."""
        self.kill()
        self._process.wait()
        self._in.close()
        self._out.close()


class ReaderProcesses:
    """The idle reader processes of one file. There are as many busy ones as there are streams."""

    def __init__(self) -> None:
        self._idle: list[ReaderProcess] = []
        self._lock = Lock()
        self._is_closed = False

    def take(self) -> ReaderProcess:
        """An idle process, or a new one."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                return ReaderProcess()
            if not process.has_ended:
                return process
            process.close()

    def give_back(self, process: ReaderProcess) -> None:
        """Keep a process that has answered its request, if there is room."""
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.close()

    def close(self) -> None:
        """End the idle processes; those that are busy end with their streams."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()


def sendable_columns(
    columns: PlainColumns, processors: Sequence[tuple[int, Processor]], dialect: Dialect
) -> str | None:
    """The columns for the process; None if SQLAlchemy makes other values of their cells than the process."""
    made = {place: _function(one) for place, one in processors if place < len(columns.names)}
    kinds = {place: kind for place, kind in enumerate(columns.kinds) if kind in _TYPES}
    same = {
        place: _function(internals.result_processor(_TYPES[kind], dialect, None))
        for place, kind in kinds.items()
    }
    return orjson.dumps(columns[:]).decode() if made == same else None


def _function(processor: Processor | None) -> Processor | None:
    return processor.processor if isinstance(processor, Tolerant) else processor


_TYPES: Mapping[str, SQLType] = {"date": types.Date(), "datetime": types.DateTime(), "bool": types.Boolean()}


def sendable(parameters: Sequence[Any]) -> Sequence[Any] | None:
    """The values as `reader_process.read_parameters` reads them; None if one cannot be sent."""
    if not _SENDABLE.issuperset(map(type, parameters)):
        return None
    return [[b64encode(value).decode()] if type(value) is bytes else value for value in parameters]


_SENDABLE = frozenset({int, float, str, bytes, bool, type(None)})


@cache
def _folder_of_apsw() -> str:
    """The folder in which apsw is installed. It is not imported: it brings a second SQLite into the process."""
    spec = find_spec("apsw")
    assert spec is not None, "FileReader has asked"
    return str(Path(str(spec.origin)).parents[1])
