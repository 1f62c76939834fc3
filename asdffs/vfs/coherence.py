"""Which nodes show the same bytes, so that a change through one of them is told of all.

The kernel keeps attributes and content of what it was told about (``learn``).  When a subject changes, the nodes
that show it and of which the kernel knows something are *stale*, except the one through which it was changed:
that one the kernel minds itself.  ``mount/invalidate`` tells the kernel of them.  User: ``vfs``.  One thread.
"""

from __future__ import annotations

from collections.abc import Iterable

from asdffs.document.changes import Subject
from asdffs.vfs.namespace import Node


class Coherence:
    """The nodes of one mount of which the kernel knows something."""

    def __init__(self) -> None:
        self._known: dict[Subject, dict[Node, None]] = {}
        self._stale: dict[Node, None] = {}
        self._author: Node | None = None

    def learn(self, node: Node, path: str | None, inode: int) -> None:
        """The kernel is being told of ``node``; ``inode``: its number for it, 0 when the request does not say."""
        node.path = path or node.path
        node.inode = inode or node.inode
        for subject in node.subjects() or ():
            self._known.setdefault(subject, {})[node] = None

    def note(self, news: Iterable[Subject], author: Node | None = None) -> None:
        """These subjects changed, through ``author`` or by themselves."""
        self._author = author
        for subject in news:
            nodes = self._known.get(subject)
            if nodes is None:
                continue
            self._stale.update((node, None) for node in nodes if node is not author)
            # what is open may be mapped, and so read without a question
            self._known[subject] = {node: None for node in nodes if node.opens}

    def has_open_kin(self, node: Node) -> bool:
        """Whether another node that shows some of the same is open."""
        known = (self._known.get(subject, ()) for subject in node.subjects() or ())
        return any(other.opens and other is not node for nodes in known for other in nodes)

    def writers(self, subjects: Iterable[Subject], besides: Node | None = None) -> list[Node]:
        """The nodes that show one of these and are open for writing: they may be mapped, with stores not sent yet."""
        found = (node for subject in subjects for node in self._known.get(subject, ()))
        return list(dict.fromkeys(node for node in found if node.writers and node is not besides))

    def note_all(self) -> None:
        """Everything may be another."""
        self.note(list(self._known))

    def put_back(self, nodes: list[Node]) -> None:
        """These are stale still."""
        self._stale.update(dict.fromkeys(nodes))

    def take(self) -> tuple[list[Node], Node | None]:
        """The stale nodes, which are none afterwards, and the node through which something changed last."""
        if not self._stale:
            return [], None
        taken, self._stale = list(self._stale), {}
        return taken, self._author
