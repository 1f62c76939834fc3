"""Reports of the last mount of a file, and the unsaved edits of a killed one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from asdffs.cli.identity import claim
from asdffs.cli.places import clear, forget_past_spools, make, past_spools, take_report
from asdffs.daf.places import LOG, NEXT
from asdffs.document.document import Document
from asdffs.document.report import told_places
from asdffs.document.saves.keeping import keep_abandoned
from asdffs.document.saves.places import Places
from asdffs.errors import UnfinishedError


class Past(NamedTuple):
    """Results of the last mount.  ``sentences``: for the user.  ``kept``: paths of files saved beside the file."""

    sentences: list[str]
    kept: list[str]


def tell_the_past(document: Document, places: Places) -> Past:
    """Save drafts and scratch of earlier mounts beside the file; return the sentences to print.

    The caller has the lock of the file.  Raises ``UnfinishedError`` if something cannot be saved, ``OSError``.
    """
    kept: list[str] = []
    return Past(list(_told(document, places, kept)), kept)


def _told(document: Document, places: Places, kept: list[str]) -> Iterator[str]:
    yield from claim(document.path)
    make(places)  # a daemon that was finishing may have removed them
    if document.report.recovery:
        yield document.report.recovery
    last = take_report(places.report)
    if last is not None:
        kept += last.kept
        yield from (f"the last mount ended with: {sentence}" for sentence in [*last.failures, *last.violations])
        yield from last.notes
    for spool in past_spools(document.path, places):
        yield from _recovered(document, spool)
        kept += _keep(document, places._replace(spool=spool))
    forget_past_spools(document.path, places)
    if kept:
        yield f"kept from the last mount: {told_places(kept)}"
    make(places)


def _recovered(document: Document, spool: str) -> Iterator[str]:
    if any(os.path.exists(os.path.join(spool, name)) for name in (LOG, NEXT)):
        from asdffs.daf.recovering import recover_store

        yield from recover_store(document, spool)


def _keep(document: Document, places: Places) -> list[str]:
    make(places)
    keeper = keep_abandoned(document, places.spool, places.rejected, document.tree.text(), places.editing)
    if keeper.failures:
        raise UnfinishedError(f"of the last mount, {'; '.join(keeper.failures)}", path=document.path)
    clear(places)
    return keeper.kept
