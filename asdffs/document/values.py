"""The values of a document's tree as Python objects, read when they are asked for: ``document.values``.

The text is parsed once for each version of the tree.  Assignments inside ``with document.edit():`` change the text as
``tree/value_edits`` does: only the bytes of the value.  The calls of a program run one at a time (``serialized``).
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, overload

from asdffs.arrays.ndarrays import is_in_pieces
from asdffs.document.arrays.html import text
from asdffs.document.for_programs import ForPrograms, serialized
from asdffs.errors import ReadOnlyError
from asdffs.tree.lookups import NDARRAY, Values, find_value, is_array, plain, short
from asdffs.tree.paths import Path, format_path, name_of
from asdffs.tree.snippets import python_value
from asdffs.tree.tape import Tape
from asdffs.tree.value_edits import set_value, unset_value
from asdffs.tree.values import ValueNode

_OUTSIDE: Final = "values are changed inside 'with document.edit():'"


class Source:
    """The tree of one document, and its arrays: a mapping as ``document.arrays``."""

    def __init__(self, document: ForPrograms, arrays: Mapping[str, Any]) -> None:
        self.document = document
        self.arrays = arrays
        self._root = ValueNode("", {})
        self._version: tuple[int, int] | None = None
        self._text: bytes | None = None

    def root(self) -> ValueNode:
        """Return the root of the tree: that of the staged text, if there is one.  Raises ``InvalidTreeError``."""
        document = self.document
        version, staged = (document.generation, document.tree.version), document.staged_text
        if self._version != version or self._text is not staged:
            self._root = Values(document.tree.text() if staged is None else staged).root()
            self._version, self._text = version, staged
        return self._root

    def set(self, path: Path, value: Any) -> None:
        """Stage the text with another value.  Raises ``ReadOnlyError``, ``TypeError``, ``AsdffsError``."""
        tape = self._editable()
        edit = set_value(tape, path, python_value(value))
        if edit is not None:
            self.document.tree_text = edit.apply(tape.text)

    def unset(self, path: Path) -> None:
        """Stage the text without a value.  Raises ``ReadOnlyError``, ``AsdffsError``."""
        tape = self._editable()
        self.document.tree_text = unset_value(tape, path).apply(tape.text)

    def _editable(self) -> Tape:
        if not self.document.editing:
            raise ReadOnlyError(_OUTSIDE)
        return Tape(self.document.tree_text.encode("utf-8", "surrogateescape"))


class _Part(abc.ABC):
    """A mapping or sequence of the tree, by its path."""

    def __init__(self, source: Source, path: Path) -> None:
        self._source = source
        self._path = path

    @property
    def _file(self) -> ForPrograms:
        """The file, for ``serialized``."""
        return self._source.document

    def _node(self) -> ValueNode:
        """Return the node as it is now.  Raises ``KeyError`` if it is no longer in the tree."""
        found = find_value(self._source.root(), self._path)
        if found is None or type(found.value) is not self._kind:
            raise KeyError(format_path(self._path))
        return found

    _kind: type

    def _shown(self, step: str | int, node: ValueNode) -> Any:
        """Return a child: a scalar, an array of ``document.arrays``, or a part of the tree."""
        path = (*self._path, step)
        if isinstance(node.value, (dict, list)) and (NDARRAY in node.tag or is_in_pieces(node.tag)):
            name = "/".join(map(name_of, path))
            if name in self._source.arrays:
                return self._source.arrays[name]
        if isinstance(node.value, dict):
            return TreeMapping(self._source, path)
        return TreeSequence(self._source, path) if isinstance(node.value, list) else node.value

    @serialized
    def plain(self) -> Any:
        """Return a copy as dicts, lists and scalars, without tags."""
        return plain(self._node())

    def __eq__(self, other: object) -> bool:
        mine = self.plain()
        return bool(mine == (other.plain() if isinstance(other, _Part) else other))

    __hash__ = None  # type: ignore[assignment]  # it may change

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.plain()!r})"


def _name(key: object) -> str:
    """Return the name of a key: as YAML writes it."""
    return {None: "null", True: "true", False: "false"}[key] if key is None or isinstance(key, bool) else str(key)


class TreeMapping(_Part, Mapping[str, Any]):
    """A mapping of the tree: ``document.values["roman"]["meta"]["observer"]``.

    Keys are text.  A value is a str, int, float, bool, None or date, an ``Array`` for an ndarray, a ``TreeMapping``
    or ``TreeSequence``.  Raises ``KeyError`` for a missing key, ``InvalidTreeError`` if the tree cannot be parsed.

    Inside ``with document.edit():`` values can be assigned and deleted.  An assigned value is of these types (no
    array), or a dict or list of them.  Raises ``ReadOnlyError`` outside of it, ``SharedValueError`` if aliases share
    the value, and ``TypeError`` for other types.
    """

    _kind = dict

    @serialized
    def __getitem__(self, key: str | int) -> Any:
        found = self._node().value.get(_name(key))
        if found is None:
            path = format_path((*self._path, _name(key)))
            raise KeyError(f"{path}: there is no such value in {self._source.document.path}")
        return self._shown(_name(key), found)

    @serialized
    def __iter__(self) -> Iterator[str]:
        return iter(list(self._node().value))

    @serialized
    def __len__(self) -> int:
        return len(self._node().value)

    @serialized
    def __setitem__(self, key: str | int, value: Any) -> None:
        self._source.set((*self._path, _name(key)), value)

    @serialized
    def __delitem__(self, key: str | int) -> None:
        if _name(key) not in self._node().value:
            raise KeyError(key)
        self._source.unset((*self._path, _name(key)))


class TreeSequence(_Part, Sequence[Any]):
    """A sequence of the tree, as ``TreeMapping``; ``append`` adds an item inside ``with document.edit():``."""

    _kind = list

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> list[Any]: ...
    @serialized
    def __getitem__(self, number: int | slice) -> Any:
        items = self._node().value
        if isinstance(number, slice):
            return [self._shown(index, items[index]) for index in range(*number.indices(len(items)))]
        return self._shown(range(len(items))[number], items[number])

    @serialized
    def __len__(self) -> int:
        return len(self._node().value)

    @serialized
    def __setitem__(self, number: int, value: Any) -> None:
        self._source.set((*self._path, range(len(self._node().value))[number]), value)

    @serialized
    def __delitem__(self, number: int) -> None:
        self._source.unset((*self._path, range(len(self._node().value))[number]))

    @serialized
    def append(self, value: Any) -> None:
        """Add an item at the end.  Raises as an assignment."""
        self._source.set((*self._path, len(self._node().value)), value)


#: The most values that are shown; a notebook keeps every output.
_MOST: Final = 2000
#: A mapping with more values is shown closed, and so are these, which are about the file itself.
_OPEN: Final = 12
_CLOSED: Final = ("asdf_library", "history")
_LONGEST: Final = 200


def document_html(path: str, root: ValueNode, picture: str = "") -> str:
    """Return the outline of the tree ``root`` of the file at ``path``, beside ``picture``, which is HTML.

    What is too much is counted.
    """
    outline = f"<div><b>{text(path)}</b>{''.join(_Outline().lines(root, 0))}</div>"
    if not picture:
        return outline
    return f'<div style="display:flex;gap:1em;flex-wrap:wrap">{outline}<div>{picture}</div></div>'


class _Outline:
    """Writes values until there are ``_MOST``."""

    def __init__(self) -> None:
        self._left = _MOST

    def lines(self, node: ValueNode, depth: int) -> list[str]:
        """Return the values of a mapping or a sequence, or a scalar."""
        if is_array(node) or not isinstance(node.value, (dict, list)):
            return [_value(node)]
        pairs = list(node.value.items() if isinstance(node.value, dict) else enumerate(node.value))
        found = ['<ul style="list-style:none;margin:0;padding-left:1.2em">']
        for number, (key, child) in enumerate(pairs):
            if self._left <= 0:
                found.append(f"<li>… and {len(pairs) - number} more</li>")
                break
            self._left -= 1
            found += ["<li>", *self._entry(str(key), child, depth), "</li>"]
        return [*found, "</ul>"]

    def _entry(self, key: str, child: ValueNode, depth: int) -> list[str]:
        name = f"<b>{text(key)}</b>: "
        if is_array(child) or not child.value or not isinstance(child.value, (dict, list)):
            return [name, _value(child)]
        state = " open" if depth == 0 and len(child.value) <= _OPEN and key not in _CLOSED else ""
        head = f"<details{state}><summary>{name}{_value(child)}</summary>"
        return [head, *self.lines(child, depth + 1), "</details>"]


def _value(node: ValueNode) -> str:
    shown = short(node)
    return text(shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…")
