"""``.asdffs/``: the state of the mount, read-only.

``status.json`` (document, draft, warnings, serving process), ``error`` (the last refusal), ``committed.yaml`` (the
tree in the file), ``arrays.json`` (arrays that are not shown), ``rejected/`` (drafts that were refused), ``history/``
(trees that were committed).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator

from asdffs.document.arrays.index import find_unshown
from asdffs.document.document import Document
from asdffs.views.base import Options, ReadOnlyDirectory, ViewDirectory, ViewFile
from asdffs.views.tree_yaml import CommittedTree


class Rendered(ViewFile):
    """A file whose content is made when it is looked at."""

    def render(self) -> bytes:
        """Return the content now."""
        raise NotImplementedError

    def size(self) -> int:
        """Size of the content now."""
        return len(self.render())

    def read(self, offset: int, length: int) -> bytes:
        """The content now."""
        return self.render()[offset : offset + length]

    def snapshot(self) -> bytes:
        """The content now: a reader sees one state, not some of two."""
        return self.render()

    def subjects(self) -> None:
        """It may change at any time."""

    def version(self) -> int:
        """A checksum of the content."""
        return zlib.crc32(self.render())


class StatusFile(Rendered):
    """``status.json``."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def render(self) -> bytes:
        """One JSON object; docs/semantics.md lists its keys."""
        document, report = self._document, self._document.report
        status = {
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
            "warnings": report.warnings,
            "failures": report.failures,
            "recovery": report.recovery,
            **report.mount,
        }
        requests = document.requests()
        if requests is not None:
            status["remote"] = requests
        return json.dumps(status, indent=2).encode() + b"\n"


class ErrorFile(Rendered):
    """``error``."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def render(self) -> bytes:
        """The sentence of the last refusal, or nothing."""
        error = self._document.report.error
        return os.fsencode(f"{error}\n") if error else b""


class UnshownArrays(Rendered):
    """``arrays.json``: the objects with an array that ``arrays/`` does not show, and why."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._known: tuple[object, bytes] | None = None

    def render(self) -> bytes:
        """A JSON array; docs/semantics.md lists the keys of its objects."""
        document = self._document
        key = document.generation, document.tree.version
        if self._known is None or self._known[0] != key:
            unshown = [one.facts() for one in find_unshown(document)]
            self._known = key, json.dumps(unshown, indent=2).encode() + b"\n"
        return self._known[1]


class _KeptFile(ViewFile):
    """A text in the state directory."""

    def __init__(self, path: str) -> None:
        self._path = path

    def size(self) -> int:
        return os.stat(self._path).st_size

    def read(self, offset: int, length: int) -> bytes:
        with open(self._path, "rb") as file:
            return os.pread(file.fileno(), length, offset)


class _KeptFiles(ReadOnlyDirectory):
    """``rejected/`` and ``history/``: texts that lie elsewhere, by absolute path."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def names(self) -> Iterator[str]:
        return map(os.path.basename, self._paths)

    def directories(self) -> int:
        return 0

    def child(self, name: str) -> ViewFile | ViewDirectory:
        return {os.path.basename(path): _KeptFile(path) for path in self._paths}[name]


class Status(ReadOnlyDirectory):
    """See ``View``."""

    directory = ".asdffs"

    def __init__(self, document: Document, options: Options | None = None) -> None:
        self._children: dict[str, ViewFile | ViewDirectory] = {
            "status.json": StatusFile(document),
            "error": ErrorFile(document),
            "committed.yaml": CommittedTree(document),
            "arrays.json": UnshownArrays(document),
            "rejected": _KeptFiles(document.report.rejected),
            "history": _KeptFiles(document.report.history),
        }

    def names(self) -> Iterator[str]:
        """Its entries."""
        return iter(self._children)

    def directories(self) -> int:
        """``rejected`` and ``history``."""
        return 2

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """The entry of that name.  Raises ``KeyError``."""
        return self._children[name]


PLUGIN = Status
