"""MD5 sums of the bytes of blocks (section Block header)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from asdffs.scheduling import CHUNK

if TYPE_CHECKING:
    import hashlib


def new_digest() -> hashlib._Hash:
    """Return a new MD5 of hashlib."""
    import hashlib  # late: most commands compute no checksum

    return hashlib.md5(usedforsecurity=False)


def digest_of(
    read: Callable[[int, int], bytes], size: int, interrupted: Callable[[], bool], step: Callable[[int], object]
) -> bytes | None:
    """Return the MD5 of ``size`` bytes, or of fewer at the end; None as soon as ``interrupted()`` returns True.

    ``read(offset, length)`` returns bytes.  ``step(bytes)`` is called after each part.  Raises as ``read``.
    """
    digest = new_digest()
    for place in range(0, size, CHUNK):
        if interrupted():
            return None
        piece = read(place, min(CHUNK, size - place))
        if not piece:
            break
        digest.update(piece)
        step(len(piece))
    return digest.digest()
