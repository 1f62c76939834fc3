"""What a request of the kernel says, read from its bytes (linux/fuse.h).

Every request begins with ``struct fuse_in_header``, 40 bytes: 4 length, 4 opcode, 8 unique, 8 inode, 4 user, 4 group,
4 process, 4 padding.  Pure.  Only what the opcode promises may be asked for.
"""

from __future__ import annotations

import struct
from typing import Final

FUSE_GETATTR: Final = 3
FUSE_SETATTR: Final = 4
FUSE_RENAME: Final = 12
FUSE_OPEN: Final = 14
FUSE_READ: Final = 15
FUSE_WRITE: Final = 16
FUSE_RELEASE: Final = 18
FUSE_FLUSH: Final = 25
FUSE_RENAME2: Final = 45
#: Requests whose inode is that of the file that is asked for, and not of the directory that it is in.
_ABOUT_FILES: Final = (FUSE_GETATTR, FUSE_SETATTR, FUSE_OPEN)
#: Of ``struct fuse_write_in``: the pages are of a map.
WRITE_CACHE: Final = 1

#: ``struct fuse_open_in`` begins with 4 flags.
_OPEN_FLAGS: Final = struct.Struct("=40xI")

_LENGTH: Final = struct.Struct("=I")
_OPCODE: Final = struct.Struct("=4xI")
_INODE: Final = struct.Struct("=16xQ")
_USER: Final = struct.Struct("=24xII")
_PROCESS: Final = struct.Struct("=32xI")
#: ``struct fuse_read_in`` and ``fuse_write_in`` behind the header: 8 handle, 8 offset, 4 size, 4 flags;
#: ``fuse_flush_in`` begins with 8 handle.
_READ: Final = struct.Struct("=4xIQ24xQQII")
#: ``struct fuse_write_in``: 8 handle, 8 offset, 4 size, 4 flags.
_WRITE_FLAGS: Final = struct.Struct("=60xI")
#: Where the bytes of FUSE_WRITE begin, behind ``struct fuse_write_in``.
_PAYLOAD: Final = 80
#: Where the names of FUSE_RENAME begin: after 8 of the new directory; FUSE_RENAME2 has 8 of flags as well.
_RENAME_NAMES: Final = 48


#: opcode, unique, handle, offset, size, flags = read_of(request): as if it were to read or write, what other opcodes
#: do not have is rubbish.  ``unique``: what the answer refers to; ``handle``: of an open file.
read_of: Final = _READ.unpack_from


def opcode_of(request: memoryview) -> int:
    """Which request it is."""
    return int(_OPCODE.unpack_from(request)[0])


def process_of(request: memoryview) -> int:
    """The process behind it, 0 when it is in another PID namespace, or the kernel itself asks."""
    return int(_PROCESS.unpack_from(request)[0])


def user_of(request: memoryview) -> tuple[int, int]:
    """The user and the group of the program behind it."""
    uid, gid = _USER.unpack_from(request)
    return int(uid), int(gid)


def open_flags_of(request: memoryview) -> int:
    """The flags of open(2) in FUSE_OPEN, a request of that kind."""
    return int(_OPEN_FLAGS.unpack_from(request)[0])


def inode_of(request: memoryview) -> int:
    """The kernel's number for what it is about; 0 for one about a name, whose number the kernel does not know."""
    return int(_INODE.unpack_from(request)[0]) if opcode_of(request) in _ABOUT_FILES else 0


def is_mapped_write(request: memoryview) -> bool:
    """Whether FUSE_WRITE, a request of that kind, has pages of a map in it, and not what write(2) was passed."""
    return bool(_WRITE_FLAGS.unpack_from(request)[0] & WRITE_CACHE)


def payload_of(request: memoryview, size: int) -> memoryview:
    """What FUSE_WRITE, a request of that kind, has for the file: ``size`` bytes.  Valid until the next request."""
    return request[_PAYLOAD : _PAYLOAD + size]


def rename_target_of(request: memoryview) -> bytes:
    """The new name in a request to rename, as the program gave it: old name, NUL, new name, NUL."""
    start = _RENAME_NAMES + (0 if opcode_of(request) == FUSE_RENAME else 8)
    (length,) = _LENGTH.unpack_from(request)
    return bytes(request[start:length]).split(b"\0")[1]
