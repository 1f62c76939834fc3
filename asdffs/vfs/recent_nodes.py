"""Gives nodes of views back: a directory may list a hundred thousand files, and each is asked about once.

A node is made when somebody first asks for its name.  The kernel keeps what it was told of it for less than a
second, and is told of changes meanwhile, so for that long the node stays.  Later it goes, unless it is in use or has
something that a new node would not know.  The caller holds the main lock.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

#: How long a node stays at least, in seconds: longer than the kernel keeps anything (``mount/options.KEPT_SECONDS``).
_STAYS: Final = 1.0
#: Nodes that are looked at whenever one is made.
_LOOKS: Final = 3
#: References to a node that nobody uses: of ``names``, of a variable here, and of the call that counts them.
_UNUSED: Final = 3


class RecentNodes:
    """The nodes of all views of one mount, the oldest first; ``forget(node)`` is called of each that goes."""

    def __init__(self, forget: Callable[[Any], object]) -> None:
        self._queue: deque[tuple[float, dict[str, Any], str]] = deque()
        self._tell = forget

    def add(self, names: dict[str, Any], name: str) -> None:
        """The node ``names[name]`` was made now.  Others that nobody needs any more are removed from theirs."""
        now = time.monotonic()
        self._queue.append((now, names, name))
        for _ in range(_LOOKS):
            if self._queue[0][0] > now - _STAYS:
                return
            _, others, other = self._queue.popleft()
            if not self._forget(others, other):
                self._queue.append((now, others, other))

    def _forget(self, names: dict[str, Any], name: str) -> bool:
        """Remove a node that nobody needs; False when it is needed, or in use."""
        node = names.get(name)
        if node is None:
            return True
        if not node.renewable or sys.getrefcount(node) > _UNUSED:
            return False
        self._tell(node)
        del names[name]
        return True
