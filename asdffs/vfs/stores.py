"""Stores in maps of other views come before whatever changes the bytes that they show.

The kernel sends what a program stored in a map when it pleases, a page as a whole.  Before a block is changed through
one view it is asked for the stores in maps of the others (``collector``), and before a commit for those of all
arrays, which may mean other bytes afterwards; what still comes too late is told from old bytes by ``merging``.  For
that nothing else may change the bytes of a block between the look at what is there and the write, which may wait.
Users: ``vfs``, and ``staging`` and ``entries`` through it.  One thread at a time, whoever has the turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from asdffs.document.changes import TREE
from asdffs.relief import Exclusive, Relief
from asdffs.storage.store import read_bytes
from asdffs.vfs.coherence import Coherence
from asdffs.vfs.merging import Merger
from asdffs.vfs.namespace import FileNode, Node


class Collector(Protocol):
    """Has the kernel send what was stored through maps of ``nodes``, before ``author``, or the tree, is written."""

    def __call__(self, nodes: list[Node], author: Node | None, *, mapped: bool) -> None:
        """``mapped``: it is pages of a map that are about to be written."""


def _collect_nothing(nodes: list[Node], author: Node | None, *, mapped: bool) -> None:
    """There is no kernel."""


class Stores:
    """The stores in maps of one mount.  ``collector`` is set by whoever serves the mount."""

    def __init__(self, coherence: Coherence, relief: Relief) -> None:
        self._coherence = coherence
        self._relief = relief
        self._merger = Merger()
        self._writing: dict[int, Exclusive] = {}
        self.collector: Collector = _collect_nothing

    def fetch(self, node: Node, offset: int, length: int) -> None:
        """The kernel is about to be given bytes of a file, and may keep them as pages."""
        self._merger.fetch(node, offset, length)

    @contextlib.contextmanager
    def writing(
        self, node: FileNode, offset: int, payload: bytes | memoryview, *, mapped: bool
    ) -> Iterator[bytes | memoryview]:
        """Inside, write of ``payload`` what is given: all of it, but of a page of a map only what was stored."""
        kin = self._kin(node)
        if kin:
            self._merger.watch((*kin, node))
            self.collector(kin, node, mapped=mapped)
        window = node.file.window()
        if window is None:  # it shows no block as it is
            yield payload
            return
        with self._writing.setdefault(window[0], Exclusive(self._relief)).entered():
            yield self._stored(node, offset, payload, mapped=mapped)

    def _kin(self, node: Node) -> list[Node]:
        return self._coherence.writers(node.subjects() or (), node)

    def _matters(self, node: FileNode, *, mapped: bool) -> bool:
        """Whether there are other writers; or were, and this is a page that may have been long in coming."""
        kin = self._kin(node)
        self._merger.watch((*kin, node) if kin else ())
        return bool(kin) or (mapped and self._merger.is_watched(node))

    def _stored(
        self, node: FileNode, offset: int, payload: bytes | memoryview, *, mapped: bool
    ) -> bytes | memoryview:
        """What was stored of ``payload``; the change is remembered where it matters."""
        if not self._matters(node, mapped=mapped):
            return payload
        now = read_bytes(node.file.read(offset, len(payload)))
        merged = self._merger.merge(node, offset, bytes(payload), now) if mapped else payload
        self._merger.change(node, offset, now)
        if merged != payload:  # the kernel's page is not what is written
            self._coherence.put_back([node])
        return merged

    def before_change(self, node: Node) -> None:
        """All of a file may be about to change."""
        kin = self._kin(node)
        if kin:
            self.collector(kin, node, mapped=False)

    def before_commit(self) -> None:
        """The tree is about to change, and with it which bytes an array means."""
        kin = self._coherence.writers((TREE,))
        if kin:
            self.collector(kin, None, mapped=False)
