"""Areas: the parts of a mount, and the one place that says which of them an item or an open file belongs to.

The mount of a file has one area, the document.  The mount of an archive has one area for the directory (``outside``),
and one for each document that is open (``archive``).  The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from asdffs.errors import CrossViewError, GoneError, ReadOnlyError
from asdffs.storage.backend import Extent
from asdffs.vfs.attributes import Attributes, Entry
from asdffs.vfs.inodes import Inode, Inodes, Item, Place
from asdffs.vfs.vfs import Vfs

_OUTSIDE: Final = "the archive is shown read-only; only the directories '.d' of its ASDF files can be changed"
Found = tuple[Item, Attributes]


class Area(Protocol):
    """The operations that change nothing, on items of the area; see ``Vfs`` for each.

    Those with a body are for an area in which nothing is ever written.
    """

    @property
    def root(self) -> Item:
        """The root of the area."""

    def refuse(self, error: Exception) -> None:
        """Note in the report why a request was refused."""

    def tell_changes(self, locked: Any = None, *, wait: bool) -> None:
        """Make the kernel drop its caches of nodes that changed.  ``locked``, ``wait``: see ``Kernel.invalidate``."""

    @property
    def stored_in(self) -> str:
        """The directory on whose disk the bytes are."""

    def lookup(self, folder: Any, name: str) -> Found:
        """Return the entry of that name, with its attributes."""

    def forget(self, item: Any) -> bool:
        """Drop an item that the kernel does not need; return False if it has state that a new one would lack."""

    def put_away(self, inode: Inode) -> bool:
        """Put the item of ``inode`` away; return False if it is light, needed, or could not be made again."""
        return False

    def attributes(self, item: Any, handle: int | None = None) -> Attributes:
        """Return the attributes of an item, or of an open file."""

    def opendir(self, item: Any) -> int:
        """Open a directory; return the number of the handle."""

    def entries_from(self, handle: int, start: int) -> Iterator[Entry]:
        """Return the entries from ``start`` on, including ``.`` and ``..``."""

    def entry(self, handle: int, name: str) -> Found | None:
        """Return an entry of an open directory, with its attributes; None if they are unknown."""

    def is_root(self, handle: int) -> bool:
        """Return whether an open directory is the root of the area."""

    def closedir(self, handle: int) -> None:
        """Close a directory."""

    def open(self, item: Any, *, write: bool, truncate: bool) -> int:
        """Open a file and return the number of the handle."""

    def read(self, handle: int, offset: int, length: int) -> bytes | Extent:
        """Return bytes, or the extent that holds them; fewer at the end of the file."""

    def is_direct(self, handle: int) -> bool:
        """Return whether the kernel must not cache pages that are read through the handle."""

    def whole(self, handle: int) -> int | None:
        """Return the descriptor of a file of the disk, if the open file shows all its bytes and no others."""

    def is_dirty(self, handle: int) -> bool:
        """Return whether a program wrote through the handle since its last flush."""
        return False

    def flush(self, handle: int, *, killed: bool) -> None:
        """Handle the close of a file descriptor."""

    def fsync(self, handle: int) -> None:
        """Make written bytes durable."""

    def release(self, handle: int) -> None:
        """Close a handle after its last file descriptor."""

    def finish(self) -> None:
        """Complete the files of the area durably (``sync MNT``)."""

    def readlink(self, item: Any) -> str:
        """Return the target of a symbolic link."""

    def xattrs(self, item: Any) -> list[str]:
        """Return the names of the extended attributes."""
        return []

    def xattr(self, item: Any, name: str) -> bytes:
        """Return the value of an extended attribute."""


class Documents(Protocol):
    """The documents of an archive (``archive``)."""

    def directory_of(self, item: Item) -> str:
        """Return the directory of the document to which an item of the archive leads; empty: to none."""

    def is_open(self, directory: str) -> bool:
        """Return whether the document of ``directory`` is open, or is being opened or closed."""

    def enter(self, directory: str) -> Vfs:
        """Return the document of ``directory``, which stays open until ``leave``."""

    def leave(self, directory: str) -> None:
        """Record that a request has left it."""

    def note_refusal(self, sentence: str) -> None:
        """Note the last refusal of any area."""


class Areas:
    """The areas of one mount.  ``root``: that of its root.  ``documents``: the others, of an archive.

    ``inodes``: what the kernel knows.  ``handles``: the place of each open file and directory; ``opened`` and
    ``closed`` change it.
    """

    def __init__(self, root: Area, documents: Documents | None = None) -> None:
        self.root = root
        self._documents = documents
        self.inodes = Inodes(Place(root, root.root))
        self._known = self.inodes.known
        self.handles: dict[int, Place] = {}

    def opened(self, place: Place, handle: int) -> int:
        """Record an open file or directory; return its number."""
        self.handles[handle] = Place(place.area, place.item, place.directory)
        return handle

    def closed(self, handle: int) -> None:
        """Record that it was closed."""
        self.handles.pop(handle, None)

    def enter(self, number: int, *, looking: bool = False) -> Place:
        """Return the place that the kernel knows by ``number``; the caller must ``leave`` it.

        Opens the document, which may wait.  ``looking``: the request only asks what the item is, so the directory of
        a document does not open it.  Raises ``GoneError`` if the item is not there any more, and as
        ``open_document``.
        """
        inode = self._known.get(number)
        if inode is None:
            raise GoneError("the kernel forgot the file")
        documents = self._documents
        if documents is None:
            return inode if inode.item is not None else self._found_again(inode, self.root)
        if inode.directory:
            return self._entered(inode, documents.enter(inode.directory))
        directory = documents.directory_of(inode.item)
        if not directory or (looking and not documents.is_open(directory)):
            return inode
        vfs = documents.enter(directory)
        return Place(vfs, vfs.root, directory)

    def _entered(self, inode: Inode, vfs: Vfs) -> Inode:
        """Return ``inode`` in its document, which may have been closed and opened again."""
        if inode.area is vfs and inode.item is not None:
            return inode
        try:
            return self._found_again(inode, vfs)
        except BaseException:
            self.leave(inode)
            raise

    def _found_again(self, inode: Inode, area: Area) -> Inode:
        """Return ``inode`` with the item that was put away, if it still is the same one.  Raises ``GoneError``."""
        if not isinstance(area, Vfs) or inode.shape not in (None, area.document.changes.shape):
            raise GoneError("the names may have changed", path=inode.path)
        item = area.names.walk(inode.path)
        if area.root.number != inode.home or item.inode not in (0, inode.number):
            raise GoneError("the name leads to another file", path=inode.path)
        self.inodes.found_again(inode, area, item)
        return inode

    def leave(self, place: Place) -> None:
        """End a request about ``place``: its document may be closed."""
        if self._documents is not None and place.directory:
            self._documents.leave(place.directory)

    def forget(self, number: int, count: int) -> None:
        """Record that the kernel forgot ``count`` answers with this number."""
        inode = self.inodes.forget(number, count)
        if inode is not None:
            inode.area.forget(inode.item)
            inode.area = inode.item = None

    def ending(self, directory: str, vfs: Vfs) -> None:
        """Put away the items of a document that is about to be closed: the kernel still knows them."""
        for inode in self.inodes.of(directory):
            vfs.put_away_at_end(inode)
            inode.area = None

    def refuse(self, area: Area, error: Exception) -> None:
        """Note in the report of ``area``, and in that of the archive, why a request was refused."""
        area.refuse(error)
        if self._documents is not None and isinstance(area, Vfs):
            self._documents.note_refusal(f"{area.document.path}: {area.document.report.error}")


def check_same(place: Place, other: Place) -> None:
    """Raise ``CrossViewError`` unless both places are in one area."""
    if place.area is not other.area:
        raise CrossViewError("is in another ASDF file, or outside of it", path=other.item.path)


def document_of(place: Place) -> Vfs:
    """Return the document, for a change.  Raises ``ReadOnlyError`` for the directory of an archive."""
    if not isinstance(place.area, Vfs):
        raise ReadOnlyError(_OUTSIDE, path=place.item.path)
    return place.area
