"""Opens a file for a command that changes it: locks it, recovers it, prints the reports of earlier mounts."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

from asdffs import interrupts
from asdffs.cli.identity import has_state, note_replacement
from asdffs.cli.past import tell_the_past
from asdffs.cli.places import Held, places_in, places_of, top_of
from asdffs.cli.remedies import told
from asdffs.document import preloading
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_in_folder
from asdffs.document.saves.places import Places
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
) -> Iterator[tuple[Document, Held]]:
    """Open the document, and the places for its drafts and spool; at the end close it, and empty them.

    ``command``: named to others who find the file locked.  ``typing``: the user may type meanwhile, so the places
    are emptied only if the command calls ``release``.  ``stateless``: the command keeps no drafts and decodes no
    block, so no state directory is made.  ``below``: directories and files, absolute and without symbolic links;
    ``NotPermittedError`` if the file is none of them, and not below one.

    Raises as ``open_document``, ``UnfinishedError``, ``OSError``.
    """
    directory, name = resolve(path)
    folder = FileFolder(directory)
    real = os.path.join(folder.whereabouts() if below else directory, name)
    if below and not any(is_below(real, place) for place in below):
        sentence = f"leads to {real}, which is not in the directory; name the file itself to change it"
        raise NotPermittedError(sentence, path=path)
    places = places_in(top_of(real)) if stateless else places_of(real)
    chosen = settings or Settings(spool=None if stateless else places.spool)
    with interrupts.critical():
        yield from _opened(folder, real, command, chosen, places, typing=typing)


def _opened(
    folder: FileFolder, real: str, command: str, settings: Settings, places: Places, *, typing: bool
) -> Iterator[tuple[Document, Held]]:
    settings = settings._replace(replacing=lambda new: note_replacement(real, new), tell=told)
    if typing:
        preloading.load()
    document = open_in_folder(folder, os.path.basename(real), writable=True, settings=settings)
    held = Held(places)
    try:
        if has_state(real):  # under the lock, which whoever left something has given away
            for sentence in tell_the_past(document, places).sentences:
                logger.warning("%s: %s", document.path, sentence)
        elif document.report.recovery:
            logger.warning("%s: %s", document.path, document.report.recovery)
        document.note_owner({"pid": os.getpid(), "command": command})
        if not typing:
            held.release()
        yield document, held
    finally:
        held.close()
        _close(document)  # last: it gives the lock away, and with it the places


def _close(document: Document) -> None:
    """Close the document; only log a journal that cannot be removed, so that it hides no other error."""
    try:
        document.close()
    except OSError as err:
        logger.warning("%s: %s; 'asdffs recover' removes it", err.filename or document.path, err.strerror)
