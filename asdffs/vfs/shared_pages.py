"""Several views of one block, open for writing: a write(2), a mapped write and a commit lose nothing of each other.

Each view is a file of its own for the kernel, which keeps pages of each.  It sends a dirty page of an mmap as a
whole, when it pleases: a page that is older than a change through another view would take that change back.
Invariants (docs/design/decisions/0024):

1. Before bytes change through one view, the kernel drops the pages that have them in every other view that may be
   mapped for writing; dirty ones are written first, so they are older than the change.
2. While they change, reads through these views wait.  A page that was read after the kernel dropped it and before
   the change is dropped again before the change is answered.
3. Until that is done the mount keeps a copy of each page that the kernel may have (``stale_pages``): what a program
   stored in it is told from old bytes by that copy, never by a guess.
4. Whoever waits for the pages of a view is not waited for by a mapped write of that view.
5. A view that is opened for writing beside one that is known to be mapped for writing gets no pages (direct I/O):
   read(2) and write(2) work, mmap(2) says ENODEV.  So two programs cannot store into two mmaps of one byte.

Offsets and lengths in bytes of the file that a view shows.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from asdffs.document.changes import TREE
from asdffs.errors import AsdffsError, StaleFileError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.vfs.coherence import Coherence
from asdffs.vfs.namespace import FileNode, Node
from asdffs.vfs.stale_pages import PAGE, StalePages

logger = logging.getLogger(__name__)

#: How long a change waits until the kernel dropped the pages of other views, in seconds.
_PATIENCE: Final = 1.0
#: The same where another change waits for pages of this view: each may hold what the other one waits for.
_SHORT_PATIENCE: Final = 0.05
#: Bytes of a change beyond which no copies are kept: a truncate, not a write(2).
_MOST_COPIED: Final = 4 << 20


class PageRange(NamedTuple):
    """A part of the file of ``node``; ``length`` 0: all of it."""

    node: Node
    start: int
    length: int


class Dropper(Protocol):
    """Has the kernel write and drop its pages of ``regions``."""

    def __call__(self, regions: list[PageRange], patience: float) -> set[Node]:
        """The nodes whose pages are gone, after ``patience`` seconds at most."""


class PageChange(NamedTuple):
    """A change under way.  ``payload``: the bytes to write; ``siblings``: other views whose pages are seen to."""

    payload: bytes | memoryview
    siblings: tuple[FileNode, ...]


def drop_nothing(regions: list[PageRange], patience: float) -> set[Node]:
    """There is no kernel."""
    return set()


class SharedPages:
    """The pages of the views of one mount."""

    def __init__(self, coherence: Coherence, scheduler: Scheduler, dropper: Dropper) -> None:
        self._coherence = coherence
        self._scheduler = scheduler
        self._dropper = dropper
        self._stale = StalePages()
        self._open: dict[FileNode, None] = {}
        self._gates: dict[int, RankedLock] = {}
        self._awaited: Counter[Node] = Counter()

    # -- open files -----------------------------------------------------------

    def opening(self, node: FileNode) -> bool:
        """A program opens ``node`` for writing; whether it must do without pages."""
        window = _window(node)
        gate = self._gate(window[0]) if window is not None else None
        if (
            gate is not None and gate.taken
        ):  # the kernel asks then whether its pages are old: not half-way in a change
            with gate.entered(patiently=True):
                pass
        mapped = [other for other in self._siblings(node, 0, node.file.size()) if other.mapped_written]
        if mapped:
            logger.info("%s cannot be mapped: %s is mapped for writing", node.path, mapped[0].path)
            return True
        self._open[node] = None
        return False

    def is_alone(self, node: FileNode) -> bool:
        """Whether no other file is open for writing: then nobody else's pages may have old bytes."""
        return len(self._open) == 1 and node in self._open

    def closed(self, node: Node) -> None:
        """A handle on it is gone."""
        if isinstance(node, FileNode) and node in self._open and not node.mappers:
            del self._open[node]
            self._stale.forget(node)
            node.gate, node.mapped_written, node.moved = None, False, False

    def reading(self, node: FileNode, offset: int, length: int, *, cached: bool) -> None:
        """The kernel is about to be given bytes of a view that has a gate; ``cached``: it may keep them as pages."""
        gate = node.gate
        if gate is not None and gate.taken:
            with gate.entered(patiently=True):
                pass
        if cached:
            node.fetches += 1
            self._stale.read(node, offset, length)

    # -- changes of content ---------------------------------------------------

    @contextlib.contextmanager
    def writing(
        self, node: FileNode, offset: int, payload: bytes | memoryview, *, mapped: bool = False, cached: bool = True
    ) -> Iterator[PageChange]:
        """Inside, write ``PageChange.payload``: all of ``payload``, but of a mapped write only what was stored.

        ``cached``: the kernel puts what write(2) wrote into its pages of ``node``.  Raises ``StaleFileError`` for
        a mapped write of pages that showed something else.
        """
        if mapped:
            node.mapped_written = True
            self._check_moved(node)
        with self.changing(node, offset, len(payload), mapped=mapped, own=not cached) as siblings:
            yield PageChange(self._merged(node, offset, payload, mapped=mapped), siblings)

    @contextlib.contextmanager
    def changing(
        self, node: FileNode, offset: int, length: int, *, mapped: bool = False, own: bool = False
    ) -> Iterator[tuple[FileNode, ...]]:
        """Inside, change these bytes; the other views, whose pages are seen to.

        ``own``: the kernel does not bring its pages of ``node`` up to date itself, as it does for a write(2).
        """
        window = _window(node)
        if window is None:  # it shows no block as it is
            yield ()
            return
        dropped = self._drop(node, self._siblings(node, offset, length, own=own), offset, length, mapped=mapped)
        with self._gate(window[0]).entered():
            siblings = self._siblings(node, offset, length, own=own)  # somebody may have opened another one meanwhile
            for other in siblings:
                self._keep(other, *self._region(node, other, offset, length)[1:])
            yield siblings
        late = tuple(other for other in siblings if dropped.get(other) != other.fetches)
        self._drop(node, late, offset, length, mapped=mapped)

    def truncated(self, node: Node, size: int) -> None:
        """The file of ``node`` has another size now; the kernel cuts its pages of it itself."""
        self._stale.cut(node, size)

    def _merged(
        self, node: FileNode, offset: int, payload: bytes | memoryview, *, mapped: bool
    ) -> bytes | memoryview:
        if node.gate is None:
            return payload
        if not mapped:
            self._stale.written(node, offset, payload)
            return payload
        now = read_bytes(node.file.read(offset, len(payload)))
        merged = self._stale.merge(node, offset, bytes(payload), now)
        if merged != payload:
            self._coherence.put_back([node])
        return merged

    # -- commits --------------------------------------------------------------

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Inside, the tree changes, and with it the bytes that an array means.

        What was stored before belongs to the array as it was.  What is stored meanwhile in pages of an array that
        is other bytes afterwards is refused.
        """
        siblings = [node for node in list(self._open) if TREE in (node.subjects() or ())]
        if not siblings:
            yield
            return
        self._wait_for(None, [PageRange(node, 0, 0) for node in siblings], _PATIENCE)
        before = {node: _window(node) for node in siblings}
        try:
            yield
        finally:
            moved = [node for node in siblings if _window(node) != before[node]]
            for node in moved:
                node.moved = True
                self._stale.forget(node)
            for gone in self._wait_for(None, [PageRange(node, 0, 0) for node in moved], _PATIENCE):
                if isinstance(gone, FileNode):
                    gone.moved = False

    @staticmethod
    def _check_moved(node: FileNode) -> None:
        if node.moved:
            raise StaleFileError("the tree gave this array other bytes since it was mapped; open it again")

    # -- the kernel -----------------------------------------------------------

    def _gate(self, block: int) -> RankedLock:
        return self._gates.setdefault(block, RankedLock(self._scheduler, Rank.PAGES))

    def _siblings(self, node: FileNode, offset: int, length: int, *, own: bool = False) -> tuple[FileNode, ...]:
        """The other views that show these bytes and may be mapped for writing; ``own``: and ``node`` itself."""
        found = (other for other in list(self._open) if other.mappers and (own or other is not node))
        siblings = tuple(other for other in found if self._region(node, other, offset, length).length)
        for other in siblings:
            window = _window(other)
            other.gate = self._gate(window[0]) if window is not None else None
        return siblings

    @staticmethod
    def _region(node: FileNode, other: FileNode, offset: int, length: int) -> PageRange:
        """The bytes of ``other`` that are these of ``node``; length 0: none."""
        here, there = _window(node), _window(other)
        if here is None or there is None or here[0] != there[0]:
            return PageRange(other, 0, 0)
        first = max(offset, node.file.head_size())
        start = max(other.file.head_size(), first + here[1] - there[1])
        end = min(offset + length + here[1] - there[1], other.file.size())
        return PageRange(other, start, max(0, end - start))

    def _keep(self, other: FileNode, start: int, length: int) -> None:
        """Keep copies of the pages of ``other`` that have these bytes, as they are now."""
        if length > _MOST_COPIED:
            return
        first = start // PAGE * PAGE
        end = -(-(start + length) // PAGE) * PAGE
        with contextlib.suppress(AsdffsError, OSError):  # of what cannot be read nothing can be mapped
            self._stale.keep(other, first, read_bytes(other.file.read(first, end - first)))

    def _drop(
        self, node: FileNode, siblings: tuple[FileNode, ...], offset: int, length: int, *, mapped: bool
    ) -> dict[FileNode, int]:
        """Have the kernel drop these bytes of ``siblings``; how often each that has none any more was read before."""
        if not siblings or (mapped and self._awaited[node]):  # invariant 4
            return {}
        before = {other: other.fetches for other in siblings}
        patience = _SHORT_PATIENCE if self._awaited[node] else _PATIENCE
        gone = self._wait_for(node, [self._region(node, other, offset, length) for other in siblings], patience)
        return {other: count for other, count in before.items() if other in gone}

    def _wait_for(self, node: FileNode | None, regions: list[PageRange], patience: float) -> set[Node]:
        if not regions:
            return set()
        self._awaited.update(region.node for region in regions)
        try:
            return self._dropper(regions, patience)
        finally:
            self._awaited.subtract(region.node for region in regions)


def _window(node: FileNode) -> tuple[int, int] | None:
    try:
        return node.file.window()
    except (AsdffsError, OSError):  # the tree has no such array any more
        return None
