"""Adds features that the bindings lack: writes without copies, offsets in directories, handles and flags.

mfusepy on libfuse 3 drops the flags of rename, and the handles of truncate, chmod, chown and utimens.  Both bindings
copy written bytes once more than necessary, and list a directory from its start at every request.  Reads do not come
here (``direct``).  A callback runs in the thread that serves the request.
"""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import time
from typing import Any, Final

from asdffs.vfs.attributes import Attributes, Kind

# fuse_common.h
_SPLICE_READ: Final = 1 << 9
#: With this flag, the kernel would ask for attributes only with the first names of a directory.
_READDIRPLUS_AUTO: Final = 1 << 14
_READDIR_PLUS: Final = 1 << 0
_FILL_DIR_PLUS: Final = 1 << 1
_KINDS: Final[dict[Kind, int]] = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "link": stat.S_IFLNK,
    "pipe": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
    "character device": stat.S_IFCHR,
    "block device": stat.S_IFBLK,
}
#: Unit of ``st_blocks`` in bytes (stat(2)), and nanoseconds in a second.
_BLOCK: Final = 512
_SECOND: Final = 10**9
#: Inode number of an entry whose inode is unknown (fuse_i.h).
_UNKNOWN_NUMBER: Final = 0xFFFFFFFF
_UNCHANGED_ID: Final = 0xFFFFFFFF
_UTIME_NOW: Final = (1 << 30) - 1
_UTIME_OMIT: Final = (1 << 30) - 2


_view_of: Final = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of.argtypes, _view_of.restype = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int], ctypes.py_object
#: PyBUF_READ (Python's C API).
_READ: Final = 0x100


def _window(pointer: Any, size: int) -> memoryview:
    """Return ``size`` bytes of libfuse's own buffer without a copy.  They are valid during the callback.

    ``ctypes.cast``, and an array of each size, would leave garbage at each write: 400 bytes or more.
    """
    return _view_of(ctypes.addressof(pointer.contents), size, _READ) if size else memoryview(b"")


def _list(module: Any, operations: Any, handle: int, start: int, add: Any) -> int:
    """List a directory from entry ``start`` until ``add(name, stat, next)`` returns non-zero: its buffer is full."""
    for position, name in enumerate(operations.readdir_from(handle, start), start + 1):
        status = module.c_stat()
        status.st_ino = operations.number_of(handle, name) or _UNKNOWN_NUMBER
        if add(os.fsencode(name), ctypes.byref(status), position):
            break
    return 0


def _list_with_attributes(module: Any, operations: Any, handle: int, start: int, add: Any) -> int:
    """List a directory with attributes by ``add(name, stat, next, flags)``, so the kernel need not ask for them."""
    for position, (name, shown) in enumerate(operations.readdir_plus(handle, start), start + 1):
        status, flags = None, 0
        if shown is not None:
            status, flags = module.c_stat(), _FILL_DIR_PLUS
            _show(shown, status)
        if add(os.fsencode(name), status and ctypes.byref(status), position, flags):
            break
    return 0


def _list_kinds(module: Any, kinds: Any, start: int, add: Any) -> int:
    """List a directory with the kind and the number of each entry (``kinds``) by ``add(name, stat, next)``.

    The kernel then asks for the attributes of those entries that a program wants to know more about.
    """
    status = module.c_stat()
    reference = ctypes.byref(status)
    for position, (name, mode, number) in enumerate(kinds, start + 1):
        status.st_mode, status.st_ino = mode, number
        if add(name, reference, position):
            break
    return 0


def _list_kinds_plus(module: Any, operations: Any, handle: int, kinds: Any, start: int, add: Any) -> int:
    """List as ``_list_kinds``, but directories with attributes, because find(1) asks for those of each."""
    status = module.c_stat()
    reference = ctypes.byref(status)
    for position, (name, mode, number) in enumerate(kinds, start + 1):
        is_entry = mode == stat.S_IFDIR and name not in (b".", b"..")
        shown = operations.directory_at(handle, name, number) if is_entry else None
        if shown is None:
            status.st_mode, status.st_ino = mode, number
        else:
            _show(shown, status)
        if add(name, reference, position, 0 if shown is None else _FILL_DIR_PLUS):
            break
    return 0


def _listed(module: Any, operations: Any, handle: int, start: int, add: Any, *, plus: bool = False) -> int:
    """List a directory from entry ``start``, in the way of its area.  ``plus``: the kernel takes attributes, too."""
    kinds = operations.kinds_from(handle, start)
    if kinds is None:
        return (_list_with_attributes if plus else _list)(module, operations, handle, start, add)
    if plus:
        return _list_kinds_plus(module, operations, handle, kinds, start, add)
    return _list_kinds(module, kinds, start, add)


