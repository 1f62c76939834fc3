"""Keeps the old bytes of blocks before they are changed, up to a size, so that a session can be undone.

Content is kept in pieces of 64 KiB, each before its first change in a session, durably.  The oldest sessions make
room for the newest one.  If that needs more than the size, its later changes are not kept, and the session cannot be
taken back.  The caller holds the main lock, which is released only while the record is synced, and the lock of the
block.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from asdffs.errors import DamagedBlockError
from asdffs.scheduling import Scheduler
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.old_bytes import (
    BYTES,
    END,
    END_SIZE,
    LEFT,
    PIECE,
    SIZE,
    TAKING,
    Session,
    Why,
    directory_of,
    last_session,
    remove_session,
    sessions_in,
    size_of,
)

logger = logging.getLogger(__name__)

#: Pieces that are read and recorded before other threads get their turn.
_AT_ONCE: Final = 64

#: ``read(number, offset, length)`` returns content of a block as it is now, fewer bytes at its end.
Read = Callable[[int, int, int], bytes]
#: ``size(number)`` returns the size of a block as it is now.
Size = Callable[[int], int]


class Keeper:
    """The old bytes of one file in ``folder``, which has ``count`` blocks when it is opened.

    ``limit``: the most bytes of all sessions.
    """

    def __init__(self, folder: FileFolder, name: str, count: int, limit: int, scheduler: Scheduler) -> None:
        self._folder, self._name = folder, name
        self._count = count
        self._limit = limit
        self._scheduler = scheduler
        self._session: Session | None = None
        self._sizes: dict[int, int] = {}
        self._kept: dict[int, set[int]] = {}
        self._used = 0
        self._full = False

    def facts(self) -> dict[str, Any]:
        """Return what ``status.json`` tells: bytes kept, the limit, whether a change is not kept."""
        return {"kept": self._used, "limit": self._limit, "full": self._full}

    def has(self, number: int, offset: int, length: int) -> bool:
        """Return whether a change of these bytes needs nothing more to be kept."""
        if self._full or number >= self._count:
            return True
        size, kept = self._sizes.get(number), self._kept.get(number, ())
        return size is not None and all(piece in kept for piece in _pieces(offset, length, size))

    def keep(self, number: int, offset: int, length: int, size: Size, read: Read) -> None:
        """Keep ``length`` bytes of a block that are about to be changed.

        Raises ``OSError``, ``AsdffsError``; then nothing may be changed.
        """
        if self.has(number, offset, length):
            return
        try:
            before = self._sizes[number] if number in self._sizes else size(number)
        except DamagedBlockError:
            self.leave(number, Why.DAMAGED)
            return
        kept = self._kept.setdefault(number, set())
        missing = [piece for piece in _pieces(offset, length, before) if piece not in kept]
        session = self._begun()
        if len(missing) * PIECE > self._limit - self._used:
            self.leave(number, Why.NO_ROOM)
            return
        self._used += len(missing) * PIECE
        if number not in self._sizes:
            session.append(SIZE, number, before)
        for first in range(0, len(missing), _AT_ONCE):
            if not self._put(session, number, missing[first : first + _AT_ONCE], before, read):
                return
        with self._scheduler.waiting():
            session.sync()
        self._sizes.setdefault(number, before)
        kept.update(missing)

    def _put(self, session: Session, number: int, pieces: Iterable[int], size: int, read: Read) -> bool:
        """Record some pieces; return False if they cannot be read, so the session cannot be undone."""
        for piece in pieces:
            try:
                raw = read(number, piece * PIECE, min(PIECE, size - piece * PIECE))
            except DamagedBlockError:
                self.leave(number, Why.DAMAGED)
                return False
            session.append(BYTES, number, piece * PIECE, raw)
        with self._scheduler.waiting():
            pass  # others get their turn
        return True

    def leave(self, number: int, why: Why) -> None:
        """Note that a change of a block is not kept.  Raises ``OSError``, ``UntrustedFileError``."""
        if self._full or number >= self._count:
            return
        told = "block %d: its old bytes are not kept (%s), so this session cannot be undone"
        logger.warning(told, number, _WHY[why])
        session = self._begun()
        session.append(LEFT, number, int(why))
        session.sync()
        self._full = True

    def interrupt(self) -> None:
        """End the session, which cannot be taken back: another program changed the file.  Raises ``OSError``."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.append(LEFT, 0, int(Why.FOREIGN))
                session.sync()
            finally:
                session.close()

    def end(self, size: Size, read: Read) -> None:
        """End the session: note what the changed bytes are now.  Raises ``OSError``, ``AsdffsError``."""
        session, self._session = self._session, None
        if session is None:
            return
        try:
            _end(session, self._sizes, self._kept, size, read)
        finally:
            session.close()

    def _begun(self) -> Session:
        if self._session is None:
            directory = directory_of(self._folder, self._name)
            names = sessions_in(directory)
            while names and size_of(directory, names) > self._limit // 2:
                remove_session(self._folder, self._name, directory, names.pop(0))
                directory = directory_of(self._folder, self._name)
            self._used = size_of(directory, names)
            number = int(names[-1]) + 1 if names else 1
            self._session = Session.create(directory, f"{number:06d}", self._count)
        return self._session


_WHY: Final = {
    Why.NO_ROOM: "there is no more room",
    Why.REMOVED: "it is removed or emptied",
    Why.FOREIGN: "another program changed the file",
    Why.DAMAGED: "they cannot be read",
}


def end_killed(folder: FileFolder, name: str, size: Size, read: Read) -> None:
    """End the last session of a file if its process was killed, before anything else changes the file.

    Raises ``OSError``, ``AsdffsError``.
    """
    found = last_session(folder, name)
    if found is None:
        return
    session = found[1]
    try:
        sizes, kept, ended = dict[int, int](), dict[int, set[int]](), False
        for old in session.records():
            ended = ended or old.kind in (LEFT, END_SIZE, END, TAKING)
            if old.kind == SIZE:
                sizes[old.number] = old.offset
            elif old.kind == BYTES:
                kept.setdefault(old.number, set()).add(old.offset // PIECE)
        if not ended:
            _end(session, sizes, kept, size, read)
    finally:
        session.close()


def _end(session: Session, sizes: dict[int, int], kept: dict[int, set[int]], size: Size, read: Read) -> None:
    for number in sizes:
        now = size(number)
        session.append(END_SIZE, number, now)
        for piece in sorted(kept.get(number, ())):
            raw = read(number, piece * PIECE, PIECE) if piece * PIECE < now else b""
            session.append(END, number, piece * PIECE, crc=zlib.crc32(raw), length=len(raw))
    session.sync()


def _pieces(offset: int, length: int, size: int) -> range:
    """Return the numbers of the pieces of the first ``size`` bytes that a change touches."""
    return range(offset // PIECE, -(-min(offset + length, size) // PIECE)) if length and offset < size else range(0)
