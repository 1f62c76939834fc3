"""Branches of a tree: its mappings and sequences, what of them leads to arrays, and how they are joined.

An alias, a merge key and a ``$ref`` to a place in the same tree lead to the one branch that they mean, so branches
may be joined, but have no cycles.  Not changed once the outline is read, but for ``stamp`` and ``listing``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from asdffs.tree.events import Path
from asdffs.tree.ndarrays import Ndarray

#: Digits of the number of an item.
_LONGEST = 20


class Scalar(NamedTuple):
    """A scalar as written; ``plain``: without quotes or a tag, so that it may be a number."""

    text: str
    plain: bool


#: What most branches have of children, and of scalars; never changed.
_NO_CHILDREN: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(slots=True, eq=False, repr=False)
class Branch:
    """A mapping or a sequence.

    ``path``: from the root, where it is first; ``span``: of its text, in characters; ``children``: the mappings
    and sequences in it, by key or number; ``scalars``: short scalars of a mapping. ``array``: of an ndarray;
    ``source``: where its source is written; ``shared``: whether others than sources mean it, by an alias;
    ``inline``: where values that are written in the tree are (its data, or those of a mask); ``nulls``: whether
    some of them are null. ``holds``: whether it is or has an array; ``leads``: or a ``$ref``, or metadata;
    ``elsewhere``: of a ``$ref`` to another file, its URI. ``metadata``: whether it is below a key of that kind;
    what is none of these is left out. ``stamp``: since when an ndarray is what it is (``changes``); ``listing``:
    what a view remembers of it.
    """

    tag: str
    path: Path
    line: int
    span: tuple[int, int] = (0, 0)
    mapping: bool = True
    above: Sequence[Branch] = ()
    children: Mapping[str | int, Branch] = field(default_factory=lambda: _NO_CHILDREN)
    scalars: Mapping[str, Scalar] = field(default_factory=lambda: _NO_CHILDREN)
    array: Ndarray | None = None
    source: tuple[int, int] | None = None
    shared: bool = False
    inline: tuple[int, int] | None = None
    nulls: bool = False
    reference: str | None = None
    elsewhere: str | None = None
    holds: bool = False
    metadata: bool = False
    leads: bool = False
    stamp: int = 0
    listing: Any = None

    @property
    def masked(self) -> bool:
        """Whether an ndarray has a mask that is no array: a value, or nulls among its elements."""
        return "mask" in self.scalars or self.nulls

    def add(self, key: str | int, child: Branch) -> None:
        """``child`` is at ``key`` of this one, maybe among other places."""
        if not isinstance(self.children, dict):
            self.children = {}
        self.children[key] = child
        child.note_above(self)
        if child.holds:
            self.hold()

    def note_above(self, above: Branch) -> None:
        """It is in ``above``, too.  Most are in one place only."""
        if isinstance(self.above, list):
            self.above.append(above)
        else:
            self.above = [*self.above, above] if self.above else (above,)

    def remove(self, key: str | int) -> None:
        """Nothing that leads to an array is at ``key``."""
        if isinstance(self.children, dict):
            self.children.pop(key, None)

    def note_scalar(self, key: str, scalar: Scalar) -> None:
        """``scalar`` is at ``key``."""
        if not isinstance(self.scalars, dict):
            self.scalars = {}
        self.scalars[key] = scalar

    def hold(self) -> None:
        """There is an array in this branch, and so in all that lead to it."""
        rest = [self]
        while rest:
            branch = rest.pop()
            if not branch.holds:
                branch.holds = True
                rest += branch.above


class Outline(NamedTuple):
    """The outline of ``text``, which is empty when nothing of it is needed: no span leads into it.

    ``root``: the whole tree, or None without one; ``arrays``: the branches of all ndarrays, in the order of
    the text; ``prefix``: the directives before the tree, up to and with ``---``.
    """

    text: str
    root: Branch | None
    arrays: tuple[Branch, ...]
    prefix: str = ""

    def pointed(self, fragment: str) -> Branch | None:
        """What a JSON Pointer, the fragment of a URI, points at (RFC 6901); None where no array is."""
        return walk(self.root, fragment, lambda branch: branch) if self.root is not None else None


def walk(root: Branch, fragment: str, resolve: Callable[[Branch], Branch | None]) -> Branch | None:
    """Return what a JSON Pointer points at below ``root``; None where no array is.

    ``resolve`` returns what a branch on the way means, which may be a reference.  What is to be found in another file
    is a new branch that leads there.
    """
    branch, keys = resolve(root), pointer_keys(fragment)
    for number, key in enumerate(keys):
        if branch is None:
            return None
        if branch.elsewhere is not None:
            return _beyond(branch, keys[number:])
        found = branch.children.get(
            key if branch.mapping else int(key) if key.isdecimal() and len(key) < _LONGEST else -1
        )
        branch = None if found is None else resolve(found)
    return branch


def _beyond(branch: Branch, keys: list[str]) -> Branch:
    """A reference to what is at ``keys`` of what ``branch`` leads to."""
    file, _, fragment = str(branch.elsewhere).partition("#")
    more = "/".join(quote(key.replace("~", "~0").replace("/", "~1"), safe="~") for key in keys)
    uri = f"{file}#{fragment.rstrip('/')}/{more}"
    return Branch(branch.tag, branch.path, branch.line, reference=uri, elsewhere=uri, leads=True)


def pointer_keys(fragment: str) -> list[str]:
    """The keys and numbers of a JSON Pointer.  The drafts' examples leave out the first slash, and so does asdf."""
    pointer = unquote(fragment)
    if not pointer:
        return []
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.removeprefix("/").split("/")]
