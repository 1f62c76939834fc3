"""Drops nodes of views that are not needed any more, because a directory may list a hundred thousand files.

A node is created when a program first asks for its name.  The kernel caches its attributes for less than a second and
must be notified of changes meanwhile, so the node stays for that long.  Afterwards it is dropped, unless it is in use
or has state that a new node would lack.  The caller holds the main lock.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

#: How long a node stays at least, in seconds.  The kernel caches nothing longer (``mount/options.KEPT_SECONDS``).
_STAYS: Final = 1.0
#: How many old nodes are checked whenever a new one is made.
_LOOKS: Final = 3
#: References to an unused node: from ``names``, from a variable here, and from the call that counts them.
_UNUSED: Final = 3


class RecentNodes:
    """The nodes of all views of one mount, the oldest first.

    ``forget(node)`` is called for each node that is dropped.
    """

    def __init__(self, forget: Callable[[Any], object]) -> None:
        self._queue: deque[tuple[float, dict[str, Any], str]] = deque()
        self._tell = forget

    def add(self, names: dict[str, Any], name: str) -> None:
        """Record that the node ``names[name]`` was just made, and drop some old nodes from their own ``names``."""
        now = time.monotonic()
        self._queue.append((now, names, name))
        for _ in range(_LOOKS):
            if self._queue[0][0] > now - _STAYS:
                return
            _, others, other = self._queue.popleft()
            if not self._forget(others, other):
                self._queue.append((now, others, other))

    def _forget(self, names: dict[str, Any], name: str) -> bool:
        """Drop a node if it is not needed; return False if it is needed or in use."""
        node = names.get(name)
        if node is None:
            return True
        if not node.renewable or sys.getrefcount(node) > _UNUSED:
            return False
        self._tell(node)
        del names[name]
        return True
