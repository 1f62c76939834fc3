"""Opens the SQLite file of a catalogue; nothing but a catalogue is ever changed.

``--catalog`` may name the database of another program, and a catalogue may come from another user.  So the header of
the file must say that asdffs made it.  And it must have exactly our tables: SQLite would run foreign triggers and
views.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final, TypeVar

from asdffs import interrupts
from asdffs.errors import AsdffsError, InUseError, NotCatalogError, Remedy, StorageError, UsageError
from asdffs.features.catalog.chunks import unpack_json, unpack_value_json

logger = logging.getLogger(__name__)

#: What ``application_id`` is in the header of a catalogue: "asdf".  Catalogues of asdffs 0.2 have 0.
_APPLICATION: Final = 0x61736466
_APPLICATION_AT: Final = slice(68, 72)
#: How a file of SQLite begins.
_HEAD: Final = b"SQLite format 3\0"
_NO_DATABASE: Final = -1
#: Changes whenever the tables do, or what they say; an older catalogue is made anew.
_VERSION: Final = 6
#: The tables of versions 1 to 3, and those that later ones have.
_SCHEMA_3: Final = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, identity TEXT NOT NULL, size INTEGER NOT NULL,
    standard TEXT, format TEXT, container TEXT, error TEXT, left_out TEXT,
    chunk INTEGER NOT NULL, place INTEGER NOT NULL);
CREATE INDEX files_by_chunk ON files (chunk, place);
CREATE TABLE chunks (chunk INTEGER PRIMARY KEY, places INTEGER NOT NULL);
CREATE TABLE paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE columns (
    path INTEGER NOT NULL, chunk INTEGER NOT NULL, kinds INTEGER NOT NULL, packed BLOB NOT NULL,
    PRIMARY KEY (path, chunk)) WITHOUT ROWID;
CREATE INDEX columns_by_chunk ON columns (chunk);
CREATE TABLE arrays (
    file INTEGER NOT NULL, path TEXT NOT NULL, source TEXT, shape TEXT, datatype TEXT, compression TEXT,
    offset INTEGER);
CREATE INDEX arrays_by_file ON arrays (file);
CREATE TABLE blocks (
    file INTEGER NOT NULL, number INTEGER NOT NULL, offset INTEGER NOT NULL, size INTEGER, stored INTEGER,
    compression TEXT, error TEXT);
CREATE INDEX blocks_by_file ON blocks (file);
"""
_SCHEMA_4: Final = f"""{_SCHEMA_3}
CREATE TABLE weights (chunk INTEGER PRIMARY KEY, weight INTEGER NOT NULL);
CREATE TABLE rare (
    path INTEGER NOT NULL, chunk INTEGER NOT NULL, place INTEGER NOT NULL, kinds INTEGER NOT NULL,
    value TEXT NOT NULL, PRIMARY KEY (path, chunk, place)) WITHOUT ROWID;
CREATE INDEX rare_by_chunk ON rare (chunk, path);
"""
_SCHEMA_5: Final = f"""{_SCHEMA_4.replace("left_out TEXT,", "left_out TEXT, footprint TEXT,")}
CREATE TABLE sky (cell INTEGER NOT NULL, file INTEGER NOT NULL, PRIMARY KEY (cell, file)) WITHOUT ROWID;
CREATE INDEX sky_by_file ON sky (file);
CREATE TABLE looks (root BLOB PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE excluded (pattern TEXT PRIMARY KEY) WITHOUT ROWID;
"""
#: Columns lie in the order in which they are added: by their keys, each chunk would split all pages.
_SCHEMA: Final = _SCHEMA_5.replace("PRIMARY KEY (path, chunk)) WITHOUT ROWID", "PRIMARY KEY (path, chunk))")
#: Seconds to wait for another process that writes.
_WAIT: Final = 60.0


def connect(path: str, *, writable: bool) -> sqlite3.Connection:
    """Open the catalogue at ``path``; a writable one is made if it is missing or empty, or of an older version.

    Raises ``StorageError``, ``OSError``.
    """
    mark = _mark_of(path)
    try:
        if mark == _NO_DATABASE:
            raise NotCatalogError(
                "is no catalogue, but a file of another kind", path=path, remedy=Remedy.OTHER_CATALOG
            )
        if mark not in (None, _APPLICATION):
            with closing(_connected(path, "mode=ro&immutable=1")) as found:  # changes nothing, whosever it is
                if mark or _tables_of(found) not in _our_tables():
                    raise _foreign(path)
        connection = _connected(path, "mode=rwc" if writable else "mode=ro")
        try:
            _bring_up(connection, path, writable=writable)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, UnicodeDecodeError) as err:
        error = error_of(err, path)
        if isinstance(error, NotCatalogError) and mark != _APPLICATION:
            error = NotCatalogError(f"is no catalogue ({err})", path=path, remedy=Remedy.OTHER_CATALOG)
        raise error from err
    return connection


