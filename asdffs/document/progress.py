"""The progress of running operations, for ``status.json``, the log and ``asdffs umount``.

Steps may be reported from any thread.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from asdffs import interrupts

logger = logging.getLogger(__name__)

#: Seconds after which an operation is first logged, and the interval of further log lines.
_FIRST: Final = 1.0
_AGAIN: Final = 5.0


class Operation:
    """A running operation: ``done`` of ``total`` bytes.

    ``block``: the number of its block, or None if it concerns the whole file.  ``started``: the time of its start;
    ``told``: seconds from there to the last log line, or 0.
    """

    def __init__(self, name: str, total: int, block: int | None = None) -> None:
        self.name = name
        self.total = total
        self.block = block
        self.done = 0
        self.started = time.monotonic()
        self.told = 0.0

    def step(self, count: int) -> None:
        """Add ``count`` bytes to those done.  Raises the noted signal that ends a command (``interrupts.check``)."""
        interrupts.check()
        self.done += count
        elapsed = time.monotonic() - self.started
        if elapsed > (self.told + _AGAIN if self.told else _FIRST):
            self.told = elapsed
            logger.info("%s: %d of %d bytes", self.title, self.done, self.total)

    @property
    def title(self) -> str:
        """The name of the operation, with its block."""
        return self.name if self.block is None else f"{self.name} of block {self.block}"

    def facts(self) -> dict[str, Any]:
        """Return the operation as a dict for ``status.json``."""
        return {"operation": self.name, "block": self.block, "done": self.done, "total": self.total}


class Progress:
    """The running operations of one document."""

    def __init__(self) -> None:
        self._running: list[Operation] = []

    @contextlib.contextmanager
    def over(self, name: str, total: int, block: int | None = None) -> Iterator[Callable[[int], None]]:
        """Count an operation on ``total`` bytes as running inside the block.

        Call the value of the ``with`` statement with the number of bytes after each step.
        """
        operation = Operation(name, total, block)
        self._running.append(operation)
        try:
            yield operation.step
        finally:
            self._running.remove(operation)
            if operation.told:
                logger.info("%s: ended after %.1f s", operation.title, time.monotonic() - operation.started)

    def facts(self) -> list[dict[str, Any]]:
        """Return the running operations as dicts for ``status.json``."""
        return [operation.facts() for operation in self._running]
