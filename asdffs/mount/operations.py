"""The FUSE operations: decode a request, call the area that it is about, encode the answer or the errno.

An area is a document, or the directory of an archive (``vfs/areas``).  Any thread of the loop calls the methods; each
takes the main lock.  Paths are absolute within the mount, or None if there is a handle.  Sizes and offsets are in
bytes, times in ns.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from asdffs.errors import (
    ForeignAttributeError,
    NameRefusedError,
    NotPermittedError,
    NotSupportedError,
)
from asdffs.mount.answering import (
    Answers,
    Path,
    by_handle,
    changing_by_handle,
    changing_file,
    changing_node,
    changing_path,
    looking_node,
    looking_path,
    on_file,
    on_node,
    on_path,
)
from asdffs.mount.caller import was_killed
from asdffs.mount.loop import Loop
from asdffs.mount.options import KEPT_SECONDS
from asdffs.mount.permissions import may_open
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
from asdffs.vfs.areas import Area, Areas, Place, document_of
from asdffs.vfs.attributes import Attributes, User
from asdffs.vfs.namespace import is_hidden

logger = logging.getLogger(__name__)

_RENAME_NOREPLACE = 1
# linux/falloc.h: KEEP_SIZE; with it PUNCH_HOLE; ZERO_RANGE
FALLOC_KEEP_SIZE = 0x01
_FALLOCATE_MODES = FALLOC_KEEP_SIZE | 0x02 | 0x10
_NAME_MAX = 255


class Operations(Answers):
    """The operations of one mount.

    ``is_helper(pid)``: whether a process is a helper of ``dropper``.  ``shared``: other users may use the mount.
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
        areas: Areas,
        loop: Loop,
        *,
        is_helper: Callable[[int], bool],
        shared: bool = False,
        ready: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        super().__init__(areas, loop)
        self.configuration: Any = None  # that of libfuse 3, which reads it at every answer
        self.is_helper = is_helper
        self._shared = shared
        self._ready = ready
        self._ended = ended

    def init(self, path: str) -> None:
        """Post ``ready``: libfuse answers the kernel right after this callback."""
        self.loop.post(self._ready)

    def destroy(self, path: str) -> None:
        """Finish the file, because the mount is gone."""
        self._ended()

    @looking_node
    def getattr(self, place: Place, fh: int | None = None) -> Attributes:
        """Return the attributes, and choose whether the kernel may cache them.

        The choice holds for the answer to this request, because libfuse reads its configuration afterwards.  While
        other threads answer requests, nothing is cached.
        """
        return self._shown(place.area.attributes(place.path, fh, inode=inode_of(self.loop.request)))

    def _shown(self, shown: Attributes) -> Attributes:
        if self.configuration is not None:
            self.configuration.attr_timeout = KEPT_SECONDS if shown.steady and self.loop.alone else 0
        return shown

    @on_path
    def opendir(self, place: Place) -> int:
        """Open a directory and return the number of the handle."""
        return self.areas.opened(place.area, place.area.opendir(place.path))

    @on_file
    def readdir(self, area: Area, path: Path, fh: int) -> list[str]:
        """Return all names of an open directory."""
        return list(area.entries_from(fh, 0))

    @by_handle
    def readdir_from(self, area: Area, fh: int, start: int) -> Iterator[str]:
        """Return the names of an open directory from entry ``start``.  They do not change during one listing."""
        return area.entries_from(fh, start)

    @by_handle
    def number_of(self, area: Area, fh: int, name: str) -> int:
        """Return the inode number of an entry of an open directory; 0 if unknown."""
        return area.number_of(fh, name)

    @by_handle
    def kinds_from(self, area: Area, fh: int, start: int) -> Iterator[tuple[bytes, int, int]] | None:
        """Return the names of an open directory, each with the type bits of its mode and its inode number.

        None: the area lists it with attributes (``readdir_plus``).
        """
        return area.kinds_from(fh, start)

    def directory_at(self, fh: int, name: bytes, number: int) -> Attributes | None:
        """Return the attributes of a directory in a listing by ``kinds_from``; None if they are unknown.

        Called for each entry, and without the main lock, because it looks at nothing but the disk.
        """
        shown = self.areas.handles[fh].directory_at(fh, name, number)
        return None if shown is None else self._shown(shown)

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

    @by_handle
    def _entry(self, area: Area, fh: int, name: str) -> Attributes | None:
        shown = area.entry_attributes(fh, name)
        return None if shown is None else self._shown(shown)

    @on_file
    def releasedir(self, area: Area, path: Path, fh: int) -> None:
        """Close a directory."""
        area.closedir(fh)
        self.areas.closed(fh)

    @on_path
    def readlink(self, place: Place) -> str:
        """Return the target of a symbolic link."""
        return place.area.readlink(place.path)

    @on_path
    def open(self, place: Place, flags: int) -> int:
        """Open a file; return the number of the handle.

        O_TRUNC arrives here on libfuse 3, and as a separate truncate on libfuse 2.
        """
        write = flags & os.O_ACCMODE != os.O_RDONLY
        inode, cut = inode_of(self.loop.request), bool(flags & os.O_TRUNC)
        self._check(place, flags)  # before it is cut
        handle = place.area.open(place.path, write=write, truncate=cut, inode=inode)
        try:
            self._check(place, flags, handle)
        except PermissionError:
            place.area.release(handle)
            raise
        return self.areas.opened(place.area, handle)

    def _check(self, place: Place, flags: int, handle: int | None = None) -> None:
        """Raise ``PermissionError`` if the program may not open the file, in a mount for other users."""
        if self._shared:
            shown = place.area.attributes(place.path, handle)
            if not may_open(shown, self._user, process_of(self.loop.request), flags):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place.path)

    @property
    def _user(self) -> User:
        return User(*user_of(self.loop.request))

    def is_direct(self, fh: int) -> bool:
        """Return whether the kernel must not cache pages that are read through ``fh``."""
        return self.areas.handles[fh].is_direct(fh)

    @changing_path
    def create(self, place: Place, mode: int, fi: Any = None) -> int:
        """Create and open a file; return the number of the handle."""
        return self.areas.opened(place.area, place.document.create(place.path, mode, self._user))

    @on_file
    def read(self, area: Area, path: Path, size: int, offset: int, fh: int) -> bytes | Extent:
        """Return bytes, fewer only at the end; an extent if nothing can move them before they are sent."""
        found = area.read(fh, offset, size)
        return found if self.loop.alone else read_bytes(found)

    @changing_file
    def write(self, area: Area, path: Path, data: memoryview, offset: int, fh: int) -> int:
        """Write all of ``data``, which is valid during the call; return its length."""
        return document_of(area).write(fh, offset, data, mapped=is_mapped_write(self.loop.request))

    @changing_by_handle
    def overwrite(self, area: Area, fh: int, offset: int, data: memoryview) -> bool:
        """Write through the fast path; return False and do nothing if there is none (``vfs/fast_paths``)."""
        return document_of(area).overwrite(fh, offset, data)

    def truncate(self, path: Path, length: int, fh: int | None = None) -> None:
        """Set the size."""
        self._truncate(path, fh, length)

    @changing_node
    def _truncate(self, place: Place, fh: int | None, length: int) -> None:
        place.document.truncate(place.path, length, fh)

    @changing_file
    def flush(self, area: Area, path: Path, fh: int) -> None:
        """Handle the close of a file descriptor.  This is the moment at which a save is committed or rejected."""
        area.flush(fh, killed=area.is_dirty(fh) and was_killed(process_of(self.loop.request)))

    def is_clean(self, fh: int) -> bool:
        """Return whether no program wrote through ``fh`` since its last flush, so that a flush has no effect."""
        return not self.areas.handles[fh].is_dirty(fh)

    @changing_file
    def fsync(self, area: Area, path: Path, datasync: int, fh: int) -> None:
        """Make one file durable."""
        area.fsync(fh)

    @on_file
    def fsyncdir(self, area: Area, path: Path, datasync: int, fh: int) -> None:
        """Finish the files of the area if ``fh`` is its root (``sync MNT``).  Else there is nothing to sync."""
        if area.is_root(fh):
            area.finish()

    @on_file
    def release(self, area: Area, path: Path, fh: int) -> None:
        """Close a handle after its last file descriptor."""
        try:
            area.release(fh)
        finally:
            self.areas.closed(fh)

    @on_path
    def mkdir(self, place: Place, mode: int) -> None:
        """Create a directory."""
        place.document.names.mkdir(place.path, mode, self._user)

    @on_path
    def mknod(self, place: Place, mode: int, dev: int) -> None:
        """Raise ``EPERM``: ``create`` makes regular files, and there are no other kinds."""
        raise NotPermittedError("only regular files, directories and symbolic links can be created here")

    @on_path
    def rmdir(self, place: Place) -> None:
        """Remove an empty directory."""
        place.document.names.rmdir(place.path)

    @changing_path
    def unlink(self, place: Place) -> None:
        """Remove a name."""
        place.document.names.unlink(place.path)

    @changing_path
    def rename(self, place: Place, new: str, flags: int = 0) -> None:
        """Rename within one document.  RENAME_NOREPLACE is the only supported flag."""
        if flags & ~_RENAME_NOREPLACE:
            raise NameRefusedError("exchanging names and whiteouts are not supported")
        names, target = place.document.names, self.areas.within(place, new)
        if is_hidden(target):
            names.hide(place.path, target, replaced=self._is_replacing())
            return
        names.rename(place.path, target, replace=not flags)

    def _is_replacing(self) -> bool:
        """Return whether libfuse hides a file because it is being replaced, and not because it is unlinked."""
        if opcode_of(self.loop.request) not in (FUSE_RENAME, FUSE_RENAME2):
            return False
        if is_hidden(os.fsdecode(rename_target_of(self.loop.request))):
            raise NameRefusedError("names that begin with .fuse_hidden are reserved for libfuse")
        return True

    @on_path
    def symlink(self, place: Place, source: str) -> None:
        """Create a symbolic link at ``place`` that leads to ``source``."""
        place.document.names.symlink(place.path, source, self._user)

    @on_path
    def link(self, place: Place, source: str) -> None:
        """Give the file ``source`` an additional name, ``place``."""
        place.document.names.link(self.areas.within(place, source), place.path)

    def chmod(self, path: Path, mode: int, fh: int | None = None) -> None:
        """Set the mode."""
        self._chmod(path, fh, mode)

    @on_node
    def _chmod(self, place: Place, fh: int | None, mode: int) -> None:
        place.document.metadata.chmod(place.path, mode, fh)

    def chown(self, path: Path, uid: int, gid: int, fh: int | None = None) -> None:
        """Set the owner."""
        self._chown(path, fh, uid, gid)

    @on_node
    def _chown(self, place: Place, fh: int | None, uid: int, gid: int) -> None:
        place.document.metadata.chown(place.path, uid, gid, fh)

    def utimens(self, path: Path, times: tuple[int | None, int | None] | None = None, fh: int | None = None) -> None:
        """Set the times.  None for ``times`` means now; None for one of the two keeps it."""
        now = time.time_ns()
        self._utimens(path, fh, times or (now, now))

    @on_node
    def _utimens(self, place: Place, fh: int | None, times: tuple[int | None, int | None]) -> None:
        place.document.metadata.utimens(place.path, *times, fh)

    @looking_path
    def listxattr(self, place: Place) -> list[str]:
        """Return the names of the extended attributes."""
        return place.area.xattrs(place.path)

    @looking_path
    def getxattr(self, place: Place, name: str, position: int = 0) -> bytes:
        """Return an extended attribute of the namespace ``user``; ``direct`` refuses all others."""
        return place.area.xattr(place.path, name)

    @changing_path
    def setxattr(self, place: Place, name: str, value: bytes, options: int, position: int = 0) -> None:
        """Set an extended attribute.  Ours recompress a block or reserve space; all others are refused."""
        place.document.metadata.set_xattr(place.path, name, value)

    @on_path
    def removexattr(self, place: Place, name: str) -> None:
        """Refuse to remove an extended attribute, because ours describe the file."""
        if name in place.area.xattrs(place.path):
            raise NotPermittedError(f"{name} describes the file and cannot be removed", path=place.path)
        raise ForeignAttributeError(f"the attribute {name!r} cannot be removed")

    @changing_file
    def fallocate(self, area: Area, path: Path, mode: int, offset: int, length: int, fh: int) -> None:
        """Reserve space, or with PUNCH_HOLE or ZERO_RANGE write zeros."""
        if mode & ~_FALLOCATE_MODES:
            raise NotSupportedError("this kind of fallocate is not supported")
        zero = bool(mode & ~FALLOC_KEEP_SIZE)
        document_of(area).allocate(fh, offset, length, keep_size=bool(mode & FALLOC_KEEP_SIZE), zero=zero)

    @looking_path
    def statfs(self, place: Place) -> dict[str, int]:
        """Return the statistics of the file system that holds the bytes."""
        found = os.statvfs(place.area.stored_in)
        fields = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail")
        return {**{name: getattr(found, name) for name in fields}, "f_namemax": _NAME_MAX}
