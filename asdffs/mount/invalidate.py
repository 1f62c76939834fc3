"""Tells the kernel what it must not cache any longer.

The kernel keeps attributes and content of the mount's files (``options``); what changes by
itself, and not by the kernel's own request on that file, is invalidated here.  A notification
waits for page locks that requests still to be answered may hold, so a side thread sends it and
a callback waits for it only for a moment: later than that, a new open still sees the new
content (its mtime moved), and an open descriptor sees it when the side thread is through.
Others are served during that moment: libfuse 2 must ask the mount itself for an inode.

Users: ``operations``.  ``Invalidator.ask`` is called by whichever thread serves a request.
"""

from __future__ import annotations

import queue
import signal
import threading
from dataclasses import dataclass, field
from typing import Final

from asdffs.mount.session import Session

#: Longest wait of a callback, in seconds: its own request may be the one that the kernel waits for.
_PATIENCE: Final = 0.05


@dataclass(slots=True)
class _Batch:
    paths: list[str]
    names: list[str]
    done: threading.Event = field(default_factory=threading.Event)


class Invalidator:
    """The side thread of one session, started at the first need."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, paths: list[str], names: list[str]) -> bool:
        """Invalidate files by their paths in the mount, and names in its root; whether it is done already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="invalidate", daemon=True)
            self._thread.start()
        batch = _Batch(paths, names)
        self._batches.put(batch)
        return batch.done.wait(_PATIENCE)

    def end(self) -> None:
        """No more; what is under way is not waited for, because the kernel may not answer any more."""
        self._batches.put(None)

    def _work(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        while (batch := self._batches.get()) is not None:
            for name in batch.names:
                self._session.invalidate_name(name)
            for path in batch.paths:
                self._session.invalidate(path)
            batch.done.set()
