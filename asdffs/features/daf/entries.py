"""Accessors for nodes of the tree: entries of mappings, items of lists, values of scalars.

A node of an unexpected type gives None or nothing where the reader can go on without it.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from asdffs.errors import InvalidStoreError
from asdffs.tree.values import ValueNode

#: The deepest nesting, and the longest list, in the description of an ndarray.
_DEEPEST: Final = 3
_MOST: Final = 64


def child_of(node: ValueNode | None, name: str) -> ValueNode | None:
    """Return the node at a key of a mapping; None if there is none."""
    if node is None or not isinstance(node.value, dict):
        return None
    found: ValueNode | None = node.value.get(name)
    return found


def entries_of(node: ValueNode | None) -> Iterator[tuple[str, ValueNode]]:
    """Yield the entries of a mapping, nothing for another node."""
    if node is not None and isinstance(node.value, dict):
        yield from node.value.items()


def items_of(node: ValueNode | None) -> list[ValueNode]:
    """Return the items of a list, an empty list for another node."""
    return node.value if node is not None and isinstance(node.value, list) else []


def value_of(node: ValueNode | None, name: str) -> Any:
    """Return the value at a key of a mapping; None if there is none."""
    child = child_of(node, name)
    return None if child is None else child.value


def text_of(node: ValueNode) -> str:
    """Return the text of a scalar, even if YAML reads it as another type than a string.

    Raises ``InvalidStoreError`` for a mapping, a list or null.
    """
    if isinstance(node.value, (dict, list)) or node.value is None:
        raise InvalidStoreError("a string is expected")
    return node.text


def plain(node: ValueNode, depth: int = 0) -> Any:
    """Convert the description of an ndarray to dicts, lists and scalars; the value of ``data`` becomes None.

    Raises ``InvalidStoreError`` if it is nested too deeply or a list is too long.
    """
    if depth > _DEEPEST:
        raise InvalidStoreError("an ndarray is nested too deeply")
    if isinstance(node.value, dict):
        return {name: None if name == "data" else plain(child, depth + 1) for name, child in node.value.items()}
    if isinstance(node.value, list):
        if len(node.value) > _MOST:
            raise InvalidStoreError("an ndarray has too many axes")
        return [plain(child, depth + 1) for child in node.value]
    return node.value


def line_of(node: ValueNode) -> str:
    """Return the line of a node as part of a sentence, empty if it is not known."""
    return f", line {node.line}" if node.line else ""
