"""The keys of a large mapping in little memory: about 30 bytes for each, where a dict and its keys take 200.

The table keeps the hash of each key, not the key.  If it does not have the hash of a key, the key is new.  If it has,
the key may be there already, or be another key with the same hash.  Pure.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping


class KeyTable:
    """The keys of a mapping, at first those of ``keys``, in their order.

    ``offsets``: where each begins.  ``hashes``: the hash of each.  ``_slots`` is an open-addressing hash table of the
    numbers of the keys, from 1; 0 is an empty slot.  At least half of the slots are empty.
    """

    __slots__ = ("_mask", "_slots", "hashes", "offsets")

    def __init__(self, keys: Mapping[object, int]) -> None:
        self.offsets = array("Q", keys.values())
        self.hashes = array("q", map(hash, keys))
        self._build()

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, key: object) -> bool:
        """Whether ``key`` may be there: one of the same hash is."""
        return bool(self._slots[self._place(hash(key))])

    def __setitem__(self, key: object, offset: int) -> None:
        """Add ``key``, which begins at ``offset``, also if it may be there."""
        self.offsets.append(offset)
        self.hashes.append(hash(key))
        if 2 * len(self.hashes) > self._mask:
            self._build()
        else:
            self._slots[self._place(self.hashes[-1])] = len(self.hashes)

    def _place(self, wanted: int) -> int:
        """Return the place of the key with this hash; the empty place where it belongs if there is none."""
        slots, hashes, mask = self._slots, self.hashes, self._mask
        # A text can choose numbers of any hash, and make searches long; nobody can foresee the hash of bytes.
        place = hash(b"%d" % wanted) & mask
        while (number := slots[place]) and hashes[number - 1] != wanted:
            place = (place + 1) & mask
        return place

    def _build(self) -> None:
        """Make the table anew, four times as large as the number of keys at most."""
        self._mask = (1 << (2 * len(self.hashes)).bit_length()) - 1
        self._slots = array("I", bytes(4 * (self._mask + 1)))
        for number, wanted in enumerate(self.hashes, 1):
            self._slots[self._place(wanted)] = number
