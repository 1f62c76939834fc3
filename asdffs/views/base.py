"""The interface of views.  A view is a directory in the root of a mount, with files that show parts of a document.

To add a view, write one module in this package, or in another one with the entry point group ``asdffs.views``, and
set ``PLUGIN`` to a subclass of ``View``.  Override ``names`` and ``child``; everything else has a default, which
makes a read-only view whose names never change.  Of a file, override ``size`` and ``read``, or only ``render`` of a
``RenderedFile``.

A view knows neither FUSE nor errno: methods raise ``AsdffsError`` or ``OSError``, which the mount maps to an errno.
``read`` returns bytes, or an ``Extent`` that the mount sends without copying it through Python.  One thread at a time
calls a view, and it holds the main lock.  Sizes and offsets are in bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from asdffs.document.changes import Subject
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, ForeignAttributeError, NoAttributeError, NotPermittedError, NotSupportedError
from asdffs.storage.backend import Extent

#: How the names of extended attributes begin.
PREFIX = "user.asdf."
_READ_ONLY = "this file is read-only"


class Options(NamedTuple):
    """The options of a mount that concern views.

    ``hidden``: names of the array formats to leave out.  ``layout``: the name of the view that becomes the root of
    the mount; empty: the root has all views.  ``spool``: where the mount keeps what is not in the file yet.
    """

    hidden: frozenset[str] = frozenset()
    layout: str = ""
    spool: str = ""


class ViewFile:
    """A file of a view.  Unless methods are overridden, it is read-only and never changes."""

    #: Whether programs may write to the file.
    writable = False
    #: Tells files of the same name apart: one with another identity is another file.
    identity: object = None
    #: Whether to commit writes only when the last writer closes the file, because each commit is much work.
    commits_late = False
    #: Whether ``window`` stays the same as long as the tree and the blocks do not change.
    steady_window = False

    def size(self) -> int:
        """Return the size of the file."""
        raise NotImplementedError

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return ``length`` bytes from ``offset`` on, or fewer at the end of the file."""
        raise NotImplementedError

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return the parts of the document that the content depends on; their changes invalidate the kernel's caches.

        None: the file may change at any time, and the kernel asks each time.
        """
        return ()

    def version(self) -> int | None:
        """Return a number that differs for different content; None if the content never changes.

        For a file with ``subjects``: the time of the change in ns, or 0 if it has not changed since the file was
        opened.
        """
        return None

    def opened(self, *, write: bool) -> None:
        """Note that a program opened the file, for writing if ``write``."""

    def closed(self, *, write: bool) -> None:
        """Note that a program closed the file, which it had opened for writing if ``write``."""

    def snapshot(self) -> bytes | None:
        """Return the whole content, which all reads of one open file then get; None to call ``read`` for each."""
        return None

    def open_for_reading(self) -> None:
        """Raise ``AsdffsError`` if the file cannot be read.  The kernel does not read a file of size 0."""

    def open_for_writing(self) -> None:
        """Raise ``AsdffsError`` if the file cannot be written."""
        raise NotPermittedError(_READ_ONLY)

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset``."""
        raise NotPermittedError(_READ_ONLY)

    def write_mapped(self, offset: int, payload: bytes | memoryview) -> None:
        """Write dirty pages of an mmap, which may have more bytes than a program stored."""
        self.write(offset, payload)

    def truncate(self, size: int) -> None:
        """Set the size of the file."""
        raise NotPermittedError(_READ_ONLY)

    def flush(self, *, durable: bool) -> None:
        """Bring writes into the ASDF file: a program closed this file, or (``durable``) called fsync."""

    def revert(self) -> None:
        """Undo writes as far as possible: a program that copied onto the file failed."""

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Reserve disk space for a range (fallocate), or with ``zero`` fill it with zeros.

        ``keep_size``: do not make the file longer.
        """
        raise NotSupportedError("room cannot be reserved here")

    def window(self) -> tuple[int, int] | None:
        """Return the number of the block that the file shows unchanged, and the offset of the file in the block."""
        return None

    def head_size(self) -> int:
        """Return how many bytes at the beginning of a file with a ``window`` are not in the block."""
        return 0

    def attributes(self) -> Mapping[str, bytes]:
        """Return the extended attributes by name."""
        return {}

    def attribute(self, name: str) -> bytes:
        """Return one extended attribute.  Raises ``NoAttributeError``."""
        try:
            return self.attributes()[name]
        except KeyError:
            raise NoAttributeError(f"no attribute {name!r} here") from None

    def set_attribute(self, name: str, value: bytes) -> None:
        """Set an extended attribute."""
        raise ForeignAttributeError(f"the attribute {name!r} cannot be set here")


class RenderedFile(ViewFile):
    """A small file that is made when somebody looks at it, and may change at any time."""

    def render(self) -> bytes:
        """Return the content as it is now."""
        raise NotImplementedError

    def steady(self) -> bytes:
        """Return what of the content makes a new version: all of it, unless some changes all the time."""
        return self.render()

    def size(self) -> int:
        """Return the size of the content now."""
        return len(self.render())

    def read(self, offset: int, length: int) -> bytes:
        """Return a part of the content now."""
        return self.render()[offset : offset + length]

    def snapshot(self) -> bytes | None:
        """Return the content now, so that a reader never sees a mixture of two."""
        return self.render()

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return None: the content may change at any time."""
        return None

    def version(self) -> int:
        """Return a checksum of the content."""
        return zlib.crc32(self.steady())


