"""Limits on what the bytes of somebody else may cost: memory, time, number and length.

``docs/limits.md`` has a row for each constant here: what it bounds, and what happens then; a test compares the two.
What a file really has may be read as a whole.  What it only states, in few bytes, has these limits.  Formats' own
limits, and sizes that only tune asdffs, are where they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from asdffs.errors import InvalidArrayError, Remedy

#: Bytes of memory that one request may take beyond the bytes that the file has for it.
MEMORY: Final = 256 << 20
#: Levels of mappings and sequences in each other.
DEPTH: Final = 240
#: Keys that the merge keys of a tree may add.
MERGED: Final = 500_000
#: Events of YAML that are read again for aliases in the descriptions of arrays.
REPLAYED: Final = 2_000_000
#: Branches that are looked at to find references that lead to themselves.
REFERENCES: Final = 2_000_000
#: Places with arrays to which aliases and references lead, where each needs work.
PLACES: Final = 20_000
#: Values of a file that a catalogue keeps.
INDEXED: Final = 50_000
#: Bytes of the values for which the aliases of a tree may stand, besides those that are written.
ALIASED: Final = 256 << 20
#: Bytes that are read for a look at elements that are not numbers, of which only some are printed.
LOOK: Final = 1 << 20
#: Seconds of the processor that the search for a regular expression in one text may take.
SEARCH: Final = 1.0
#: Filters of a chunk of asdf-zarr.
FILTERS: Final = 16


class Budget(NamedTuple):
    """What one request about a file may take: made where the file is opened, and handed down.

    ``memory``: bytes beyond those that the file has.
    """

    memory: int = MEMORY

    def check(self, needed: int, what: str, there: Callable[[], int] = lambda: 0) -> None:
        """Raise ``InvalidArrayError`` if ``what`` needs too many bytes of memory.

        ``there()`` returns the bytes that the file has for it.
        """
        if needed > self.memory and needed > there():
            raise InvalidArrayError(
                f"{what} would take {shown_size(needed)} of memory, more than {shown_size(self.memory)}",
                remedy=Remedy.MORE_MEMORY,
            )


def shown_size(count: int) -> str:
    """Return a number of bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count = -(-count // 1024)
    return f"{count:,} {unit}" if count < 10**9 else f"more than {10**9:,} {unit}"