def _show(shown: Attributes, status: Any) -> None:
    """Write attributes into a ``struct stat`` that is filled with zeros."""
    status.st_mode = _KINDS[shown.kind] | shown.mode
    status.st_nlink = shown.links
    status.st_ino = shown.number
    status.st_size = shown.size
    status.st_blocks = -(-shown.size // _BLOCK)
    status.st_uid, status.st_gid = shown.uid, shown.gid
    changed, read = divmod(shown.mtime_ns, _SECOND), divmod(shown.atime_ns, _SECOND)
    for time_of, (seconds, rest) in (
        (status.st_mtimespec, changed),
        (status.st_ctimespec, divmod(shown.ctime_ns, _SECOND)),
        (status.st_atimespec, read),
    ):
        time_of.tv_sec, time_of.tv_nsec = seconds, rest


def _handle(info: Any) -> int | None:
    return info.contents.fh if info else None


def _mended(base: Any) -> Any:
    """Return a subclass of the binding's class ``base`` with the features that both versions of libfuse need."""

    class Mended(base):  # type: ignore[misc]
        def fgetattr(self, path: bytes | None, pointer: Any, info: Any) -> int:
            status = pointer.contents
            ctypes.memset(pointer, 0, ctypes.sizeof(status))
            _show(self.operations.getattr(_text(path), _handle(info)), status)
            return 0

        def open(self, path: bytes, info: Any) -> int:
            super().open(path, info)
            about = info.contents
            about.direct_io = self.operations.is_direct(about.fh)
            about.noflush = about.flags & os.O_ACCMODE == os.O_RDONLY  # only libfuse 3 knows it
            return 0

        def write(self, path: bytes, buffer: Any, size: int, offset: int, info: Any) -> int:
            return int(self.operations.write(path, _window(buffer, size), offset, info.contents.fh))

    return Mended


def mended2(module: Any, suffix: str = "") -> Any:
    """Return the extended class of either binding for libfuse 2.

    ``suffix``: added by the binding to the names of callbacks that differ between libfuse 2 and 3.
    """
    mended = _mended(module.FUSE)

    def readdir(self: Any, path: bytes, buffer: Any, filler: Any, offset: int, info: Any) -> int:
        return _listed(module, self.operations, info.contents.fh, offset, functools.partial(filler, buffer))

    def utimens(self: Any, path: bytes, times: Any) -> int:
        self.operations.utimens(_text(path), _times(times))
        return 0

    for callback in (readdir, utimens):
        setattr(mended, callback.__name__ + suffix, callback)
    return mended


def mended3(module: Any) -> Any:
    """Return the extended class of mfusepy for libfuse 3."""

    class Mended(_mended(module.FUSE)):  # type: ignore[misc]
        def init_fuse_3(self, connection: Any, config: Any) -> None:
            wanted = connection.contents
            wanted.want &= ~(_SPLICE_READ | _READDIRPLUS_AUTO)
            self.operations.configuration = config.contents  # libfuse reads it at every answer
            super().init_fuse_3(connection, config)

        def readdir_fuse_3(self, path: bytes, buffer: Any, filler: Any, offset: int, info: Any, flags: int) -> int:
            handle, fill = info.contents.fh, functools.partial(filler, buffer)
            plus = bool(flags & _READDIR_PLUS)
            add = fill if plus else lambda name, status, position: fill(name, status, position, 0)
            return _listed(module, self.operations, handle, offset, add, plus=plus)

        def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
            self.operations.rename(os.fsdecode(old), os.fsdecode(new), flags)
            return 0

        def truncate_fuse_3(self, path: bytes | None, length: int, info: Any) -> int:
            self.operations.truncate(_text(path), length, _handle(info))
            return 0

        def chmod_fuse_3(self, path: bytes | None, mode: int, info: Any) -> int:
            self.operations.chmod(_text(path), mode, _handle(info))
            return 0

        def chown_fuse_3(self, path: bytes | None, uid: int, gid: int, info: Any) -> int:
            self.operations.chown(_text(path), _signed(uid), _signed(gid), _handle(info))
            return 0

        def utimens_fuse_3(self, path: bytes | None, times: Any, info: Any) -> int:
            self.operations.utimens(_text(path), _times(times), _handle(info))
            return 0

    return Mended


def _text(path: bytes | None) -> str | None:
    return None if path is None else os.fsdecode(path)


def _times(times: Any) -> tuple[int | None, int | None] | None:
    return (_time(times.contents.actime), _time(times.contents.modtime)) if times else None


def _time(spec: Any) -> int | None:
    """Return nanoseconds since the epoch; None means "keep" (utimensat(2))."""
    if spec.tv_nsec == _UTIME_OMIT:
        return None
    return time.time_ns() if spec.tv_nsec == _UTIME_NOW else int(spec.tv_sec * 10**9 + spec.tv_nsec)


def _signed(number: int) -> int:
    """Return a user or group number; -1 means "keep"."""
    return -1 if number == _UNCHANGED_ID else number