class ViewDirectory:
    """A directory of a view.  Unless methods are overridden, it has no subdirectories and its entries never change.

    A directory in which programs may change all names has ``node_kind``, too: a class of directories of a mount
    (``vfs/directories``) that calls it.
    """

    #: See ``ViewFile.identity``.
    identity: object = None

    def names(self) -> Iterable[str]:
        """Return the names of the entries, without ``.`` and ``..``."""
        raise NotImplementedError

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """Return the entry ``name``.  Raises ``KeyError`` if there is none."""
        raise NotImplementedError

    def directories(self) -> int | None:
        """Return the number of subdirectories; None if it is expensive to know."""
        return 0

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return the parts of the document that the names depend on; None if they may change at any time."""
        return ()

    def version(self) -> int:
        """Return when names were last added or removed, in ns; 0 if never since the document was opened."""
        return 0


class View(ViewDirectory):
    """The top directory of a view.  Unless methods are overridden, programs cannot change it.

    A view is made with the document, and with the options of the mount or None.
    """

    #: The name of the view in the root of the mount.
    directory: str
    #: Whether programs may create unknown names in the directory, as scratch, which never enters the ASDF file.
    scratch = False

    def __init__(self, document: Document, options: Options | None = None) -> None:
        self._document = document

    def present(self) -> bool:
        """Return whether the mount shows the directory."""
        return True

    def trouble(self) -> AsdffsError | None:
        """Return why a view that is not present cannot be shown; None if there is nothing to show."""
        return None

    def finish(self, *, final: bool) -> None:
        """Bring everything into the ASDF file, because the file is about to be finished; ``final``: the last time."""

    def unsaved(self) -> Iterable[tuple[str, str]]:
        """Return files that the ASDF file does not have yet: their paths below the directory, and in the spool."""
        return ()

    def refusal(self, name: str) -> Exception | None:
        """Return why programs must not create ``name``, which does not exist; None if they may."""
        return None

    def takes(self, name: str) -> bool:
        """Return whether ``name``, if a program creates it, becomes an entry of the view and not scratch."""
        return False

    def add(self, name: str) -> None:
        """Create an empty entry that the view ``takes``."""
        raise NotPermittedError("nothing can be created in this directory")

    def remove(self, name: str) -> None:
        """Remove an entry.  Raises ``InUseError`` with the reason."""
        raise NotPermittedError(f"{name} is a part of the mount and cannot be removed")
