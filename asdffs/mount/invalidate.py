"""Invalidates the kernel's caches of files that changed through another name (another view of the same block).

A notification drops cached attributes (``notifications``).  The next read(2) then asks for the attributes, sees a
new mtime, and drops the pages.  Reads through an mmap do not ask.  So for open files, a helper process (``dropper``)
makes the kernel drop its pages, before a change (``drop``) or after it (``invalidate``).  See decisions 15 and 24.

The caller holds the main lock.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from asdffs.mount.dropper import Order, PageDropper
from asdffs.mount.loop import Loop
from asdffs.mount.notifications import Notifications
from asdffs.vfs.coherence import PageRange
from asdffs.vfs.namespace import Node

#: How long a write waits for read-only mmaps of the same bytes, in seconds.  They may be updated after it, too.
_MMAP_PATIENCE: Final = 0.05
#: How long a notification may take before other requests are answered, and before nobody waits for it any more, in
#: seconds.  It takes microseconds, unless the kernel or other programs hold it up.
_MOMENT: Final = 0.01
_LONGEST: Final = 1.0


class Invalidator:
    """Notifies the kernel of changes of one document; a ``Kernel`` (``vfs/coherence``).

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
        self._notice = 0
        self._drops: set[int] = set()
        self.behind = False

    def prepare(self) -> None:
        """Start the helper, because two open nodes show the same bytes."""
        self._dropper.start()

    def invalidate(self, nodes: Mapping[Node, bool], author: Node | None, *, wait: bool) -> None:
        """See ``Kernel``."""
        if known := [node.inode for node in nodes if node.inode]:
            self._notice = self._notifications.tell(known)
        for node, has_pages in nodes.items():
            if has_pages and node.opens and node.path:
                ticket = self._dropper.add(Order(self._path(node)))
                # never wait for the author: its pages are locked until its request is answered
                self._drops |= {ticket} if node is not author else set()
        self.behind = True
        self._await_notice()
        if wait and self._drops:
            drops = set(self._drops)  # those of other requests, too
            with self._loop.waiting(soon=True):
                self._dropper.wait(drops, _MMAP_PATIENCE)
            self._drops -= drops
        self.behind = bool(self._drops)

    def _await_notice(self) -> None:
        """Wait for all notifications; after a moment let others be answered, because the kernel may wait for them."""
        ticket = self._notice
        if not self._notifications.wait(ticket, _MOMENT):
            with self._loop.waiting(soon=True):
                sent = self._notifications.wait(ticket, _LONGEST)
            if not sent and self._notice == ticket:
                self._notice = 0  # the next request does not wait for it again

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        """Make the kernel write back and drop its pages of ``regions``; see ``vfs/coherence``."""
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
