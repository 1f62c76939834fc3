"""Which nodes show the same bytes, so that a change through one of them is told of all.

The kernel keeps attributes and content of what it was told about (``learn``).  When a subject changes, the nodes that
show it and of which the kernel knows something are *stale*, except the one through which it was changed: that one the
kernel minds itself.  ``mount/invalidate`` tells the kernel of them.  One thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from weakref import ref

from asdffs.document.changes import Subject
from asdffs.vfs.namespace import Node


class Coherence:
    """The nodes of one mount of which the kernel knows something."""

    def __init__(self) -> None:
        self._known: dict[Subject, dict[ref[Node], None]] = {}
        self._stale: dict[Node, bool] = {}
        self._author: Node | None = None

    def learn(self, node: Node, path: str | None, inode: int) -> None:
        """The kernel is being told of ``node``; ``inode``: its number for it, 0 when the request does not say."""
        node.path = path or node.path
        node.inode = inode or node.inode
        self._learn(node)

    def _learn(self, node: Node) -> None:
        for subject in node.subjects() or ():
            self._known.setdefault(subject, {})[ref(node)] = None

    def forget(self, node: Node) -> None:
        """The kernel knows nothing of ``node`` any more."""
        for subject in node.subjects() or ():
            nodes = self._known.get(subject, {})
            nodes.pop(ref(node), None)
            if not nodes:
                self._known.pop(subject, None)

    def note(self, news: Iterable[Subject], author: Node | None = None, seen_to: Collection[Node] = ()) -> None:
        """These subjects changed, through ``author`` or by themselves; no old pages are left of ``seen_to``."""
        self._author = author
        for subject in news:
            known = self._known.get(subject)
            if known is None:
                continue
            others = False
            for each in known:
                node = each()
                if node is not None and node is not author:
                    self._stale[node] = self._stale.get(node, False) or node not in seen_to
                    others = True
            if others:  # what is open may be mapped, and so read without a question
                self._known[subject] = {each: None for each in known if (node := each()) is not None and node.opens}

    def has_open_sibling(self, node: Node) -> bool:
        """Whether another node that shows some of the same is open."""
        for subject in node.subjects() or ():
            for each in self._known.get(subject, ()):
                other = each()
                if other is not None and other.opens and other is not node:
                    return True
        return False

    def note_all(self) -> None:
        """Everything may be another."""
        self.note(list(self._known))

    def put_back(self, nodes: list[Node]) -> None:
        """The kernel has old pages of these."""
        self._stale.update(dict.fromkeys(nodes, True))

    def take(self) -> tuple[dict[Node, bool], Node | None]:
        """The stale nodes, which are none afterwards, and the node through which something changed last.

        Of each node: whether the kernel may have old pages of it, too.
        """
        if not self._stale:
            return {}, None
        taken, self._stale = self._stale, {}
        for node in taken:
            if node.opens:  # a commit may have given it other subjects, and nobody asks about an mmap
                self._learn(node)
        return taken, self._author
