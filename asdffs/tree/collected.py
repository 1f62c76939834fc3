"""What a pass over the events of a tree collects: its results, and the collections whose end was not read yet.

See ``events``, which fills these.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from asdffs.tree.paths import Path

if TYPE_CHECKING:
    from asdffs.tree.key_table import KeyTable


class Found(NamedTuple):
    """A collection with a wanted tag.

    ``path``: keys and numbers from the root.  ``value``: its content as dict, list, str and int; None for the value
    of a key in ``skip``.  ``line``: from 1, in the text.
    """

    path: Path
    tag: str
    value: Any
    line: int


class Entries(NamedTuple):
    """The entries of a mapping: the offset of each key and of the end in bytes, and the hash of each key."""

    offsets: array[int]
    hashes: array[int]


class Noted(NamedTuple):
    """The mapping whose entries are noted so far: its number in ``Reading.mappings``, and the hashes of its keys.

    ``worth``: characters that need not be read again when one of the entries changes, about.
    """

    number: int
    hashes: array[int]
    worth: float


class Reading(NamedTuple):
    """The collections found in a tree.

    ``indirect``: whether one of them contains an alias or a merge key.  Its value is None there; the outline
    (``outline``) resolves it.  ``mappings``: for each large mapping near the root that is no array and has no anchor,
    the offsets of its keys and of its end in bytes; ``entries``: the entries of one of these, without which most of
    the tree is left out, or of the tree itself.  Without comparing keys (``unique``), there are none of both.
    """

    found: list[Found]
    indirect: bool
    mappings: Sequence[Sequence[int]]
    entries: Entries | None = None


class Frame:
    """A collection whose end was not read yet.

    ``value``: its content, None if it is not collected.  ``kind``: decides where an alias to it is allowed;
    ``mapping``, ``mappings`` (a sequence of mappings only) or ``sequence``.  ``plain``: any child is allowed next,
    and is not collected.  ``keys``: its keys so far, with the offset of each in characters.
    ``merge``: the next child is the value of a merge key.
    """

    __slots__ = (
        "anchor",
        "count",
        "found",
        "key",
        "keys",
        "kind",
        "line",
        "mapping",
        "merge",
        "plain",
        "tag",
        "value",
    )

    def __init__(self, kind: str) -> None:
        self.mapping = kind == "mapping"
        self.kind = kind
        self.plain = True
        self.key: str | None = None
        self.keys: dict[object, int] | KeyTable | None = None
        self.count = 0
        self.anchor: str | None = None
        self.found = False
        self.value: Any = None
        self.merge = False
        self.tag: str | None = None
        self.line = 0

    @property
    def wants_key(self) -> bool:
        """Whether the next node is a key."""
        return self.mapping and self.key is None

    def step(self) -> str | int:
        """Return the path component of the current child."""
        return self.key or "" if self.mapping else self.count
