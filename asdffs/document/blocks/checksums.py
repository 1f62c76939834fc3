"""Checksums of blocks: compare the bytes with the MD5 in the header (section Block header).

The standard defines the MD5 of the stored bytes.  Some existing files have the MD5 of the decoded bytes, so both are
accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from asdffs.errors import AbandonedError
from asdffs.format.block_header import BlockHeader
from asdffs.scheduling import CHUNK, Scheduler

if TYPE_CHECKING:
    import hashlib

Read = Callable[[int, int], bytes]
Step = Callable[[int], object]


def new_digest() -> hashlib._Hash:
    """Return a new MD5 of hashlib."""
    import hashlib  # late: most commands compute no checksum

    return hashlib.md5(usedforsecurity=False)


def find_fault(header: BlockHeader, stored: Read, decoded: Read, *, scheduler: Scheduler, step: Step) -> str:
    """Return a sentence if the checksum of a block is wrong, otherwise an empty string.

    Streamed blocks and blocks without a checksum are not checked.  ``stored(offset, length)`` and
    ``decoded(offset, length)`` return bytes of the block; both are called with the main lock held.  ``step(bytes)``
    is called after each part.

    Raises as ``stored`` and ``decoded``, and ``AbandonedError`` if the program that asked has ended.
    """
    if header.streamed or not header.verifiable:
        return ""
    found = _sum(stored, header.used_size, scheduler, step)
    if found == header.checksum:
        return ""
    if header.compressed:
        found = _sum(decoded, header.data_size, scheduler, step)
        if found == header.checksum:
            return ""
    return f"its checksum is {header.checksum.hex()}, but its bytes have the checksum {found.hex()}"


def _sum(read: Read, size: int, scheduler: Scheduler, step: Step) -> bytes:
    digest = new_digest()
    for place in range(0, size, CHUNK):
        piece = read(place, CHUNK)
        if not piece:
            break
        with scheduler.waiting():
            digest.update(piece)
        if not scheduler.wanted:
            raise AbandonedError("the program that asked for the block has ended")
        step(len(piece))
    return digest.digest()


def digest_of(
    read: Callable[[int, int], bytes], size: int, interrupted: Callable[[], bool], step: Callable[[int], object]
) -> bytes | None:
    """Return the MD5 of ``size`` bytes; None as soon as ``interrupted()`` returns True.

    ``read(offset, length)`` returns bytes.  ``step(bytes)`` is called after each part.  Raises ``OSError``.
    """
    digest = new_digest()
    for place in range(0, size, CHUNK):
        if interrupted():
            return None
        piece = read(place, min(CHUNK, size - place))
        digest.update(piece)
        step(len(piece))
    return digest.digest()
