"""Numbers of the FUSE protocol (linux/fuse.h, versions 7.26 to 7.45).

``requests`` has the requests, ``answers`` the answers, ``session`` the negotiation of version and features.
"""

from __future__ import annotations

import enum
from typing import Final


class Opcode(enum.IntEnum):
    """The codes of the requests that asdffs answers."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    SETXATTR = 21
    GETXATTR = 22
    LISTXATTR = 23
    REMOVEXATTR = 24
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    IOCTL = 39
    BATCH_FORGET = 42
    FALLOCATE = 43
    READDIRPLUS = 44
    RENAME2 = 45


class InitFlag(enum.IntFlag):
    """Features that asdffs chooses from those that the kernel offers in INIT."""

    ASYNC_READ = 1 << 0
    ATOMIC_O_TRUNC = 1 << 3
    BIG_WRITES = 1 << 5
    AUTO_INVAL_DATA = 1 << 12
    DO_READDIRPLUS = 1 << 13
    ASYNC_DIO = 1 << 15
    PARALLEL_DIROPS = 1 << 18
    MAX_PAGES = 1 << 22
    HANDLE_KILLPRIV_V2 = 1 << 28
    INIT_EXT = 1 << 30


class OpenFlag(enum.IntFlag):
    """Flags of an answer to OPEN: how the kernel treats the open file."""

    DIRECT_IO = 1 << 0
    KEEP_CACHE = 1 << 1
    NO_FLUSH = 1 << 5
    PASSTHROUGH = 1 << 7


class SetFlag(enum.IntFlag):
    """Which attributes a SETATTR sets."""

    MODE = 1 << 0
    UID = 1 << 1
    GID = 1 << 2
    SIZE = 1 << 3
    ATIME = 1 << 4
    MTIME = 1 << 5
    HANDLE = 1 << 6
    ATIME_NOW = 1 << 7
    MTIME_NOW = 1 << 8
    KILL_PRIVILEGES = 1 << 11


#: The feature that the kernel reads files itself, among the upper half of the flags of INIT.
PASSTHROUGH: Final = 1 << 37 - 32
#: Flag of a GETATTR that has a handle.
GETATTR_HANDLE: Final = 1
#: Flags of a WRITE: its bytes are pages of an mmap; the file loses its set-user-ID and set-group-ID bits.
WRITE_CACHE: Final = 1
WRITE_KILL_PRIVILEGES: Final = 1 << 2
#: Flag of an OPEN: the file loses these bits.
OPEN_KILL_PRIVILEGES: Final = 1
#: The code of a notification that cached attributes, and pages, of a node are old.
NOTIFY_INODE: Final = 2


class MalformedError(Exception):
    """A request is too short, or lacks a NUL; or the kernel speaks another protocol."""
