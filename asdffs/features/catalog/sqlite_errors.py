"""Turns errors of SQLite into errors of asdffs: who must do what, and the exit code, depend on its result code."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Final

from asdffs.errors import AsdffsError, InUseError, NotCatalogError, Remedy, StorageError, UsageError

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
