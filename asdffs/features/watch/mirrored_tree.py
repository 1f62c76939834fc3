"""Converts the tree of a watched directory to that of the ASDF file: sources become block numbers again."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Final

from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.outline import read_outline
from asdffs.arrays.sources import Wanted, checked_sources
from asdffs.arrays.uris import resolve
from asdffs.document.document import Document
from asdffs.errors import (
    AsdffsError,
    InvalidTreeError,
    NotPermittedError,
)
from asdffs.format.scanner import drive, scan_layout
from asdffs.storage.file_backend import FileFolder
from asdffs.tree.paths import Path
from asdffs.workflows.exploded_files import main_name, numbered
from asdffs.workflows.exploding import exploded_sources, moved_source, written_outline

_OWN_BLOCKS: Final = (
    "has blocks of its own; in a watched directory each block is a separate file, "
    "so save it with all_array_storage='external'"
)


class MirroredTree:
    """The tree of an exploded form of ``document`` in ``folder``, with names that begin with ``stem``."""

    def __init__(self, document: Document, folder: FileFolder, stem: str) -> None:
        self._document = document
        self._folder = folder
        self._stem = stem
        self._main = main_name(stem)

    def text(self) -> bytes:
        """Return the tree of the directory with the sources of the ASDF file; empty if the file is missing or empty.

        A tree that cannot be read is returned unchanged; its commit raises the reason.  Raises ``NotPermittedError``
        if the file has blocks, ``InvalidTreeError`` for a source whose block file does not exist yet, ``OSError``.
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
        """Return header, comments and tree; the whole file if no tree is found, or if other bytes follow it.

        Raises ``NotPermittedError`` if the file has blocks, ``OSError``.
        """
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
        """Return the function that gives the source in the ASDF file for a source of the directory.

        If the source is unchanged, this is the text that the ASDF file has.
        """
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
        """Return the number of the block for a source, from the name of its file; None for other files.

        Raises ``InvalidTreeError`` if the ASDF file does not have that block yet.
        """
        path = resolve(array.source, self._folder.path(self._main)) if isinstance(array.source, str) else None
        if path is None or os.path.dirname(path) != self._folder.directory:
            return None
        number = next(iter(numbered([os.path.basename(path)], self._stem)), None)
        if number is not None and number >= len(self._document.blocks):
            raise InvalidTreeError(f"{array.name}: there is no {os.path.basename(path)} yet", line=array.line)
        return number
