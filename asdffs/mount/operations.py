"""The FUSE operations: one method for each opcode of ``protocol``.

A method gets the item and its area (``vfs/areas``), which ``answering`` has found, the request and its structure.  It
calls the area, and returns the answer: bytes, an extent of a file, an errno, or None for requests without an answer.
Errors become errno in ``answering``.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from asdffs.errors import (
    AsdffsError,
    ForeignAttributeError,
    NameRefusedError,
    NotPermittedError,
    NotSupportedError,
)
from asdffs.mount import protocol
from asdffs.mount.answers import (
    ATTRIBUTES,
    ENTRY,
    NO_ENTRY,
    OPENED,
    STATISTICS,
    WRITTEN,
    directory_entry,
    fitting,
    number_in,
    status,
    times_of,
)
from asdffs.mount.caller import was_killed
from asdffs.mount.counters import Counters
from asdffs.mount.loop import Loop
from asdffs.mount.protocol import Header, OpenFlag, SetFlag
from asdffs.mount.session import Passthrough
from asdffs.storage.backend import Extent, read_bytes
from asdffs.vfs.areas import Areas, check_same, document_of
from asdffs.vfs.attributes import KINDS, Attributes, Entry
from asdffs.vfs.inodes import Place
from asdffs.vfs.namespace import User

_RENAME_NOREPLACE: Final = 1
# linux/falloc.h: KEEP_SIZE; with it PUNCH_HOLE; ZERO_RANGE
FALLOC_KEEP_SIZE: Final = 0x01
_FALLOCATE_MODES: Final = FALLOC_KEEP_SIZE | 0x02 | 0x10
_NAME_MAX: Final = 255
_USER_ATTRIBUTES: Final = "user."
#: The handle of all opens by helpers of ``dropper``.
HELPERS: Final = (1 << 64) - 1
#: For how long the kernel may keep names, and attributes that it can be told about, in seconds and ns: less than a
#: second, so that changes of the ASDF file by other programs are seen within a second.
_KEPT: Final = (0, 800_000_000)
#: Attributes that may change unnoticed, and all while other threads answer requests: they could be old already.
_NOT_KEPT: Final = (0, 0)
_entry_of: Final = ENTRY.pack
_attributes_of: Final = ATTRIBUTES.pack
_written: Final = WRITTEN.pack

Answer = bytes | Extent | None


class Operations:
    """The operations of one mount.

    ``is_helper(pid)``: whether a process is a helper of ``dropper``.  ``counters``: of the mount.
    """

    def __init__(
        self,
        areas: Areas,
        loop: Loop,
        is_helper: Callable[[int], bool],
        passthrough: Passthrough | None = None,
        counters: Counters | None = None,
    ) -> None:
        self.areas = areas
        self.counters = counters or Counters()
        self._loop = loop
        self._is_helper = is_helper
        self._passthrough = passthrough

    # -- items ----------------------------------------------------------------------

    def lookup(self, place: Place, header: Header, asked: protocol.Name) -> Answer:
        """Return the entry of a directory."""
        return self._entry(place, *place.area.lookup(place.item, asked.name))

    def _entry(self, place: Place, item: Any, shown: Attributes) -> bytes:
        """Return the answer about an entry of the directory ``place``: a number, and attributes."""
        alone = self._loop.alone
        number = self.areas.inodes.give(place, item, alone=alone)
        kept = _KEPT if shown.steady and alone else _NOT_KEPT
        return _entry_of(number, 0, _KEPT[0], kept[0], _KEPT[1], kept[1]) + status(shown)

    def forget(self, place: None, header: Header, asked: protocol.Forget) -> None:
        """Record that the kernel forgets an item.  It expects no answer."""
        self.areas.forget(header.node, asked.lookups)

    def forget_many(self, place: None, header: Header, asked: protocol.BatchForget) -> None:
        """Record that the kernel forgets several items.  It expects no answer."""
        for number, count in protocol.pairs(asked):
            self.areas.forget(number, count)

    def getattr(self, place: Place, header: Header, asked: protocol.GetAttributes) -> Answer:
        """Return attributes."""
        handle = asked.handle if asked.flags & protocol.GETATTR_HANDLE else None
        shown = place.area.attributes(place.item, handle)
        place.since = time.monotonic()
        kept = _KEPT if shown.steady and self._loop.alone else _NOT_KEPT
        return _attributes_of(*kept) + status(shown)

    def setattr(self, place: Place, header: Header, asked: protocol.SetAttributes) -> Answer:
        """Set mode, owner, size and times; return the attributes."""
        vfs, item, valid = document_of(place), place.item, asked.valid
        handle = asked.handle if valid & SetFlag.HANDLE else None
        if valid & SetFlag.MODE:
            vfs.chmod(item, stat.S_IMODE(asked.mode))
        if valid & (SetFlag.UID | SetFlag.GID):
            vfs.chown(item, asked.user if valid & SetFlag.UID else -1, asked.group if valid & SetFlag.GID else -1)
        if valid & SetFlag.KILL_PRIVILEGES:
            vfs.drop_privileges(item)
        if valid & SetFlag.SIZE:
            vfs.truncate(item, asked.size, handle)
        if valid & (SetFlag.ATIME | SetFlag.MTIME):
            vfs.utimens(item, *times_of(asked))
        return _attributes_of(*_NOT_KEPT) + status(vfs.attributes(item, handle))

    def readlink(self, place: Place, header: Header, asked: protocol.Nothing) -> Answer:
        """Return the target of a symbolic link."""
        return os.fsencode(place.area.readlink(place.item))

    def statfs(self, place: Place, header: Header, asked: protocol.Nothing) -> Answer:
        """Return the statistics of the file system that holds the bytes."""
        found = os.statvfs(place.area.stored_in)
        free = found.f_bfree, found.f_bavail, found.f_files, found.f_ffree
        return STATISTICS.pack(found.f_blocks, *free, found.f_bsize, _NAME_MAX, found.f_frsize)

    # -- names ----------------------------------------------------------------------

    def mknod(self, place: Place, header: Header, asked: protocol.Nothing) -> Answer:
        """Raise ``EPERM``: ``create`` makes regular files, and there are no other kinds."""
        raise NotPermittedError("only regular files, directories and symbolic links can be created here")

    def mkdir(self, place: Place, header: Header, asked: protocol.MakeDirectory) -> Answer:
        """Create a directory."""
        vfs = document_of(place)
        node = vfs.names.mkdir(place.item, asked.name, asked.mode, User(header.user, header.group))
        return self._entry(place, node, vfs.attributes(node))

    def symlink(self, place: Place, header: Header, asked: protocol.Symlink) -> Answer:
        """Create a symbolic link."""
        vfs = document_of(place)
        node = vfs.names.symlink(place.item, asked.name, asked.target, User(header.user, header.group))
        return self._entry(place, node, vfs.attributes(node))

    def link(self, place: Place, header: Header, asked: protocol.Link) -> Answer:
        """Give a file an additional name."""
        vfs, other = document_of(place), self.areas.enter(asked.node)
        try:
            check_same(place, other)
            vfs.names.link(other.item, place.item, asked.name)
            return self._entry(place, other.item, vfs.attributes(other.item))
        finally:
            self.areas.leave(other)

    def unlink(self, place: Place, header: Header, asked: protocol.Name) -> Answer:
        """Remove a name."""
        document_of(place).names.unlink(place.item, asked.name)
        return b""

    def rmdir(self, place: Place, header: Header, asked: protocol.Name) -> Answer:
        """Remove an empty directory."""
        document_of(place).names.rmdir(place.item, asked.name)
        return b""

    def rename(self, place: Place, header: Header, asked: protocol.Rename | protocol.Rename2) -> Answer:
        """Rename within one document.  RENAME_NOREPLACE is the only supported flag."""
        flags = asked.flags if isinstance(asked, protocol.Rename2) else 0
        if flags & ~_RENAME_NOREPLACE:
            raise NameRefusedError("exchanging names and whiteouts are not supported")
        vfs, target = document_of(place), self.areas.enter(asked.directory)
        try:
            check_same(place, target)
            became = vfs.names.rename(place.item, asked.name, target.item, asked.new_name, replace=not flags)
            if became is not None:
                self.areas.inodes.become(*became)
        finally:
            self.areas.leave(target)
        return b""

    # -- directories ------------------------------------------------------------------

    def opendir(self, place: Place, header: Header, asked: protocol.Open) -> Answer:
        """Open a directory."""
        return OPENED.pack(self.areas.opened(place, place.area.opendir(place.item)), 0, 0)

    def readdir(self, place: Place, header: Header, asked: protocol.Read) -> Answer:
        """Return entries from ``asked.offset`` on, as many as fit."""
        return self._entries(place, asked, b"")

    def readdirplus(self, place: Place, header: Header, asked: protocol.Read) -> Answer:
        """Return entries with attributes, as ``readdir``."""
        return self._entries(place, asked, NO_ENTRY)

    def _entries(self, place: Place, asked: protocol.Read, lead: bytes) -> bytes:
        """Return entries.  ``lead``: what is before one without attributes; empty: all are such."""
        found, room, listed = [], asked.size, place.area.entries_from(asked.handle, asked.offset)
        for position, (name, mode, number) in enumerate(listed, asked.offset + 1):
            if (not mode or (lead and mode == stat.S_IFDIR)) and name not in (b".", b".."):
                packed = self._looked_up(place, asked.handle, (name, mode, number), position, lead)
            else:
                packed = lead + directory_entry(name, mode, number, position)
            if (room := room - len(packed)) < 0:
                if lead and (given := number_in(packed)):
                    self.areas.forget(given, 1)
                break
            found.append(packed)
        return b"".join(found)

    def _looked_up(self, place: Place, handle: int, entry: Entry, position: int, lead: bytes) -> bytes:
        """Return an entry whose node was looked up; nothing if it is gone since the listing began."""
        name, mode, number = entry
        try:
            found = place.area.entry(handle, os.fsdecode(name))
        except (AsdffsError, OSError):  # a program that asks for this entry gets the error then
            return lead + directory_entry(name, mode, number, position)
        if found is None:
            return lead + directory_entry(name, mode, number, position) if mode else b""
        item, shown = found
        packed = directory_entry(name, KINDS[shown.kind], shown.number, position)
        if lead:
            return self._entry(place, item, shown) + packed
        if not item.inode and self._loop.alone:  # the kernel does not know it, and no request is about to tell it
            place.area.forget(item)
        return packed

    def releasedir(self, place: Place, header: Header, asked: protocol.Handle) -> Answer:
        """Close a directory."""
        place.area.closedir(asked.handle)
        self.areas.closed(asked.handle)
        return b""

    def fsyncdir(self, place: Place, header: Header, asked: protocol.Handle) -> Answer:
        """Finish the files of the area if this is its root (``sync MNT``).  Else there is nothing to sync."""
        if place.area.is_root(asked.handle):
            place.area.finish()
        return b""

    # -- files ------------------------------------------------------------------------

    def open(self, place: Place, header: Header, asked: protocol.Open) -> Answer:
        """Open a file; O_TRUNC also cuts it."""
        if self._is_helper(header.process):
            return _opened_by_helper(asked.flags)
        write = asked.flags & os.O_ACCMODE != os.O_RDONLY
        handle = place.area.open(place.item, write=write, truncate=bool(asked.flags & os.O_TRUNC))
        with self._given(place, handle):
            if asked.more & protocol.OPEN_KILL_PRIVILEGES and write:
                document_of(place).drop_privileges(place.item)
            return self._opened(place, handle, write=write)

    @contextlib.contextmanager
    def _given(self, place: Place, handle: int) -> Iterator[None]:
        """Record an open file, and close it again if the program does not get it because the block raises."""
        self.areas.opened(place, handle)
        try:
            yield
        except BaseException:
            self.areas.closed(handle)
            place.area.release(handle)
            raise

    def _opened(self, place: Place, handle: int, *, write: bool) -> bytes:
        flags = 0 if write else OpenFlag.NO_FLUSH
        file = place.area.whole(handle) if self._passthrough is not None else None
        if self._passthrough is not None and file is not None:
            backing = self._passthrough.opened(place.item.inode, file)
            if backing:
                return OPENED.pack(handle, flags | OpenFlag.PASSTHROUGH, backing)
        if place.area.is_direct(handle):
            flags |= OpenFlag.DIRECT_IO
        elif self._is_unchanged(place, handle):
            flags |= OpenFlag.KEEP_CACHE
        return OPENED.pack(handle, flags, 0)

    def _is_unchanged(self, place: Place, handle: int) -> bool:
        """Return whether size and mtime are those of the last open, so that the kernel's pages are still right."""
        shown = place.area.attributes(place.item, handle)
        inode = self.areas.inodes.known.get(place.item.inode)
        if inode is None:
            return False
        before, inode.cached = inode.cached, (shown.size, shown.mtime_ns)
        return before == inode.cached

    def create(self, place: Place, header: Header, asked: protocol.Create) -> Answer:
        """Create and open a file."""
        vfs = document_of(place)
        by = User(header.user, header.group)
        node, handle = vfs.create(place.item, asked.name, stat.S_IMODE(asked.mode), by)
        created = Place(place.area, node, place.directory)
        with self._given(created, handle):
            entry = self._entry(place, node, vfs.attributes(node))
            return entry + self._opened(created, handle, write=True)

    def read(self, place: Place, header: Header, asked: protocol.Read) -> Answer:
        """Return bytes, fewer only at the end; an extent if nothing can move them before they are sent."""
        found: bytes | Extent = place.area.read(asked.handle, asked.offset, asked.size)
        if not self._loop.alone:
            found = read_bytes(found)
        self.counters.read += found.length if type(found) is Extent else len(found)
        return found

    def write(self, place: Place, header: Header, asked: protocol.Write) -> Answer:
        """Write all of the bytes."""
        vfs, payload = document_of(place), asked.payload[: asked.size]
        mapped = bool(asked.flags & protocol.WRITE_CACHE)
        if asked.flags & protocol.WRITE_KILL_PRIVILEGES:
            vfs.drop_privileges(place.item)
        if mapped or not vfs.write_fast(asked.handle, asked.offset, payload):
            vfs.write(asked.handle, asked.offset, payload, mapped=mapped)
        length = len(payload)
        self.counters.written += length
        return _written(length)

    def flush(self, place: Place, header: Header, asked: protocol.Handle) -> Answer:
        """Handle the close of a file descriptor.  This is the moment at which a save is committed or rejected."""
        handle = asked.handle
        place.area.flush(handle, killed=place.area.is_dirty(handle) and was_killed(header.process))
        return b""

    def fsync(self, place: Place, header: Header, asked: protocol.Handle) -> Answer:
        """Make one file durable."""
        place.area.fsync(asked.handle)
        return b""

    def release(self, place: Place, header: Header, asked: protocol.Handle) -> Answer:
        """Close a handle after its last file descriptor."""
        try:
            if self._passthrough is not None and place.area.whole(asked.handle) is not None:
                self._passthrough.closed(place.item.inode)
            place.area.release(asked.handle)
        finally:
            self.areas.closed(asked.handle)
        return b""

    def fallocate(self, place: Place, header: Header, asked: protocol.Allocate) -> Answer:
        """Reserve space, or with PUNCH_HOLE or ZERO_RANGE write zeros."""
        if asked.mode & ~_FALLOCATE_MODES:
            raise NotSupportedError("this kind of fallocate is not supported")
        keep, zero = bool(asked.mode & FALLOC_KEEP_SIZE), bool(asked.mode & ~FALLOC_KEEP_SIZE)
        document_of(place).allocate(asked.handle, asked.offset, asked.length, keep_size=keep, zero=zero)
        return b""

    def ioctl(self, place: None, header: Header, asked: protocol.Nothing) -> int:
        """Return ``ENOTTY``: open() of Python asks each file whether it is a terminal."""
        return errno.ENOTTY

    # -- extended attributes ------------------------------------------------------------

    def listxattr(self, place: Place, header: Header, asked: protocol.ListAttributes) -> Answer:
        """Return the names of the extended attributes."""
        return fitting(b"".join(os.fsencode(name) + b"\0" for name in place.area.xattrs(place.item)), asked.size)

    def getxattr(self, place: Place, header: Header, asked: protocol.GetAttribute) -> Answer:
        """Return an extended attribute.  The kernel asks for security.capability before each write."""
        if not asked.name.startswith(_USER_ATTRIBUTES):
            raise ForeignAttributeError("only extended attributes of users are here")
        return fitting(place.area.xattr(place.item, asked.name), asked.size)

    def setxattr(self, place: Place, header: Header, asked: protocol.SetAttribute) -> Answer:
        """Set an extended attribute.  Ours recompress a block or reserve space; all others are refused."""
        document_of(place).set_xattr(place.item, asked.name, bytes(asked.value[: asked.size]))
        return b""

    def removexattr(self, place: Place, header: Header, asked: protocol.Name) -> Answer:
        """Refuse to remove an extended attribute, because ours describe the file."""
        if asked.name in place.area.xattrs(place.item):
            raise NotPermittedError(f"{asked.name} describes the file and cannot be removed", path=place.item.path)
        raise ForeignAttributeError(f"the attribute {asked.name!r} cannot be removed")

    def interrupt(self, place: None, header: Header, asked: protocol.Interrupt) -> None:
        """Record that the program of a request got a signal.  The kernel expects no answer."""
        self._loop.interrupt(asked.unique)

    def destroy(self, place: None, header: Header, asked: protocol.Nothing) -> Answer:
        """Answer the last request of a mount, for which nothing is left to do."""
        return b""


def _opened_by_helper(flags: int) -> bytes:
    """Answer an open by a helper: with O_NONBLOCK the kernel keeps its pages of the file, else it drops them."""
    return OPENED.pack(HELPERS, OpenFlag.NO_FLUSH | (OpenFlag.KEEP_CACHE if flags & os.O_NONBLOCK else 0), 0)
