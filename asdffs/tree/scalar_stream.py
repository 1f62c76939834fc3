"""The scalars of an ordinary tree, in one pass over the events of the parser (``scalars``).

Building nodes first takes twice as long.  Some trees need nodes, and raise ``UnusualTreeError``: those with anchors,
aliases or merge keys, with keys that occur twice or are not text, and very deep or large ones.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError
from asdffs.format.header import as_yaml
from asdffs.limits import DEPTH, INDEXED
from asdffs.tree.paths import Path
from asdffs.tree.scalar_nodes import LONGEST_LIST, LONGEST_TEXT, Scalars, array_of, step_of
from asdffs.tree.syntax import syntax_error
from asdffs.tree.values import reader_of, scalar_value

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Scalar: Final = yaml.ScalarEvent
_Mapping: Final = yaml.MappingStartEvent
_Sequence: Final = yaml.SequenceStartEvent
_MappingEnd: Final = yaml.MappingEndEvent
_SequenceEnd: Final = yaml.SequenceEndEvent


class UnusualTreeError(Exception):
    """This tree must be read by ``scalar_nodes``."""


def scalars_in_order(text: bytes, dialect: Dialect) -> Scalars:
    """Return the scalars and arrays of a text of header, comments and tree.

    Raises ``UnusualTreeError``, ``InvalidTreeError``.
    """
    try:
        loader = _Loader(as_yaml(text.decode()))
    except UnicodeDecodeError as err:
        raise InvalidTreeError("the tree is not UTF-8", line=text.count(b"\n", 0, err.start) + 1) from err
    except yaml.YAMLError as err:
        raise syntax_error(err) from err
    try:
        return _Pass(loader.get_event, dialect).read()
    except yaml.YAMLError as err:
        raise syntax_error(err) from err
    finally:
        loader.dispose()


class _Pass:
    """One pass.  ``next_event()`` returns the next event of the parser."""

    def __init__(self, next_event: Callable[[], Any], dialect: Dialect) -> None:
        self._next = next_event
        self._dialect = dialect
        self._left = INDEXED
        self._found = Scalars({}, [], [], [], [])

    def read(self) -> Scalars:
        """Read the first document."""
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.NodeEvent):
                self._visit(event, "", ())
                break
        while not isinstance(self._next(), yaml.DocumentEndEvent | yaml.StreamEndEvent):
            raise UnusualTreeError
        return self._found

    def _visit(self, event: Any, name: str, path: Path) -> None:
        """Add the node that begins with ``event``.  ``path``: its place; ``name``: the same in writing."""
        self._left -= 1
        if self._left <= 0 or event.anchor or len(path) > DEPTH:
            raise UnusualTreeError
        kind = type(event)
        if kind is _Scalar:
            self._add(event, name)
        elif kind is _Mapping:
            self._visit_mapping(event, name, path)
        elif kind is _Sequence:
            self._visit_list(name, path)
        else:
            raise UnusualTreeError

    def _add(self, event: Any, name: str) -> None:
        """Add a scalar.  One without a name is the root, and no tree."""
        value = scalar_value(event)
        if type(value) is str and len(value) > LONGEST_TEXT:
            self._found.left_out.append(name)
        elif name:
            self._found.values[name] = value

    def _visit_mapping(self, event: Any, name: str, path: Path) -> None:
        if event.tag and self._dialect.is_ndarray(event.tag):
            self._add_array(event, name, path)
            return
        following, seen = self._next, set[str]()
        while type(key := following()) is not _MappingEnd:
            text = key.value if type(key) is _Scalar and not key.anchor else ""
            if not text or text in seen or (text == "<<" and key.implicit[0]):
                raise UnusualTreeError
            seen.add(text)
            step = step_of(text)
            self._visit(following(), f"{name}.{step}" if name else step, (*path, text))
        if name:
            (self._found.full if seen else self._found.empty).append(name)

    def _visit_list(self, name: str, path: Path) -> None:
        marks = [*map(len, self._found)]
        left, number = self._left, 0
        while type(event := self._next()) is not _SequenceEnd:
            if number == LONGEST_LIST:
                self._skip(event)
                self._forget(marks)
                self._left = left
                self._found.left_out.append(name)
                return
            self._visit(event, f"{name}[{number}]", (*path, number))
            number += 1
        if name:
            (self._found.full if number else self._found.empty).append(name)

    def _skip(self, event: Any) -> None:
        """Read on to the end of the list whose item begins with ``event``."""
        depth = 1
        while True:
            if isinstance(event, yaml.NodeEvent) and event.anchor:
                raise UnusualTreeError
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if not depth:
                return
            event = self._next()

    def _forget(self, marks: list[int]) -> None:
        """Remove what was added since there were so many values, arrays, empty and left out ones."""
        values, *lists = self._found
        while len(values) > marks[0]:
            values.popitem()  # the only mapping
        for found, mark in zip(lists, marks[1:], strict=True):
            del found[mark:]  # type: ignore[attr-defined]  # of a list of lists, of arrays and of names

    def _add_array(self, event: Any, name: str, path: Path) -> None:
        node = reader_of(self._events()).node(event, len(path))
        if node.value:
            self._found.arrays.append(array_of(node, path, self._dialect))
        elif name:
            self._found.empty.append(name)
        else:
            raise UnusualTreeError

    def _events(self) -> Iterator[Any]:
        """Yield the events of one node, and of what follows; none may be an anchor or an alias."""
        while True:
            event = self._next()
            if isinstance(event, yaml.NodeEvent) and event.anchor:
                raise UnusualTreeError
            yield event
