"""Packs chunks together of which many places are not in use any more.

A file that changed leaves its place in its chunk, whose columns stay as large as they were.  An archive of which some
files change every day would so become many half-empty chunks, and every query reads all of them.
"""

from __future__ import annotations

from typing import Final

from asdffs.features.catalog.chunks import FILES, WEIGHT
from asdffs.features.catalog.store import Catalog

#: A chunk is packed with others if at most this part of ``FILES`` is in use.
_HALF: Final = 0.5


def compact(catalog: Catalog) -> int:
    """Join chunks that are at most half full, as many as fit into one; return how many were joined.

    One that is left over is packed by itself if at most half of its places are in use.  Each join is one transaction.
    """
    few = [one for one in catalog.use_of_chunks() if one[2] <= FILES * _HALF]
    groups: list[list[int]] = []
    count, heavy = FILES, 0
    for chunk, _, used, weight in few:
        if count + used > FILES or heavy + weight > WEIGHT:
            groups.append([])
            count = heavy = 0
        groups[-1].append(chunk)
        count += used
        heavy += weight
    sparse = {chunk for chunk, places, used, _ in few if used <= places * _HALF}
    wanted = [group for group in groups if len(group) > 1 or sparse.issuperset(group)]
    for group in wanted:
        catalog.join(group)
    catalog.forget_paths()
    return sum(map(len, wanted))
