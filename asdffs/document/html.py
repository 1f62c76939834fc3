"""A document as HTML for notebooks: the outline of its tree, which opens and closes."""

from __future__ import annotations

from typing import Final

from asdffs.document.arrays.html import text
from asdffs.tree.lookups import is_array, short
from asdffs.tree.values import ValueNode

#: The most values that are shown; a notebook keeps every output.
_MOST: Final = 2000
#: A mapping with more values is shown closed, and so are these, which are about the file itself.
_OPEN: Final = 12
_CLOSED: Final = ("asdf_library", "history")
_LONGEST: Final = 200


def document_html(path: str, root: ValueNode) -> str:
    """Return the outline of the tree ``root`` of the file at ``path``.  What is too much is counted."""
    return f"<div><b>{text(path)}</b>{''.join(_Outline().lines(root, 0))}</div>"


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
