"""Refuses values whose aliases stand for much more than is written.  Pure.

An alias shares its node, so memory for the nodes is proportional to the text.  Whoever walks over all values, or
copies them, meets a shared node once for each alias that leads to it: ten lines may mean 10^20 values.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from asdffs.errors import InvalidTreeError
from asdffs.limits import ALIASED, DEPTH, shown_size
from asdffs.tree.syntax import nested_too_deep

#: Bytes of memory that a value takes, without its text.
_VALUE: Final = 200


def check_aliases(root: Any) -> None:
    """Raise ``InvalidTreeError`` if copies of the nodes to which aliases lead would take too much, or nest too deep.

    ``root``: a ``ValueNode`` or a node of PyYAML.
    """
    if not getattr(root, "indirect", True):
        return
    sizes: dict[int, tuple[int, int]] = {}  # of a collection: bytes with all copies, and depth
    texts: set[int] = set()
    written, rest, parts = 0, [root], dict[int, _Part]()
    while rest:
        node = rest[-1]
        part = parts.get(id(node))
        if part is None:
            part = parts[id(node)] = _part_of(node, texts)
            written += part.written
            rest += (child for child in part.inner if id(child) not in sizes)
            continue
        rest.pop()
        if id(node) not in sizes:
            found = [sizes.get(id(child)) for child in part.inner]
            depth = 1 + max((one[1] for one in found if one), default=0)
            if None in found or depth > DEPTH:  # None: it is inside itself
                raise nested_too_deep(_line(node))
            sizes[id(node)] = part.size + sum(one[0] for one in found if one), depth
    aliased = sizes[id(root)][0] - written
    if aliased > ALIASED:
        raise InvalidTreeError(
            f"its aliases stand for {shown_size(aliased)} of values, and at most {shown_size(ALIASED)} are read",
            line=_line(root),
        )


class _Part(NamedTuple):
    """A collection without the collections ``inner``.

    ``size``: its bytes; ``written``: those of them that are not of long texts that were met before.
    """

    inner: list[Any]
    size: int
    written: int


def _part_of(node: Any, texts: set[int]) -> _Part:
    """Return a node as a part; its long texts are added to ``texts``."""
    value = getattr(node, "value", None)
    if not isinstance(value, (dict, list)):
        return _Part([], _VALUE, _VALUE)
    inner: list[Any] = []
    size = _VALUE * (1 + len(value)) + (sum(map(len, value)) if isinstance(value, dict) else 0)
    again = 0
    for child in value.values() if isinstance(value, dict) else value:
        content = getattr(child, "value", None)
        if isinstance(content, (dict, list)):
            inner.append(child)
        elif isinstance(content, str) and len(content) > _VALUE:
            size += len(content)
            again += len(content) if id(child) in texts else 0
            texts.add(id(child))
    return _Part(inner, size, size - again)


def _line(node: Any) -> int | None:
    return getattr(node, "line", None) or None
