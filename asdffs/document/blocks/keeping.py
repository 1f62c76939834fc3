"""Keeps the old bytes of blocks before they are changed, up to a size, so that a session can be undone.

Content is kept in pieces of 64 KiB, each before its first change in a session, durably.  The oldest sessions make
room for the newest one.  If that needs more than the size, its later changes are not kept, and the session cannot be
taken back.  The caller holds the main lock and that of the block.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Any, Final

from asdffs.scheduling import Scheduler
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.old_bytes import (
    BYTES,
    LEFT,
    NOW,
    SIZE,
    Session,
    directory_of,
    remove_session,
    sessions_in,
    size_of,
)

logger = logging.getLogger(__name__)

#: Bytes of content that are kept together.
PIECE: Final = 1 << 16
#: ``read(number, offset, length)`` returns content of a block as it is now.
Read = Callable[[int, int, int], bytes]


class Keeper:
    """The old bytes of one file in ``folder``.  ``limit``: the most bytes of all sessions."""

    def __init__(self, folder: FileFolder, name: str, limit: int, scheduler: Scheduler) -> None:
        self._folder, self._name = folder, name
        self._limit = limit
        self._scheduler = scheduler
        self._session: Session | None = None
        self._sizes: dict[int, int] = {}
        self._kept: dict[int, set[int]] = {}
        self._used = 0
        self._full = False

    def facts(self) -> dict[str, Any]:
        """Return what ``status.json`` tells: bytes kept, the limit, whether there was no more room."""
        return {"kept": self._used, "limit": self._limit, "full": self._full}

    def has(self, number: int, offset: int, length: int) -> bool:
        """Return whether a change of these bytes needs nothing more to be kept."""
        if self._full:
            return True
        size, kept = self._sizes.get(number), self._kept.get(number, ())
        return size is not None and all(piece in kept for piece in _pieces(offset, length, size))

    def keep(self, number: int, count: int, offset: int, length: int, size: int, read: Read) -> None:
        """Keep ``length`` bytes of a block of ``size`` bytes that are about to be changed.

        ``count``: the number of blocks in the file.  Raises ``OSError``, ``AsdffsError``; then nothing may change.
        """
        if self.has(number, offset, length):
            return
        session = self._begun(count)
        if number >= session.count:
            return  # it was added in this session
        kept, before = self._kept.setdefault(number, set()), self._sizes.get(number, size)
        missing = [piece for piece in _pieces(offset, length, before) if piece not in kept]
        if len(missing) * PIECE > self._limit - self._used:
            self._leave(session, number)
            return
        old = [(piece, read(number, piece * PIECE, min(PIECE, before - piece * PIECE))) for piece in missing]
        with self._scheduler.waiting():
            if number not in self._sizes:
                session.append(SIZE, number, size)
            for piece, raw in old:
                session.append(BYTES, number, piece * PIECE, raw)
            session.sync()
        self._sizes.setdefault(number, size)
        kept.update(missing)
        self._used += sum(len(raw) for _, raw in old)

    def leave(self, number: int, count: int) -> None:
        """Note that a block is changed in a way that cannot be taken back: it is removed.  Raises ``OSError``."""
        session = self._begun(count)
        if number < session.count and not self._full:
            self._leave(session, number)

    def interrupt(self) -> None:
        """End the session, which cannot be taken back: another program changed the file.  Raises ``OSError``."""
        session, self._session = self._session, None
        if session is not None:
            session.append(LEFT, 0, 0)
            session.sync()
            session.close()
        self._sizes, self._kept, self._full = {}, {}, False

    def end(self, size: Callable[[int], int], read: Read) -> None:
        """End the session: note what the changed bytes are now.  Raises ``OSError``, ``AsdffsError``."""
        session, self._session = self._session, None
        if session is None:
            return
        try:
            for number, pieces in self._kept.items():
                for piece in sorted(pieces):
                    length = max(0, min(PIECE, size(number) - piece * PIECE))
                    crc = zlib.crc32(read(number, piece * PIECE, length)) if length else 0
                    session.append(NOW, number, piece * PIECE, crc=crc, length=length)
            session.sync()
        finally:
            session.close()

    def _begun(self, count: int) -> Session:
        if self._session is None:
            directory = directory_of(self._folder, self._name)
            names = sessions_in(directory)
            while names and size_of(directory, names) > self._limit // 2:
                remove_session(self._folder, self._name, directory, names.pop(0))
                directory = directory_of(self._folder, self._name)
            self._used = size_of(directory, names)
            self._session = Session.create(directory, f"{int(names[-1]) + 1 if names else 1:06d}", count)
        return self._session

    def _leave(self, session: Session, number: int) -> None:
        logger.warning(
            "block %d: there is no more room for its old bytes, so this session cannot be undone",
            number,
        )
        session.append(LEFT, number, 0)
        session.sync()
        self._full = True


def _pieces(offset: int, length: int, size: int) -> range:
    """Return the numbers of the pieces of the first ``size`` bytes that a change touches."""
    return range(offset // PIECE, -(-min(offset + length, size) // PIECE)) if length and offset < size else range(0)
