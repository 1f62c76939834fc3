"""Areas: the parts of a mount, and the one place that says which of them a path or an open file belongs to.

The mount of a file has one area, the document.  The mount of an archive has one area for the directory (``outside``),
and one for each document that is open (``archive``).  The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from asdffs.errors import CrossViewError, ReadOnlyError
from asdffs.storage.backend import Extent
from asdffs.vfs.attributes import Attributes
from asdffs.vfs.vfs import Vfs

_OUTSIDE: Final = "the archive is shown read-only; only the directories '.d' of its ASDF files can be changed"


class Area(Protocol):
    """The operations that change nothing.  Paths are those inside the area; see ``Vfs`` for each operation."""

    def refuse(self, error: Exception) -> None:
        """Note in the report why a request was refused."""

    def tell_changes(self, *, wait: bool) -> None:
        """Make the kernel drop its caches of nodes that changed."""

    @property
    def stored_in(self) -> str:
        """The directory on whose disk the bytes are."""

    def attributes(self, path: str | None, handle: int | None = None, *, inode: int = 0) -> Attributes:
        """Return the attributes of a path or of an open file."""

    def opendir(self, path: str) -> int:
        """Open a directory; return the number of the handle."""

    def entries_from(self, handle: int, start: int) -> Iterator[str]:
        """Return the names from entry ``start`` on, including ``.`` and ``..``."""

    def number_of(self, handle: int, name: str) -> int:
        """Return the inode number of an entry of an open directory; 0 if unknown."""

    def kinds_from(self, handle: int, start: int) -> Iterator[tuple[bytes, int, int]] | None:
        """Return the entries from ``start`` on: name, type bits of the mode (inode(7)), and inode number.

        None: this area lists names with attributes (``entry_attributes``).
        """

    def directory_at(self, handle: int, name: bytes, number: int) -> Attributes | None:
        """Return the attributes of a directory in a listing by ``kinds_from``; None if they are unknown.

        ``number``: its inode number in the listing.  The caller need not hold the main lock.
        """

    def entry_attributes(self, handle: int, name: str) -> Attributes | None:
        """Return the attributes of an entry of an open directory; None if they are unknown."""

    def is_root(self, handle: int) -> bool:
        """Return whether an open directory is the root of the area."""

    def closedir(self, handle: int) -> None:
        """Close a directory."""

    def open(self, path: str, *, write: bool, truncate: bool, inode: int = 0) -> int:
        """Open a file and return the number of the handle."""

    def read(self, handle: int, offset: int, length: int) -> bytes | Extent:
        """Return bytes, or the extent that holds them; fewer at the end of the file."""

    def is_direct(self, handle: int) -> bool:
        """Return whether the kernel must not cache pages that are read through the handle."""

    def is_dirty(self, handle: int) -> bool:
        """Return whether a program wrote through the handle since its last flush."""

    def flush(self, handle: int, *, killed: bool) -> None:
        """Handle the close of a file descriptor."""

    def fsync(self, handle: int) -> None:
        """Make written bytes durable."""

    def release(self, handle: int) -> None:
        """Close a handle after its last file descriptor."""

    def finish(self) -> None:
        """Complete the files of the area durably (``sync MNT``)."""

    def readlink(self, path: str) -> str:
        """Return the target of a symbolic link."""

    def xattrs(self, path: str) -> list[str]:
        """Return the names of the extended attributes."""

    def xattr(self, path: str, name: str) -> bytes:
        """Return the value of an extended attribute."""


class Documents(Protocol):
    """The documents of an archive (``archive``)."""

    def split(self, path: str, *, looking: bool = False) -> tuple[str, str] | None:
        """Return the directory of the document to which ``path`` belongs, and the path in it; None: to none.

        ``looking``: the directory itself belongs to a document only if that is open.
        """

    def enter(self, directory: str) -> Vfs:
        """Return the document of ``directory``, which stays open until ``leave``."""

    def leave(self, directory: str) -> None:
        """Record that a request has left it."""

    def note_refusal(self, sentence: str) -> None:
        """Note the last refusal of any area."""


class Areas:
    """The areas of one mount.  ``root``: that of its root.  ``documents``: the others, of an archive.

    ``handles``: the area of each open file and directory; ``opened`` and ``closed`` change it.
    """

    def __init__(self, root: Area, documents: Documents | None = None) -> None:
        self.root = root
        self._documents = documents
        self.handles: dict[int, Area] = {}

    def opened(self, area: Area, handle: int) -> int:
        """Record an open file or directory; return its number."""
        self.handles[handle] = area
        return handle

    def closed(self, handle: int) -> None:
        """Record that it was closed."""
        self.handles.pop(handle, None)

    def enter(self, path: str, *, looking: bool = False) -> Place:
        """Return the place of ``path``; the caller must ``leave`` it.  Opens the document, which may wait.

        ``looking``: the request only asks what ``path`` is, so the directory of a document does not open it.  Raises
        as ``open_document``.
        """
        found = self._documents.split(path, looking=looking) if self._documents is not None else None
        if found is None or self._documents is None:
            return Place(self.root, path)
        return Place(self._documents.enter(found[0]), found[1], self._documents, found[0])

    def refuse(self, area: Area, error: Exception) -> None:
        """Note in the report of ``area``, and in that of the archive, why a request was refused."""
        area.refuse(error)
        if self._documents is not None and isinstance(area, Vfs):
            self._documents.note_refusal(f"{area.document.path}: {area.document.report.error}")

    def within(self, place: Place, path: str) -> str:
        """Return ``path`` as a path in the area of ``place``.  Raises ``CrossViewError`` if it is in another one."""
        found = self._documents.split(path) if self._documents is not None else None
        directory, inner = found or ("", path)
        if directory != place.directory:
            raise CrossViewError("is in another ASDF file, or outside of it", path=path)
        return inner


class Place:
    """A path in its area, while a request is about it.

    ``directory``: that of the document in the archive; empty outside.
    """

    __slots__ = ("_documents", "area", "directory", "path")

    def __init__(self, area: Area, path: str, documents: Documents | None = None, directory: str = "") -> None:
        self.area = area
        self.path = path
        self.directory = directory
        self._documents = documents

    @property
    def document(self) -> Vfs:
        """The document, for a change.  Raises ``ReadOnlyError`` outside of documents."""
        return document_of(self.area, self.path)

    def leave(self) -> None:
        """End the request: the document may be closed."""
        if self._documents is not None:
            self._documents.leave(self.directory)


def document_of(area: Area, path: str | None = None) -> Vfs:
    """Return the document, for a change.  Raises ``ReadOnlyError`` for the directory of an archive."""
    if not isinstance(area, Vfs):
        raise ReadOnlyError(_OUTSIDE, path=path)
    return area
