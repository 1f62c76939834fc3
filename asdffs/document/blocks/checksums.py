"""Checksums of blocks: whether the bytes are those that the header vouches for (section Block header).

The standard's MD5 is of the bytes as they are stored; files exist that have it of the decoded bytes, so either is
right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from asdffs.errors import AbandonedError
from asdffs.format.block_header import BlockHeader
from asdffs.scheduling import CHUNK, Scheduler

Read = Callable[[int, int], bytes]
Step = Callable[[int], object]


def find_fault(header: BlockHeader, stored: Read, decoded: Read, *, scheduler: Scheduler, step: Step) -> str:
    """A sentence when the checksum of a block is wrong, or empty.

    ``stored(offset, length)`` and ``decoded(offset, length)`` give its bytes, with the main
    lock held.  Raises as they do.
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
    return f"its checksum is {header.checksum.hex()} and its bytes have {found.hex()}"


def _sum(read: Read, size: int, scheduler: Scheduler, step: Step) -> bytes:
    digest = hashlib.md5(usedforsecurity=False)
    for place in range(0, size, CHUNK):
        piece = read(place, CHUNK)
        if not piece:
            break
        with scheduler.waiting():
            digest.update(piece)
        if not scheduler.wanted:
            raise AbandonedError("nobody waits for the block any more")
        step(len(piece))
    return digest.digest()


def digest_of(
    read: Callable[[int, int], bytes], size: int, interrupted: Callable[[], bool], step: Callable[[int], object]
) -> bytes | None:
    """Return the MD5 of ``size`` bytes that ``read(offset, length)`` gives; None as soon as it is ``interrupted``.

    ``step(bytes)`` is told how it goes on.  Raises ``OSError``.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for place in range(0, size, CHUNK):
        if interrupted():
            return None
        piece = read(place, min(CHUNK, size - place))
        digest.update(piece)
        step(len(piece))
    return digest.digest()
