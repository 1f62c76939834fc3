"""Limits the keys that merge keys (``<<``) add: in any library, each copies all keys of its mappings.  Pure."""

from __future__ import annotations

from asdffs.errors import InvalidTreeError
from asdffs.limits import MERGED


class Merges:
    """Counts the keys that the merge keys of one tree add."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int, line: int) -> None:
        """Count ``count`` keys that are merged into the mapping in ``line``.

        Raises ``InvalidTreeError`` beyond the limit.
        """
        self._count += count
        if self._count > MERGED:
            raise InvalidTreeError(f"the merge keys '<<' up to here add more than {MERGED:,} keys", line=line)
