"""Tells when another program may have changed a file, or the files of a directory: by watching the directory.

The directory, not the file: a file that is replaced has another inode, and a watch on the old one
says nothing of the new.  It hears of closes after writing, of names moved and removed, in the
directory; what really changed the signature tells.  Limits: a map that is written is heard of when it
is closed; a network file system says nothing of other machines.

Its threads only call what they are given, which must not block.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


class DirectoryWatch:
    """``noticed(name)`` is called, by another thread, when something happened to that name in ``directory``.

    And with an empty name once the watch has begun, for what happened before.
    """

    def __init__(self, directory: str, noticed: Callable[[str], None]) -> None:
        self._directory = directory
        self._noticed = noticed
        self._observer: Any = None
        self._stopped = False

    def start(self) -> None:
        """Begin, without waiting until it has begun; where nothing can be watched, the log says so."""
        threading.Thread(target=self._start, name="watch", daemon=True).start()

    def stop(self) -> None:
        """End.  Harmless when it has not begun: it does not begin then."""
        self._stopped = True
        if self._observer is not None:
            self._observer.stop()

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # and so for watchdog's threads
        from watchdog.events import FileClosedEvent, FileDeletedEvent, FileMovedEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        class Handler(FileSystemEventHandler):
            """Tells the names that an event is about."""

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
                "%s cannot be watched (%s); another program's change is seen at the next look",
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
    """``changed`` is called, by another thread, when something happened to the file at ``path``."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        directory, name = os.path.split(path)

        def noticed(found: str) -> None:
            if found in ("", name):
                changed()

        super().__init__(directory, noticed)
