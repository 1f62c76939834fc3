"""Whether each ``$ref`` of a tree leads somewhere: in it, forward or back, or in another file (section References).

A reference is a mapping with the key ``$ref``, whose URI may have a JSON Pointer as its fragment (RFC 6901); one that
leads to another reference, or through one, is followed on.  Reads other files, changes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError
from asdffs.tree.branch import pointer_keys
from asdffs.tree.uris import resolve
from asdffs.tree.values import ValueNode, read_values

_KEY: Final = "$ref"
#: A reference to a reference to ... is followed this far.
_FARTHEST: Final = 20
_SHOWN: Final = 200


class _UnresolvedError(Exception):
    """Why a reference leads nowhere, as a sentence; ``remote``: it is not on this machine."""

    def __init__(self, sentence: str, *, remote: bool = False) -> None:
        super().__init__(sentence)
        self.remote = remote


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A ``$ref`` that leads nowhere: its URI, its ``line``, and why; ``remote``: it is not on this machine."""

    reference: str
    line: int
    trouble: str
    remote: bool


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree and the file that it is in."""

    path: str
    root: ValueNode


def find_unresolved(document: Document) -> Iterator[Unresolved]:
    """All references of the tree that lead nowhere, in the order of the text.  Raises ``InvalidTreeError``."""
    text = document.tree.text()
    if _KEY.encode() not in text and b"\\" not in text:  # nor written with escapes
        return
    tree = _Tree(document.path, read_values(text))
    resolver = _Resolver(tree)
    for node in _references(tree.root):
        reference = str(node.value[_KEY].value)
        try:
            resolver.follow(tree, reference, 0)
        except _UnresolvedError as err:
            yield Unresolved(reference[:_SHOWN], node.line, str(err), err.remote)


def _references(root: ValueNode) -> list[ValueNode]:
    """The mappings that are references, each once."""
    found, rest, seen = [], [root], {id(root)}
    while rest:
        node = rest.pop()
        if _is_reference(node):
            found.append(node)
            continue
        below = node.value.values() if isinstance(node.value, dict) else node.value
        new = [child for child in below if id(child) not in seen] if isinstance(node.value, (dict, list)) else []
        seen.update(map(id, new))
        rest += new
    return sorted(found, key=lambda node: node.line)


def _is_reference(node: ValueNode) -> bool:
    return isinstance(node.value, dict) and _KEY in node.value and isinstance(node.value[_KEY].value, str)


class _Resolver:
    """Follows references; each file is read once."""

    def __init__(self, tree: _Tree) -> None:
        self._trees: dict[str, _Tree | str] = {tree.path: tree}

    def follow(self, tree: _Tree, reference: str, far: int) -> tuple[_Tree, ValueNode]:
        """What ``reference`` in ``tree`` leads to in the end.  Raises ``_UnresolvedError``."""
        if far > _FARTHEST:
            raise _UnresolvedError("it leads in a circle")
        file, _, fragment = reference.partition("#")
        tree = self._tree(tree, file) if file else tree
        node = tree.root
        for key in pointer_keys(fragment):
            tree, node = self._settled(tree, node, far)
            node = _child(node, key, tree)
        return self._settled(tree, node, far)

    def _settled(self, tree: _Tree, node: ValueNode, far: int) -> tuple[_Tree, ValueNode]:
        """What ``node`` means, which may be a reference itself."""
        return self.follow(tree, node.value[_KEY].value, far + 1) if _is_reference(node) else (tree, node)

    def _tree(self, base: _Tree, uri: str) -> _Tree:
        path = resolve(uri, base.path)
        if path is None:
            raise _UnresolvedError("it is no file on this machine and is not followed", remote=True)
        if path not in self._trees:
            self._trees[path] = _read(path)
        found = self._trees[path]
        if isinstance(found, str):
            raise _UnresolvedError(found)
        return found


def _read(path: str) -> _Tree | str:
    """The tree of another file, or why there is none."""
    try:
        with closing(open_document(path, writable=False)) as other:
            if not other.layout.has_tree:
                return f"{path} has no tree"
            return _Tree(path, read_values(other.tree.text()))
    except (AsdffsError, OSError) as err:
        return f"it cannot be read: {err}"


def _child(node: ValueNode, key: str, tree: _Tree) -> ValueNode:
    """What is at ``key`` of ``node``; keys that look like numbers may be either.  Raises ``_UnresolvedError``."""
    found: ValueNode | None = None
    if isinstance(node.value, dict):
        found = node.value.get(key, node.value.get(repr(key)))
    elif isinstance(node.value, list) and key.isdecimal() and len(key) < 20:
        found = node.value[int(key)] if int(key) < len(node.value) else None
    if found is None:
        raise _UnresolvedError(f"there is no {key[:_SHOWN]!r} in {tree.path}")
    return found
