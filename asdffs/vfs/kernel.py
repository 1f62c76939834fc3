"""What a mount tells the kernel about files that changed; ``mount/invalidate`` does it.

The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from asdffs.vfs.namespace import Node


class PageRange(NamedTuple):
    """A part of the file of ``node``, in bytes.  ``length`` 0 means the whole file."""

    node: Node
    start: int
    length: int


class Kernel(Protocol):
    """The kernel's caches of the nodes of one document.

    ``behind``: other requests may not have told it of all changes yet.
    """

    behind: bool

    def prepare(self) -> None:
        """Get ready for ``drop``, because two open nodes show the same bytes."""

    def invalidate(self, nodes: Mapping[Node, bool], author: Node | None, *, wait: bool) -> None:
        """Drop cached attributes of ``nodes``, and pages of those whose value is True.

        ``author``: the node through which the change came.  ``wait``: wait a moment until mmaps show the
        change, and all changes of which other requests told.
        """

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        """Write back and drop the pages of ``regions``; return the nodes whose pages are gone.

        Waits at most ``patience`` seconds.
        """


class NoKernel:
    """The ``Kernel`` of a ``Vfs`` that is not mounted: nothing is cached."""

    behind = False

    def prepare(self) -> None:
        """See ``Kernel``."""

    def invalidate(self, nodes: Mapping[Node, bool], author: Node | None, *, wait: bool) -> None:
        """See ``Kernel``."""

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        """See ``Kernel``."""
        return set()
