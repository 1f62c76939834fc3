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

from asdffs.mount.asker import Asker
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
        self._asker = Asker(b"open" if libfuse2 else b"stat")

    def prepare(self) -> None:
        """Two nodes that show the same are open: the helper will be needed."""
        self._asker.start()

    def tell(self, nodes: Iterable[Node], author: Node | None, *, wait: bool) -> None:
        """These nodes changed, through ``author``; with ``wait`` give maps of them a moment to follow."""
        # what waits for the author's own pages, which are locked until it is answered, must not be waited for
        wait = wait and not (author is not None and self._asker.is_asking(self._path(author)))
        tickets = set()
        for node in nodes:
            self._forget(node)
            if node.opens and node.path:
                tickets.add(self._asker.ask(self._path(node)))
        if wait and tickets:
            with self._loop.waiting(soon=True):
                self._asker.wait(tickets, _PATIENCE)

    def collect(self, nodes: Iterable[Node], author: Node | None) -> None:
        """Have what was stored through maps of these nodes written first, before ``author`` is, or a commit."""
        if author is not None and self._asker.is_asking(self._path(author)):
            return  # it waits for the author's pages
        tickets = {self._asker.collect(self._path(node)) for node in nodes if node.path}
        if tickets:
            with self._loop.waiting(soon=True):
                self._asker.wait(tickets, _COMMIT_PATIENCE if author is None else _PATIENCE)

    def stop(self) -> None:
        """The mount is gone."""
        self._asker.stop()

    def _path(self, node: Node) -> bytes:
        return os.fsencode(self._mountpoint + node.path)

    def _forget(self, node: Node) -> None:
        if node.inode and self._loop.forget_inode(node.inode):
            return
        node.inode = 0
        if not node.opens and node.path:  # never opened under another number: it has no pages to wait for
            self._loop.forget_path(node.path)
