"""SQL over a catalogue (``find --sql``): a SELECT over four views, which can change nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from asdffs import interrupts
from asdffs.features.catalog.chunks import unpack_json, unpack_value_json
from asdffs.features.catalog.sqlite_errors import sqlite_errors

T = TypeVar("T")

#: Steps of SQLite between two looks for a signal, and rows that are asked for at a time.
_STEPS: Final = 100_000
_ROWS: Final = 100
#: What ``--sql`` may read; made for each connection.
_VIEWS: Final = """
CREATE TEMP VIEW file AS SELECT id, shown(path) AS path, size, standard, format, container, error, left_out
    FROM main.files;
CREATE TEMP VIEW array AS SELECT shown(f.path) AS file, a.path, a.source, a.shape, a.datatype, a.compression, a.offset
    FROM main.arrays a JOIN main.files f ON f.id = a.file;
CREATE TEMP VIEW block AS SELECT shown(f.path) AS file, b.number, b.offset, b.size, b.stored, b.compression, b.error
    FROM main.blocks b JOIN main.files f ON f.id = b.file;
CREATE TEMP VIEW scalar AS SELECT shown(f.path) AS file, p.path AS path, v.value AS value
    FROM main.paths p JOIN main.columns c ON c.path = p.id JOIN main.chunks k ON k.chunk = c.chunk
    JOIN json_each(unpacked(c.packed, k.places)) v
    JOIN main.files f ON f.chunk = c.chunk AND f.place = v.key WHERE v.type != 'array'
    UNION ALL SELECT shown(f.path), p.path, v.value
    FROM main.paths p JOIN main.rare r ON r.path = p.id JOIN json_each(unpacked(r.value)) v
    JOIN main.files f ON f.chunk = r.chunk AND f.place = r.place WHERE v.type != 'array';
"""


def prepare(connection: sqlite3.Connection) -> None:
    """Define the functions that the views use."""
    connection.create_function("unpacked", 1, unpack_value_json, deterministic=True)
    connection.create_function("unpacked", 2, unpack_json, deterministic=True)
    connection.create_function("shown", 1, shown, deterministic=True)


def select(connection: sqlite3.Connection, query: str, path: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Return the names of the columns and the rows of a SELECT over the catalogue at ``path``.

    ``connection`` can do nothing else from now on.  Raises ``UsageError`` with what SQLite says, and as ``error_of``.
    """
    connection.executescript(_VIEWS)
    connection.execute("PRAGMA query_only = 1")
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(interrupts.is_noted, _STEPS)
    with sqlite_errors(path, typed=True):
        done = _ended_by_signals(lambda: connection.execute(query))
    return [name for name, *_ in done.description or ()], _rows(done, path)


def shown(path: bytes) -> str:
    """Return a path as SQL can hold it: other bytes than UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def _rows(done: sqlite3.Cursor, path: str) -> Iterator[tuple[Any, ...]]:
    with sqlite_errors(path, typed=True):
        while rows := _ended_by_signals(lambda: done.fetchmany(_ROWS)):
            yield from rows


def _ended_by_signals(work: Callable[[], T]) -> T:
    """Return ``work()``, in which SQLite looks for signals: Python does not until it is done."""
    try:
        with interrupts.critical():
            return work()
    except sqlite3.OperationalError:
        interrupts.check()
        raise


def _authorize(action: int, *_: Any) -> int:
    """Allow only what a SELECT needs."""
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY
