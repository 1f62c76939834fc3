"""What the mount of an archive shows: a directory whose ASDF files are directories.

The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from asdffs.document.report import Outcome
from asdffs.document.saves.history import Places
from asdffs.features.archive.directory import ArchiveDirectory
from asdffs.features.archive.documents import OpenDocuments
from asdffs.features.archive.status import ArchiveStatus
from asdffs.mount.content import Site
from asdffs.mount.invalidate import Invalidator
from asdffs.storage.beneath import Beneath
from asdffs.storage.file_backend import FileFolder
from asdffs.vfs.areas import Areas
from asdffs.vfs.served_file import OpenedFile, ServedFile

_OFF: Final = {"passthrough": "off"}


class ArchiveContent:
    """A directory.  ``open_file(folder, name)`` opens a file, and may be called without the main lock."""

    def __init__(
        self, path: str, places: Places, open_file: Callable[[FileFolder, str], OpenedFile], site: Site
    ) -> None:
        self.path = path
        self.places = places
        self._site = site
        self._open_file = open_file
        options, files = site.options, Beneath(path)
        self._documents = OpenDocuments(files, self._serve, site.loop, most=options.open_max, idle=options.idle)
        facts = {"file": path, "writable": not options.read_only, **site.facts}
        status = ArchiveStatus(self._documents, facts, _OFF if site.passthrough is None else site.passthrough.facts)
        self.areas = Areas(
            ArchiveDirectory(files, self._documents, status, options.shown, site.loop), self._documents
        )
        self._documents.ended = self.areas.ended

    def start(self) -> None:
        """Do nothing: each request looks for changes."""

    def stop(self) -> None:
        """Do nothing."""

    def end(self) -> Outcome:
        """See ``Content``."""
        self._documents.end()
        return self._documents.outcome

    def _serve(self, folder: FileFolder, name: str, directory: str, number: int) -> ServedFile:
        """Open a file.  Raises as ``open_file``."""
        site = self._site
        with site.loop.waiting():  # the disk may be slow, or the file locked by a mount that is just ending
            opened = self._open_file(folder, name)
        try:
            opened.keep_the_past()
            kernel = Invalidator(site.loop, site.notifications, site.mountpoint, site.dropper, directory)
            note = {**site.note, "directory": site.mountpoint + directory, "idle": site.options.idle}
            served = ServedFile(opened, site.options.shown, kernel, note, number=number)
        except BaseException:
            opened.close()
            raise
        site.loop.post(served.look_at_tree)
        return served
