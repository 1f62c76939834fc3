"""Shared pages: keeps writes through several views of one block from overwriting each other.

Each view is a separate file for the kernel, with its own pages in the page cache.  The kernel writes a dirty page of
an mmap back as a whole, at any time.  A page that is older than a change through another view would undo that change.
Invariants (docs/design/decisions/0024):

1. Before bytes change through one view, the kernel drops the pages with these bytes in every other view that may be
   mapped for writing.  It writes dirty pages back first, so they count as older than the change.
2. While bytes change, reads through these views wait.  A page that was read after the drop and before the change is
   dropped again before the request is answered.
3. Until that is done, the mount keeps a copy of each page that the kernel may have (``StalePages``).  Only this copy
   decides which bytes of a page a program wrote and which are old.  Nothing is guessed.
4. A mapped write does not wait for pages of other views while another request waits for pages of its own view: it is
   what that request waits for.  They are dropped all the same, a little later.  ``Kernel.invalidate``, which waits
   after a change, keeps to this as well.
5. While a view is known to be mapped for writing, other views of its bytes are opened for writing without pages
   (direct I/O): read(2) and write(2) work, mmap(2) fails with ENODEV.  So two programs cannot write the same byte
   through two mmaps.

Offsets and lengths are in bytes of the file that a view shows.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from asdffs.document.changes import TREE
from asdffs.errors import AsdffsError, StaleFileError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.vfs.coherence import Coherence, Kernel, PageRange
from asdffs.vfs.namespace import FileNode, Node

logger = logging.getLogger(__name__)

PAGE: Final = 4096
#: Most bytes of all copies.  A copy is only needed until the kernel has dropped its page, so the oldest go first.
_MOST: Final = 32 << 20
#: How long a change waits for the kernel to drop the pages of other views, in seconds.
_DROP_PATIENCE: Final = 1.0
#: The same, while another request waits for pages of this view: both could block each other.
_SHORT_PATIENCE: Final = 0.05
#: A change of more bytes is a truncate, not a write(2): no copies of its pages are kept.
_MOST_COPIED: Final = 4 << 20


class PageChange(NamedTuple):
    """A change under way.  ``payload``: bytes to write.  ``siblings``: other views, whose old pages are dropped."""

    payload: bytes | memoryview
    siblings: tuple[FileNode, ...]


def pages_of(offset: int, length: int) -> range:
    """Return the numbers of the pages that contain some of these bytes."""
    return range(offset // PAGE, -(-(offset + length) // PAGE))


class StalePages:
    """Copies of pages that the kernel may still have after their bytes changed through another view.

    The kernel writes back a dirty page of an mmap as a whole, so a page from before such a change brings old bytes
    back.  A copy is the page as the kernel has it before the program writes to it.  The bytes of a mapped write that
    differ from the copy are those that the program wrote.  Without a copy, the kernel's page is as new as the block.
    """

    def __init__(self) -> None:
        self._copies: OrderedDict[tuple[Node, int], bytes] = OrderedDict()
        self._size = 0

    def keep(self, node: Node, offset: int, content: bytes) -> None:
        """Copy ``content``, which is about to change, for each page without an older copy.

        ``offset`` is the beginning of a page.
        """
        for page in pages_of(offset, len(content)):
            if (node, page) not in self._copies:
                start = page * PAGE - offset
                self._put(node, page, content[start : start + PAGE])

    def read(self, node: Node, offset: int, length: int) -> None:
        """Drop the copies of whole pages in this range, because the kernel gets the current bytes."""
        if self._copies:
            for page in range(-(-offset // PAGE), (offset + length) // PAGE):
                self._drop(node, page)

    def forget(self, node: Node) -> None:
        """Drop all copies of ``node``: no program can write to the kernel's pages of it any more."""
        for _, page in [key for key in self._copies if key[0] is node]:
            self._drop(node, page)

    def written(self, node: Node, offset: int, payload: bytes | memoryview) -> None:
        """Update the copies after a write(2) through this view: the kernel puts the bytes into its pages itself."""
        for page in pages_of(offset, len(payload)) if self._copies else ():
            copy = self._copies.get((node, page))
            if copy is not None:
                piece = payload[max(0, page * PAGE - offset) : (page + 1) * PAGE - offset]
                at = max(0, offset - page * PAGE)
                self._put(node, page, copy[:at].ljust(at, b"\0") + piece + copy[at + len(piece) :])

    def cut(self, node: Node, size: int) -> None:
        """Cut the copies after a truncate(2) of the view.  The kernel fills its pages with zeros from there on."""
        for _, page in [key for key in self._copies if key[0] is node and (key[1] + 1) * PAGE > size]:
            self._put(node, page, self._copies[node, page][: max(0, size - page * PAGE)])

    def merge(self, node: Node, offset: int, payload: bytes, now: bytes) -> bytes:
        """Return the bytes to write for a mapped write of ``payload`` where the block has ``now``.

        They are ``now`` with the bytes that the program changed.
        """
        pieces = []
        for start in range(0, len(payload), PAGE):
            page, piece = (offset + start) // PAGE, payload[start : start + PAGE]
            copy = self._copies.get((node, page))
            if copy is not None:
                merged = _stored(piece, copy, now[start : start + PAGE])
                self._drop(node, page)
                if merged != piece:  # until it is dropped, the kernel's page lacks the writes of other programs
                    self._put(node, page, piece)
                piece = merged
            pieces.append(piece)
        return b"".join(pieces)

    def _put(self, node: Node, page: int, copy: bytes) -> None:
        self._drop(node, page)
        self._copies[node, page] = copy
        self._size += len(copy)
        while self._size > _MOST:
            self._size -= len(self._copies.popitem(last=False)[1])

    def _drop(self, node: Node, page: int) -> None:
        self._size -= len(self._copies.pop((node, page), b""))


