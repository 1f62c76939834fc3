"""A file that is open for a mount, with its state directory."""

from __future__ import annotations

import logging
import os

from asdffs.cli.budgets import stated_budget
from asdffs.cli.past import tell_the_past
from asdffs.cli.remedies import told
from asdffs.cli.state_directory import StateDirectory, noted_holder
from asdffs.document.blocks.contents import ChecksumPolicy
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document, open_in_folder
from asdffs.document.saves.history import Places
from asdffs.mount.options import MountOptions
from asdffs.scheduling import Scheduler
from asdffs.storage.file_backend import FileFolder

logger = logging.getLogger(__name__)


class OpenedFile:
    """An open file.  ``state``: claimed by ``keep_the_past``, if the file can be written."""

    def __init__(self, document: Document, state: StateDirectory) -> None:
        self.document = document
        self._state = state

    @property
    def places(self) -> Places:
        """The places, once ``keep_the_past`` has made them."""
        return self._state.places

    def keep_the_past(self) -> None:
        """Keep beside the file what earlier mounts left, and log it.  Raises as ``tell_the_past``."""
        if not self.document.writable:
            self._state.begin()
            return
        for sentence in tell_the_past(self.document, self._state).sentences:
            logger.warning("%s: %s", self.document.path, sentence)

    def release(self) -> None:
        """Record that no work of the user is left in the places: it is in the file, or was kept beside it."""
        self._state.release()

    def close(self) -> None:
        """Empty the places if all of it was released, and close the file."""
        self._state.close()
        self.document.close()  # last: it gives the lock away, and with it the state directory


def _others(options: MountOptions) -> int | None:
    """Return the permission bits that other users of the mount have besides those of the file; None without others.

    A mount that gives the file to another user may show it to anybody.
    """
    given = options.shown.uid is not None or options.shown.gid is not None
    return (0o044 if given else 0) if options.allow_other else None


def open_for_mount(
    path: str,
    options: MountOptions,
    scheduler: Scheduler,
    state: StateDirectory | None = None,
    folder: FileFolder | None = None,
) -> OpenedFile:
    """Open the file at ``path``, absolute or a URL, for a mount.

    ``state``: None for a file of an archive, which makes its own.  ``folder``: the directory of the file, whatever
    its path leads to meanwhile; None to find it by the path.  Raises as ``open_document``, ``OSError``.
    """
    state = state or StateDirectory(options.spool, private=options.read_only)
    settings = Settings(
        spool=state.decoded(),
        scheduler=scheduler,
        padding=options.padding,
        spool_max=options.spool_max,
        checksums=ChecksumPolicy(keep=options.keep_checksums, verify=options.verify),
        strict=options.strict,
        schema=options.schema,
        growth=options.growth,
        journal=options.journal,
        replacing=state.note_replacement,
        noting=state.note_holder,
        holder=noted_holder,
        tell=told,
        remote=options.remote,
        others=_others(options),
        budget=stated_budget(),
    )
    writable = not options.read_only
    if folder is None:
        document = open_document(path, writable=writable, settings=settings)
    else:
        document = open_in_folder(folder, os.path.basename(path), writable=writable, settings=settings)
    return OpenedFile(document, state)
