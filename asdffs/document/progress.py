"""What is under way and how far it has come, for ``status.json``, the log and ``asdffs umount``.

Steps may
be told from any thread.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from asdffs import interrupts

logger = logging.getLogger(__name__)

#: The log hears of an operation after so many seconds, and then every so often.
_FIRST: Final = 1.0
_AGAIN: Final = 5.0


@dataclass(slots=True, eq=False)
class Operation:
    """``done`` of ``total`` bytes; ``block``: its number, or None when it concerns the file."""

    name: str
    total: int
    block: int | None = None
    done: int = 0
    started: float = field(default_factory=time.monotonic)
    told: float = 0.0

    def step(self, count: int) -> None:
        """``count`` bytes more are done.  Here a signal may end a command."""
        interrupts.check()
        self.done += count
        elapsed = time.monotonic() - self.started
        if elapsed > (self.told + _AGAIN if self.told else _FIRST):
            self.told = elapsed
            logger.info("%s: %d of %d bytes", self.title, self.done, self.total)

    @property
    def title(self) -> str:
        """The operation with its block."""
        return self.name if self.block is None else f"{self.name} of block {self.block}"

    def facts(self) -> dict[str, Any]:
        """For ``status.json``."""
        return {"operation": self.name, "block": self.block, "done": self.done, "total": self.total}


class Progress:
    """The operations of one document."""

    def __init__(self) -> None:
        self._running: list[Operation] = []

    @contextlib.contextmanager
    def over(self, name: str, total: int, block: int | None = None) -> Iterator[Callable[[int], None]]:
        """An operation on ``total`` bytes; call what is given with each number of bytes done."""
        operation = Operation(name, total, block)
        self._running.append(operation)
        try:
            yield operation.step
        finally:
            self._running.remove(operation)
            if operation.told:
                logger.info("%s: ended after %.1f s", operation.title, time.monotonic() - operation.started)

    def facts(self) -> list[dict[str, Any]]:
        """What is under way now."""
        return [operation.facts() for operation in self._running]
