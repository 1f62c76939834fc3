"""Loose files of a mounted store (not in the tree yet), and the log with which the next mount recovers them.

Each loose file is a file of the spool.  The log lists the changes to names since the tree was last committed, one
JSON list per line.  The next mount replays them on the committed tree.  The first line has a hash of that tree.
Before a new tree is committed, its log is written beside the old log.  So one of the two fits at each moment.

Guarantee: a change that was reported as done survives a killed daemon.  It survives a crash of the machine only if it
was synced.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
from typing import Any, Final
from urllib.parse import quote

from asdffs.document.document import Document
from asdffs.features.daf.files import PIECE, Content
from asdffs.features.daf.format import LOG, NEXT
from asdffs.storage.backend import read_bytes
from asdffs.storage.descriptors import duplicate_fd, kept_files, open_fd
from asdffs.storage.own_files import ScratchFile

_OWN: Final = re.compile(r"s[0-9]+-.*", re.DOTALL)
_LONGEST: Final = 180


class Loose(ScratchFile):
    """A file of the spool, as ``Content``."""

    def fill(self, content: Content, size: int) -> None:
        """Copy the first ``size`` bytes of ``content`` into this file.  Raises ``OSError``, ``AsdffsError``."""
        for offset in range(0, size, PIECE):
            self.write(offset, read_bytes(content.read(offset, min(PIECE, size - offset))))


class LooseFiles:
    """The loose files and the log in the directory ``spool``.

    ``logged`` is false while a log is replayed.
    """

    def __init__(self, spool: str, document: Document, *, logged: bool = True) -> None:
        self._spool = spool
        self._document = document
        self._logged = logged
        self._count = 0
        self._logs: list[int] = []

    def create(self, path: str) -> Loose:
        """Create an empty spool file for ``path`` of the store.  Raises ``OSError``."""
        quoted = quote(path, safe="", errors="surrogateescape")[:_LONGEST].rstrip("%")
        while True:
            self._count += 1
            name = os.path.join(self._spool, f"s{self._count}-{quoted}")
            with contextlib.suppress(FileExistsError):
                kept_files.create(name)
                return Loose(name)

    def note(self, *operation: str) -> None:
        """Append an operation to the log, and to the next log if that exists.  Raises ``OSError``."""
        if not self._logged:
            return
        self._begin()
        sizes = [os.fstat(log).st_size for log in self._logs]
        try:
            for log in self._logs:
                _append(log, [operation])
        except OSError:
            for log, size in zip(self._logs, sizes, strict=True):
                os.ftruncate(log, size)
            raise

    def prepare(self, text: bytes, operations: list[tuple[str, ...]]) -> None:
        """Write the next log, for the tree ``text`` that is about to be committed.  Raises ``OSError``."""
        self._begin()
        while len(self._logs) > 1:  # the next log of a commit that failed
            os.close(self._logs.pop())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._spool, NEXT))
        self._logs.append(self._opened(NEXT, [("tree", _digest(text)), *operations]))

    def restart(self) -> None:
        """Replace the log by the next log.  Raises ``OSError``."""
        os.replace(os.path.join(self._spool, NEXT), os.path.join(self._spool, LOG))
        os.close(self._logs.pop(0))

    def sync(self) -> None:
        """Make the log durable.  Raises ``OSError``."""
        copies = [duplicate_fd(log) for log in self._logs]  # the originals may be closed while this waits
        try:
            with self._document.scheduler.waiting():
                for copy in copies:
                    os.fsync(copy)
        finally:
            for copy in copies:
                os.close(copy)

    def close(self) -> None:
        """Close the logs, and the file descriptors of loose files."""
        while self._logs:
            os.close(self._logs.pop())
        kept_files.close_below(self._spool)

    def _begin(self) -> None:
        """Create the log for the present tree unless there is one."""
        if not self._logs:
            self._logs.append(self._opened(LOG, [("tree", _digest(self._document.tree.text()))]))

    def _opened(self, name: str, first: list[tuple[str, ...]]) -> int:
        """Open a log; write the lines ``first`` if it is empty.  Return the file descriptor."""
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC
        log = open_fd(os.path.join(self._spool, name), flags, 0o600)
        try:
            if not os.fstat(log).st_size:
                _append(log, first)
        except OSError:
            os.close(log)
            raise
        return log


def _append(log: int, operations: list[tuple[str, ...]]) -> None:
    """Append all of the operations, or none.  Raises ``OSError``."""
    raw = b"".join(json.dumps(operation).encode() + b"\n" for operation in operations)
    size = os.fstat(log).st_size
    try:
        done = os.write(log, raw)
        if done != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(log, size)
        raise


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def take_log(spool: str, text: bytes) -> list[list[Any]]:
    """Return the operations of the log for the tree ``text`` in ``spool``, and make it the current log.

    An incomplete last line is ignored: its operation was never reported as done.  Raises ``OSError``, and
    ``ValueError`` for a log that cannot be parsed.
    """
    logs = [_read(os.path.join(spool, name)) for name in (NEXT, LOG)]
    wanted = ["tree", _digest(text)]
    chosen = next((log for log in logs if log[:1] == [wanted]), logs[1] or logs[0])
    if chosen is logs[0]:  # frees the name of the next log for the next commit
        with contextlib.suppress(FileNotFoundError):
            os.replace(os.path.join(spool, NEXT), os.path.join(spool, LOG))
    return chosen[1:]


def _read(path: str) -> list[list[Any]]:
    try:
        with open(path, "rb") as file:
            return list(map(_operation, file.read().split(b"\n")[:-1]))
    except FileNotFoundError:
        return []


def _operation(line: bytes) -> list[str]:
    found = json.loads(line)
    if not isinstance(found, list) or not 2 <= len(found) <= 3 or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{line[:60]!r} is no operation")
    return found


def remove_logs(spool: str) -> None:
    """Remove the logs and the loose files, after all of their changes were committed.

    Loose files that were not committed had no name any more.  Raises ``OSError``.
    """
    for name in os.listdir(spool):
        if _OWN.fullmatch(name):
            os.unlink(os.path.join(spool, name))
    for name in (LOG, NEXT):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(spool, name))
