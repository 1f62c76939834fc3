"""``.asdffs/``: the state of the mount, read-only.

``status.json`` (document, draft, warnings, serving process), ``error`` (the last refusal), ``committed.yaml`` (the
tree in the file), ``arrays.json`` (arrays that are not shown), ``rejected/`` (drafts that were refused), ``history/``
(trees that were committed).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from asdffs.document.arrays.index import find_unshown
from asdffs.document.document import Document
from asdffs.document.report import status_text
from asdffs.storage.backend import Extent
from asdffs.views.base import Options, RenderedFile, View, ViewDirectory, ViewFile


class StatusFile(RenderedFile):
    """``status.json``: the state that ``look()`` returns; docs/semantics.md lists its keys."""

    def __init__(self, look: Callable[[], dict[str, Any]]) -> None:
        self._look = look

    def render(self) -> bytes:
        """Return one JSON object."""
        return status_text(self._look())

    def steady(self) -> bytes:
        """Return all but the counters."""
        return status_text({**self._look(), "counters": {}})


def _facts(document: Document) -> dict[str, Any]:
    """Return the state of a document and of its mount."""
    report = document.report
    status: dict[str, Any] = {
        "file": document.path,
        "writable": document.writable,
        "size": document.layout.size,
        "blocks": len(document.blocks),
        "tree_size": document.tree.size,
        "padding": len(document.layout.padding),
        "index": document.layout.index is not None,
        "growth": document.growth,
        "progress": report.progress.facts(),
        "draft": report.draft,
        "conflict": report.conflict,
        "error": report.error,
        "warnings": report.warnings if report.checked else None,
        "failures": report.failures,
        "recovery": report.recovery,
        "undo": None if document.contents.keeper is None else document.contents.keeper.facts(),
        **report.mount(),
    }
    requests = document.requests()
    if requests is not None:
        status["remote"] = requests
    return status


class ErrorFile(RenderedFile):
    """``error``: the sentence of the last refusal, which ``look()`` returns, or nothing."""

    def __init__(self, look: Callable[[], str]) -> None:
        self._look = look

    def render(self) -> bytes:
        """Return the sentence in a line."""
        error = self._look()
        return os.fsencode(f"{error}\n") if error else b""


class UnshownArrays(RenderedFile):
    """``arrays.json``: the objects with an array that ``arrays/`` does not show, and why."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._known: tuple[object, bytes] | None = None

    def render(self) -> bytes:
        """Return a JSON array; docs/semantics.md lists the keys of its objects."""
        document = self._document
        key = document.generation, document.tree.version
        if self._known is None or self._known[0] != key:
            unshown = [one.facts() for one in find_unshown(document)]
            self._known = key, json.dumps(unshown, indent=2).encode() + b"\n"
        return self._known[1]


class CommittedTree(ViewFile):
    """Header, comments and tree as they are in the file now."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def size(self) -> int:
        """Return the size of the committed text."""
        return self._document.tree.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return a part of the committed text, from the file itself."""
        return self._document.read_text(offset, length)

    def subjects(self) -> None:
        """Return None: there are few readers, so the kernel may ask each time."""

    def version(self) -> int:
        """Return the version of the committed text."""
        return self._document.tree.version


class _KeptFile(ViewFile):
    """A text in the state directory."""

    def __init__(self, path: str) -> None:
        self._path = path

    def size(self) -> int:
        return os.stat(self._path).st_size

    def read(self, offset: int, length: int) -> bytes:
        with open(self._path, "rb") as file:
            return os.pread(file.fileno(), length, offset)


class _KeptFiles(ViewDirectory):
    """``rejected/`` and ``history/``: texts outside of the mount, by absolute path."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def names(self) -> Iterator[str]:
        return map(os.path.basename, self._paths)

    def child(self, name: str) -> ViewFile:
        return {os.path.basename(path): _KeptFile(path) for path in self._paths}[name]


class Status(View):
    """The view ``.asdffs/``."""

    directory = ".asdffs"

    def __init__(self, document: Document, options: Options | None = None) -> None:
        self._children: dict[str, ViewFile | ViewDirectory] = {
            "status.json": StatusFile(lambda: _facts(document)),
            "error": ErrorFile(lambda: document.report.error),
            "committed.yaml": CommittedTree(document),
            "arrays.json": UnshownArrays(document),
            "rejected": _KeptFiles(document.report.rejected),
            "history": _KeptFiles(document.report.history),
        }

    def names(self) -> Iterator[str]:
        """Return the names of the files and directories."""
        return iter(self._children)

    def directories(self) -> int:
        """Return 2: ``rejected`` and ``history``."""
        return 2

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """Return the entry ``name``.  Raises ``KeyError``."""
        return self._children[name]


PLUGIN = Status
