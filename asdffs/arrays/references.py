"""Resolves the references of a tree: replaces each ``$ref`` by the branch that it refers to.

Implements section References, as far as arrays are concerned.  A reference may point to or through another one,
forward or back.  A reference to another file stays a branch of its own, with ``elsewhere``.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from asdffs.arrays.branch import Branch, walk
from asdffs.errors import InvalidTreeError
from asdffs.limits import REFERENCES

#: The longest chain of references: each takes a few levels of Python's recursion.
_FARTHEST: Final = 100

#: The mapping or sequence that has a reference, its key there, and the reference.
Reference = tuple[Branch, str | int, Branch]


class References:
    """Follows the references below ``root``; each is followed once, even if others lead through it."""

    def __init__(self, root: Branch) -> None:
        self._root = root
        self._settled: dict[int, Branch | None] = {}
        self._following: set[int] = set()
        self._budget = REFERENCES

    def join(self, references: Iterable[Reference]) -> None:
        """Replace each reference by its target.

        A reference without a target, or to a branch that contains it, stays as it is.  Raises ``InvalidTreeError``
        if the search for cycles takes too long.
        """
        found = [(above, key, self._settle(branch)) for above, key, branch in references]
        for above, key, target in found:
            if target is None or self._is_below(above, target):
                continue
            above.add(key, target)
            if target.elsewhere is not None:  # the other file may have arrays
                target.hold()

    def _settle(self, branch: Branch) -> Branch | None:
        """Return the final target of a reference, or ``branch`` itself if it is none; None without a target."""
        if branch.reference is None or branch.elsewhere is not None:
            return branch
        if id(branch) in self._following or len(self._following) >= _FARTHEST:
            return None  # a cycle, or too long a chain
        if id(branch) not in self._settled:
            self._following.add(id(branch))
            self._settled[id(branch)] = self._pointed(branch, branch.reference)
            self._following.remove(id(branch))
        return self._settled[id(branch)]

    def _pointed(self, branch: Branch, reference: str) -> Branch | None:
        file, _, fragment = reference.partition("#")
        if file:
            branch.elsewhere = reference
            return branch
        return walk(self._root, fragment, self._settle) if fragment else None

    def _is_below(self, branch: Branch, other: Branch) -> bool:
        """Return whether ``branch`` is ``other`` or inside it."""
        rest, seen = [branch], {id(branch)}
        while rest:
            now = rest.pop()
            if now is other:
                return True
            self._budget -= 1 + len(now.above)
            if self._budget < 0:
                raise InvalidTreeError(
                    f"references lead to each other without end: at most {REFERENCES:,} steps are made",
                    line=branch.line,
                )
            new = [above for above in now.above if id(above) not in seen]
            seen.update(map(id, new))
            rest += new
        return False
