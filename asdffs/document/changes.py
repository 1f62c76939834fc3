"""Records which parts of a document changed since it was opened, and when.

Views take their file times and the validity of their caches from it.  A *subject* is a part that a view may depend
on: the tree, the number of blocks, the content of one block, its stored bytes (header and content as they are in the
file), or the files of the FilesDaf store.  Each change of a subject gets a stamp: the time in ns, never the same
twice.

The caller holds the main lock.
"""

from __future__ import annotations

import functools
import time
from typing import Final, Literal, NamedTuple


class Subject(NamedTuple):
    """A part of the document that may change.  ``number``: the number of the block, if it is a part of one."""

    kind: Literal["tree", "blocks", "contents", "content", "stored", "store"]
    number: int = 0


TREE: Final = Subject("tree")
#: The number of blocks.  When it changes, sources that count from the end refer to other blocks.
BLOCKS: Final = Subject("blocks")
#: The decoded content of any block, for what depends on many of them.
CONTENTS: Final = Subject("contents")
#: The bytes of any file of the FilesDaf store that the tree has, other than those in blocks.
STORE: Final = Subject("store")

_NAMING: Final = frozenset({TREE, BLOCKS})


@functools.cache
def content(number: int) -> Subject:
    """Return the subject for the decoded content of block ``number``."""
    return Subject("content", number)


@functools.cache
def stored(number: int) -> Subject:
    """Return the subject for header and content of block ``number`` as they are in the file."""
    return Subject("stored", number)


class Changes:
    """The stamps of all subjects.  ``last``: the newest; ``news``: the subjects that changed since ``take``.

    ``shape``: the last stamp at which names of views may have come or gone.
    """

    def __init__(self) -> None:
        self._stamps: dict[Subject, int] = {}
        self.last = 0
        self.shape = 0
        self._floor = 0
        self.news: set[Subject] = set()

    def note(self, *subjects: Subject) -> None:
        """Note that these subjects changed now."""
        self.last = max(time.time_ns(), self.last + 1)
        for subject in subjects:
            self._stamps[subject] = self.last
        if not _NAMING.isdisjoint(subjects):
            self.shape = self.last
        self.news.update(subjects)

    def note_content(self, number: int) -> None:
        """Note that the content of a block was written.  Its stored bytes change as well, now or later."""
        self.note(content(number), stored(number), CONTENTS)

    def note_all(self) -> None:
        """Note that every subject may have changed, because another program changed the file."""
        self.note(*self._stamps)
        self._floor = self.shape = self.last

    def stamp(self, subject: Subject) -> int:
        """Return the time of the last change in ns; 0 if there was none since the document was opened."""
        return self._stamps.get(subject, self._floor)

    def take(self) -> frozenset[Subject]:
        """Return the subjects that changed since the last call."""
        taken, self.news = frozenset(self.news), set()
        return taken
