"""Opens a file for a command that changes it: locks it, recovers it, prints the reports of earlier mounts."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

from asdffs import interrupts
from asdffs.cli.past import tell_the_past
from asdffs.cli.remedies import told
from asdffs.cli.state_directory import StateDirectory, has_state, noted_holder
from asdffs.document import preloading
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_in_folder
from asdffs.document.scanning import resolve
from asdffs.errors import NotPermittedError
from asdffs.storage.beneath import is_below
from asdffs.storage.file_backend import FileFolder

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
        replacing=state.note_replacement, noting=state.note_holder, holder=noted_holder, tell=told
    )
    if typing:
        preloading.load()
    document = open_in_folder(folder, os.path.basename(real), writable=True, settings=settings)
    try:
        if typing or has_state(real):  # under the lock, which whoever left something has given away
            for sentence in tell_the_past(document, state).sentences:
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
