"""The outline of a tree in parts, so that a large one does not stop the page: children of a value, and a search.

Texts are cut; the page shows them as text, never as HTML.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from asdffs.errors import MissingValueError
from asdffs.tree.key_names import name_of
from asdffs.tree.lookups import Values, find_value, is_array, short, walk
from asdffs.tree.paths import Path, format_path, parse_path
from asdffs.tree.values import ValueNode

#: The most children and matches in one answer, and characters of one value.
MOST: Final = 200
_LONGEST: Final = 300


def children(values: Values, path: str, start: int = 0) -> dict[str, Any]:
    """Return up to ``MOST`` children of the value at ``path`` from number ``start`` on, and how many there are.

    Raises ``MissingValueError``, ``UsageError``, ``InvalidTreeError``.
    """
    steps = parse_path(path)
    node = find_value(values.root(), steps)
    if node is None:
        raise MissingValueError(f"{format_path(steps)}: there is no such value")
    pairs = list(_pairs(node))
    shown = pairs[max(0, start) : max(0, start) + MOST]
    return {"total": len(pairs), "start": start, "children": [_entry((*steps, key), child) for key, child in shown]}


def _pairs(node: ValueNode) -> Iterator[tuple[str | int, ValueNode]]:
    if isinstance(node.value, dict) and not is_array(node):
        yield from node.value.items()
    elif isinstance(node.value, list):
        yield from enumerate(node.value)


def search(values: Values, text: str) -> dict[str, Any]:
    """Return the first ``MOST`` values whose key or text has ``text`` in it, in any case.

    ``more``: whether there are others.
    """
    wanted, found = text.casefold(), list[dict[str, Any]]()
    for path, node in walk(values.root()):
        if path and (wanted in str(path[-1]).casefold() or (_is_scalar(node) and wanted in node.text.casefold())):
            if len(found) == MOST:
                return {"matches": found, "more": True}
            found.append(_entry(path, node))
    return {"matches": found, "more": False}


def _is_scalar(node: ValueNode) -> bool:
    return not isinstance(node.passing_value(), (dict, list))


def _entry(path: Path, node: ValueNode) -> dict[str, Any]:
    """Return what the page shows of one value.  ``array``: the path in ``document.arrays``, of an array."""
    shown = short(node)
    array = is_array(node)
    return {
        "path": format_path(path),
        "key": str(path[-1]),
        "text": shown[:_LONGEST] + ("…" if len(shown) > _LONGEST else ""),
        "line": node.line,
        "open": not array and not _is_scalar(node) and bool(node.value),
        "array": "/".join(map(name_of, path)) if array else None,
    }
