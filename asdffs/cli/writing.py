"""Opens a file for a command that changes it: locked, recovered, with the reports of earlier mounts."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace

from asdffs import interrupts
from asdffs.cli.identity import note_replacement
from asdffs.cli.past import tell_the_past
from asdffs.cli.places import Held, places_of
from asdffs.cli.remedies import told
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.document.scanning import resolve

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def opened_to_write(
    path: str, command: str, settings: Settings | None = None, *, typing: bool = False
) -> Iterator[tuple[Document, Held]]:
    """The document, and where its command may keep drafts and spool; closed, and these emptied, at the end.

    ``typing``: something may be typed meanwhile, and these are emptied only if the command says ``release``.  Others
    are told that ``command`` holds the file.  Raises as ``open_document``, ``UnfinishedError``, ``OSError``.
    """
    with interrupts.critical():
        yield from _opened(os.path.join(*resolve(path)), command, settings, typing=typing)


def _opened(real: str, command: str, settings: Settings | None, *, typing: bool) -> Iterator[tuple[Document, Held]]:
    places = places_of(real)
    chosen = replace(
        settings or Settings(spool=places.spool), replacing=lambda new: note_replacement(real, new), tell=told
    )
    document = open_document(real, writable=True, settings=chosen)
    held = Held(places)
    try:
        for sentence in tell_the_past(document, places).sentences:
            logger.warning("%s: %s", document.path, sentence)
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
