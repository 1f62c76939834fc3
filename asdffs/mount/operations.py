"""Protocol adapter only: decode a FUSE request, call the vfs, encode the answer or the errno.

Users: ``daemon``, through either binding, which finds the methods by name.  One thread:
libfuse's loop.  Paths are absolute within the mount; sizes and offsets in bytes, times in ns.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import stat
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from asdffs.errors import AsdffsError, ForeignAttributeError, NameRefusedError
from asdffs.mount.caller import was_killed
from asdffs.mount.errno_map import SILENT, errno_of
from asdffs.storage.store import Extent
from asdffs.vfs.vfs import Attributes, Vfs

logger = logging.getLogger(__name__)

_KINDS = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "link": stat.S_IFLNK}
_BLOCK = 512
_RENAME_NOREPLACE = 1
_NAME_MAX = 255

P = ParamSpec("P")
R = TypeVar("R")


def _encoded(method: Callable[Concatenate[Operations, P], R]) -> Callable[Concatenate[Operations, P], R]:
    """Domain errors become errno; refusals are remembered with their sentence."""

    @functools.wraps(method)
    def call(self: Operations, /, *arguments: P.args, **named: P.kwargs) -> R:
        try:
            if method.__name__ != "rename":
                self.vfs.names.forget_hidden()
            return method(self, *arguments, **named)
        except AsdffsError as err:
            if not isinstance(err, SILENT):
                self.vfs.document.report.refuse(err)
            code = errno_of(err)
            raise OSError(code, os.strerror(code)) from err
        except OSError as err:
            self.vfs.document.report.refuse(err)
            raise OSError(err.errno or errno.EIO, os.strerror(err.errno or errno.EIO)) from err

    return call


class Operations:
    """One mount.  ``ready`` is called when the kernel is served, ``ended`` after the unmount."""

    use_ns = True

    def __init__(
        self, vfs: Vfs, caller_pid: Callable[[], int], *, ready: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self.vfs = vfs
        self._caller_pid = caller_pid
        self._ready = ready
        self._ended = ended

    def init(self, path: str) -> None:
        """The mount is served from now on."""
        self._ready()

    def destroy(self, path: str) -> None:
        """The mount is gone; finish the file."""
        self._ended()

    @_encoded
    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """What stat shows."""
        return _stat(self.vfs.attributes(path, fh))

    @_encoded
    def readdir(self, path: str, fh: int) -> list[str]:
        """Names in a directory."""
        return [".", "..", *self.vfs.readdir(path)]

    @_encoded
    def readlink(self, path: str) -> str:
        """Target of a symbolic link."""
        return self.vfs.readlink(path)

    @_encoded
    def open(self, path: str, flags: int) -> int:
        """Open; O_TRUNC arrives here on libfuse3, as a truncate of its own on libfuse2."""
        write = flags & os.O_ACCMODE != os.O_RDONLY
        return self.vfs.open(path, write=write, truncate=bool(flags & os.O_TRUNC))

    @_encoded
    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Create and open."""
        return self.vfs.create(path, mode)

    @_encoded
    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Bytes; fewer only at the end."""
        found = self.vfs.read(fh, offset, size)
        return os.pread(found.fd, found.length, found.offset) if isinstance(found, Extent) else found

    @_encoded
    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Bytes written: all of them."""
        return self.vfs.write(fh, offset, data)

    @_encoded
    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        """Set the size."""
        self.vfs.truncate(path, length, fh)

    @_encoded
    def flush(self, path: str, fh: int) -> None:
        """A descriptor was closed: the moment at which a save is judged."""
        self.vfs.flush(fh, killed=was_killed(self._caller_pid()))

    @_encoded
    def fsync(self, path: str, datasync: int, fh: int) -> None:
        """Make one file durable."""
        self.vfs.fsync(fh)

    @_encoded
    def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
        """``sync MNT``: finish the file; other directories have nothing to sync."""
        if path == "/":
            self.vfs.finish()

    @_encoded
    def release(self, path: str, fh: int) -> None:
        """The last descriptor is gone."""
        self.vfs.release(fh)

    @_encoded
    def unlink(self, path: str) -> None:
        """Take a name away."""
        self.vfs.names.unlink(path)

    @_encoded
    def rename(self, old: str, new: str, flags: int = 0) -> None:
        """Rename; of the flags only RENAME_NOREPLACE is supported."""
        if flags & ~_RENAME_NOREPLACE:
            raise NameRefusedError("exchanging names and whiteouts are not supported")
        self.vfs.names.rename(old, new, replace=not flags)

    @_encoded
    def symlink(self, target: str, source: str) -> None:
        """``target`` is the new name, ``source`` what it leads to: the bindings' names."""
        self.vfs.names.symlink(target, source)

    @_encoded
    def link(self, target: str, source: str) -> None:
        """``target`` is the new name, ``source`` the existing one."""
        self.vfs.names.link(source, target)

    @_encoded
    def chmod(self, path: str, mode: int) -> None:
        """Set the mode."""
        self.vfs.chmod(path, mode)

    @_encoded
    def chown(self, path: str, uid: int, gid: int) -> None:
        """Set the owner."""
        self.vfs.chown(path, uid, gid)

    @_encoded
    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        """Set the times; None is now."""
        now = time.time_ns()
        self.vfs.utimens(path, *(times or (now, now)))

    @_encoded
    def listxattr(self, path: str) -> list[str]:
        """Names of extended attributes."""
        return self.vfs.xattrs(path)

    @_encoded
    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        """One extended attribute."""
        return self.vfs.xattr(path, name)

    @_encoded
    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> None:
        """Not supported yet."""
        raise ForeignAttributeError(f"the attribute {name!r} cannot be set")

    @_encoded
    def removexattr(self, path: str, name: str) -> None:
        """Not supported."""
        raise ForeignAttributeError(f"the attribute {name!r} cannot be removed")

    @_encoded
    def statfs(self, path: str) -> dict[str, int]:
        """The file system that holds the ASDF file."""
        found = os.statvfs(os.path.dirname(self.vfs.document.path))
        fields = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail")
        return {**{name: getattr(found, name) for name in fields}, "f_namemax": _NAME_MAX}


def _stat(shown: Attributes) -> dict[str, int]:
    return {
        "st_mode": _KINDS[shown.kind] | shown.mode,
        "st_nlink": shown.links,
        "st_size": shown.size,
        "st_blocks": -(-shown.size // _BLOCK),
        "st_mtime": shown.mtime_ns,
        "st_ctime": shown.mtime_ns,
        "st_atime": shown.atime_ns,
        "st_uid": shown.uid,
        "st_gid": shown.gid,
    }
