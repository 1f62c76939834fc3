"""The answers to the kernel (linux/fuse.h) as bytes: structures, what they say of files, and errno.

An answer is a ``struct fuse_out_header``, and for most requests one or more of these structures and bytes.  Numbers
are in the byte order of the machine.  Pure functions, for any thread.
"""

from __future__ import annotations

import errno
import os
import time
from struct import Struct
from typing import Final

from asdffs import errors
from asdffs.mount.protocol import NOTIFY_INODE, SetAttributes, SetFlag
from asdffs.vfs.attributes import KINDS, Attributes

# -- structures -----------------------------------------------------------------

#: ``struct fuse_out_header``: length, minus errno or the code of a notification, number of the request or 0.
ANSWER: Final = Struct("=IiQ")
#: ``struct fuse_attr``: number, size, blocks; atime, mtime, ctime, and their ns; mode, links, user, group, device,
#: block size, flags.
STATUS: Final = Struct("=QQQqqqIIIIIIIIII")
#: Before a status: for how long the kernel may keep it, in seconds and ns.
ATTRIBUTES: Final = Struct("=QI4x")
#: Before a status: number of the node, and its generation, which is 0, because a number is never used again; for how
#: long the kernel may keep the name and the status, in seconds each, then their ns.
ENTRY: Final = Struct("=QQQQII")
#: Handle, ``OpenFlag``, and the kernel's number of a file that it reads itself.
OPENED: Final = Struct("=QIi")
#: How many bytes were written; the size of an extended attribute.
WRITTEN: Final = Struct("=I4x")
SIZE: Final = Struct("=I4x")
#: ``struct fuse_kstatfs``: blocks, free, available; files, free files; block size, longest name, fragment size.
STATISTICS: Final = Struct("=QQQQQIII28x")
#: ``struct fuse_dirent`` before a name: number, position of the next entry, length of the name, type.
LISTED: Final = Struct("=QQII")
#: Notification: node, and the pages that are old from an offset on; offset -1: only its attributes are.
_INODE_NOTICE: Final = Struct("=Qqq")
_NUMBER: Final = Struct("=Q")


def answer(unique: int, body: bytes) -> bytes:
    """Return a whole answer to the request ``unique``."""
    return ANSWER.pack(ANSWER.size + len(body), 0, unique) + body


def attributes_notice(node: int) -> bytes:
    """Return a notification that the attributes of a node are old.  It is an answer to no request."""
    return ANSWER.pack(ANSWER.size + _INODE_NOTICE.size, NOTIFY_INODE, 0) + _INODE_NOTICE.pack(node, -1, 0)


def number_in(entry: bytes) -> int:
    """Return the number of the node in an entry of READDIRPLUS; 0 without one."""
    return int(_NUMBER.unpack_from(entry)[0])


# -- what they say of files -----------------------------------------------------

#: Unit of ``blocks`` in bytes (stat(2)), and nanoseconds in a second.
_BLOCK: Final = 512
_SECOND: Final = 10**9
_BLOCK_SIZE: Final = 4096
#: Inode number of an entry whose number is unknown.
_UNKNOWN_NUMBER: Final = 0xFFFFFFFF
#: Bits of a mode that a directory entry has, shifted by this.
_KIND_SHIFT: Final = 12
_status_of: Final = STATUS.pack


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


#: What an entry of a listing is filled with to a multiple of eight bytes.
_FILLING: Final = [bytes(count) for count in range(8)]
#: An entry of a listing without attributes: the number 0 means that the kernel asks for them if it needs them.
NO_ENTRY: Final = bytes(ENTRY.size + STATUS.size)


def directory_entry(name: bytes, mode: int, number: int, position: int) -> bytes:
    """Return an entry of a listing; ``position``: at which the next one begins."""
    entry = LISTED.pack(number or _UNKNOWN_NUMBER, position, len(name), mode >> _KIND_SHIFT)
    return entry + name + _FILLING[-len(name) % 8]


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
        return SIZE.pack(len(value))
    if len(value) > size:
        raise OSError(errno.ERANGE, os.strerror(errno.ERANGE))
    return value


# -- errno ----------------------------------------------------------------------

#: Errno of each error class (docs/semantics.md, Errors).  For a subclass that is not listed, the nearest base class
#: counts.  A test fails if a class of ``asdffs.errors`` is missing.
ERRNO: Final[dict[type[errors.AsdffsError], int]] = {
    errors.AsdffsError: errno.EIO,
    errors.NotAsdfError: errno.EIO,
    errors.DamagedFileError: errno.EIO,
    errors.DamagedBlockError: errno.EIO,
    errors.MissingValueError: errno.ENOENT,
    errors.ValueRefusedError: errno.EBADMSG,
    errors.SharedValueError: errno.EBADMSG,
    errors.InvalidTreeError: errno.EBADMSG,  # EINVAL misleads emacs and mv
    errors.InvalidArrayError: errno.EIO,
    errors.NotFollowedError: errno.EIO,
    errors.InvalidStoreError: errno.EIO,
    errors.TreeChangedError: errno.EBUSY,
    errors.AbandonedError: errno.EINTR,
    errors.StorageError: errno.EIO,
    errors.WorkerKilledError: errno.EIO,
    errors.NotCatalogError: errno.EIO,
    errors.RemoteError: errno.EIO,
    errors.LockedError: errno.EBUSY,
    errors.StaleFileError: errno.ESTALE,
    errors.FailedFileError: errno.EIO,
    errors.RecoveryError: errno.EIO,
    errors.UntrustedFileError: errno.EIO,
    errors.NoRoomError: errno.EFBIG,
    errors.DiskFullError: errno.ENOSPC,
    errors.SpoolFullError: errno.ENOSPC,
    errors.ReadOnlyError: errno.EROFS,
    errors.NoSuchNameError: errno.ENOENT,
    errors.GoneError: errno.ESTALE,
    errors.NameExistsError: errno.EEXIST,
    errors.NameRefusedError: errno.EINVAL,
    errors.NameTooLongError: errno.ENAMETOOLONG,
    errors.NotPermittedError: errno.EPERM,
    errors.CrossViewError: errno.EXDEV,
    errors.InUseError: errno.EBUSY,
    errors.NotSupportedError: errno.ENOTSUP,
    errors.ForeignAttributeError: errno.ENOTSUP,
    errors.FileExpectedError: errno.EISDIR,
    errors.NotDirectoryError: errno.ENOTDIR,
    errors.NotEmptyError: errno.ENOTEMPTY,
    errors.NoAttributeError: errno.ENODATA,
    errors.UsageError: errno.EINVAL,
    errors.MissingFileError: errno.ENOENT,
    errors.MountError: errno.EIO,
    errors.KeptEditsError: errno.EIO,
    errors.CutBlockError: errno.EIO,
    errors.UnfinishedError: errno.EIO,
}

#: Everyday results such as ENOENT.  They are not refusals, so they are neither logged nor shown.
SILENT: Final = (
    errors.NoSuchNameError,
    errors.GoneError,
    errors.NameTooLongError,
    errors.NoAttributeError,
    errors.NameExistsError,
    errors.ForeignAttributeError,
    errors.CrossViewError,
    errors.AbandonedError,
)


def errno_of(error: errors.AsdffsError) -> int:
    """Return the errno of ``error``, by its nearest class in the table."""
    return next(ERRNO[kind] for kind in type(error).__mro__ if kind in ERRNO)
