"""The scalars of any tree: reads it as a whole, then walks over its nodes (``scalars``).

Pure.  What is kept is limited, whatever the text says: an alias may make a small text very large.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from asdffs.dialects.base import Dialect
from asdffs.limits import INDEXED
from asdffs.tree.collected import Found
from asdffs.tree.lookups import plain
from asdffs.tree.ndarrays import Ndarray, ndarray_of
from asdffs.tree.paths import Path, format_path
from asdffs.tree.values import ValueNode, read_values

#: A list with more items is data, not metadata.
LONGEST_LIST: Final = 100
#: Characters of the longest text.
LONGEST_TEXT: Final = 1 << 16


class Scalars(NamedTuple):
    """``values``: dotted path -> value, as ``format_path`` writes paths.  ``arrays``: the ndarrays.

    ``empty``, ``full``: dotted paths of lists and mappings, without and with content.  ``left_out``: of lists and
    texts that are too long; ``.`` if there are too many scalars.
    """

    values: dict[str, Any]
    arrays: list[Ndarray]
    empty: list[str]
    full: list[str]
    left_out: list[str]


def scalars_of_nodes(text: bytes, dialect: Dialect) -> Scalars:
    """Return the scalars and arrays of a text of header, comments and tree.  Raises ``InvalidTreeError``."""
    found = Scalars({}, [], [], [], [])
    _Walk(found, dialect).visit(read_values(text, told_apart=False), "", ())
    return found


class _Walk:
    """One walk over the nodes of a tree."""

    def __init__(self, found: Scalars, dialect: Dialect) -> None:
        self._values, self._arrays, self._empty, self._full, self._left_out = found
        self._dialect = dialect
        self._left = INDEXED

    def visit(self, node: ValueNode, name: str, path: Path) -> None:
        """Add the scalars and arrays of ``node``.  ``path``: its place; ``name``: the same in writing."""
        value = node.value
        self._left -= 1
        if self._left <= 0:
            if not self._left:
                self._left_out.append(".")
        elif value in ({}, []) and name:
            self._empty.append(name)
        elif isinstance(value, dict):
            if node.tag and self._dialect.is_ndarray(node.tag):
                self._add_array(node, path)
                return
            for key, item in value.items():
                step = step_of(key)
                self.visit(item, f"{name}.{step}" if name else step, (*path, key))
            self._full += [name] if name else []
        elif isinstance(value, list):
            self._visit_list(value, name, path)
        elif isinstance(value, str) and len(value) > LONGEST_TEXT:
            self._left_out.append(name)
        elif name:
            self._values[name] = value

    def _visit_list(self, items: list[ValueNode], name: str, path: Path) -> None:
        if len(items) > LONGEST_LIST:
            self._left_out.append(name)
            return
        for number, item in enumerate(items):
            self.visit(item, f"{name}[{number}]", (*path, number))
        self._full += [name] if name else []

    def _add_array(self, node: ValueNode, path: Path) -> None:
        self._arrays.append(array_of(node, path, self._dialect))


def array_of(node: ValueNode, path: Path, dialect: Dialect) -> Ndarray:
    """Return the array that ``node`` describes, without its inline elements."""
    value = {key: item for key, item in node.value.items() if key != "data"}
    described = ValueNode(node.tag, value)
    described.indirect = node.indirect
    stated = plain(described)
    if "data" in node.value:
        stated["data"] = None
    return ndarray_of(Found(path, node.tag, stated, node.line), dialect)


@functools.lru_cache(maxsize=1 << 12)
def step_of(key: str) -> str:
    """Return a key as a step of a dotted path."""
    return format_path((key,))
