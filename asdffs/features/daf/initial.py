"""Creates an empty store, in a new file or in the tree of an existing one.  For one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asdffs.document.document import Document
from asdffs.errors import NameExistsError
from asdffs.features.daf.descriptors import Version
from asdffs.features.daf.nodes import render, version_node
from asdffs.features.daf.packing import HEAD
from asdffs.features.daf.places import DAF, SECTIONS
from asdffs.features.daf.splicing import changed
from asdffs.features.daf.tree_files import carries_store
from asdffs.storage.backend import Backend
from asdffs.tree.values import read_values


def new_store(version: Version) -> Callable[[Backend], None]:
    """Return a function that writes a whole new file with an empty store."""
    text = HEAD.partition("%")[0] + _new_tree(version)
    return lambda store: store.write_at(0, text.encode())


def add_store(document: Document, version: Version) -> None:
    """Add an empty store to the tree of ``document``.

    Raises ``NameExistsError`` if the tree has the key ``daf`` already, ``InvalidTreeError``, and what
    ``Document.commit_tree`` raises.
    """
    text = document.tree.text()
    if not document.layout.has_tree:
        document.commit_tree(text + _new_tree(version).encode())
        return
    root = read_values(text, told_apart=False).value
    if isinstance(root, dict) and DAF in root:
        sentence = "already has a FilesDaf store" if carries_store(document) else f"has another value at {DAF!r}"
        raise NameExistsError(sentence, path=document.path)
    document.commit_tree(changed(text, {}, {DAF: _empty(version)}))


def _new_tree(version: Version) -> str:
    """Return a tree with an empty store, from its directives to its end marker."""
    return "%" + HEAD.partition("%")[2] + "".join(render({DAF: _empty(version)})) + "...\n"


def _empty(version: Version) -> dict[str, Any]:
    return {"version": version_node(version), **{section: {} for section in SECTIONS}}
