"""Decodes the bytes of a FUSE request (linux/fuse.h).

Every request begins with ``struct fuse_in_header``, 40 bytes: 4 length, 4 opcode, 8 unique, 8 inode, 4 user, 4 group,
4 process, 4 padding.  Pure functions, for any thread.  The caller must only ask for fields that the opcode has.
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
FUSE_GETXATTR: Final = 22
FUSE_FLUSH: Final = 25
FUSE_IOCTL: Final = 39
FUSE_RENAME2: Final = 45
#: Requests that carry the inode of the file in question.  Requests about a name carry that of the directory.
_ABOUT_FILES: Final = (FUSE_GETATTR, FUSE_SETATTR, FUSE_OPEN)
#: Flag of ``struct fuse_write_in``: the bytes are pages of an mmap.
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
#: Offset of the bytes to write in FUSE_WRITE, after ``struct fuse_write_in``.
_PAYLOAD: Final = 80
#: Offset of the name in FUSE_GETXATTR, after ``struct fuse_getxattr_in``: 4 size, 4 unused.
_ATTRIBUTE_NAME: Final = 48
_USER_ATTRIBUTES: Final = b"user."
#: Offset of the names in FUSE_RENAME, after 8 bytes for the new directory.  FUSE_RENAME2 has 8 more, for the flags.
_RENAME_NAMES: Final = 48


#: opcode, unique, handle, offset, size, flags = read_of(request).  The request is decoded as FUSE_READ or FUSE_WRITE;
#: for other opcodes, fields that they do not have are meaningless.  ``unique``: number of the request, which the
#: answer repeats.  ``handle``: that of an open file.
read_of: Final = _READ.unpack_from


def opcode_of(request: memoryview) -> int:
    """Return the opcode of the request."""
    return int(_OPCODE.unpack_from(request)[0])


def process_of(request: memoryview) -> int:
    """Return the process that made the request; 0 if it is in another PID namespace, or the kernel itself asks."""
    return int(_PROCESS.unpack_from(request)[0])


def user_of(request: memoryview) -> tuple[int, int]:
    """Return the user and the group of the program that made the request."""
    uid, gid = _USER.unpack_from(request)
    return int(uid), int(gid)


def open_flags_of(request: memoryview) -> int:
    """Return the flags of open(2) in a FUSE_OPEN request."""
    return int(_OPEN_FLAGS.unpack_from(request)[0])


def inode_of(request: memoryview) -> int:
    """Return the kernel's number for the file; 0 if the request is about a name and does not have the number."""
    return int(_INODE.unpack_from(request)[0]) if opcode_of(request) in _ABOUT_FILES else 0


def is_mapped_write(request: memoryview) -> bool:
    """Return whether a FUSE_WRITE request has pages of an mmap, and not the bytes of a write(2)."""
    return bool(_WRITE_FLAGS.unpack_from(request)[0] & WRITE_CACHE)


def payload_of(request: memoryview, size: int) -> memoryview:
    """Return the ``size`` bytes to write of a FUSE_WRITE request.  They are valid until the next request."""
    return request[_PAYLOAD : _PAYLOAD + size]


def asks_for_user_attribute(request: memoryview) -> bool:
    """Return whether a FUSE_GETXATTR request is about an extended attribute of the namespace ``user`` (xattr(7))."""
    return bytes(request[_ATTRIBUTE_NAME : _ATTRIBUTE_NAME + len(_USER_ATTRIBUTES)]) == _USER_ATTRIBUTES


def rename_target_of(request: memoryview) -> bytes:
    """Return the new name in a request to rename, as the program gave it.

    The request has the old name, NUL, the new name, NUL.
    """
    start = _RENAME_NAMES + (0 if opcode_of(request) == FUSE_RENAME else 8)
    (length,) = _LENGTH.unpack_from(request)
    return bytes(request[start:length]).split(b"\0")[1]
