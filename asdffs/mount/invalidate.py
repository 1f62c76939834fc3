"""Invalidates the kernel's caches of files that changed through another name (another view of the same block).

A notification drops cached attributes (``notifications``).  The next read(2) then asks for the attributes, sees a
new mtime, and drops the pages.  Reads through an mmap do not ask.  So for open files, a helper process (``dropper``)
makes the kernel drop its pages, before a change (``drop``) or after it (``tell``).  See decisions 15 and 24.

The caller holds the main lock.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from asdffs.mount.dropper import Order, PageDropper
from asdffs.mount.loop import Loop
from asdffs.mount.notifications import Notifications
from asdffs.vfs.kernel import PageRange
from asdffs.vfs.namespace import Node

#: How long a write waits for read-only mmaps of the same bytes, in seconds.  They may be updated after it, too.
_PATIENCE: Final = 0.05
#: How long a notification may take before other requests are answered, and before nobody waits for it any more, in
#: seconds.  It takes microseconds, unless the kernel or other programs hold it up.
_MOMENT: Final = 0.01
_LONGEST: Final = 1.0


class Invalidator:
    """Notifies the kernel of changes of one document; a ``Kernel`` (``vfs/kernel``).

    ``place``: absolute path of the mount point.  ``inside``: path of the document's directory in the mount, such as
    ``/sub/a.asdf.d``; empty if the document is the root.  ``dropper``: that of the mount.
    """

    def __init__(
        self, loop: Loop, notifications: Notifications, place: str, dropper: PageDropper, inside: str = ""
    ) -> None:
        self._loop = loop
        self._notifications = notifications
        self._place = place
        self._inside = inside
        self._dropper = dropper

    def prepare(self) -> None:
        """Start the helper, because two open nodes show the same bytes."""
        self._dropper.start()

    def tell(self, nodes: Mapping[Node, bool], author: Node | None, *, wait: bool) -> None:
        """Drop cached attributes of ``nodes``, and pages of those whose value is True.

        ``author``: the node through which the change came.  ``wait``: wait a moment until mmaps show the change.
        """
        if known := [node.inode for node in nodes if node.inode]:
            self._notify(known)
        tickets = set()
        for node, has_pages in nodes.items():
            if has_pages and node.opens and node.path:
                ticket = self._dropper.add(Order(self._path(node)))
                # never wait for the author: its pages are locked until its request is answered
                tickets |= {ticket} if node is not author else set()
        if wait and tickets:
            with self._loop.waiting(soon=True):
                self._dropper.wait(tickets, _PATIENCE)

    def _notify(self, inodes: list[int]) -> None:
        """Tell the kernel, and wait for that; after a moment let others be answered, because it may wait for them."""
        ticket = self._notifications.tell(inodes)
        if not self._notifications.wait(ticket, _MOMENT):
            with self._loop.waiting(soon=True):
                self._notifications.wait(ticket, _LONGEST)

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        """Make the kernel write back and drop its pages of ``regions``; see ``vfs/kernel``."""
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

    def _path(self, node: Node) -> bytes:
        return os.fsencode(self._place + self._inside + node.path)
