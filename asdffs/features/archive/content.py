"""What the mount of an archive shows: a directory whose ASDF files are directories, and ``.asdffs/`` in its root.

``.asdffs/`` has the state of the mount, and of the documents that are open.  ``status.json`` has the keys that the
one of a file has, as far as they have a meaning for a directory, and ``documents``: one object for each open document
(docs/catalog.md).  ``error`` has the last refusal.  The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from asdffs.document.report import Outcome
from asdffs.document.saves.history import Places
from asdffs.features.archive.directory import ArchiveDirectory
from asdffs.features.archive.documents import OpenDocuments
from asdffs.mount.daemon import MountContext
from asdffs.mount.invalidate import Invalidator
from asdffs.storage.beneath import Beneath
from asdffs.storage.file_backend import FileFolder
from asdffs.vfs.areas import Areas
from asdffs.vfs.served_file import OpenedFile, ServedFile
from asdffs.vfs.vfs import Vfs
from asdffs.views.base import ViewDirectory, ViewFile
from asdffs.views.status import ErrorFile, StatusFile

_OFF: Final = {"passthrough": "off"}


#: So many documents are told of: commands read one MiB of ``status.json``.
_MOST: Final = 1000


class ArchiveStatus(ViewDirectory):
    """The directory.  ``facts()``: what is known of the mount as a whole, now."""

    def __init__(self, documents: OpenDocuments, facts: Callable[[], dict[str, Any]]) -> None:
        self._documents = documents
        self._facts = facts
        self._children: dict[str, ViewFile | ViewDirectory] = {
            "status.json": StatusFile(self._status),
            "error": ErrorFile(lambda: documents.error),
        }

    def names(self) -> Iterator[str]:
        """See ``ViewDirectory``."""
        return iter(self._children)

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """See ``ViewDirectory``.  Raises ``KeyError``."""
        return self._children[name]

    def _status(self) -> dict[str, Any]:
        opened = self._documents.open_now()
        told = opened[-_MOST:]
        outcome = self._documents.outcome
        return {
            **self._facts(),
            "open": len(opened),
            "error": self._documents.error,
            "progress": [one for vfs in told for one in vfs.document.report.progress.facts()],
            "kept": outcome.kept,
            "failures": outcome.failures,
            "documents": [_facts_of(vfs) for vfs in told],
        }


def _facts_of(vfs: Vfs) -> dict[str, Any]:
    document, report = vfs.document, vfs.document.report
    return {
        "file": document.path,
        "writable": document.writable,
        "in_use": not vfs.is_idle,
        "unfinished": document.pending,
        "draft": report.draft,
        "conflict": report.conflict,
        "error": report.error,
        "warnings": len(report.warnings) if report.checked else None,
        "failures": report.failures,
        "recovery": report.recovery,
    }


class ArchiveContent:
    """A directory.  ``open_file(folder, name)`` opens a file, and may be called without the main lock."""

    def __init__(
        self, path: str, places: Places, open_file: Callable[[FileFolder, str], OpenedFile], context: MountContext
    ) -> None:
        self.path = path
        self.places = places
        self.is_distant = False
        self._context = context
        self._open_file = open_file
        options, files = context.options, Beneath(path)
        self._documents = OpenDocuments(files, self._serve, context.loop, most=options.open_max, idle=options.idle)
        status = ArchiveStatus(self._documents, self._facts)
        self.areas = Areas(
            ArchiveDirectory(files, self._documents, status, options.shown, context.loop, options.explode),
            self._documents,
        )
        self._documents.ending = self.areas.ending

    def _facts(self) -> dict[str, Any]:
        """Return what is known of the mount as a whole, as JSON has it."""
        context, options = self._context, self._context.options
        return {
            "file": self.path,
            "writable": not options.read_only,
            "explode": options.explode,
            **context.facts,
            **(_OFF if context.passthrough is None else context.passthrough.facts),
            "counters": self.counters(),
        }

    def counters(self) -> dict[str, Any]:
        """See ``Content``."""
        documents = (vfs.document for vfs in self._documents.open_now())
        return self._context.counters.facts(self._context.loop, documents, len(self.areas.handles))

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
        context = self._context
        with context.loop.waiting():  # the disk may be slow, or the file locked by a mount that is just ending
            opened = self._open_file(folder, name)
        try:
            opened.recover_edits()
            kernel = Invalidator(context.loop, context.notifications, context.mountpoint, context.dropper, directory)
            note = {**context.note, "directory": context.mountpoint + directory, "idle": context.options.idle}
            return ServedFile(opened, context.options.shown, kernel, note, number=number, later=True)
        except BaseException:
            opened.close()
            raise
