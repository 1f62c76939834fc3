"""A collection of a tree while its events are read; see ``events``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdffs.tree.key_table import KeyTable


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
