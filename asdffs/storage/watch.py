"""Notify when another program may have changed a file, or the files of a directory.

It watches the directory instead of the file, because a watch on a replaced file says nothing about the new one.
It is notified when files are closed after writing, and when names are moved or removed.  The signature then
shows whether the file really changed.  Limits: mapped writes are noticed only when the file is closed, and a
network file system does not report changes by other machines.

Its threads only call the callbacks, which must not block.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

logger = logging.getLogger(__name__)

#: Seconds to wait for a thread that ends.  One that asks an unreachable network file system does not end.
_END: Final = 5.0


class DirectoryWatch:
    """A watch on ``directory``; ``noticed(name)`` is called by another thread when something happened to that name.

    It is also called with an empty name when the watch has begun, because of earlier changes.
    """

    def __init__(self, directory: str, noticed: Callable[[str], None]) -> None:
        self._directory = directory
        self._noticed = noticed
        self._observer: Any = None
        self._starting: threading.Thread | None = None
        self._stopped = False

    def start(self) -> None:
        """Start without waiting until the watch has begun.  If it cannot begin, this is logged."""
        self._starting = threading.Thread(target=self._start, name="watch", daemon=True)
        self._starting.start()

    def stop(self) -> None:
        """Stop the watch.  If it has not begun yet, it never does."""
        self._stopped = True
        if self._observer is not None:
            self._observer.stop()

    def join(self) -> None:
        """Wait until the threads of a stopped watch have ended, ``_END`` seconds each at most.

        A thread that still imports a C library while the interpreter ends can crash the process.
        """
        if self._starting is not None:
            self._starting.join(_END)
        if self._observer is not None:
            self._observer.join(_END)

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # watchdog's threads inherit this
        from watchdog.events import FileClosedEvent, FileDeletedEvent, FileMovedEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        logging.getLogger("watchdog").setLevel(logging.CRITICAL)  # an event that comes while it stops is no error

        class Handler(FileSystemEventHandler):
            """Passes on the names of each event."""

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
                "%s cannot be watched (%s); changes by other programs are noticed at the next access",
                self._directory,
                err.strerror,
            )
            return
        self._observer = observer
        if self._stopped:
            observer.stop()
        else:
            self._noticed("")

    def _look_at(self, event: Any) -> None:
        for path in (event.src_path, getattr(event, "dest_path", "")):
            if path:
                self._noticed(os.path.basename(os.fsdecode(path)))


class Watch(DirectoryWatch):
    """A watch on the file at ``path``; another thread calls ``changed`` when something happened to it."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        directory, name = os.path.split(path)

        def noticed(found: str) -> None:
            if found in ("", name):
                changed()

        super().__init__(directory, noticed)
