"""Other ASDF files that a tree leads to: by a source that is a URI, or by a ``$ref``.

Implements sections Exploded form and References.  Each is opened once, read-only, when somebody first asks, and read
again when another program changed it.  They share the scheduler of the file that leads to them, so others are served
meanwhile and one turn guards all; and they share these linked_files, so that each file is open once.
The caller holds the main lock.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from asdffs.document.blocks.foreign import Foreign
from asdffs.document.outlines import Outlines
from asdffs.errors import AsdffsError, InvalidArrayError, MissingFileError, NotSupportedError, reason_of
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.mount_table import outside
from asdffs.tree.branch import Branch
from asdffs.tree.events import Path
from asdffs.tree.uris import resolve

logger = logging.getLogger(__name__)

#: Files that may be open at a time for one document: each is a descriptor.
_MOST: Final = 256
#: A reference to a reference to ... is followed this far.
_FARTHEST: Final = 20
#: Type of the file systems that asdffs mounts.
_OWN: Final = "fuse.asdffs"


class OtherFile(Protocol):
    """What is asked of an open file here."""

    path: str
    outlines: Outlines

    def foreign(self) -> Foreign:
        """Whether another program changed the file."""

    def follow(self) -> None:
        """Read the file again if another program changed it."""

    def close(self) -> None:
        """Close it."""


F = TypeVar("F", bound=OtherFile)


class LinkedFiles(Generic[F]):
    """The files that ``root`` leads to.  ``open_other(path, self)`` opens one, read-only."""

    def __init__(self, root: F, open_other: Callable[[str, LinkedFiles[F]], F], scheduler: Scheduler) -> None:
        self._root = root
        self._open_other = open_other
        self._scheduler = scheduler
        self._opened: dict[str, F] = {}
        self._opening = RankedLock(scheduler, Rank.LINKED_FILES)
        self._told: set[str] = set()

    def find(self, uri: str, base: F) -> F:
        """The file that ``uri``, without its fragment, leads to from ``base``, as it is now.

        Raises ``InvalidArrayError`` with the reason where that cannot be read.
        """
        path = resolve(uri, base.path)
        if path is None:
            raise InvalidArrayError(f"{uri[:60]!r} is no file on this machine, and is not followed")
        try:
            return self.at(path)
        except (AsdffsError, OSError, ValueError) as err:
            raise InvalidArrayError(f"{uri[:60]!r} cannot be read: {reason_of(err)}") from err

    def at(self, path: str) -> F:
        """The file at ``path``, absolute, as it is now.  Raises ``AsdffsError``, ``OSError``."""
        with self._scheduler.waiting():  # it may be on a network
            real = outside(path, _OWN)
        if real is None:  # who waits for itself waits for ever, and so do two that wait for each other
            raise NotSupportedError("is in a mount of asdffs; name the ASDF file itself", path=path)
        if real == self._root.path:
            return self._root
        if real not in self._opened:
            with self._opening.entered():
                if real not in self._opened:
                    self._opened[real] = self._open(real)
        found = self._opened[real]
        if found.foreign() is Foreign.REMOVED:
            raise MissingFileError("was removed", path=real)
        found.follow()
        return found

    def branch(self, reference: str, base: F) -> tuple[F, Branch] | None:
        """What a ``$ref`` to another file leads to from ``base``, and the file it is in.

        None where no array is there, or references lead in a circle.  Raises as ``find``.
        """
        for _ in range(_FARTHEST):
            uri, _, fragment = reference.partition("#")
            base = self.find(uri, base)
            found = base.outlines.outline().pointed(fragment)
            if found is None or found.elsewhere is None:
                return None if found is None else (base, found)
            reference = found.elsewhere
        return None

    def finder(self, document: F, path: Path) -> Callable[[], Branch]:
        """What finds the branch at ``path`` of ``document``, one of these or their root, each time as it is then."""
        if document is self._root:
            return functools.partial(document.outlines.branch, path)
        return functools.partial(self._branch_at, document.path, path)

    def _branch_at(self, file: str, path: Path) -> Branch:
        """Raises ``KeyError`` where the tree has nothing there any more."""
        return self.at(file).outlines.branch(path)

    def tell(self, reference: str, reason: Exception) -> None:
        """Log, once, that a reference is not followed."""
        if reference not in self._told:
            self._told.add(reference)
            logger.warning("%s: $ref %s is not followed: %s", self._root.path, reference[:200], reason)

    def close(self, owner: F) -> None:
        """Close all of them, when it is the root that ends."""
        if owner is not self._root:
            return
        for document in self._opened.values():
            document.close()
        self._opened.clear()

    def _open(self, path: str) -> F:
        if len(self._opened) >= _MOST:
            raise NotSupportedError(f"the tree leads to more than {_MOST} other files; this is one", path=path)
        with self._scheduler.waiting():  # it may be on a network
            return self._open_other(path, self)
