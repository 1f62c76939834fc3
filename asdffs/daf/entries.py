"""Looks at nodes of the tree: what a mapping has at a key, what a scalar says.

What is not as it is expected is None, or nothing, where the reader goes on without it.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from asdffs.errors import InvalidStoreError
from asdffs.tree.values import ValueNode

#: How deep, and how long, what describes an ndarray may be.
_DEEPEST: Final = 3
_MOST: Final = 64


def child_of(node: ValueNode | None, name: str) -> ValueNode | None:
    """The value of a key of a mapping; None where there is none."""
    if node is None or not isinstance(node.value, dict):
        return None
    found: ValueNode | None = node.value.get(name)
    return found


def entries_of(node: ValueNode | None) -> Iterator[tuple[str, ValueNode]]:
    """The entries of a mapping."""
    if node is not None and isinstance(node.value, dict):
        yield from node.value.items()


def items_of(node: ValueNode | None) -> list[ValueNode]:
    """The items of a list; of anything else none."""
    return node.value if node is not None and isinstance(node.value, list) else []


def value_of(node: ValueNode | None, name: str) -> Any:
    """What a scalar at a key of a mapping is; None where there is none."""
    child = child_of(node, name)
    return None if child is None else child.value


def text_of(node: ValueNode) -> str:
    """A string; what YAML takes for something else is its text.  Raises ``InvalidStoreError``."""
    if isinstance(node.value, (dict, list)) or node.value is None:
        raise InvalidStoreError("a string is expected")
    return node.text


def plain(node: ValueNode, depth: int = 0) -> Any:
    """Dicts, lists, strings and integers, as far as an ndarray needs them; not what is below ``data``.

    Raises ``InvalidStoreError``.
    """
    if depth > _DEEPEST:
        raise InvalidStoreError("no ndarray is nested so deep")
    if isinstance(node.value, dict):
        return {name: None if name == "data" else plain(child, depth + 1) for name, child in node.value.items()}
    if isinstance(node.value, list):
        if len(node.value) > _MOST:
            raise InvalidStoreError("no ndarray has so many axes")
        return [plain(child, depth + 1) for child in node.value]
    return node.value


def line_of(node: ValueNode) -> str:
    """Where it is, for a sentence."""
    return f", line {node.line}" if node.line else ""
