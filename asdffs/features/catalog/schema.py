"""Opens the SQLite file of a catalogue; nothing but a catalogue is ever changed.

``--catalog`` may name the database of another program, and a catalogue may come from another user.  So the header of
the file must say that asdffs made it.  And it must have exactly our tables: SQLite would run foreign triggers and
views.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sqlite3
from contextlib import closing
from typing import Any, Final

from asdffs.errors import NotCatalogError, Remedy, StorageError
from asdffs.features.catalog.sql import prepare
from asdffs.features.catalog.sqlite_errors import error_of

logger = logging.getLogger(__name__)

#: What ``application_id`` is in the header of a catalogue: "asdf".  Catalogues of asdffs 0.2 have 0.
_APPLICATION: Final = 0x61736466
_APPLICATION_AT: Final = slice(68, 72)
#: Changes whenever the tables do, or what they say; an older catalogue is made anew.
_VERSION: Final = 4
#: The tables of versions 1 to 3, and those that version 4 has as well.
_OLD_SCHEMA: Final = """
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
_SCHEMA: Final = f"""{_OLD_SCHEMA}
CREATE TABLE weights (chunk INTEGER PRIMARY KEY, weight INTEGER NOT NULL);
CREATE TABLE rare (
    path INTEGER NOT NULL, chunk INTEGER NOT NULL, place INTEGER NOT NULL, kinds INTEGER NOT NULL,
    value TEXT NOT NULL, PRIMARY KEY (path, chunk, place)) WITHOUT ROWID;
CREATE INDEX rare_by_chunk ON rare (chunk, path);
"""
#: Seconds to wait for another process that writes.
_WAIT: Final = 60.0


def connect(path: str, *, writable: bool) -> sqlite3.Connection:
    """Open the catalogue at ``path``; a writable one is made if it is missing or empty, or of an older version.

    Raises ``StorageError``, ``OSError``.
    """
    mark = _mark_of(path)
    try:
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
    """Return the application that made the SQLite file at ``path``; None if the file is missing or empty."""
    try:
        with open(path, "rb") as file:
            head = file.read(_APPLICATION_AT.stop)
    except FileNotFoundError:
        return None
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
    for schema in (_SCHEMA, _OLD_SCHEMA):
        with closing(sqlite3.connect(":memory:")) as empty:
            empty.executescript(schema)
            found.append(_tables_of(empty))
    return found
