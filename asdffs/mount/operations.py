"""Protocol adapter only: decode a FUSE request, call the vfs, encode the answer or the errno.

Any thread of the
loop, one at a time: every method has the loop's turn.  Paths are absolute within the mount, or
None where there is a handle; sizes and offsets in bytes, times in ns.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
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
    """Has the main lock; domain errors become errno, refusals are remembered with their sentence.

    What changed meanwhile is told to the kernel, by an operation that is ``changing`` something before its answer.
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
    """``_answered``, by an operation that changes what others may see."""
    return _answered(method, changing=True)


class Operations:
    """One mount.  ``ready`` is called when the kernel is served, ``ended`` after the unmount."""

    use_ns = True
    # Requests on open files come without a path: it may be gone, and libfuse locks no path for them.
    flag_nullpath_ok = 1
    flag_nopath = 1
    # One of the two times may be set alone (libfuse 2; libfuse 3 always can).
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
        self.configuration: Any = None  # libfuse 3's, live
        self._loop = loop
        self._invalidator = invalidator
        self._ready = ready
        self._ended = ended

    def init(self, path: str) -> None:
        """The kernel is answered right after this."""
        self._loop.post(self._ready)

    def destroy(self, path: str) -> None:
        """The mount is gone; finish the file."""
        self._ended()

    def tell_changes(self, *, wait: bool) -> None:
        """Have the kernel forget what it knows of nodes that changed.  With the main lock held."""
        stale, author = self.vfs.take_stale()
        if stale:
            self._invalidator.tell(stale, author, wait=wait)

    @_answered
    def getattr(self, path: str | None, fh: int | None = None) -> Attributes:
        """What stat shows, and whether the kernel may keep it.

        The choice holds for the answer to this request, because libfuse reads its configuration
        after it; beside other threads' requests nothing is kept.
        """
        shown = self.vfs.attributes(path, fh, inode=inode_of(self._loop.request))
        return self._shown(shown)

    def _shown(self, shown: Attributes) -> Attributes:
        if self.configuration is not None:
            self.configuration.attr_timeout = KEPT_SECONDS if shown.steady and self._loop.alone else 0
        return shown

    @_answered
    def opendir(self, path: str) -> int:
        """Open a directory."""
        return self.vfs.opendir(path)

    @_answered
    def readdir(self, path: str | None, fh: int) -> list[str]:
        """All names of an open directory."""
        return list(self.vfs.entries_from(fh, 0))

    @_answered
    def readdir_from(self, fh: int, start: int) -> Iterator[str]:
        """Names of an open directory from entry ``start``; those of one reading stay what they are."""
        return self.vfs.entries_from(fh, start)

    @_answered
    def number_of(self, fh: int, name: str) -> int:
        """What stat would show as the inode of an entry of an open directory; 0 where that is not known."""
        return self.vfs.number_of(fh, name)

    def readdir_plus(self, fh: int, start: int) -> Iterator[tuple[str, Attributes | None]]:
        """Names from entry ``start`` and what stat shows of each, None where that cannot be said.

        Each entry is made when libfuse has taken the one before it: whether the kernel may keep it is read then.
        """
        for name in self.readdir_from(fh, start):
            try:
                yield name, self._entry(fh, name)
            except OSError:  # who asks for this one is told why
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
        """Target of a symbolic link."""
        return self.vfs.metadata.readlink(path)

    @_answered
    def open(self, path: str, flags: int) -> int:
        """Open; O_TRUNC arrives here on libfuse 3, as a truncate of its own on libfuse 2."""
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
        """Whether the kernel must not keep what is read through ``fh``."""
        return self.vfs.is_direct(fh)

    def is_helper(self, pid: int) -> bool:
        """Whether a process only opens files for the kernel's pages of them (``dropper``)."""
        return self._invalidator.is_helper(pid)

    @_changing
    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Create and open."""
        return self.vfs.create(path, mode, self._user)

    @_answered
    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes | Extent:
        """Bytes, fewer only at the end; or where they are, when nothing can move them meanwhile."""
        found = self.vfs.read(fh, offset, size)
        return found if self._loop.alone else read_bytes(found)

    @_changing
    def write(self, path: str | None, data: memoryview, offset: int, fh: int) -> int:
        """Bytes written: all of them.  ``data`` is valid during the call."""
        return self.vfs.write(fh, offset, data, mapped=is_mapped_write(self._loop.request))

    @_changing
    def overwrite(self, fh: int, offset: int, data: memoryview) -> bool:
        """``write`` by a fast path; False, and nothing is done, where there is none (``vfs/fast_paths``)."""
        return self.vfs.overwrite(fh, offset, data)

    @_changing
    def truncate(self, path: str | None, length: int, fh: int | None = None) -> None:
        """Set the size."""
        self.vfs.truncate(path, length, fh)

    @_changing
    def flush(self, path: str | None, fh: int) -> None:
        """A descriptor was closed: the moment at which a save is judged."""
        self.vfs.flush(fh, killed=self.vfs.is_dirty(fh) and was_killed(process_of(self._loop.request)))

    def is_clean(self, fh: int) -> bool:
        """Whether nothing was written through ``fh`` since its last flush: to flush it then means nothing."""
        return not self.vfs.is_dirty(fh)

    @_changing
    def fsync(self, path: str | None, datasync: int, fh: int) -> None:
        """Make one file durable."""
        self.vfs.fsync(fh)

    @_answered
    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> None:
        """``sync MNT``: finish the file; other directories have nothing to sync."""
        if self.vfs.is_root(fh):
            self.vfs.finish()

    @_answered
    def release(self, path: str | None, fh: int) -> None:
        """The last descriptor is gone."""
        self.vfs.release(fh)

    @_answered
    def mkdir(self, path: str, mode: int) -> None:
        """A directory in scratch."""
        self.vfs.names.mkdir(path, mode, self._user)

    @_answered
    def mknod(self, path: str, mode: int, dev: int) -> None:
        """Regular files are made by create; there are no others."""
        raise NotPermittedError("only regular files, directories and symbolic links can be created here")

    @_answered
    def rmdir(self, path: str) -> None:
        """Remove an empty directory of scratch."""
        self.vfs.names.rmdir(path)

    @_changing
    def unlink(self, path: str) -> None:
        """Take a name away."""
        self.vfs.names.unlink(path)

    @_changing
    def rename(self, old: str, new: str, flags: int = 0) -> None:
        """Rename; of the flags only RENAME_NOREPLACE is supported."""
        if flags & ~_RENAME_NOREPLACE:
            raise NameRefusedError("exchanging names and whiteouts are not supported")
        if is_hidden(new):
            self.vfs.names.hide(old, new, replaced=self._is_replacing())
            return
        self.vfs.names.rename(old, new, replace=not flags)

    def _is_replacing(self) -> bool:
        """Whether libfuse hides a name because another takes it, not because it was unlinked."""
        if opcode_of(self._loop.request) not in (FUSE_RENAME, FUSE_RENAME2):
            return False
        if is_hidden(os.fsdecode(rename_target_of(self._loop.request))):
            raise NameRefusedError("names that begin with .fuse_hidden are libfuse's own")
        return True

    @_answered
    def symlink(self, target: str, source: str) -> None:
        """``target`` is the new name, ``source`` what it leads to: the bindings' names."""
        self.vfs.names.symlink(target, source, self._user)

    @_answered
    def link(self, target: str, source: str) -> None:
        """``target`` is the new name, ``source`` the existing one."""
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
        """Set the times; None is now, or for one of the two: keep it."""
        now = time.time_ns()
        self.vfs.metadata.utimens(path, *(times or (now, now)), fh)

    @_answered
    def listxattr(self, path: str) -> list[str]:
        """Names of extended attributes."""
        return self.vfs.metadata.xattrs(path)

    @_answered
    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        """One extended attribute.  No file has any of another namespace: ls asks once for them, not of each file."""
        if not name.startswith("user."):
            raise ForeignAttributeError(f"the attribute {name!r} is not supported")
        return self.vfs.metadata.xattr(path, name)

    @_changing
    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> None:
        """Ours recompress a block or reserve room; all others are refused."""
        self.vfs.metadata.set_xattr(path, name, value)

    @_answered
    def removexattr(self, path: str, name: str) -> None:
        """Nothing can be removed: ours tell what is in the file."""
        if name in self.vfs.metadata.xattrs(path):
            raise NotPermittedError(f"{name} tells what is in the file and cannot be removed", path=path)
        raise ForeignAttributeError(f"the attribute {name!r} cannot be removed")

    @_changing
    def fallocate(self, path: str | None, mode: int, offset: int, length: int, fh: int) -> None:
        """Reserve room, or with PUNCH_HOLE and ZERO_RANGE write zeros."""
        if mode & ~_FALLOCATE_MODES:
            raise NotSupportedError("this kind of fallocate is not supported")
        zero = bool(mode & ~FALLOC_KEEP_SIZE)
        self.vfs.allocate(fh, offset, length, keep_size=bool(mode & FALLOC_KEEP_SIZE), zero=zero)

    @_answered
    def statfs(self, path: str) -> dict[str, int]:
        """The file system that holds the ASDF file."""
        found = os.statvfs(os.path.dirname(self.vfs.document.path))
        fields = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail")
        return {**{name: getattr(found, name) for name in fields}, "f_namemax": _NAME_MAX}
