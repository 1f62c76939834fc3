"""Refuses values whose aliases stand for much more than is written.  Pure.

An alias shares its node, so memory for the nodes is proportional to the text.  Whoever walks over all values, or
copies them, meets a shared node once for each alias that leads to it: ten lines may mean 10^20 values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from asdffs.errors import InvalidTreeError
from asdffs.limits import ALIASED, DEPTH, shown_size
from asdffs.tree.syntax import nested_too_deep

#: Bytes of memory that a value takes, without its text.
_VALUE: Final = 200


def check_aliases(root: Any) -> None:
    """Raise ``InvalidTreeError`` if copies of the nodes to which aliases lead would take too much, or nest too deep.

    ``root``: a ``ValueNode`` or a node of PyYAML.
    """
    known: dict[int, tuple[int, int]] = {}  # of a collection: bytes with all copies, and depth; (0, 0): not yet known
    texts: set[int] = set()
    written = 0
    rest = [root]
    while rest:
        node = rest[-1]
        if id(node) not in known:
            known[id(node)] = (0, 0)
            rest += (child for child in _collections(node) if id(child) not in known)
            continue
        rest.pop()
        if known[id(node)] == (0, 0):
            inner = [known[id(child)] for child in _collections(node)]
            depth = 1 + max((depth for _, depth in inner), default=0)
            if (0, 0) in inner or depth > DEPTH:
                raise nested_too_deep(_line(node))
            own, again = _own_sizes(node, texts)
            written += own - again
            known[id(node)] = own + sum(size for size, _ in inner), depth
    aliased = known[id(root)][0] - written
    if aliased > ALIASED:
        raise InvalidTreeError(
            f"its aliases stand for {shown_size(aliased)} of values, and at most {shown_size(ALIASED)} are read",
            line=_line(root),
        )


def _children(node: Any) -> Iterable[Any]:
    value = node.value
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _collections(node: Any) -> list[Any]:
    return [child for child in _children(node) if isinstance(getattr(child, "value", None), (dict, list))]


def _own_sizes(node: Any, texts: set[int]) -> tuple[int, int]:
    """Return the bytes of a node without its collections, and those of them that ``texts`` has already.

    ``texts``: the long texts that were met so far; those of ``node`` are added.
    """
    own = _VALUE * (1 + len(node.value)) if isinstance(node.value, (dict, list)) else _VALUE
    own += sum(map(len, node.value)) if isinstance(node.value, dict) else 0
    again = 0
    for child in _children(node):
        text = getattr(child, "value", None)
        if isinstance(text, str) and len(text) > _VALUE:
            own += len(text)
            again += len(text) if id(child) in texts else 0
            texts.add(id(child))
    return own, again


def _line(node: Any) -> int | None:
    return getattr(node, "line", None) or None
