"""Encodes what answers say of files: attributes, entries of listings, extended attributes; and decodes times.

Pure functions, for any thread.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Final

from asdffs.mount.protocol import DIRECTORY_ENTRY, ENTRY_ANSWER, SIZE_ANSWER, STATUS, SetFlag
from asdffs.mount.structures import DirectoryEntry, SetAttributes, SizeAnswer
from asdffs.vfs.attributes import Attributes, Kind

#: Unit of ``blocks`` in bytes (stat(2)), and nanoseconds in a second.
_BLOCK: Final = 512
_SECOND: Final = 10**9
_BLOCK_SIZE: Final = 4096
#: Inode number of an entry whose number is unknown.
_UNKNOWN_NUMBER: Final = 0xFFFFFFFF
KINDS: Final[dict[Kind, int]] = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "link": stat.S_IFLNK,
    "pipe": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
    "character device": stat.S_IFCHR,
    "block device": stat.S_IFBLK,
}
#: Bits of a mode that a directory entry has, shifted by this.
_KIND_SHIFT: Final = 12
_status_of: Final = STATUS.numbers.pack


def status(shown: Attributes) -> bytes:
    """Return ``struct fuse_attr``."""
    atime, atime_rest = divmod(shown.atime_ns, _SECOND)
    mtime, mtime_rest = divmod(shown.mtime_ns, _SECOND)
    ctime, ctime_rest = divmod(shown.ctime_ns, _SECOND)
    return _status_of(
        shown.number,
        shown.size,
        -(-shown.size // _BLOCK),
        atime,
        mtime,
        ctime,
        atime_rest,
        mtime_rest,
        ctime_rest,
        KINDS[shown.kind] | shown.mode,
        shown.links,
        shown.uid,
        shown.gid,
        0,
        _BLOCK_SIZE,
        0,
    )


#: An entry of a listing without attributes: the number 0 means that the kernel asks for them if it needs them.
NO_ENTRY: Final = bytes(ENTRY_ANSWER.numbers.size + STATUS.numbers.size)


def directory_entry(name: bytes, mode: int, number: int, position: int) -> bytes:
    """Return an entry of a listing; ``position``: at which the next one begins."""
    entry = DirectoryEntry(number or _UNKNOWN_NUMBER, position, len(name), mode >> _KIND_SHIFT)
    return DIRECTORY_ENTRY.numbers.pack(*entry) + name + bytes(-len(name) % 8)


def times_of(asked: SetAttributes) -> tuple[int | None, int | None]:
    """Return atime and mtime in ns; None keeps one."""
    now = time.time_ns()
    atime = now if asked.valid & SetFlag.ATIME_NOW else asked.atime * _SECOND + asked.atime_rest
    mtime = now if asked.valid & SetFlag.MTIME_NOW else asked.mtime * _SECOND + asked.mtime_rest
    return (
        atime if asked.valid & SetFlag.ATIME else None,
        mtime if asked.valid & SetFlag.MTIME else None,
    )


def fitting(value: bytes, size: int) -> bytes:
    """Return an extended attribute or, for a ``size`` of 0, the size of it.  Raises ``OSError``."""
    if not size:
        return SIZE_ANSWER.pack(SizeAnswer(len(value)))
    if len(value) > size:
        raise OSError(errno.ERANGE, os.strerror(errno.ERANGE))
    return value
