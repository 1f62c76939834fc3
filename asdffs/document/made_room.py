"""Keeps computed elements in memory, as many as there is room for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

#: Bytes of memory for the computed elements of one file.
ROOM: Final = 64 << 20


class MadeRoom:
    """Arrays of numpy by key; those that were not used for the longest time are dropped if there is no room.

    ``room``: bytes of memory.  The newest array stays even if it is larger.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._used = 0
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """Return the array at ``key``; None if there is none any more."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, array: Any) -> None:
        """Keep ``array``, a numpy array, at ``key``."""
        self._drop(key)
        self._kept[key] = array
        self._used += array.nbytes
        while self._used > self._room and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        self._used -= 0 if found is None else found.nbytes
