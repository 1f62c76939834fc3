"""An empty store: in a new file, or beside what the tree of a file has.  One thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asdffs.daf.descriptors import Version
from asdffs.daf.nodes import render, version_node
from asdffs.daf.packing import HEAD
from asdffs.daf.places import DAF, SECTIONS
from asdffs.daf.splicing import changed
from asdffs.daf.tree_files import carries_store
from asdffs.document.document import Document
from asdffs.errors import NameExistsError
from asdffs.storage.backend import Backend
from asdffs.tree.values import read_values


def new_store(version: Version) -> Callable[[Backend], None]:
    """What writes a whole new file."""
    text = HEAD.partition("%")[0] + _new_tree(version)
    return lambda store: store.write_at(0, text.encode())


def add_store(document: Document, version: Version) -> None:
    """Give the tree of ``document`` an empty store.

    Raises ``NameExistsError`` when it has the key, ``InvalidTreeError``, as ``Document.commit_tree``.
    """
    text = document.tree.text()
    if not document.layout.has_tree:
        document.commit_tree(text + _new_tree(version).encode())
        return
    root = read_values(text, told_apart=False).value
    if isinstance(root, dict) and DAF in root:
        sentence = "carries a FilesDaf store already" if carries_store(document) else f"has another thing at {DAF!r}"
        raise NameExistsError(sentence, path=document.path)
    document.commit_tree(changed(text, {}, {DAF: _empty(version)}))


def _new_tree(version: Version) -> str:
    """A tree, from its directives to its end."""
    return "%" + HEAD.partition("%")[2] + "".join(render({DAF: _empty(version)})) + "...\n"


def _empty(version: Version) -> dict[str, Any]:
    return {"version": version_node(version), **{section: {} for section in SECTIONS}}
