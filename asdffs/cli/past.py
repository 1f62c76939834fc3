"""Reports of the last mount of a file, and the unsaved edits of a killed one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from asdffs import registry
from asdffs.cli.state_directory import StateDirectory
from asdffs.document.document import Document
from asdffs.document.report import Outcome, told_places
from asdffs.document.saves.history import Places
from asdffs.document.saves.keeping import keep_abandoned
from asdffs.errors import UnfinishedError


class Past(NamedTuple):
    """Results of the last mount.  ``sentences``: for the user.  ``kept``: paths of files saved beside the file."""

    sentences: list[str]
    kept: list[str]


def tell_the_past(document: Document, state: StateDirectory) -> Past:
    """Claim the state directory, and save drafts and scratch of earlier mounts beside the file.

    Return the sentences to print.  The caller has the lock of the file.  Raises ``UnfinishedError`` if something
    cannot be saved, ``OSError``.
    """
    kept: list[str] = []
    return Past(list(_told(document, state, kept)), kept)


def take_report(report: str, *, folder: int | None = None, file: str | None = None) -> Outcome | None:
    """Return what the end of a mount had to say, told once; None without a report, or if it is not about ``file``.

    ``folder``: a descriptor of the directory of ``report``.
    """
    try:
        with open(os.open(report, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)) as opened:
            facts = json.load(opened)
        if file not in (None, facts["file"]):
            return None
        os.unlink(report, dir_fd=folder)
        return Outcome(*(list(facts.get(name, [])) for name in Outcome._fields))
    except (OSError, ValueError, KeyError):
        return None


def _told(document: Document, state: StateDirectory, kept: list[str]) -> Iterator[str]:
    yield from state.claim(document.path, document.descriptor)
    if document.report.recovery:
        yield document.report.recovery
    for places in state.past():
        last = take_report(places.report)
        if last is not None:
            kept += last.kept
            yield from (f"the last mount ended with: {sentence}" for sentence in [*last.failures, *last.violations])
            yield from last.notes
        yield from _recovered(document, places.spool)
        kept += _keep(document, places)
    if kept:
        yield f"kept from the last mount: {told_places(kept)}"
    state.begin()


def _recovered(document: Document, spool: str) -> Iterator[str]:
    if (daf := registry.feature("daf")) is not None:
        yield from daf.recover_store(document, spool)


def _keep(document: Document, places: Places) -> list[str]:
    keeper = keep_abandoned(document, places.spool, places.rejected, document.tree.text(), places.editing)
    if keeper.failures:
        raise UnfinishedError(f"of the last mount, {'; '.join(keeper.failures)}", path=document.path)
    return keeper.kept
