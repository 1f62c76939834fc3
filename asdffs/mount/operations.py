"""The FUSE operations: decode a request, call the vfs, encode the answer or the errno.

Any thread of the loop calls the methods; each takes the main lock.  Paths are absolute within the mount, or None if
there is a handle.  Sizes and offsets are in bytes, times in ns.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from asdffs.errors import AsdffsError, ForeignAttributeError, NameRefusedError, NotPermittedError, NotSupportedError
from asdffs.mount.caller import was_killed
from asdffs.mount.errno_map import SILENT, errno_of
from asdffs.mount.invalidate import Invalidator
from asdffs.mount.loop import Loop
from asdffs.mount.options import KEPT_SECONDS
from asdffs.mount.request import (
    FUSE_RENAME,
    FUSE_RENAME2,
    inode_of,
    is_mapped_write,
    opcode_of,
    process_of,
    rename_target_of,
    user_of,
)
from asdffs.storage.backend import Extent, read_bytes
from asdffs.vfs.attributes import Attributes, User
from asdffs.vfs.namespace import is_hidden
from asdffs.vfs.vfs import Vfs

logger = logging.getLogger(__name__)

_RENAME_NOREPLACE = 1
# linux/falloc.h: KEEP_SIZE; with it PUNCH_HOLE; ZERO_RANGE
FALLOC_KEEP_SIZE = 0x01
_FALLOCATE_MODES = FALLOC_KEEP_SIZE | 0x02 | 0x10
_NAME_MAX = 255

P = ParamSpec("P")
R = TypeVar("R")


Method = Callable[Concatenate["Operations", P], R]


def _answered(method: Method[P, R], *, changing: bool = False) -> Method[P, R]:
    """Decorate a method: it holds the main lock, domain errors become errno, and the report records refusals.

    Afterwards the kernel is notified of changes.  With ``changing``, the answer waits a moment until mmaps show them.
    """

    @functools.wraps(method)
    def call(self: Operations, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self._loop.lock:
            try:
                return method(self, *arguments, **named)
            except AsdffsError as err:
                if not isinstance(err, SILENT):
                    self.vfs.document.report.refuse(err)
                code = errno_of(err)
                raise OSError(code, os.strerror(code)) from err
            except OSError as err:
                self.vfs.document.report.refuse(err)
                raise OSError(err.errno or errno.EIO, os.strerror(err.errno or errno.EIO)) from err
            finally:
                self.tell_changes(wait=changing)

    return call


def _changing(method: Method[P, R]) -> Method[P, R]:
    """Decorate a method as ``_answered``, for an operation with changes for other programs to see."""
    return _answered(method, changing=True)


class Operations:
    """The operations of one mount.

    ``ready`` is called when the loop serves requests, ``ended`` after the unmount.
    """

    use_ns = True
    # Requests on open files come without a path: the path may be gone, and so libfuse does not lock it.
    flag_nullpath_ok = 1
    flag_nopath = 1
    # A program may set only one of the two times (for libfuse 2; libfuse 3 always allows it).
    flag_utime_omit_ok = 1

    def __init__(
        self,
        vfs: Vfs,
        loop: Loop,
        invalidator: Invalidator,
        *,
        ready: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self.vfs = vfs
        self.configuration: Any = None  # that of libfuse 3, which reads it at every answer
        self._loop = loop
        self._invalidator = invalidator
        self._ready = ready
        self._ended = ended

    def init(self, path: str) -> None:
        """Post ``ready``: libfuse answers the kernel right after this callback."""
        self._loop.post(self._ready)

    def destroy(self, path: str) -> None:
        """Finish the file, because the mount is gone."""
        self._ended()

    def tell_changes(self, *, wait: bool) -> None:
        """Make the kernel drop its caches of nodes that changed.  The caller holds the main lock."""
        stale, author = self.vfs.take_stale()
        if stale:
            self._invalidator.tell(stale, author, wait=wait)

    @_answered
    def getattr(self, path: str | None, fh: int | None = None) -> Attributes:
        """Return the attributes, and choose whether the kernel may cache them.

        The choice holds for the answer to this request, because libfuse reads its configuration afterwards.  While
        other threads answer requests, nothing is cached.
        """
        shown = self.vfs.attributes(path, fh, inode=inode_of(self._loop.request))
        return self._shown(shown)

    def _shown(self, shown: Attributes) -> Attributes:
        if self.configuration is not None:
            self.configuration.attr_timeout = KEPT_SECONDS if shown.steady and self._loop.alone else 0
        return shown

    @_answered
    def opendir(self, path: str) -> int:
        """Open a directory and return the number of the handle."""
        return self.vfs.opendir(path)

    @_answered
    def readdir(self, path: str | None, fh: int) -> list[str]:
        """Return all names of an open directory."""
        return list(self.vfs.entries_from(fh, 0))

    @_answered
    def readdir_from(self, fh: int, start: int) -> Iterator[str]:
        """Return the names of an open directory from entry ``start``.  They do not change during one listing."""
        return self.vfs.entries_from(fh, start)

    @_answered
    def number_of(self, fh: int, name: str) -> int:
        """Return the inode number of an entry of an open directory; 0 if unknown."""
        return self.vfs.number_of(fh, name)

    def readdir_plus(self, fh: int, start: int) -> Iterator[tuple[str, Attributes | None]]:
        """Yield the names from entry ``start``, each with its attributes or None if they are unknown.

        Each entry is made after libfuse has taken the one before it, because libfuse reads then whether the kernel
        may cache the attributes.
        """
        for name in self.readdir_from(fh, start):
            try:
                yield name, self._entry(fh, name)
            except OSError:  # a program that asks for this entry gets the error then
                yield name, None

    @_answered
    def _entry(self, fh: int, name: str) -> Attributes | None:
        shown = self.vfs.entry_attributes(fh, name)
        return None if shown is None else self._shown(shown)

    @_answered
    def releasedir(self, path: str | None, fh: int) -> None:
        """Close a directory."""
        self.vfs.closedir(fh)

    @_answered
    def readlink(self, path: str) -> str:
        """Return the target of a symbolic link."""
        return self.vfs.metadata.readlink(path)

    @_answered
    def open(self, path: str, flags: int) -> int:
        """Open a file; return the number of the handle.

        O_TRUNC arrives here on libfuse 3, and as a separate truncate on libfuse 2.
        """
        write = flags & os.O_ACCMODE != os.O_RDONLY
        inode = inode_of(self._loop.request)
        handle = self.vfs.open(path, write=write, truncate=bool(flags & os.O_TRUNC), inode=inode)
        if self.vfs.has_open_sibling(handle):
            self._invalidator.prepare()
        return handle

    @property
    def _user(self) -> User:
        return User(*user_of(self._loop.request))

    def is_direct(self, fh: int) -> bool:
        """Return whether the kernel must not cache pages that are read through ``fh``."""
        return self.vfs.is_direct(fh)

    def is_helper(self, pid: int) -> bool:
        """Return whether process ``pid`` is a helper of ``dropper``."""
        return self._invalidator.is_helper(pid)

    @_changing
    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Create and open a file; return the number of the handle."""
        return self.vfs.create(path, mode, self._user)

    @_answered
    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes | Extent:
        """Return bytes, fewer only at the end; an extent if nothing can move them before they are sent."""
        found = self.vfs.read(fh, offset, size)
        return found if self._loop.alone else read_bytes(found)

    @_changing
    def write(self, path: str | None, data: memoryview, offset: int, fh: int) -> int:
        """Write all of ``data``, which is valid during the call; return its length."""
        return self.vfs.write(fh, offset, data, mapped=is_mapped_write(self._loop.request))

    @_changing
    def overwrite(self, fh: int, offset: int, data: memoryview) -> bool:
        """Write through the fast path; return False and do nothing if there is none (``vfs/fast_paths``)."""
        return self.vfs.overwrite(fh, offset, data)

    @_changing
    def truncate(self, path: str | None, length: int, fh: int | None = None) -> None:
        """Set the size."""
        self.vfs.truncate(path, length, fh)

    @_changing
    def flush(self, path: str | None, fh: int) -> None:
        """Handle the close of a file descriptor.  This is the moment at which a save is committed or rejected."""
        self.vfs.flush(fh, killed=self.vfs.is_dirty(fh) and was_killed(process_of(self._loop.request)))

    def is_clean(self, fh: int) -> bool:
        """Return whether no program wrote through ``fh`` since its last flush, so that a flush has no effect."""
        return not self.vfs.is_dirty(fh)

    @_changing
    def fsync(self, path: str | None, datasync: int, fh: int) -> None:
        """Make one file durable."""
        self.vfs.fsync(fh)

    @_answered
    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> None:
        """Finish the file if ``fh`` is the root (``sync MNT``).  Other directories have nothing to sync."""
        if self.vfs.is_root(fh):
            self.vfs.finish()

    @_answered
    def release(self, path: str | None, fh: int) -> None:
        """Close a handle after its last file descriptor."""
        self.vfs.release(fh)

    @_answered
    def mkdir(self, path: str, mode: int) -> None:
        """Create a directory."""
        self.vfs.names.mkdir(path, mode, self._user)

    @_answered
    def mknod(self, path: str, mode: int, dev: int) -> None:
        """Raise ``EPERM``: ``create`` makes regular files, and there are no other kinds."""
        raise NotPermittedError("only regular files, directories and symbolic links can be created here")

    @_answered
    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self.vfs.names.rmdir(path)

    @_changing
    def unlink(self, path: str) -> None:
        """Remove a name."""
        self.vfs.names.unlink(path)

    @_changing
    def rename(self, old: str, new: str, flags: int = 0) -> None:
        """Rename.  RENAME_NOREPLACE is the only supported flag."""
        if flags & ~_RENAME_NOREPLACE:
            raise NameRefusedError("exchanging names and whiteouts are not supported")
        if is_hidden(new):
            self.vfs.names.hide(old, new, replaced=self._is_replacing())
            return
        self.vfs.names.rename(old, new, replace=not flags)

    def _is_replacing(self) -> bool:
        """Return whether libfuse hides a file because it is being replaced, and not because it is unlinked."""
        if opcode_of(self._loop.request) not in (FUSE_RENAME, FUSE_RENAME2):
            return False
        if is_hidden(os.fsdecode(rename_target_of(self._loop.request))):
            raise NameRefusedError("names that begin with .fuse_hidden are reserved for libfuse")
        return True

    @_answered
    def symlink(self, target: str, source: str) -> None:
        """Create a symbolic link with the name ``target`` that leads to ``source``.  The bindings name them so."""
        self.vfs.names.symlink(target, source, self._user)

    @_answered
    def link(self, target: str, source: str) -> None:
        """Give the file ``source`` the additional name ``target``."""
        self.vfs.names.link(source, target)

    @_answered
    def chmod(self, path: str | None, mode: int, fh: int | None = None) -> None:
        """Set the mode."""
        self.vfs.metadata.chmod(path, mode, fh)

    @_answered
    def chown(self, path: str | None, uid: int, gid: int, fh: int | None = None) -> None:
        """Set the owner."""
        self.vfs.metadata.chown(path, uid, gid, fh)

    @_answered
    def utimens(
        self, path: str | None, times: tuple[int | None, int | None] | None = None, fh: int | None = None
    ) -> None:
        """Set the times.  None for ``times`` means now; None for one of the two keeps it."""
        now = time.time_ns()
        self.vfs.metadata.utimens(path, *(times or (now, now)), fh)

    @_answered
    def listxattr(self, path: str) -> list[str]:
        """Return the names of the extended attributes."""
        return self.vfs.metadata.xattrs(path)

    @_answered
    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        """Return an extended attribute.

        ENOTSUP for all other namespaces than ``user`` makes ls ask for them once, and not for each file.
        """
        if not name.startswith("user."):
            raise ForeignAttributeError(f"the attribute {name!r} is not supported")
        return self.vfs.metadata.xattr(path, name)

    @_changing
    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> None:
        """Set an extended attribute.  Ours recompress a block or reserve space; all others are refused."""
        self.vfs.metadata.set_xattr(path, name, value)

    @_answered
    def removexattr(self, path: str, name: str) -> None:
        """Refuse to remove an extended attribute, because ours describe the file."""
        if name in self.vfs.metadata.xattrs(path):
            raise NotPermittedError(f"{name} describes the file and cannot be removed", path=path)
        raise ForeignAttributeError(f"the attribute {name!r} cannot be removed")

    @_changing
    def fallocate(self, path: str | None, mode: int, offset: int, length: int, fh: int) -> None:
        """Reserve space, or with PUNCH_HOLE or ZERO_RANGE write zeros."""
        if mode & ~_FALLOCATE_MODES:
            raise NotSupportedError("this kind of fallocate is not supported")
        zero = bool(mode & ~FALLOC_KEEP_SIZE)
        self.vfs.allocate(fh, offset, length, keep_size=bool(mode & FALLOC_KEEP_SIZE), zero=zero)

    @_answered
    def statfs(self, path: str) -> dict[str, int]:
        """Return the statistics of the file system that holds the ASDF file."""
        document = self.vfs.document
        found = os.statvfs(tempfile.gettempdir() if document.is_remote else os.path.dirname(document.path))
        fields = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail")
        return {**{name: getattr(found, name) for name in fields}, "f_namemax": _NAME_MAX}
