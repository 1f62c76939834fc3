"""Opens a file for a command or a mount that changes it: locks and recovers it, tells what earlier mounts left."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from asdffs import interrupts
from asdffs.cli.reading import stated_budget
from asdffs.cli.results import sentence_of
from asdffs.cli.state_directory import StateDirectory, recover_edits
from asdffs.cli.state_files import has_state, noted_holder
from asdffs.document import preloading
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document, open_in_folder
from asdffs.document.saves.history import Places
from asdffs.document.scanning import resolve
from asdffs.errors import NotPermittedError
from asdffs.scheduling import Scheduler
from asdffs.storage.beneath import is_below
from asdffs.storage.file_backend import FileFolder

if TYPE_CHECKING:  # commands need no FUSE
    from asdffs.mount.options import MountOptions

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def opened_to_write(
    path: str,
    command: str,
    settings: Settings | None = None,
    *,
    typing: bool = False,
    stateless: bool = False,
    below: Sequence[str] = (),
) -> Iterator[tuple[Document, StateDirectory]]:
    """Open the document, and claim its state directory if it has one; at the end close both.

    ``command``: named to others who find the file locked.  ``typing``: the user may type meanwhile, so a state
    directory is made, and emptied only if it calls ``release``.  ``stateless``: the command decodes no block.
    ``below``: directories and files, absolute and without symbolic links; ``NotPermittedError`` if the file is none
    of them, and not below one.

    Raises as ``open_document``, ``UnfinishedError``, ``OSError``.
    """
    directory, name = resolve(path)
    folder = FileFolder(directory)
    real = os.path.join(folder.whereabouts() if below else directory, name)
    if below and not any(is_below(real, place) for place in below):
        sentence = f"leads to {real}, which is not in the directory; name the file itself to change it"
        raise NotPermittedError(sentence, path=path)
    state = StateDirectory()
    chosen = settings or Settings(spool=None if stateless else state.decoded())
    with interrupts.critical():
        yield from _opened(folder, real, command, chosen, state, typing=typing)


def _opened(
    folder: FileFolder, real: str, command: str, settings: Settings, state: StateDirectory, *, typing: bool
) -> Iterator[tuple[Document, StateDirectory]]:
    settings = settings._replace(
        replacing=state.note_replacement, noting=state.note_holder, holder=noted_holder, tell=sentence_of
    )
    if typing:
        preloading.load()
    document = open_in_folder(folder, os.path.basename(real), writable=True, settings=settings)
    try:
        if typing or has_state(real):  # under the lock, which whoever left something has given away
            for sentence in recover_edits(document, state).sentences:
                logger.warning("%s: %s", document.path, sentence)
        elif document.report.recovery:
            logger.warning("%s: %s", document.path, document.report.recovery)
        document.note_owner({"pid": os.getpid(), "command": command})
        if not typing:
            state.release()
        yield document, state
    finally:
        state.close()
        _close(document)  # last: it gives the lock away, and with it the state directory


def _close(document: Document) -> None:
    """Close the document; only log a journal that cannot be removed, so that it hides no other error."""
    try:
        document.close()
    except OSError as err:
        logger.warning("%s: %s; 'asdffs recover' removes it", err.filename or document.path, err.strerror)


class OpenedFile:
    """An open file.  ``state``: claimed by ``recover_edits``, if the file can be written."""

    def __init__(self, document: Document, state: StateDirectory) -> None:
        self.document = document
        self._state = state

    @property
    def places(self) -> Places:
        """The places, once ``recover_edits`` has made them."""
        return self._state.places

    def recover_edits(self) -> None:
        """Keep beside the file what earlier mounts left, and log it.  Raises as ``recover_edits``."""
        if not self.document.writable:
            self._state.begin()
            return
        for sentence in recover_edits(self.document, self._state).sentences:
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
    settings = options.settings._replace(
        spool=state.decoded(),
        scheduler=scheduler,
        replacing=state.note_replacement,
        noting=state.note_holder,
        holder=noted_holder,
        tell=sentence_of,
        others=_others(options),
        budget=stated_budget(),
    )
    writable = not options.read_only
    if folder is None:
        document = open_document(path, writable=writable, settings=settings)
    else:
        document = open_in_folder(folder, os.path.basename(path), writable=writable, settings=settings)
    return OpenedFile(document, state)
