"""Encoding of the content of a block into a payload, which then overwrites the old bytes of the block.

The main lock is released meanwhile, so other requests are served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from asdffs.codecs.base import Codec, Encoding, Source, pieces
from asdffs.document.blocks.checksums import new_digest
from asdffs.document.blocks.package_codecs import check_encoded, is_of_package, mistakes_told
from asdffs.document.progress import Progress
from asdffs.errors import AbandonedError, NotSupportedError
from asdffs.format.constants import NO_COMPRESSION
from asdffs.scheduling import Scheduler
from asdffs.storage.payload import Payload


class Encoded(NamedTuple):
    """The encoded content of a block.

    ``payload``: the stored bytes; ``compression``: the field of the block header; ``size``: bytes of decoded content;
    ``digest``: the MD5 of the stored bytes.
    """

    payload: Payload
    compression: bytes
    size: int
    digest: bytes


class ContentSource(NamedTuple):
    """The source of an encoder that runs without the main lock: the content of a block.  See ``Source``.

    ``read(offset, length)`` is called with the main lock held.  ``step(bytes)`` is called after each read.
    """

    size: int
    read: Callable[[int, int], bytes]
    scheduler: Scheduler
    step: Callable[[int], None]

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``Source``.  Raises as ``read``."""
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
    """Encode content of ``size`` bytes for block ``number`` with ``codec`` into ``payload``.

    ``codec`` None stores the content without compression.  ``read(offset, length)`` returns content.  ``needed``: go
    on even if the mount is ending.

    Raises ``NotSupportedError`` if the format cannot hold the content; ``AbandonedError`` if the mount is ending; or
    as ``read``; or ``OSError``.
    """
    digest = new_digest()
    name = "compression" if codec is not None else "decompression"
    with progress.over(name, size, number) as step, scheduler.waiting():
        content = ContentSource(size, read, scheduler, step)
        try:
            for piece in _encoded(codec, content):
                if scheduler.stopping and not needed:
                    raise AbandonedError("the mount is ending, so the block was not changed", block=number)
                payload.append(piece)
                digest.update(piece)
            if codec is not None and is_of_package(codec):
                check_encoded(codec, _Stored(payload), content._replace(step=lambda _: None))
        except ValueError as err:
            raise NotSupportedError(str(err), block=number) from err
    return Encoded(payload, codec.id if codec is not None else NO_COMPRESSION, size, digest.digest())


def _encoded(codec: Codec | None, content: Source) -> Iterator[bytes]:
    """Return an iterator of the stored bytes.

    Empty content is stored as no bytes, which every reader accepts.  Only an ``Encoding`` must still be written.
    """
    if codec is None:
        return pieces(content)
    if not content.size and not isinstance(codec, Encoding):
        return iter(())
    return _guarded(codec, content) if is_of_package(codec) else codec.encode(content)


def _guarded(codec: Codec, content: Source) -> Iterator[bytes]:
    with mistakes_told(codec):
        yield from codec.encode(content)


class _Stored(NamedTuple):
    """The encoded bytes of a payload, to be decoded.  See ``codecs.base.Source``."""

    payload: Payload

    @property
    def size(self) -> int:
        return self.payload.size

    def read_at(self, offset: int, length: int) -> bytes:
        return self.payload.backend.read_at(offset, max(0, min(length, self.payload.size - offset)))
