"""A file that is open for a mount, with its places in the state directory."""

from __future__ import annotations

import logging
import os

from asdffs.cli.identity import leave, note_replacement
from asdffs.cli.past import tell_the_past
from asdffs.cli.places import Held, clear, places_at, private_places
from asdffs.cli.remedies import told
from asdffs.document.blocks.contents import ChecksumPolicy
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document, open_in_folder
from asdffs.document.saves.places import Places
from asdffs.mount.options import MountOptions
from asdffs.scheduling import Scheduler
from asdffs.storage.file_backend import FileFolder

logger = logging.getLogger(__name__)


class OpenedFile:
    """An open file.  ``private``: its places are only for this mount, because nothing is written.

    ``in_archive``: the state directory goes when the file is closed, unless something in it is worth keeping.
    """

    def __init__(self, document: Document, places: Places, *, private: bool, in_archive: bool = False) -> None:
        self.document = document
        self.places = places
        self._private = private
        self._in_archive = in_archive
        self._held = Held(places)  # the spool belongs to whoever holds the lock

    def keep_the_past(self) -> None:
        """Keep beside the file what earlier mounts left, and log it.  Raises as ``tell_the_past``."""
        if not self._private:
            for sentence in tell_the_past(self.document, self.places).sentences:
                logger.warning("%s: %s", self.document.path, sentence)

    def release(self) -> None:
        """Record that no work of the user is left in the places: it is in the file, or was kept beside it."""
        self._held.release()

    def close(self) -> None:
        """Empty the places if all of it was released, and close the file."""
        self._held.close()
        if self._in_archive and not self._private:
            leave(self.document.path)
        self.document.close()  # last: it gives the lock away, and with it the spool
        if self._private:
            clear(self.places)


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
    places: Places | None = None,
    folder: FileFolder | None = None,
) -> OpenedFile:
    """Open the file at ``path``, absolute or a URL, for a mount.

    ``places``: None for a file of an archive, which makes its own.  ``folder``: the directory of the file, whatever
    its path leads to meanwhile; None to find it by the path.  Raises as ``open_document``, ``OSError``.
    """
    in_archive = places is None
    if places is None:
        places = private_places(options.spool) if options.read_only else places_at(path, options.spool)
    settings = Settings(
        spool=places.spool,
        scheduler=scheduler,
        padding=options.padding,
        spool_max=options.spool_max,
        checksums=ChecksumPolicy(keep=options.keep_checksums, verify=options.verify),
        strict=options.strict,
        schema=options.schema,
        growth=options.growth,
        journal=options.journal,
        replacing=lambda new: note_replacement(path, new),
        tell=told,
        remote=options.remote,
        others=_others(options),
    )
    try:
        writable = not options.read_only
        if folder is None:
            document = open_document(path, writable=writable, settings=settings)
        else:
            document = open_in_folder(folder, os.path.basename(path), writable=writable, settings=settings)
    except BaseException:
        if options.read_only:
            clear(places)
        raise
    return OpenedFile(document, places, private=options.read_only, in_archive=in_archive)
