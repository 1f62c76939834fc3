"""``.asdffs/`` in the root of an archive: the state of the mount, and of the documents that are open.

``status.json`` has the keys that the one of a file has, as far as they have a meaning for a directory, and
``documents``: one object for each open document (docs/catalog.md).  ``error`` has the last refusal.  The caller holds
the main lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from asdffs.features.archive.documents import OpenDocuments
from asdffs.vfs.vfs import Vfs
from asdffs.views.base import RenderedFile, ViewDirectory, ViewFile

#: So many documents are told of: commands read one MiB of ``status.json``.
_MOST: Final = 1000


class _Text(RenderedFile):
    """A file with the text that ``make()`` returns."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def render(self) -> bytes:
        """See ``RenderedFile``."""
        return os.fsencode(self._make())


class ArchiveStatus(ViewDirectory):
    """The directory.  ``facts``: what is known of the mount as a whole; ``more``: and what may change."""

    def __init__(self, documents: OpenDocuments, facts: dict[str, Any], more: Mapping[str, Any]) -> None:
        self._documents = documents
        self._facts = facts
        self._more = more
        self._children: dict[str, ViewFile | ViewDirectory] = {
            "status.json": _Text(self._status),
            "error": _Text(lambda: f"{documents.error}\n" if documents.error else ""),
        }

    def names(self) -> Iterator[str]:
        """See ``ViewDirectory``."""
        return iter(self._children)

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """See ``ViewDirectory``.  Raises ``KeyError``."""
        return self._children[name]

    def _status(self) -> str:
        opened = self._documents.open_now()
        told = opened[-_MOST:]
        outcome = self._documents.outcome
        status = {
            **self._facts,
            **self._more,
            "open": len(opened),
            "error": self._documents.error,
            "progress": [one for vfs in told for one in vfs.document.report.progress.facts()],
            "kept": outcome.kept,
            "failures": outcome.failures,
            "documents": [_facts_of(vfs) for vfs in told],
        }
        return json.dumps(status, indent=2) + "\n"


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
        "warnings": len(report.warnings),
        "failures": report.failures,
        "recovery": report.recovery,
    }
