"""Prints values of a tree: as an outline, or as YAML without tags."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import yaml

from asdffs.cli.printing import say
from asdffs.printable import printable
from asdffs.tree.lookups import is_array, short
from asdffs.tree.values import ValueNode


def print_outline(node: ValueNode) -> None:
    """Print one line for each value below ``node``, with colours on a terminal.  Raises ``InvalidTreeError``."""
    node.check_aliases()
    lines = _outline(node, 0)
    if not sys.stdout.isatty():
        say(*("  " * depth + f"{name}: {value}".rstrip() for depth, name, value in lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for depth, name, value in lines:
        row = Text("  " * depth).append(printable(name, terminal=True), "bold").append(": ")
        console.print(row.append(printable(value, terminal=True), "cyan"), soft_wrap=True)


def _outline(node: ValueNode, depth: int) -> Iterator[tuple[int, str, str]]:
    """Yield depth, key and value of each line."""
    if not isinstance(node.value, (dict, list)):
        yield depth, ".", short(node)
        return
    pairs = node.value.items() if isinstance(node.value, dict) else enumerate(node.value)
    for name, item in pairs:
        nested = isinstance(item.value, (dict, list)) and bool(item.value) and not is_array(item)
        scalars = isinstance(item.value, list) and not any(isinstance(one.value, (dict, list)) for one in item.value)
        shown = f"[{', '.join(one.text for one in item.value)}]" if nested and scalars else short(item)
        key = f"[{name}]" if isinstance(name, int) else name
        yield depth, key, "" if nested and not scalars else shown
        if nested and not scalars:
            yield from _outline(item, depth + 1)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def as_yaml(value: Any, *, block: bool = False) -> str:
    """Return the YAML text of a plain value, without the line end behind it.

    ``block``: everything in block style; else collections of scalars are in flow style, on one line.
    """
    style = False if block else None
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=style)
    return text.removesuffix("\n").removesuffix("\n...")
