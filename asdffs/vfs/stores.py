"""Stores in maps of other views come before whatever changes the bytes that they show.

The kernel sends what a program stored in a map when it pleases, a page as a whole.  Before a block is changed through
one view it is asked for the stores in maps of the others (``collector``), and before a commit for those of all
arrays, which may mean other bytes afterwards; what still comes too late is told from old bytes by ``merging``.
Users: ``vfs``, and ``staging`` and ``entries`` through it.  One thread at a time, whoever has the turn.
"""

from __future__ import annotations

from typing import Protocol

from asdffs.document.changes import TREE
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

    def __init__(self, coherence: Coherence) -> None:
        self._coherence = coherence
        self._merger = Merger()
        self.collector: Collector = _collect_nothing

    def fetch(self, node: Node, offset: int, length: int) -> None:
        """The kernel is about to be given bytes of a file, and may keep them as pages."""
        self._merger.fetch(node, offset, length)

    def before_write(
        self, node: FileNode, offset: int, payload: bytes | memoryview, *, mapped: bool
    ) -> bytes | memoryview:
        """What is to be written of ``payload``: all of it, but of a page of a map only what was stored."""
        kin = self._coherence.writers(node.subjects() or (), node)
        if not kin:
            return payload
        self._merger.watch((*kin, node))
        self.collector(kin, node, mapped=mapped)
        now = read_bytes(node.file.read(offset, len(payload)))
        merged = self._merger.merge(node, offset, bytes(payload), now) if mapped else payload
        self._merger.change(node, offset, now)
        if merged != payload:  # the kernel's page is not what is written
            self._coherence.put_back([node])
        return merged

    def before_change(self, node: Node) -> None:
        """All of a file may be about to change."""
        kin = self._coherence.writers(node.subjects() or (), node)
        if kin:
            self.collector(kin, node, mapped=False)

    def before_commit(self) -> None:
        """The tree is about to change, and with it which bytes an array means."""
        kin = self._coherence.writers((TREE,))
        if kin:
            self.collector(kin, None, mapped=False)
