"""Keeps the old bytes of blocks before they are changed, up to a size, so that a session can be undone.

Content is kept in pieces of 64 KiB, each before its first change in a session, durably.  The oldest sessions make
room for the newest one.  If that needs more than the size, its later changes are not kept, and the session cannot be
taken back.  The caller holds the main lock and that of the block.  Records are appended with the main lock held; it
is released while they are synced, and between pieces.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from asdffs.errors import AsdffsError, DamagedBlockError
from asdffs.scheduling import Scheduler
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.old_bytes import (
    BYTES,
    DONE,
    END,
    END_SIZE,
    LEFT,
    PIECE,
    SIZE,
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
        room = len(missing) * PIECE
        self._used += room  # now, because others may come while this waits
        try:
            if self._record(session, number, before, missing, read):
                self._sizes.setdefault(number, before)
                kept.update(missing)
        except BaseException:
            self._used -= room
            raise

    def _record(self, session: Session, number: int, size: int, missing: list[int], read: Read) -> bool:
        """Record pieces durably; return False if they cannot be read, so the session cannot be undone."""
        if number not in self._sizes:
            session.append(SIZE, number, size)
        try:
            for count, piece in enumerate(missing, 1):
                raw = read(number, piece * PIECE, min(PIECE, size - piece * PIECE))
                session.append(BYTES, number, piece * PIECE, raw)
                _take_turns(self._scheduler, count)
        except DamagedBlockError:
            self.leave(number, Why.DAMAGED)
            return False
        with self._scheduler.waiting():
            session.sync()
        return True

    def leave(self, number: int, why: Why) -> None:
        """Note that a change of a block is not kept.  Raises ``OSError``, ``UntrustedFileError``."""
        if self._full or number >= self._count:
            return
        told = "block %d: its old bytes are not kept (%s), so this session cannot be undone"
        logger.warning(told, number, _WHY[why])
        _leave(self._begun(), number, why)
        self._full = True

    def interrupt(self) -> None:
        """End the session, which cannot be taken back: another program changed the file."""
        session, self._session = self._session, None
        if session is not None:
            self._close_after(session, lambda: _leave(session, 0, Why.FOREIGN))

    def end(self, size: Size, read: Read, is_foreign: Callable[[], bool]) -> None:
        """End the session: note what the changed bytes are now.  ``is_foreign()``: see ``BlockStore.end_session``."""
        session, self._session = self._session, None
        if session is None:
            return

        def work() -> None:
            if is_foreign():
                _leave(session, 0, Why.FOREIGN)
            else:
                _end(session, self._sizes, self._kept, size, read, self._scheduler)

        self._close_after(session, work)

    def _close_after(self, session: Session, work: Callable[[], object]) -> None:
        """Do the last work for a session, and log why it was not possible."""
        try:
            work()
        except (AsdffsError, OSError) as err:
            logger.warning("%s: the record of old bytes has no end: %s", self._name, err)
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
            inode = self._folder.status(self._name).st_ino
            self._session = Session.create(directory, f"{number:06d}", self._count, inode)
        return self._session


_WHY: Final = {
    Why.NO_ROOM: "there is no more room",
    Why.REMOVED: "it is removed or emptied",
    Why.FOREIGN: "another program changed the file",
    Why.DAMAGED: "they cannot be read",
}


def end_killed(folder: FileFolder, name: str, size: Size, read: Read, scheduler: Scheduler) -> None:
    """End the last session of a file if it was killed, or if its undo was, before anything else changes the file."""
    try:
        found = last_session(folder, name)
        if found is None:
            return
        session = found[1]
        try:
            if not session.ended:
                _end_as_it_is(session, folder.status(name).st_ino, size, read, scheduler)
        finally:
            session.close()
    except (AsdffsError, OSError) as err:
        logger.warning("%s: the record of old bytes has no end: %s", name, err)


def _end_as_it_is(session: Session, inode: int, size: Size, read: Read, scheduler: Scheduler) -> None:
    if session.inode != inode:  # perhaps it is another file, which only has the same name
        _leave(session, 0, Why.FOREIGN)
        return
    sizes, kept = dict[int, int](), dict[int, set[int]]()
    for old in session.records():
        if old.kind == SIZE:
            sizes[old.number] = old.offset
        elif old.kind == BYTES:
            kept.setdefault(old.number, set()).add(old.offset // PIECE)
    _end(session, sizes, kept, size, read, scheduler)


def _leave(session: Session, number: int, why: Why) -> None:
    session.append(LEFT, number, int(why))
    session.sync()


def _end(
    session: Session,
    sizes: Mapping[int, int],
    kept: Mapping[int, set[int]],
    size: Size,
    read: Read,
    scheduler: Scheduler,
) -> None:
    """Record what sizes and kept bytes are now, durably; not of a session that cannot be taken back."""
    if session.ended:
        return
    for number in sizes:
        now = size(number)
        session.append(END_SIZE, number, now)
        for count, piece in enumerate(sorted(kept.get(number, ())), 1):
            raw = read(number, piece * PIECE, PIECE) if piece * PIECE < now else b""
            session.append(END, number, piece * PIECE, crc=zlib.crc32(raw), length=len(raw))
            _take_turns(scheduler, count)
    session.append(DONE, 0, 0)
    session.sync()


def _take_turns(scheduler: Scheduler, count: int) -> None:
    """Let other threads work after each so many pieces."""
    if count % _AT_ONCE == 0:
        with scheduler.waiting():
            pass


def _pieces(offset: int, length: int, size: int) -> range:
    """Return the numbers of the pieces of the first ``size`` bytes that a change touches."""
    return range(offset // PIECE, -(-min(offset + length, size) // PIECE)) if length and offset < size else range(0)
