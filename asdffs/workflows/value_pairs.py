"""Walks two trees in parallel, and yields the values at the same path of both.  Pure.

With aliases, collections may nest deeper than Python can call functions, and a short text may have any number of
paths.  So there is no recursion, each pair of nodes is visited once, and the number of pairs is limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from asdffs.errors import InvalidTreeError, Remedy
from asdffs.tree.values import ValueNode

#: The most pairs of collections to visit, for each collection of the trees.  Trees of the same form need one.
_MOST_EACH: Final = 8
#: The limit on pairs is never lower than this.
_MOST_AT_LEAST: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The nodes ``a`` and ``b``, at ``key`` of the pair ``above``; one is None if its tree has no such value."""

    above: Pair | None
    key: str | int
    a: ValueNode | None
    b: ValueNode | None

    @property
    def name(self) -> str:
        """The path as a person reads it: ``roman/data/0``; ``/`` for the root."""
        keys: list[str] = []
        pair = self
        while pair.above is not None:
            keys.append(str(pair.key))
            pair = pair.above
        return "/".join(reversed(keys)) or "/"


class Pairs:
    """Yields the pair of the roots, and then the children of each pair passed to ``descend``.

    The order is that of the first tree.  ``path``: the path of the first file, for errors.
    """

    def __init__(self, a: ValueNode, b: ValueNode, path: str) -> None:
        self._path = path
        self._levels: list[Iterator[Pair]] = [iter([Pair(None, "", a, b)])]
        self._seen: set[tuple[int, int]] = set()
        self._nodes: set[int] = set()

    def __iter__(self) -> Iterator[Pair]:
        while self._levels:
            pair = next(self._levels[-1], None)
            if pair is None:
                self._levels.pop()
            else:
                yield pair

    def descend(self, pair: Pair) -> None:
        """Yield the children of ``pair`` next, unless they were yielded already.  Raises ``InvalidTreeError``."""
        a, b = pair.a, pair.b
        if a is None or b is None or not isinstance(a.value, (dict, list)) or (id(a), id(b)) in self._seen:
            return
        self._seen.add((id(a), id(b)))
        self._nodes |= {id(a), id(b)}
        if len(self._seen) > max(_MOST_AT_LEAST, _MOST_EACH * len(self._nodes)):
            sentence = "the aliases of the two trees are too different to compare the trees by value"
            raise InvalidTreeError(sentence, path=self._path, remedy=Remedy.COMPARE_TEXT)
        self._levels.append(Pair(pair, key, _child(a, key), _child(b, key)) for key in _keys(a, b))


def is_same(a: ValueNode | None, b: ValueNode | None) -> bool:
    """Return whether both exist with the same tag and type and, for scalars, value.  NaN equals NaN."""
    if a is None or b is None or a.tag != b.tag or type(a.value) is not type(b.value):
        return False
    x, y = a.value, b.value
    return isinstance(x, (dict, list)) or bool(x == y or (x != x and y != y))


def _keys(a: ValueNode, b: ValueNode) -> Iterable[str | int]:
    """Return the keys or indices of both nodes, those of ``a`` first."""
    if isinstance(a.value, dict):
        return [*a.value, *(key for key in b.value if key not in a.value)]
    return range(max(len(a.value), len(b.value)))


def _child(node: ValueNode, key: str | int) -> ValueNode | None:
    if isinstance(key, str):
        found: ValueNode | None = node.value.get(key)
        return found
    return node.value[key] if key < len(node.value) else None
