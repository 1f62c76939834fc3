"""Computes how much the aliases of a tree stand for, without following them one by one.

Whoever walks over all values, or copies them, meets a shared node once for each alias that leads to it: ten lines may
mean 10^20 values.  Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from asdffs.limits import DEPTH
from asdffs.tree.syntax import nested_too_deep
from asdffs.tree.tape import ALIAS, Tape

#: Bytes of memory that a value takes, without its text.
_VALUE: Final = 200
_NESTED: Final = re.compile(rb"[\x02-\x06]")


def size_of_aliases(tape: Tape, row: int) -> int:
    """Return the bytes of the values that the aliases in a row stand for.

    Raises ``InvalidTreeError`` if these nest too deep.
    """
    _check_depth(tape, tape.next[row])
    sizes = [0]  # of all aliases before each
    for number, target in enumerate(tape.targets):
        alias = tape.aliases[number]
        if alias >= tape.next[row]:
            break
        if tape.is_inside(alias, target):
            raise nested_too_deep(tape.line(alias))
        sizes.append(sizes[-1] + _written(tape, target) + _between(tape, sizes, target, tape.next[target]))
    return _between(tape, sizes, row, tape.next[row])


def _between(tape: Tape, sizes: list[int], first: int, behind: int) -> int:
    """Return the bytes that the aliases from row ``first`` to ``behind`` stand for."""
    return sizes[bisect_left(tape.aliases, behind)] - sizes[bisect_left(tape.aliases, first)]


def _written(tape: Tape, row: int) -> int:
    return _VALUE * (tape.next[row] - row) + tape.end[row] - tape.start[row]


def _check_depth(tape: Tape, behind: int) -> None:
    """Raise ``InvalidTreeError`` if the rows before ``behind``, with what aliases stand for, nest too deep."""
    deepest: dict[int, int] = {}  # levels in each node that has an anchor
    around: list[int] = []
    for found in _NESTED.finditer(bytes(tape.kind[:behind])):
        row = found.start()
        while around and tape.next[around[-1]] <= row:
            around.pop()
        if tape.kind[row] != ALIAS:
            around.append(row)
        reach = len(around) + (deepest.get(tape.target(row), 0) if tape.kind[row] == ALIAS else 0)
        if reach > DEPTH:
            raise nested_too_deep(tape.line(row))
        for depth, above in enumerate(around):
            if above in tape.anchors:
                deepest[above] = max(deepest.get(above, 0), reach - depth)
