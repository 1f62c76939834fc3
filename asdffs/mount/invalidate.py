"""Has the kernel forget what it knows of nodes that changed through another name: views of the same block.

Attributes are forgotten by a notification that waits for nothing; every read(2) then asks for them, sees another
mtime, and drops its pages.  A map asks nobody, so for files that are open a helper process (``asker``) asks in its
place, and the kernel drops the pages on its behalf.  Stores through maps that the kernel has not sent yet are
*collected* by the helper before another view of the same bytes is written (decision 15).

User: ``operations``, ``daemon``, and the vfs by ``collect``.  Called with the turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from asdffs.mount.asker import Asker, Crowd
from asdffs.mount.relief import Loop
from asdffs.vfs.namespace import Node

#: How long the writer of a byte waits for maps of it, in seconds; after that they follow by themselves.
_PATIENCE: Final = 0.05
#: How long a commit waits for what was stored through maps.
_COMMIT_PATIENCE: Final = 1.0


class Invalidator:
    """Tells the kernel about one mount at ``mountpoint``."""

    def __init__(self, loop: Loop, mountpoint: str, *, libfuse2: bool) -> None:
        self._loop = loop
        self._mountpoint = mountpoint
        self._manner = b"open" if libfuse2 else b"stat"
        crowd = Crowd()
        self._asker = Asker(crowd)
        self._collecting = 0
        self._collector = Asker(crowd)  # what is asked may wait for pages that are to be collected

    def prepare(self) -> None:
        """Two nodes that show the same are open: the helper will be needed."""
        self._asker.start()
        self._collector.start()

    def tell(self, nodes: Iterable[Node], author: Node | None, *, wait: bool) -> bool:
        """These nodes changed, through ``author``; with ``wait`` give maps of them a moment to follow.

        False: not now, because stores are being collected for somebody who writes next, and tells of them then.
        """
        path = self._path(author) if author is not None else b""
        if self._collecting and (not wait or self._collector.is_at(path)):
            return False
        # what waits for the author's own pages, which are locked until it is answered, must not be waited for
        wait = wait and not self._asker.is_asking(path)
        tickets = set()
        for node in sorted(nodes, key=lambda node: node is author):
            self._forget(node)
            if node.opens and node.path:
                ticket = self._asker.add(self._manner, self._path(node))
                tickets |= {ticket} if node is not author else set()
        if wait and tickets:
            with self._loop.waiting(soon=True):
                self._asker.wait(tickets, _PATIENCE)
        return True

    def collect(self, nodes: Iterable[Node], author: Node | None, *, mapped: bool) -> None:
        """Have what was stored through maps of these nodes written first, before ``author`` is, or a commit.

        ``mapped``: what is about to be written are pages of a map of ``author``.
        """
        if author is not None and mapped:
            path = self._path(author)
            if self._collector.is_at(path) or self._asker.is_at(path):
                return  # these are the pages that are being collected, or dropped: who does that waits for them
        tickets = {self._collector.add(b"collect", self._path(node)) for node in nodes if node.path}
        if not tickets:
            return
        self._collecting += 1
        try:
            with self._loop.waiting(soon=True):
                self._collector.wait(tickets, _COMMIT_PATIENCE if author is None else _PATIENCE)
        finally:
            self._collecting -= 1

    def stop(self) -> None:
        """The mount is gone."""
        self._asker.stop()
        self._collector.stop()

    def _path(self, node: Node) -> bytes:
        return os.fsencode(self._mountpoint + node.path)

    def _forget(self, node: Node) -> None:
        if node.inode and self._loop.forget_inode(node.inode):
            return
        node.inode = 0
        if not node.opens and node.path:  # never opened under another number: it has no pages to wait for
            self._loop.forget_path(node.path)
