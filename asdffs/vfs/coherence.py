"""Cache coherence: finds the nodes with the same bytes, so that a change through one invalidates the others.

The kernel caches attributes and content of each node that it asked about (``learn``).  When a subject changes, every
cached node that shows the subject becomes *stale*.  The node through which the change came does not: the kernel keeps
that one up to date itself.  A ``Kernel`` tells the kernel of stale nodes (``mount/invalidate``).  The caller holds
the main lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol
from weakref import ref

from asdffs.document.changes import BLOCKS, CONTENTS, STORE, TREE, Subject
from asdffs.vfs.namespace import Node

#: Subjects on which many files depend.
_WIDE: Final = frozenset({TREE, BLOCKS, STORE, CONTENTS})


class PageRange(NamedTuple):
    """A part of the file of ``node``, in bytes.  ``length`` 0 means the whole file."""

    node: Node
    start: int
    length: int


class Kernel(Protocol):
    """The kernel's caches of the nodes of one document.

    ``behind``: other requests may not have told it of all changes yet.  ``awaited``: the nodes for whose pages
    requests wait now, each as often as it is waited for.
    """

    behind: bool
    awaited: Counter[Node]

    def prepare(self) -> None:
        """Get ready for ``drop``, because two open nodes show the same bytes."""

    def invalidate(self, nodes: Mapping[Node, bool], locked: Node | None, *, wait: bool) -> None:
        """Drop cached attributes of ``nodes``, and pages of those whose value is True.

        ``wait``: wait a moment until mmaps show the change, and all changes of which other requests told.  The kernel
        may have locked pages of ``locked`` until the request of the caller is answered: these are not waited for, and
        no pages are while another request waits for these.
        """

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        """Write back and drop the pages of ``regions``; return the nodes whose pages are gone.

        Waits at most ``patience`` seconds.
        """


class Coherence:
    """The nodes of one document that the kernel may have cached.  ``opened``: returns its open nodes.

    ``stale``: nodes that changed; only this class changes it.
    """

    def __init__(self, opened: Callable[[], Iterable[Node]]) -> None:
        self._opened = opened
        self._known: dict[Subject, dict[ref[Node], None]] = {}
        self.stale: dict[Node, bool] = {}

    def learn(self, node: Node) -> None:
        """Record that the kernel is about to receive data of ``node``."""
        for subject in node.subjects() or ():
            self._known.setdefault(subject, {})[ref(node)] = None

    def forget(self, node: Node) -> None:
        """Record that the kernel has nothing of ``node`` in its caches."""
        for subject in node.subjects() or ():
            nodes = self._known.get(subject, {})
            nodes.pop(ref(node), None)
            if not nodes:
                self._known.pop(subject, None)

    def note(self, news: Iterable[Subject], author: Node | None = None, seen_to: Collection[Node] = ()) -> None:
        """Record that the subjects ``news`` changed, through the node ``author`` or (None) in another way.

        ``seen_to``: nodes without old pages in the kernel; only their attributes become stale.
        """
        for subject in news:
            known = self._known.get(subject)
            if known is None:
                continue
            others = False
            for each in known:
                node = each()
                if node is not None and node is not author:
                    self.stale[node] = self.stale.get(node, False) or node not in seen_to
                    others = True
            if others:  # an open node may be mapped, and mmap reads do not ask us: keep it known
                self._known[subject] = {each: None for each in known if (node := each()) is not None and node.opens}

    def has_open_sibling(self, node: Node) -> bool:
        """Return whether another open node shows some of the same bytes.

        Thousands of files depend on the tree, and few of them are open.  So for subjects like the tree, this looks
        through the open nodes only.
        """
        subjects = frozenset(node.subjects() or ())
        wide = subjects & _WIDE
        if wide and any(not wide.isdisjoint(other.subjects() or ()) for other in self._opened() if other is not node):
            return True
        for subject in subjects - wide:
            for each in self._known.get(subject, ()):
                other = each()
                if other is not None and other.opens and other is not node:
                    return True
        return False

    def note_all(self) -> None:
        """Record that anything may have changed."""
        self.note(list(self._known))

    def mark_stale(self, nodes: list[Node]) -> None:
        """Mark these nodes as stale again: the kernel still has old pages of them."""
        self.stale.update(dict.fromkeys(nodes, True))

    def take(self) -> dict[Node, bool]:
        """Return the stale nodes, and clear the list.

        The value of each node tells whether the kernel may also have old pages of it, not only old attributes.
        """
        taken, self.stale = self.stale, {}
        for node in taken:
            if node.opens:  # a commit may have changed its subjects, and an mmap would never ask for it again
                self.learn(node)
        return taken
