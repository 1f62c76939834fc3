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
from asdffs.errors import AsdffsError, reason_of
from asdffs.tree.branch import pointer_keys
from asdffs.tree.uris import resolve
from asdffs.tree.values import ValueNode, read_values

_KEY: Final = "$ref"
#: How many references may lead through each other: each is a few calls deep in Python.
_FARTHEST: Final = 100
_SHOWN: Final = 200


class _UnresolvedError(Exception):
    """Why a reference leads nowhere, as a sentence; ``remote``: it is not on this machine."""

    def __init__(self, sentence: str, *, remote: bool = False) -> None:
        super().__init__(sentence)
        self.remote = remote


class _TooFarError(_UnresolvedError):
    """The same, because of where one began: each reference on the way may still lead somewhere."""


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


_Target = tuple[_Tree, ValueNode]


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
            resolver.resolve(tree, node)
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
    """Follows references: each once, however many lead through it.  Each file is read once."""

    def __init__(self, tree: _Tree) -> None:
        self._trees: dict[str, _Tree | str] = {tree.path: tree}
        self._settled: dict[int, _Target | _UnresolvedError] = {}
        self._following: set[int] = set()

    def resolve(self, tree: _Tree, node: ValueNode) -> _Target:
        """Return ``node`` of ``tree``, or the final target if it is a reference.

        Raises ``_UnresolvedError``.
        """
        if not _is_reference(node):
            return tree, node
        if id(node) not in self._settled:
            self._settled[id(node)] = self._found(tree, node)
        found = self._settled[id(node)]
        if isinstance(found, _UnresolvedError):
            raise found
        return found

    def _found(self, tree: _Tree, node: ValueNode) -> _Target | _UnresolvedError:
        if id(node) in self._following:
            return _UnresolvedError("it leads in a circle")
        if len(self._following) >= _FARTHEST:
            raise _TooFarError(f"it leads through more than {_FARTHEST} other references")
        self._following.add(id(node))
        try:
            return self._follow(tree, node.value[_KEY].value)
        except _TooFarError:
            raise
        except _UnresolvedError as err:
            return err
        finally:
            self._following.remove(id(node))

    def _follow(self, tree: _Tree, reference: str) -> _Target:
        file, _, fragment = reference.partition("#")
        tree = self._tree(tree, file) if file else tree
        node = tree.root
        for key in pointer_keys(fragment):
            tree, node = self.resolve(tree, node)
            node = _child(node, key, tree)
        return self.resolve(tree, node)

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
        return f"it cannot be read: {reason_of(err)}"


def _child(node: ValueNode, key: str, tree: _Tree) -> ValueNode:
    """Return the child of ``node`` at ``key``, also for a key that looks like a number.

    Raises ``_UnresolvedError``.
    """
    found: ValueNode | None = None
    if isinstance(node.value, dict):
        found = node.value.get(key, node.value.get(repr(key)))
    elif isinstance(node.value, list) and key.isdecimal() and len(key) < 20:
        found = node.value[int(key)] if int(key) < len(node.value) else None
    if found is None:
        raise _UnresolvedError(f"there is no {key[:_SHOWN]!r} in {tree.path}")
    return found
