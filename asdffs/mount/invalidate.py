"""Has the kernel forget what it knows of files that changed through another name: views of the same block.

Attributes are forgotten by a notification that waits for nothing; every read(2) then asks for them, sees another
mtime, and drops its pages.  An mmap asks nobody, so for files that are open a helper process (``dropper``) has the
kernel drop its pages, before a change (``drop``) or after it (``tell``); see decisions 15 and 24.

Called with the main lock held.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from asdffs.mount.dropper import Order, PageDropper
from asdffs.mount.loop import Loop
from asdffs.vfs.namespace import Node
from asdffs.vfs.shared_pages import PageRange

#: How long the writer of a byte waits for mmaps that only read it, in seconds; then they follow by themselves.
_PATIENCE: Final = 0.05


class Invalidator:
    """Tells the kernel about one mount at ``mountpoint``."""

    def __init__(self, loop: Loop, mountpoint: str) -> None:
        self._loop = loop
        self._mountpoint = mountpoint
        self._dropper = PageDropper()
        self.is_helper = self._dropper.is_helper

    def prepare(self) -> None:
        """Two nodes that show the same are open: the helper will be needed."""
        self._dropper.start()

    def tell(self, nodes: Mapping[Node, bool], author: Node | None, *, wait: bool) -> None:
        """These nodes changed, through ``author``; of some the kernel may have old pages.

        ``wait``: give mmaps of them a moment to follow.
        """
        tickets = set()
        for node, has_pages in nodes.items():
            self._forget(node)
            if has_pages and node.opens and node.path:
                ticket = self._dropper.add(Order(self._path(node)))
                # the author's own pages are locked until it is answered
                tickets |= {ticket} if node is not author else set()
        if wait and tickets:
            with self._loop.waiting(soon=True):
                self._dropper.wait(tickets, _PATIENCE)

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        """Have the kernel write and drop its pages of ``regions``; see ``shared_pages.Dropper``."""
        tickets = {
            self._dropper.add(Order(self._path(region.node), region.start, region.length)): region.node
            for region in regions
            if region.node.path
        }
        if not tickets:
            return set()
        with self._loop.waiting(soon=True):
            done = self._dropper.wait(set(tickets), patience)
        return {tickets[ticket] for ticket in done}

    def stop(self) -> None:
        """The mount is gone."""
        self._dropper.stop()

    def _path(self, node: Node) -> bytes:
        return os.fsencode(self._mountpoint + node.path)

    def _forget(self, node: Node) -> None:
        if node.inode and self._loop.forget_inode(node.inode):
            return
        node.inode = 0
        if not node.opens and node.path:  # never opened under another number: it has no pages to wait for
            self._loop.forget_path(node.path)
