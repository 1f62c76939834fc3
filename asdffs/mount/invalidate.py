"""Invalidates the kernel's caches of files that changed through another name (another view of the same block).

A notification drops cached attributes.  The next read(2) then asks for the attributes, sees a new mtime, and drops
the pages.  Reads through an mmap do not ask.  So for open files, a helper process (``dropper``) makes the kernel drop
its pages, before a change (``drop``) or after it (``invalidate``).  See decisions 15 and 24.

The kernel may make a notification or a helper wait: for a page that it has locked until a request is answered, or
for a file that it is just forgetting.  So a thread sends no notification while it holds the main lock, leads the
loop, or has a request to answer:
``Notifications`` has a thread of its own, which does nothing else.  A request waits for it, so that programs see a
change at once, but not for long, and after a moment lets other requests be answered meanwhile.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

from asdffs.mount.dropper import Order, PageDropper
from asdffs.mount.loop import Loop
from asdffs.vfs.coherence import PageRange
from asdffs.vfs.namespace import Node

logger = logging.getLogger(__name__)

#: How long a write waits for read-only mmaps of the same bytes, in seconds.  They may be updated after it, too.
_MMAP_PATIENCE: Final = 0.05
#: How long a notification may take before other requests are answered, and before nobody waits for it any more, in
#: seconds.  It takes microseconds, unless the kernel or other programs hold it up.
_MOMENT: Final = 0.01
_LONGEST: Final = 1.0
#: How long the end of a mount waits for the thread, in seconds.  Nothing holds it up once the mount is gone.
_END: Final = 10.0


class Notifications:
    """The queue of notifications and their thread.  Any thread may call the methods.

    ``send(inode)`` makes the kernel drop the cached attributes of a file, and may wait for the kernel.
    """

    def __init__(self, send: Callable[[int], object]) -> None:
        self._send = send
        self._state = threading.Condition(threading.Lock())
        self._queue: list[int] = []
        self._asked = 0
        self._sent = 0
        self._since = 0.0
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def since(self) -> float:
        """When the notification under way began (``time.monotonic``); 0 if there is none."""
        return self._since

    def tell(self, inodes: Collection[int]) -> int:
        """Make the kernel drop its attributes of these files; return a ticket for ``wait``."""
        with self._state:
            if not self._stopping and self._has_thread():
                self._queue += inodes
                self._asked += len(inodes)
                self._state.notify_all()
            return self._asked

    def wait(self, ticket: int, patience: float) -> bool:
        """Wait at most ``patience`` seconds for the notifications of ``ticket``; return whether they were sent.

        One that hangs may wait for a request that the caller has to answer.
        """
        with self._state:
            return self._state.wait_for(lambda: self._sent >= ticket or self._stopping, patience)

    def stop(self) -> None:
        """End the thread, because the mount is gone."""
        with self._state:
            self._stopping = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join(_END)

    def _has_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="notifications", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads: attributes are old until the kernel asks again
                logger.warning("cannot start another thread; programs may see old sizes and times for a moment")
                return False
            self._thread = thread
        return True

    def _work(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._queue or self._stopping)
                if self._stopping:
                    return
                taken, self._queue = self._queue, []
            for inode in taken:
                self._since = time.monotonic()
                self._send(inode)
            with self._state:
                self._since = 0.0
                self._sent += len(taken)
                self._state.notify_all()


class Invalidator:
    """Notifies the kernel of changes of one document, with the main lock held; a ``Kernel`` (``vfs/coherence``).

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
        self._drops: dict[int, Node] = {}
        self.behind = False
        self.awaited: Counter[Node] = Counter()

    def prepare(self) -> None:
        """Start the helper, because two open nodes show the same bytes."""
        self._dropper.start()

    def invalidate(self, nodes: Mapping[Node, bool], locked: Node | None, *, wait: bool) -> None:
        """See ``Kernel``."""
        if known := [node.inode for node in nodes if node.inode]:
            self._notice = self._notifications.tell(known)
        undone = self._dropper.undone(set(self._drops))
        self._drops = {ticket: node for ticket, node in self._drops.items() if ticket in undone}
        for node, has_pages in nodes.items():
            if has_pages and node.opens and node.path:
                self._drops[self._dropper.add(Order(self._path(node)))] = node
        self.behind = True
        self._await_notice()
        drops = {ticket: node for ticket, node in self._drops.items() if node is not locked}  # other requests' too
        if wait and drops and not (locked is not None and self.awaited[locked]):  # else somebody waits for this one
            self._wait_for(drops, _MMAP_PATIENCE)
            self._drops = {ticket: node for ticket, node in self._drops.items() if ticket not in drops}
        self.behind = bool(self._drops) or not self._notifications.wait(self._notice, 0)

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
        return {tickets[ticket] for ticket in self._wait_for(tickets, patience)} if tickets else set()

    def _wait_for(self, tickets: Mapping[int, Node], patience: float) -> set[int]:
        """Wait at most ``patience`` seconds for orders to the helpers; return the tickets of those that are done.

        ``tickets``: ticket of each order -> the node whose pages it drops.
        """
        self.awaited.update(tickets.values())
        try:
            with self._loop.waiting(soon=True):
                return self._dropper.wait(set(tickets), patience)
        finally:
            self.awaited -= Counter(tickets.values())  # nodes at zero are not kept alive

    def _path(self, node: Node) -> bytes:
        return os.fsencode(self._place + self._inside + node.path)
