"""What a mount shows: one file (``FileContent``), or an archive (``archive_content``).

The caller holds the main lock.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, NamedTuple, Protocol

from asdffs.document.report import Outcome
from asdffs.document.saves.history import Places
from asdffs.mount.dropper import PageDropper
from asdffs.mount.invalidate import Invalidator
from asdffs.mount.loop import Loop
from asdffs.mount.notifications import Notifications
from asdffs.mount.options import MountOptions
from asdffs.mount.session import Passthrough
from asdffs.storage.watch import Watch
from asdffs.vfs.areas import Areas
from asdffs.vfs.served_file import OpenedFile, ServedFile

logger = logging.getLogger(__name__)

#: Delay before the next look, in seconds, if another program changed the file during a change of ours.
_AGAIN = 0.2


class Site(NamedTuple):
    """Where content is served.  ``mountpoint``: absolute.  ``note``: process, mount point and binding.

    ``facts``: the same and more, for ``status.json``.
    """

    mountpoint: str
    options: MountOptions
    loop: Loop
    notifications: Notifications
    dropper: PageDropper
    passthrough: Passthrough | None
    note: dict[str, Any]
    facts: dict[str, Any]


class Content(Protocol):
    """What a mount shows.  ``path``: of the file or directory.  ``places``: where its report goes."""

    path: str
    places: Places
    areas: Areas

    def start(self) -> None:
        """Begin to look for changes by other programs: the mount is ready."""

    def stop(self) -> None:
        """End that: the mount is gone."""

    def end(self) -> Outcome:
        """Finish all files, and keep unsaved work beside them."""


class FileContent:
    """One file.  ``opened`` stays open after ``end``."""

    def __init__(self, opened: OpenedFile, site: Site) -> None:
        self.path = opened.document.path
        self.places = opened.places
        opened.document.report.note_mount(site.facts)
        kernel = Invalidator(site.loop, site.notifications, site.mountpoint, site.dropper)
        self._served = ServedFile(opened, site.options.shown, kernel, site.note)
        self.areas = Areas(self._served.vfs)
        self._others = _OtherWriters(self._served, site.loop)

    def start(self) -> None:
        """See ``Content``."""
        self._others.start()
        self._served.look_at_tree()

    def stop(self) -> None:
        """See ``Content``."""
        self._others.stop()

    def end(self) -> Outcome:
        """See ``Content``."""
        return self._served.end()


class _OtherWriters:
    """Watches for other programs that change the file.

    The loop looks at the file when its directory changes, and tells the kernel after each look.
    """

    def __init__(self, served: ServedFile, loop: Loop) -> None:
        self._vfs = served.vfs
        self._loop = loop
        self._watch = Watch(served.document.path, lambda: loop.post(self._look))

    def start(self) -> None:
        """Start to watch.  Call it once the mount is ready."""
        if not self._vfs.document.is_remote:
            self._watch.start()

    def stop(self) -> None:
        """Stop to watch.  Call it when the mount is gone."""
        self._watch.stop()

    def _look(self) -> None:
        """Look for changes by other programs.  The caller holds the main lock."""
        settled = self._vfs.foreign.look()
        self._vfs.tell_changes(wait=False)
        if not settled:  # a change of ours is under way: look again afterwards
            again = threading.Timer(_AGAIN, self._loop.post, (self._look,))
            again.daemon = True
            again.start()
