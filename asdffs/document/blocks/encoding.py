"""Encodes the content of a block into a payload: what is then written over its old bytes.

Others are served meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from asdffs.codecs.base import Codec, Encoding, Source, pieces
from asdffs.document.progress import Progress
from asdffs.errors import AbandonedError, NotSupportedError
from asdffs.format.constants import NO_COMPRESSION
from asdffs.scheduling import Scheduler
from asdffs.storage.payload import Payload


class Encoded(NamedTuple):
    """``payload`` holds ``size`` bytes of content in ``compression``; ``digest``: MD5 of the stored bytes."""

    payload: Payload
    compression: bytes
    size: int
    digest: bytes


class ContentSource(NamedTuple):
    """The content of a block, read while others hold the main lock.  See ``codecs.Source``.

    ``step(bytes)`` is told what was read.
    """

    size: int
    read: Callable[[int, int], bytes]
    scheduler: Scheduler
    step: Callable[[int], None]

    def read_at(self, offset: int, length: int) -> bytes:
        """Bytes from ``offset``, fewer where the content ends.  Raises as ``Block.read_extent``."""
        with self.scheduler.resumed():
            found = self.read(offset, min(length, max(0, self.size - offset)))
        self.step(len(found))
        return found


def encode(
    number: int,
    codec: Codec | None,
    size: int,
    read: Callable[[int, int], bytes],
    payload: Payload,
    *,
    scheduler: Scheduler,
    progress: Progress,
    needed: bool = False,
) -> Encoded:
    """The ``size`` bytes that ``read(offset, length)`` gives of block ``number``, in ``payload``.

    ``needed``: also when the mount ends.  Raises ``NotSupportedError`` where the format cannot hold them, else as
    ``read``, or ``OSError``.
    """
    digest = hashlib.md5(usedforsecurity=False)
    name = "compression" if codec is not None else "decompression"
    with progress.over(name, size, number) as step, scheduler.waiting():
        content = ContentSource(size, read, scheduler, step)
        try:
            for piece in _encoded(codec, content):
                if scheduler.stopping and not needed:
                    raise AbandonedError("the mount ends; the block is as it was", block=number)
                payload.append(piece)
                digest.update(piece)
        except ValueError as err:
            raise NotSupportedError(str(err), block=number) from err
    return Encoded(payload, codec.id if codec is not None else NO_COMPRESSION, size, digest.digest())


def _encoded(codec: Codec | None, content: Source) -> Iterator[bytes]:
    """An empty block is stored as nothing: every reader takes that, if it need not be told how it is encoded."""
    if codec is None:
        return pieces(content)
    return codec.encode(content) if content.size or isinstance(codec, Encoding) else iter(())
