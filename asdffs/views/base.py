"""The interface of views: named files that show parts of a document, without FUSE and errno.

A view offers one directory of the mount.  Its files read and write through the document;
a read returns bytes, or an extent that the adapter reads without copying through Python.
A new view is one file in this package with ``PLUGIN = its class``.
One thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from asdffs.document.changes import Subject
from asdffs.document.document import Document
from asdffs.errors import ForeignAttributeError, NoAttributeError, NotPermittedError, NotSupportedError
from asdffs.storage.backend import Extent


class Options(NamedTuple):
    """The user's choices about views, and their place.

    ``hidden``: names of the array formats to leave out.  ``layout``: the name of the view that becomes the root of
    the mount; empty: the root has all views.  ``spool``: where the mount keeps what is not in the file yet.
    """

    hidden: frozenset[str] = frozenset()
    layout: str = ""
    spool: str = ""


class ViewFile:
    """One virtual file.  Sizes and offsets in bytes.  This base is a read-only file."""

    writable = False
    #: What of the view this is: files with another one are other files, though they have the same name.
    identity: object = None
    #: Whether bringing what was written into the file is so much work that it waits for the last writer's close.
    commits_late = False
    #: Whether ``window`` stays the same while tree and blocks do.
    steady_window = False

    def size(self) -> int:
        """Size now.  Raises ``AsdffsError``, ``OSError``."""
        raise NotImplementedError

    def read(self, offset: int, length: int) -> bytes | Extent:
        """The bytes, fewer where the file ends.  Raises ``AsdffsError``, ``OSError``."""
        raise NotImplementedError

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return the parts of the document that the content depends on; their changes invalidate the kernel's caches.

        None: the file may change at any time, and the kernel asks each time.
        """
        return ()

    def version(self) -> int | None:
        """Return a number that is another one for other content; None if the content never changes.

        For a file with ``subjects``: the time of the change in ns, or 0 if it has not changed since the file was
        opened.
        """
        return None

    def opened(self, *, write: bool) -> None:
        """There is a handle on it; ``write``: that may write."""

    def closed(self, *, write: bool) -> None:
        """A handle is gone."""

    def snapshot(self) -> bytes | None:
        """All of it as it is now, for small files that are made when they are looked at; None: read as you go."""
        return None

    def open_for_reading(self) -> None:
        """Refuse what has no size: the kernel asks for no byte of an empty file.  Raises ``AsdffsError``."""

    def open_for_writing(self) -> None:
        """Refuse what cannot be written, early.  Raises ``AsdffsError``."""
        raise NotPermittedError("this file is read-only")

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write.  Raises ``AsdffsError``, ``OSError``."""
        raise NotPermittedError("this file is read-only")

    def write_mapped(self, offset: int, payload: bytes | memoryview) -> None:
        """Write pages of a map, in which there may be more than a program stored.  Raises as ``write``."""
        self.write(offset, payload)

    def truncate(self, size: int) -> None:
        """Set the size.  Raises ``AsdffsError``, ``OSError``."""
        raise NotPermittedError("this file is read-only")

    def flush(self, *, durable: bool) -> None:
        """Somebody closed the file after writing, or (``durable``) asked for fsync."""

    def revert(self) -> None:
        """A copy onto the file has failed: take back what can be taken back."""

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Reserve room on the disk for these bytes (fallocate), or with ``zero`` make them zeros.

        ``keep_size``: do not make the file longer.  Raises ``AsdffsError``, ``OSError``.
        """
        raise NotSupportedError("room cannot be reserved here")

    def window(self) -> tuple[int, int] | None:
        """Return the number of the block that the file shows unchanged, and the offset of the file in the block."""
        return None

    def head_size(self) -> int:
        """Return how many bytes at the beginning of a file with a ``window`` are not in the block."""
        return 0

    def attributes(self) -> Mapping[str, bytes]:
        """Extended attributes.  Raises ``AsdffsError``."""
        return {}

    def attribute(self, name: str) -> bytes:
        """One extended attribute.  Raises ``NoAttributeError``."""
        try:
            return self.attributes()[name]
        except KeyError:
            raise NoAttributeError(f"no attribute {name!r} here") from None

    def set_attribute(self, name: str, value: bytes) -> None:
        """Set an extended attribute.  Raises ``ForeignAttributeError``, ``AsdffsError``, ``OSError``."""
        raise ForeignAttributeError(f"the attribute {name!r} cannot be set here")


class ViewDirectory(Protocol):
    """A directory of a view.  ``identity``: see ``ViewFile``.

    One in which programs may change all names has ``node_kind``, too: a class of directories of a mount
    (``vfs/directories``) that calls it.
    """

    identity: object

    def names(self) -> Iterable[str]:
        """Names of its entries, without ``.`` and ``..``."""

    def directories(self) -> int | None:
        """How many of its entries are directories; None: that is not known without work."""

    def version(self) -> int:
        """When entries came or went last, in ns; 0 when they did not since the document was opened."""

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """The entry of that name.  Raises ``KeyError``."""

    def subjects(self) -> tuple[Subject, ...] | None:
        """What of the document its entries depend on; None: they may come and go at any time."""


class ReadOnlyDirectory:
    """A directory, maybe the top one of a view, in which nothing can be created or removed."""

    scratch = False
    identity: object = None

    def subjects(self) -> tuple[Subject, ...] | None:
        """Its entries stay what they are."""
        return ()

    def version(self) -> int:
        """They stay."""
        return 0

    def refusal(self, name: str) -> Exception | None:
        """Never asked: there is no scratch here."""
        return None

    def takes(self, name: str) -> bool:
        """Nothing can be created here."""
        return False

    def add(self, name: str) -> None:
        """Never asked."""
        raise NotPermittedError("nothing can be created in this directory")

    def remove(self, name: str) -> None:
        """Raises ``NotPermittedError``."""
        raise NotPermittedError(f"{name} is a part of the mount and cannot be removed")

    def present(self) -> bool:
        """Always."""
        return True

    def finish(self, *, final: bool) -> None:
        """Nothing is its own."""

    def unsaved(self) -> Iterable[tuple[str, str]]:
        """Nothing is its own."""
        return ()


class View(ViewDirectory, Protocol):
    """The top directory of a view; ``directory`` is its name in the root of the mount.

    ``scratch``: whether programs may create unknown names in it, as scratch.
    """

    directory: str
    scratch: bool

    def present(self) -> bool:
        """Whether there is anything to show; if not, the directory is not there."""

    def finish(self, *, final: bool) -> None:
        """The file is about to be finished; ``final``: for the last time.  Raises ``AsdffsError``, ``OSError``."""

    def unsaved(self) -> Iterable[tuple[str, str]]:
        """What was written and the file does not have: paths below the directory, and of files in the spool."""

    def __init__(self, document: Document, options: Options | None = None) -> None: ...

    def refusal(self, name: str) -> Exception | None:
        """Why ``name``, which does not exist, must not be created; None when it may."""

    def takes(self, name: str) -> bool:
        """Whether ``name``, when it is created, is an entry of the view and not scratch."""

    def add(self, name: str) -> None:
        """Create an entry that the view ``takes``, empty.  Raises ``AsdffsError``, ``OSError``."""

    def remove(self, name: str) -> None:
        """Remove an entry.  Raises ``InUseError`` with the reason, ``AsdffsError``, ``OSError``."""
