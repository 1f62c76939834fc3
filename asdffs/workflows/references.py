"""Finds what a tree has in other files, and checks it: arrays whose source is a URI, and references of JSON.

A source that is a URI, relative to its own file, refers to the first block of another file (section Exploded form).
A reference is a mapping with the key ``$ref``.  Its URI may have a JSON Pointer as its fragment (RFC 6901).  If it
leads to another reference, or through one, that one is followed as well.  Other files are read, and none is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from asdffs.arrays.branch import pointer_keys
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import fault_in_block
from asdffs.document.document import Document
from asdffs.document.linked_files import LinkedFiles
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError, NotFollowedError, reason_of
from asdffs.storage.urls import shown_name
from asdffs.tree.values import ValueNode, read_values


class External(NamedTuple):
    """An array with the URI ``source``.

    ``path``: the file that the URI leads to, or its URL without secrets; None if asdffs does not go there, and then
    ``followed`` is False.  ``data_size``: the size in bytes of its first block; None if it cannot be read.
    ``trouble``: a sentence about a problem, or empty.
    """

    array: Ndarray
    source: str
    path: str | None
    data_size: int | None
    trouble: str = ""
    followed: bool = True


def find_externals(document: Document, arrays: Iterable[Ndarray]) -> list[External]:
    """Return the arrays with a URI as source.  Each file is looked at once."""
    seen: dict[str, External] = {}
    return [
        _look(document, array, array.source, seen)
        for array in arrays
        if isinstance(array.source, str) and not _is_inside(document, array.source)
    ]


def _is_inside(document: Document, source: str) -> bool:
    """Return whether a source refers to data of the file that the ASDF file is inside of, whether there or not."""
    try:
        return document.region(source) is not None
    except InvalidArrayError:
        return True


def _look(document: Document, array: Ndarray, source: str, seen: dict[str, External]) -> External:
    if source not in seen:
        seen[source] = _external(document, array, source)
    found = seen[source]._replace(array=array)
    size = found.data_size
    if size is None:
        return found
    fault = fault_in_block(array._replace(source=0), 1, lambda number: size)
    return found._replace(trouble=f"{fault} (block 0 of {found.path})" if fault else "")


def _external(document: Document, array: Ndarray, source: str) -> External:
    """Return what is known of the first block of the file to which ``source`` leads."""
    files = document.linked_files
    try:
        place = files.place(source, document.location)
    except NotFollowedError as err:
        return External(array, source, None, None, f"its source {err.sentence}", followed=False)
    found = External(array, source, shown_name(place), None)
    try:
        with files.visited(place) as other:
            if len(other.table):
                return found._replace(data_size=other.contents.size(0))
        return found._replace(trouble=f"its source {found.path} has no block that can be read")
    except (AsdffsError, OSError) as err:
        return found._replace(trouble=f"its source cannot be read: {reason_of(err)}")


_KEY: Final = "$ref"
#: The most references that may lead through each other: each takes a few nested Python calls.
_FARTHEST: Final = 100
_SHOWN: Final = 200


class _UnresolvedError(Exception):
    """A reference leads to nothing; the text is a sentence about why.  ``followed``: whether asdffs goes there."""

    def __init__(self, sentence: str, *, followed: bool = True) -> None:
        super().__init__(sentence)
        self.followed = followed


class _TooFarError(_UnresolvedError):
    """A reference leads through too many others.  Seen from one of those, it may still lead to something."""


class Unresolved(NamedTuple):
    """A ``$ref`` that leads to nothing.

    ``reference``: its URI; ``line``: its line in the text, from 1; ``trouble``: the reason, as a sentence;
    ``followed``: whether it leads to where asdffs goes.
    """

    reference: str
    line: int
    trouble: str
    followed: bool


class _Tree(NamedTuple):
    """A tree, the path or URL of its file as messages show it, and all of it."""

    path: str
    location: str
    root: ValueNode


_Target = tuple[_Tree, ValueNode]


def find_unresolved(document: Document) -> Iterator[Unresolved]:
    """Yield all references of the tree that lead to nothing, in the order of the text.

    Raises ``InvalidTreeError``.
    """
    text = document.tree.text()
    if _KEY.encode() not in text and b"\\" not in text:  # with a backslash, the key may be written with escapes
        return
    tree = _Tree(document.path, document.location, read_values(text))
    resolver = _Resolver(tree, document.linked_files)
    for node in _references(tree.root):
        reference = str(node.value[_KEY].value)
        try:
            resolver.resolve(tree, node)
        except _UnresolvedError as err:
            yield Unresolved(reference[:_SHOWN], node.line, str(err), err.followed)


def _references(root: ValueNode) -> list[ValueNode]:
    """Return the references below ``root``, each once, in the order of their lines."""
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
    """Follows references.  Each one is followed only once, and each file is read only once."""

    def __init__(self, tree: _Tree, files: LinkedFiles[FileState]) -> None:
        self._files = files
        self._trees: dict[str, _Tree | str] = {tree.location: tree}
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
        try:
            place = self._files.place(uri, base.location)
        except NotFollowedError as err:
            raise _UnresolvedError(err.sentence, followed=False) from err
        if place not in self._trees:
            self._trees[place] = self._read(place)
        found = self._trees[place]
        if isinstance(found, str):
            raise _UnresolvedError(found)
        return found

    def _read(self, place: str) -> _Tree | str:
        """Return the tree of another file, or a sentence that says why it cannot be read."""
        try:
            with self._files.visited(place) as other:
                if not other.layout.has_tree:
                    return f"{other.path} has no tree"
                return _Tree(other.path, other.location, read_values(other.tree.text()))
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
