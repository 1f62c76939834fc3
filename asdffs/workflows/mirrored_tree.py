"""The tree of a directory that is watched, as it would be in the ASDF file: its sources are block numbers again."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Final

from asdffs.document.document import Document
from asdffs.errors import (
    AsdffsError,
    InvalidTreeError,
    NotPermittedError,
)
from asdffs.format.scanner import drive, scan_layout
from asdffs.storage.file_backend import FileFolder
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.outline import read_outline
from asdffs.tree.paths import Path
from asdffs.tree.sources import Wanted, checked_sources
from asdffs.tree.uris import resolve
from asdffs.workflows.exploded_files import main_name, numbered
from asdffs.workflows.exploding import exploded_sources, moved_source, written_outline

_OWN_BLOCKS: Final = (
    "has blocks of its own; in a directory that is watched each is a file of its own: "
    "save it with all_array_storage='external'"
)


class MirroredTree:
    """The tree of the exploded form of ``stem`` in ``folder``, of ``document``."""

    def __init__(self, document: Document, folder: FileFolder, stem: str) -> None:
        self._document = document
        self._folder = folder
        self._stem = stem
        self._main = main_name(stem)

    def text(self) -> bytes:
        """The tree of the directory as it is in the ASDF file; empty while there is none to be carried.

        As it is where it cannot be read: its commit says why.  Raises ``NotPermittedError``, ``OSError``, and
        ``InvalidTreeError`` for a source that is not there yet.
        """
        try:
            raw = self.raw_text()
        except FileNotFoundError:
            return b""
        try:
            outline = read_outline(raw, self._document.dialect)
        except InvalidTreeError:
            return raw
        return checked_sources(outline, self._carried_sources(), self._document.dialect)

    def raw_text(self) -> bytes:
        """Header, comments and tree; all of a file of which nothing else is a tree."""
        with closing(self._folder.open(self._main, writable=False)) as backend:
            size = backend.size()
            whole = backend.read_at(0, size)
            try:
                layout = drive(scan_layout(size, lambda header: self._document.dialect.rules), backend.read_at)
            except AsdffsError:
                return whole
        if layout.first_block is not None:
            raise NotPermittedError(_OWN_BLOCKS)
        return whole if whole[layout.text_end :].strip(b"\0 \r\n") else whole[: layout.text_end]

    def _carried_sources(self) -> Wanted:
        """What sources of the directory are in the ASDF file: as they are written there, where they mean the same."""
        document = self._document
        outline = written_outline(document)
        exploded = exploded_sources(self._stem, len(document.blocks), document.path, self._folder.directory)
        written: dict[Path, tuple[str | None, str]] = {}
        for branch in outline.arrays:
            if branch.array is not None and branch.source is not None:
                start, stop = branch.source
                written[branch.path] = exploded(branch.array), outline.text[start:stop]

        def wanted(array: Ndarray) -> str | None:
            then, text = written.get(array.path, (None, ""))
            if then is not None and then.strip('"') == array.source:
                return text
            number = self._number_of(array)
            here = self._folder.path(self._main)
            return moved_source(array.source, here, os.path.dirname(document.path)) if number is None else str(number)

        return wanted

    def _number_of(self, array: Ndarray) -> int | None:
        """The block that a source means: by the name of its file in the directory."""
        path = resolve(array.source, self._folder.path(self._main)) if isinstance(array.source, str) else None
        if path is None or os.path.dirname(path) != self._folder.directory:
            return None
        number = next(iter(numbered([os.path.basename(path)], self._stem)), None)
        if number is not None and number >= len(self._document.blocks):
            raise InvalidTreeError(f"{array.name}: there is no {os.path.basename(path)} yet", line=array.line)
        return number
