"""Tells when another program may have changed a file: by watching its directory.

The directory, not the file: a file that is replaced has another inode, and a watch on the old one
says nothing of the new.  It hears of closes after writing, of names moved and removed, in the
directory; what really changed the signature tells.  Limits: a map that is written is heard of when it
is closed; a network file system says nothing of other machines.

Its threads only call ``changed``, which must not block.  User: ``mount/daemon``.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


class Watch:
    """``changed`` is called, by another thread, when something happened to the file at ``path``."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self._directory, self._name = os.path.split(path)
        self._changed = changed
        self._observer: Any = None

    def start(self) -> None:
        """Begin, without waiting until it has begun; where nothing can be watched, the log says so."""
        threading.Thread(target=self._start, name="watch", daemon=True).start()

    def stop(self) -> None:
        """End.  Harmless when it has not begun."""
        if self._observer is not None:
            self._observer.stop()

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))  # and so for watchdog's threads
        from watchdog.events import FileClosedEvent, FileDeletedEvent, FileMovedEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        class Handler(FileSystemEventHandler):
            """Looks whether an event is about the file."""

            def on_any_event(handler, event: Any) -> None:  # noqa: N805 - ``self`` is the watch
                self._look_at(event)

        observer = Observer()
        try:
            observer.schedule(
                Handler(), self._directory, event_filter=[FileClosedEvent, FileMovedEvent, FileDeletedEvent]
            )
            observer.start()
        except OSError as err:
            logger.warning(
                "%s cannot be watched (%s); another program's change is seen at the next open",
                self._directory,
                err.strerror,
            )
            return
        self._observer = observer
        self._changed()  # what happened before the watch began

    def _look_at(self, event: Any) -> None:
        paths = (event.src_path, getattr(event, "dest_path", ""))
        if any(os.path.basename(os.fsdecode(path)) == self._name for path in paths if path):
            self._changed()
