"""Linux system calls that Python does not offer: insert and collapse range, clones, extent maps.

Each function takes file descriptors and bytes, and raises ``OSError``.  None of the calls is atomic across a
crash (docs/design/journal.md).  Stateless.
"""

from __future__ import annotations

import errno
import functools
import os
import struct
from typing import Any, Final

from asdffs.storage.backend import PhysicalExtent
from asdffs.storage.descriptors import open_fd

# linux/falloc.h
KEEP_SIZE: Final = 0x01
PUNCH_HOLE: Final = 0x02
COLLAPSE_RANGE: Final = 0x08
INSERT_RANGE: Final = 0x20
# linux/fs.h: struct file_clone_range
_FICLONERANGE: Final = 0x4020940D
_CLONE: Final = struct.Struct("=qQQQ")
# linux/fiemap.h: struct fiemap and fiemap_extent
_FS_IOC_FIEMAP: Final = 0xC020660B
_MAP: Final = struct.Struct("=QQIIII")
_MAPPED: Final = struct.Struct("=QQQQQIIII")
_FLAG_SYNC: Final = 1
_LAST: Final = 0x1
_SHARED: Final = 0x2000
#: Unknown, delayed, encoded, encrypted, not aligned, inline, tail: the address does not identify the data.
_NO_ADDRESS: Final = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400
_BATCH: Final = 512
_WHOLE: Final = (1 << 64) - 1

# linux/stat.h: struct statx; its mask, attributes and time of birth; the request for that; the root of a mount
_STATX_SIZE: Final = 256
_STATX: Final = struct.Struct("=I4xQ64xqI")
_STATX_BTIME: Final = 0x800
_STATX_MOUNT_ROOT: Final = 0x2000
AT_FDCWD: Final = -100
_AT_SYMLINK_NOFOLLOW: Final = 0x100


@functools.cache
def _libc() -> Any:
    """Return the C library.  Commands that only read a tree never need it, and ctypes takes long to import."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _fallocate() -> Any:
    """Return fallocate(2) with offsets of 64 bits; None on other systems."""
    import ctypes

    call = getattr(_libc(), "fallocate64", None) or getattr(_libc(), "fallocate", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return call


def _errno() -> int:
    """Return the error of the last call of this thread."""
    import ctypes

    return ctypes.get_errno()


def birth_ns(path: str) -> int:
    """Return when the file at ``path`` was created, in ns; 0 if the system or the file system does not know."""
    mask, _, seconds, rest = _statx(AT_FDCWD, path, 0)
    return seconds * 10**9 + rest if mask & _STATX_BTIME else 0


def is_mount_point(directory: int, name: str) -> bool:
    """Return whether ``name`` in ``directory`` is a mount point; False if the system does not tell."""
    return bool(_statx(directory, name, _AT_SYMLINK_NOFOLLOW)[1] & _STATX_MOUNT_ROOT)


def _statx(directory: int, name: str, flags: int) -> tuple[int, int, int, int]:
    """Return the mask, the attributes, and the time of birth in seconds and ns; zeros if they are not known."""
    import ctypes

    statx = getattr(_libc(), "statx", None)
    facts = ctypes.create_string_buffer(_STATX_SIZE)
    if statx is None or statx(directory, os.fsencode(name), flags, _STATX_BTIME, facts) != 0:
        return 0, 0, 0, 0
    mask, attributes, seconds, rest = _STATX.unpack_from(facts)
    return mask, attributes, seconds, rest


def fallocate(fd: int, mode: int, offset: int, length: int) -> None:
    """Apply ``mode`` to ``length`` bytes at ``offset`` by the system call.

    Raises ``OSError``, with EOPNOTSUPP on other systems.
    """
    call = _fallocate()
    if call is None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    while call(fd, mode, offset, length) != 0:
        code = _errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


def name_file(fd: int, directory: int, name: str) -> None:
    """Give the open file ``fd``, which has no name, one in ``directory``; raises ``OSError``."""
    descriptors = open_fd("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # only with src_dir_fd Python calls linkat(2), which can follow the link in /proc
        os.link(str(fd), name, src_dir_fd=descriptors, dst_dir_fd=directory, follow_symlinks=True)
    finally:
        os.close(descriptors)


def syncfs(fd: int) -> None:
    """Flush everything written on the file system of the open file ``fd``; raises ``OSError``."""
    call = getattr(_libc(), "syncfs", None)
    if call is not None and call(fd) != 0:
        code = _errno()
        raise OSError(code, os.strerror(code))


def punch_hole(fd: int, offset: int, length: int) -> None:
    """Free the disk space of ``length`` bytes at ``offset``, if the file system supports it.

    Raises other ``OSError``.
    """
    try:
        fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length)
    except OSError as err:
        if err.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise


def clone_range(source: int, start: int, target: int, to: int, length: int) -> None:
    """Call FICLONERANGE: ``target`` shares ``length`` bytes (0: up to the end); raises ``OSError``."""
    import fcntl

    fcntl.ioctl(target, _FICLONERANGE, _CLONE.pack(source, start, length, to))


def extents(fd: int) -> list[PhysicalExtent]:
    """Return the extents of the whole file by FIEMAP, after a sync.

    Raises ``OSError``, with EOPNOTSUPP if an address is not stable.
    """
    found: list[PhysicalExtent] = []
    start, last = 0, False
    while not last:
        batch, last = _map(fd, start)
        found += batch
        start = found[-1].logical + found[-1].length if batch else start
    return found


def _map(fd: int, start: int) -> tuple[list[PhysicalExtent], bool]:
    """Return some extents from ``start`` on, and whether these are the last."""
    buffer = bytearray(_MAP.pack(start, _WHOLE - start, _FLAG_SYNC, 0, _BATCH, 0) + bytes(_BATCH * _MAPPED.size))
    import fcntl

    fcntl.ioctl(fd, _FS_IOC_FIEMAP, buffer)
    count = _MAP.unpack_from(buffer)[3]
    found, flags = [], _LAST
    for number in range(count):
        logical, physical, length, _, _, flags, *_ = _MAPPED.unpack_from(buffer, _MAP.size + number * _MAPPED.size)
        if flags & _NO_ADDRESS:
            raise OSError(errno.EOPNOTSUPP, "an extent has no stable address of its own")
        found.append(PhysicalExtent(logical, physical, length, shared=bool(flags & _SHARED)))
    return found, bool(flags & _LAST)
