"""One ASDF file in a mount, from the moment when it is open to its end.

The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Final, Protocol

from asdffs import allocator
from asdffs.document.document import Document
from asdffs.document.report import Outcome
from asdffs.document.saves.history import Places
from asdffs.vfs.attributes import Shown
from asdffs.vfs.coherence import Kernel
from asdffs.vfs.namespace import ROOT_NUMBER
from asdffs.vfs.vfs import Vfs

logger = logging.getLogger(__name__)

#: A tree with more bytes than this is checked after the first request, beside others.
_LARGE_TREE: Final = 1 << 20


class OpenedFile(Protocol):
    """An open file and its places (``cli/writing``)."""

    document: Document

    @property
    def places(self) -> Places:
        """The places, once ``recover_edits`` has made them."""

    def recover_edits(self) -> None:
        """Keep beside the file what earlier mounts left in its places.  The caller holds the main lock."""

    def release(self) -> None:
        """Record that no work of the user is left in the places: it is in the file, or was kept beside it."""

    def close(self) -> None:
        """Close the file, and release its lock."""


class ServedFile:
    """A file that a mount shows.

    ``note``: facts about the mount for other programs: process, mount point, libfuse.  ``number``: the inode number
    of its root.  ``later``: check also a small tree only when ``look_at_tree`` is called, unless warnings are errors.
    ``unchecked``: whether that is still to be done.
    """

    def __init__(
        self,
        opened: OpenedFile,
        shown: Shown,
        kernel: Kernel,
        note: dict[str, Any],
        *,
        number: int = ROOT_NUMBER,
        later: bool = False,
    ) -> None:
        self.document = opened.document
        self._opened = opened
        self._note = note
        self.vfs = Vfs(opened.document, opened.places, shown, kernel=kernel, number=number)
        self.document.note_owner({**note, "state": "serving"})
        self._version = self.document.tree.version
        later = later and not self.document.report.strict
        self.unchecked = later or self.document.tree.size > _LARGE_TREE
        if not self.unchecked:
            self.document.check_tree()

    def look_at_tree(self) -> None:
        """Check a tree that was not checked yet, unless a save did; warnings go into the report.

        A disk error here does not end the mount.
        """
        if not self.unchecked:
            return
        try:
            self.document.check_tree(self._version)
        except OSError as err:
            logger.warning("the tree could not be checked: %s", err.strerror)
        finally:
            self.unchecked = False
            allocator.give_back()  # a large tree leaves much

    def end(self) -> Outcome:
        """Finish the file, keep unsaved work beside it, and return the outcome.  The file stays open."""
        with contextlib.suppress(OSError):  # the note only informs other programs; ending must go on without it
            self.document.note_owner({**self._note, "state": "finishing"})
        if self.vfs.end():
            self._opened.release()
        outcome = self.document.report.outcome
        logger.info("%s was finished; kept beside it: %d", self.document.path, len(outcome.kept))
        for sentence in outcome.notes:
            logger.warning("%s: %s", self.document.path, sentence)
        return outcome

    def close(self) -> None:
        """Close the file, and release its lock."""
        self._opened.close()
