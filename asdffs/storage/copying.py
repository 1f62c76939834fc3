"""Copy bytes between files without reading them: by sharing if the file system can, else in the kernel.

Sharing (reflinks, on XFS, btrfs, bcachefs) needs the same alignment to file-system blocks in both files.  The
rest at both ends is copied.  Nothing is durable before a sync.  Any thread may use it, one at a time for each
target.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from mmap import PAGESIZE
from typing import Final, NamedTuple

from asdffs.scheduling import CHUNK
from asdffs.storage.backend import Folder, ReadBackend, WriteBackend

#: Errors of copy_file_range if it cannot copy between these two files at all.
_NO_COPY_RANGE: Final = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
)
#: Bytes that the kernel copies at a time, so that progress is visible, and a signal is handled in between.
_AT_ONCE: Final = 64 << 20
#: The kernel copies through a pipe of so many bytes.  If each of its pieces begins at a multiple of this size in the
#: target, the page cache uses large pages for them, and copying takes two thirds of the time.
_PIPE: Final = 1 << 16
#: The largest block of a file system for which room is left.  Network file systems tell how much they transfer at a
#: time instead, 1 to 16 MiB.
_LARGEST_UNIT: Final = 1 << 17
#: Fewer file-system blocks than this are copied: aligning them would take more space than sharing saves.
_WORTH: Final = 16


def copy_bytes(source: int, start: int, target: int, to: int, length: int) -> None:
    """Copy ``length`` bytes from ``start`` of one file descriptor to ``to`` of another file.  Raises ``OSError``.

    The kernel copies them if it can: a network file system may do so on the server.  If it fails, any of the bytes
    may have been copied.
    """
    while length > 0:
        try:
            copied = os.copy_file_range(source, target, min(length, -to % _PIPE or _AT_ONCE), start, to)
        except (OSError, AttributeError) as err:  # not supported for these files, or on this system
            if isinstance(err, OSError) and err.errno not in _NO_COPY_RANGE:
                raise
            copied = os.pwrite(target, os.pread(source, min(length, CHUNK), start), to)
        if copied == 0:
            raise OSError(errno.EIO, "the file became shorter while it was copied")
        start, to, length = start + copied, to + copied, length - copied


def copy_data(source: int, start: int, target: int, to: int, length: int) -> None:
    """Copy as ``copy_bytes``, but only the extents with data, so that holes stay holes.  Raises ``OSError``."""
    offset, stop = start, start + length
    while offset < stop and (found := _next_data(source, offset)) is not None:
        first, last = min(found[0], stop), min(found[1], stop)
        copy_bytes(source, first, target, to + first - start, last - first)
        offset = max(last, offset + 1)


def _next_data(fd: int, offset: int) -> tuple[int, int] | None:
    """Return the start and the end of the next data at or after ``offset``, or None if only a hole is left."""
    try:
        start = os.lseek(fd, offset, os.SEEK_DATA)
        return start, os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as err:
        if err.errno == errno.ENXIO:
            return None
        raise


class Stretch(NamedTuple):
    """``length`` bytes from ``offset`` of ``backend``."""

    backend: ReadBackend
    offset: int
    length: int


def sharing_unit(target: WriteBackend) -> int:
    """Return the size of the parts that files on the file system of ``target`` share: its blocks, or pages."""
    return target.unit() if target.unit() <= _LARGEST_UNIT else PAGESIZE


def misplaced(stretch: Stretch, target: WriteBackend, to: int) -> int:
    """Return by how many bytes ``stretch`` must move on from ``to`` in ``target`` to be shared, or copied by pages.

    0 if it is too small for that.
    """
    unit = sharing_unit(target)
    return (stretch.offset - to) % unit if stretch.length >= _WORTH * unit else 0


def transfer(folder: Folder, stretch: Stretch, target: WriteBackend, to: int, step: Callable[[int], object]) -> None:
    """Copy or share the bytes of ``stretch`` to offset ``to`` of ``target``, a file of ``folder``.

    ``step(bytes)`` is called as it goes on.  Raises ``OSError``.
    """
    shared = _share(folder, stretch, target, to)
    for start, stop in ((0, shared.start), (shared.stop, stretch.length)):
        for place in range(start, stop, _AT_ONCE):
            length = min(_AT_ONCE, stop - place)
            folder.copy_range(stretch.backend, stretch.offset + place, target, to + place, length)
            step(length)
    step(len(shared))


def _share(folder: Folder, stretch: Stretch, target: WriteBackend, to: int) -> range:
    """Share as many bytes as possible, and return their range in ``stretch``."""
    unit = sharing_unit(target)
    start = -stretch.offset % unit
    stop = start + (stretch.length - start) // unit * unit
    none = range(0)
    if (stretch.offset - to) % unit or stop <= start:
        return none
    try:
        folder.clone_range(stretch.backend, stretch.offset + start, target, to + start, stop - start)
    except OSError:  # the caller copies the bytes instead
        return none
    return range(start, stop)
