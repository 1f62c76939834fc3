"""What changed of a document since it was opened, and when: for views, whose times and caches follow it.

A *subject* is what a view may depend on: the tree, the number of blocks, the content of one block, or its stored
bytes (header and content as they are in the file).  Each change of a subject has a stamp: the time in ns, never
the same twice.
One thread at a
time, whoever holds the main lock.
"""

from __future__ import annotations

import functools
import time
from typing import Final, Literal, NamedTuple


class Subject(NamedTuple):
    """What may change; ``number`` of a block."""

    kind: Literal["tree", "blocks", "content", "stored"]
    number: int = 0


TREE: Final = Subject("tree")
#: How many blocks there are: sources that count from the end mean others then.
BLOCKS: Final = Subject("blocks")


@functools.cache
def content(number: int) -> Subject:
    """What block ``number`` decodes to."""
    return Subject("content", number)


@functools.cache
def stored(number: int) -> Subject:
    """Header and content of block ``number`` as they are in the file."""
    return Subject("stored", number)


class Changes:
    """Stamps of all subjects; ``last``: the newest.  ``news``: what changed since ``take`` was last asked."""

    def __init__(self) -> None:
        self._stamps: dict[Subject, int] = {}
        self.last = 0
        self._floor = 0
        self.news: set[Subject] = set()

    def note(self, *subjects: Subject) -> None:
        """These changed now."""
        self.last = max(time.time_ns(), self.last + 1)
        for subject in subjects:
            self._stamps[subject] = self.last
        self.news.update(subjects)

    def note_content(self, number: int) -> None:
        """A block was written; what is stored of it follows, or has followed already."""
        self.note(content(number), stored(number))

    def note_all(self) -> None:
        """Another program changed the file: whatever has been asked about may be another."""
        self.note(*self._stamps)
        self._floor = self.last

    def stamp(self, subject: Subject) -> int:
        """When it changed last, in ns; 0 when it did not since the document was opened."""
        return self._stamps.get(subject, self._floor)

    def take(self) -> frozenset[Subject]:
        """What changed since this was last asked."""
        taken, self.news = frozenset(self.news), set()
        return taken