def uri_of(path: str, parameters: str) -> str:
    """Return the name by which SQLite opens the file at ``path``."""
    from urllib.parse import quote

    return f"file:{quote(os.path.abspath(path), errors='surrogateescape')}?{parameters}"


def _mark_of(path: str) -> int | None:
    """Return the application that made the SQLite file at ``path``; None if the file is missing or empty.

    ``_NO_DATABASE`` for a file that is none of SQLite.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_APPLICATION_AT.stop)
    except FileNotFoundError:
        return None
    if head and not head.startswith(_HEAD):
        return _NO_DATABASE
    return int.from_bytes(head[_APPLICATION_AT], "big") if head else None


def _connected(path: str, parameters: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri_of(path, parameters), uri=True, timeout=_WAIT, isolation_level=None)
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="replace")  # it may be damaged
    connection.execute("PRAGMA trusted_schema = OFF")
    prepare(connection)
    return connection


def _bring_up(connection: sqlite3.Connection, path: str, *, writable: bool) -> None:
    """Make the tables of an empty catalogue, or in place of those of another version."""
    if _is_current(connection, path):
        return
    if not writable:
        raise StorageError("is empty or of another version", path=path, remedy=Remedy.INDEX)
    connection.execute("BEGIN IMMEDIATE")
    if not _is_current(connection, path):  # another process may just have made them
        if _tables_of(connection):
            logger.warning("%s: is of another version, and is made anew: index all its directories again", path)
        for name in re.findall(r"CREATE TABLE (\w+)", _SCHEMA):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def _is_current(connection: sqlite3.Connection, path: str) -> bool:
    """Return whether the catalogue has our tables of this version; raise ``StorageError`` if it has any others."""
    tables = _tables_of(connection)
    if tables and tables not in _our_tables():
        raise _foreign(path)
    marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    return bool(tables) and marks == [_APPLICATION, _VERSION]


def _foreign(path: str) -> NotCatalogError:
    sentence = "is no catalogue: it has tables, views or triggers that asdffs did not make"
    return NotCatalogError(sentence, path=path, remedy=Remedy.OTHER_CATALOG)


def _tables_of(connection: sqlite3.Connection) -> list[Any]:
    """Return all that the file defines: tables, indexes, views and triggers."""
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()


@functools.cache
def _our_tables() -> list[list[Any]]:
    """Return what catalogues of each version define."""
    found = []
    for schema in (_SCHEMA, _SCHEMA_5, _SCHEMA_4, _SCHEMA_3):
        with closing(sqlite3.connect(":memory:")) as empty:
            empty.executescript(schema)
            found.append(_tables_of(empty))
    return found


# -- errors: who must do what, and the exit code, depend on the result code of SQLite --

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED: Final = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
    *(sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_SCHEMA),
)
#: A statement that is wrong or not allowed; 0: Python refuses it.
_STATEMENT: Final = (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_RANGE)


def error_of(
    err: sqlite3.Error | sqlite3.Warning | UnicodeDecodeError, path: str, *, typed: bool = False
) -> AsdffsError:
    """Return what to raise for an error of the catalogue at ``path``.

    ``typed``: a user typed the statement.  ``UnicodeDecodeError``: SQLite says the damaged name of a table.
    """
    code = getattr(err, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return InUseError("is being written by another process", path=path)
    if (
        code in _DAMAGED or isinstance(err, UnicodeDecodeError) or "user-defined function" in str(err)
    ):  # ours raise errors for damaged columns only
        return NotCatalogError(f"is damaged ({err})", path=path, remedy=Remedy.INDEX_ANEW)
    if code == sqlite3.SQLITE_FULL:
        return StorageError("the disk is full, and what the catalogue has stays; make room, and try again", path=path)
    if typed and code in _STATEMENT:
        return UsageError(f"SQLite says: {err}")
    return StorageError(f"SQLite says: {err}", path=path)


@contextlib.contextmanager
def damage_told(path: str) -> Iterator[None]:
    """Raise ``NotCatalogError`` if what the catalogue at ``path`` says cannot be."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as err:
        raise NotCatalogError("is damaged", path=path, remedy=Remedy.INDEX_ANEW) from err


@contextlib.contextmanager
def sqlite_errors(path: str, *, typed: bool = False) -> Iterator[None]:
    """Raise ``error_of`` for an error of SQLite inside the block."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as err:
        raise error_of(err, path, typed=typed) from err


# -- SQL (``find --sql``): a SELECT over four views, which can change nothing --

T = TypeVar("T")

#: Steps of SQLite between two looks for a signal, and rows that are asked for at a time.
_STEPS: Final = 100_000
_ROWS: Final = 100
#: What ``--sql`` may read; made for each connection.
_VIEWS: Final = """
CREATE TEMP VIEW file AS SELECT id, shown(path) AS path, size, standard, format, container, error, left_out,
    footprint FROM main.files;
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