class SharedPages:
    """The pages of the views of one mount."""

    def __init__(self, coherence: Coherence, scheduler: Scheduler, kernel: Kernel) -> None:
        self._coherence = coherence
        self._scheduler = scheduler
        self._kernel = kernel
        self._stale = StalePages()
        self._open: dict[FileNode, None] = {}
        self._gates: dict[int, RankedLock] = {}

    # -- open files -----------------------------------------------------------

    def opening(self, node: FileNode) -> bool:
        """Record that a program opens ``node`` for writing; return whether it must use direct I/O."""
        window = _window(node)
        gate = self._gate(window[0]) if window is not None else None
        if (
            gate is not None and gate.taken
        ):  # at an open the kernel checks whether its pages are old: not in the middle of a change
            with gate.entered(patiently=True):
                pass
        mapped = [other for other in self._siblings(node, 0, node.file.size()) if other.mapped_written]
        if mapped:
            logger.info("mmap of %s will fail: %s is mapped for writing", node.path, mapped[0].path)
            return True
        self._open[node] = None
        return False

    def is_alone(self, node: FileNode) -> bool:
        """Return whether no other file is open for writing, so that no pages need to be dropped before a change."""
        return len(self._open) == 1 and node in self._open

    def closed(self, node: Node) -> None:
        """Record that a handle on ``node`` was closed."""
        if isinstance(node, FileNode) and node in self._open and not node.mappers:
            del self._open[node]
            self._stale.forget(node)
            node.gate, node.mapped_written, node.moved = None, False, False

    def reading(self, node: FileNode, offset: int, length: int, *, cached: bool) -> None:
        """Wait for changes before the kernel reads a view that has a gate.

        ``cached``: the kernel may keep the bytes as pages.
        """
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
        """Prepare a write; inside the block, the caller writes ``PageChange.payload``.

        That is all of ``payload``.  Of a mapped write, bytes that the program did not change are replaced by the
        current ones.  ``cached``: the kernel puts the bytes of write(2) into its pages of ``node``.  Raises
        ``StaleFileError`` for a mapped write of pages that belonged to other bytes of the file.
        """
        if mapped:
            node.mapped_written = True
            self._check_moved(node)
        with self.byte_change(node, offset, len(payload), mapped=mapped, own=not cached) as siblings:
            yield PageChange(self._merged(node, offset, payload, mapped=mapped), siblings)

    @contextlib.contextmanager
    def byte_change(
        self, node: FileNode, offset: int, length: int, *, mapped: bool = False, own: bool = False
    ) -> Iterator[tuple[FileNode, ...]]:
        """Prepare a change; inside the block, the caller changes these bytes.  Yields the other views of the bytes.

        Their pages are dropped.  ``own``: drop those of ``node``, too, because the kernel does not update them itself
        as it does for a write(2).
        """
        window = _window(node)
        if window is None:  # it shows no bytes of a block: no other view has its pages
            yield ()
            return
        dropped = self._drop(node, self._siblings(node, offset, length, own=own), offset, length, mapped=mapped)
        with self._gate(window[0]).entered():
            siblings = self._siblings(node, offset, length, own=own)  # another view may have been opened meanwhile
            for other in siblings:
                self._keep(other, *self._region(node, other, offset, length)[1:])
            yield siblings
        late = tuple(other for other in siblings if dropped.get(other) != other.fetches)
        self._drop(node, late, offset, length, mapped=mapped)

    def truncated(self, node: Node, size: int) -> None:
        """Record that the file of ``node`` has a new size.  The kernel cuts its own pages itself."""
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
            self._coherence.mark_stale([node])
        return merged

    # -- commits --------------------------------------------------------------

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Prepare a commit; inside the block, the tree changes, and arrays may get other bytes of the file.

        Mapped writes from before the commit go to the old bytes of the array.  Mapped writes during the commit are
        refused if the array has other bytes afterwards.
        """
        siblings = [node for node in list(self._open) if TREE in (node.subjects() or ())]
        if not siblings:
            yield
            return
        self._kernel.drop([PageRange(node, 0, 0) for node in siblings], _DROP_PATIENCE)
        before = {node: _window(node) for node in siblings}
        try:
            yield
        finally:
            moved = [node for node in siblings if _window(node) != before[node]]
            for node in moved:
                node.moved = True
                self._stale.forget(node)
            for gone in self._kernel.drop([PageRange(node, 0, 0) for node in moved], _DROP_PATIENCE):
                if isinstance(gone, FileNode):
                    gone.moved = False

    @staticmethod
    def _check_moved(node: FileNode) -> None:
        if node.moved:
            raise StaleFileError("the tree moved this array to other bytes after it was mapped; open the file again")

    # -- the kernel -----------------------------------------------------------

    def _gate(self, block: int) -> RankedLock:
        return self._gates.setdefault(block, RankedLock(self._scheduler, Rank.PAGES))

    def _siblings(self, node: FileNode, offset: int, length: int, *, own: bool = False) -> tuple[FileNode, ...]:
        """Return the other views of these bytes that may be mapped for writing.  ``own``: include ``node`` itself."""
        found = (other for other in list(self._open) if other.mappers and (own or other is not node))
        siblings = tuple(other for other in found if self._region(node, other, offset, length).length)
        for other in siblings:
            window = _window(other)
            other.gate = self._gate(window[0]) if window is not None else None
        return siblings

    @staticmethod
    def _region(node: FileNode, other: FileNode, offset: int, length: int) -> PageRange:
        """Return the range of ``other`` that shows these bytes of ``node``; length 0 if there is none."""
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
        with contextlib.suppress(AsdffsError, OSError):  # the kernel cannot have pages that cannot be read
            self._stale.keep(other, first, read_bytes(other.file.read(first, end - first)))

    def _drop(
        self, node: FileNode, siblings: tuple[FileNode, ...], offset: int, length: int, *, mapped: bool
    ) -> dict[FileNode, int]:
        """Make the kernel drop its pages of these bytes in ``siblings``.

        Returns the nodes without such pages now, each with its number of ``fetches`` before the drop.
        """
        if not siblings:
            return {}
        before = {other: other.fetches for other in siblings}
        regions = [self._region(node, other, offset, length) for other in siblings]
        patience = _DROP_PATIENCE
        if self._kernel.awaited[node]:
            patience = 0 if mapped else _SHORT_PATIENCE  # invariant 4
        gone = self._kernel.drop(regions, patience)
        return {other: count for other, count in before.items() if other in gone}


def _window(node: FileNode) -> tuple[int, int] | None:
    try:
        return node.file.window()
    except (AsdffsError, OSError):  # the array is no longer in the tree
        return None


def _stored(piece: bytes, copy: bytes, now: bytes) -> bytes:
    """Return ``now`` with the bytes of ``piece`` that differ from ``copy``.  Zeros follow the end of ``copy``."""
    if len(now) < len(piece):  # the view became shorter, so the bytes cannot be told apart
        return piece
    old = copy.ljust(len(piece), b"\0")
    if piece[: len(old)] == old[: len(piece)]:
        return now[: len(piece)]
    return bytes(new if new != was else is_ for new, was, is_ in zip(piece, old, now, strict=False))
