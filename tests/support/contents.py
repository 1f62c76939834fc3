"""What a file holds: the text of its tree, and its blocks, decoded."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from asdffs.document.document import Document
from asdffs.document.opening import open_document


def shown(document: Document) -> tuple[bytes, list[bytes]]:
    blocks = [
        document.blocks[number].read_at(0, document.blocks[number].size) for number in range(len(document.blocks))
    ]
    return document.tree.text(), blocks


def contents(path: Path) -> tuple[bytes, list[bytes]]:
    with closing(open_document(str(path), writable=False)) as document:
        return shown(document)
