"""Copies bytes between open files.

Between files on local disks, two threads copy more bytes at a time than the kernel alone (copy_file_range): one reads
while the other writes.  Elsewhere the kernel is asked first, because a network file system may copy on the server.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Final

from asdffs.scheduling import CHUNK

#: Errors of copy_file_range if it cannot copy between these two files at all.
_NO_COPY_RANGE: Final = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
)
#: Bytes that a thread copies at a time; fewer bytes than ``_LARGE`` are not worth a second thread.
_PIECE: Final = 1 << 20
_LARGE: Final = 8 << 20


def copy_bytes(source: int, start: int, target: int, to: int, length: int) -> None:
    """Copy ``length`` bytes from ``start`` of one file descriptor to ``to`` of another file.  Raises ``OSError``.

    If it fails, any of the bytes may have been copied.
    """
    if length >= _LARGE and (os.cpu_count() or 1) > 1 and _on_disk(source) and _on_disk(target):
        _Copy(source, start, target, to, length).run()
    else:
        _copy_by_kernel(source, start, target, to, length)


def _on_disk(fd: int) -> bool:
    """Return whether the file system is on a block device; those of networks have device numbers without one."""
    return os.major(os.fstat(fd).st_dev) != 0


class _Copy:
    """One copy, by the calling thread and another one, which take pieces in turn."""

    def __init__(self, source: int, start: int, target: int, to: int, length: int) -> None:
        self._source, self._start = source, start
        self._target, self._to = target, to
        self._length = length
        self._places = iter(range(0, length, _PIECE))  # each piece goes to one thread: a step of it is atomic
        self._failed = False
        self._errors: list[BaseException] = []

    def run(self) -> None:
        helper = threading.Thread(target=self._copy, name="copying", daemon=True)
        try:
            helper.start()
        except RuntimeError:  # the system has no more threads: this one copies everything
            self._copy()
        else:
            self._copy()
            self._await(helper)
        if self._errors:
            raise self._errors[0]

    def _await(self, helper: threading.Thread) -> None:
        """Wait for the other thread: afterwards, nothing may write into the file any more."""
        while helper.is_alive():
            try:
                helper.join()
            # an interrupt, however many come: the other thread ends after its piece
            except BaseException as err:  # noqa: BLE001
                self._fail(err)

    def _copy(self) -> None:
        try:
            buffer = memoryview(bytearray(_PIECE))
            for place in self._places:
                if self._failed:
                    return
                self._copy_piece(place, buffer[: min(_PIECE, self._length - place)])
        # ``run`` raises it: a thread that ended silently would leave a piece out
        except BaseException as err:  # noqa: BLE001
            self._fail(err)

    def _fail(self, error: BaseException) -> None:
        self._errors.append(error)
        self._failed = True

    def _copy_piece(self, place: int, piece: memoryview) -> None:
        done = 0
        while done < len(piece):
            count = os.preadv(self._source, [piece[done:]], self._start + place + done)
            if count == 0:
                raise _shorter()
            done += os.pwrite(self._target, piece[done : done + count], self._to + place + done)


def _copy_by_kernel(source: int, start: int, target: int, to: int, length: int) -> None:
    while length > 0:
        try:
            copied = os.copy_file_range(source, target, length, start, to)
        except (OSError, AttributeError) as err:  # not supported for these files, or on this system
            if isinstance(err, OSError) and err.errno not in _NO_COPY_RANGE:
                raise
            piece = os.pread(source, min(length, CHUNK), start)
            copied = os.pwrite(target, piece, to)
        if copied == 0:
            raise _shorter()
        start, to, length = start + copied, to + copied, length - copied


def _shorter() -> OSError:
    return OSError(errno.EIO, "the file became shorter while it was copied")
