"""A read-only backend that shows a file as recovery will leave it.

It also serves reads of a mount whose disk failed in the middle of a change.  One thread at a time.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from asdffs.storage.backend import Backend, PhysicalExtent, Signature
from asdffs.storage.record import RecordImage


class Segment(NamedTuple):
    """Bytes ``[start, stop)`` as shown: ``payload``, or the bytes of the file from ``origin`` on.

    ``source``: another file, from which they are read instead.
    """

    start: int
    stop: int
    origin: int = 0
    payload: bytes | None = None
    source: Backend | None = None


class OverlayBackend:
    """``base`` shown as ``size`` bytes made of ``segments``, in order and without gaps.  See ``Backend``."""

    def __init__(self, base: Backend, size: int, segments: list[Segment]) -> None:
        self._base = base
        self._size = size
        self._segments = segments

    @classmethod
    def of_images(
        cls, base: Backend, size: int, images: tuple[RecordImage, ...], below: list[Segment]
    ) -> OverlayBackend:
        """Return an overlay with the after-images of a record over the segments ``below``."""
        for image in images:
            below = _laid_over(below, Segment(image.offset, image.offset + len(image.after), payload=image.after))
        return cls(base, size, below)

    @property
    def name(self) -> str:
        """The file's name."""
        return self._base.name

    @property
    def writable(self) -> bool:
        """Always False."""
        return False

    def size(self) -> int:
        """Return the size as shown, in bytes."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return the bytes as shown."""
        stop = min(offset + length, self._size)
        return b"".join(
            self._piece(segment, max(offset, segment.start), min(stop, segment.stop))
            for segment in self._segments
            if segment.start < stop and offset < segment.stop
        )

    def _piece(self, segment: Segment, start: int, stop: int) -> bytes:
        if segment.payload is not None:
            return segment.payload[start - segment.start : stop - segment.start]
        found = (segment.source or self._base).read_at(segment.origin + start - segment.start, stop - start)
        return found.ljust(stop - start, b"\0")

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Raise ``OSError`` (EBADF)."""
        raise _read_only()

    def truncate(self, size: int) -> None:
        """Raise ``OSError`` (EBADF)."""
        raise _read_only()

    def sync(self) -> None:
        """Do nothing."""

    def allocate(self, offset: int, length: int) -> None:
        """Raise ``OSError`` (EBADF)."""
        raise _read_only()

    def unit(self) -> int:
        """Return the unit of the file itself, in bytes."""
        return self._base.unit()

    def can_insert(self) -> bool:
        """Return False."""
        return False

    def forget_pages(self, offset: int) -> None:
        """Do nothing."""

    def insert_range(self, offset: int, length: int) -> None:
        """Raise ``OSError`` (EBADF)."""
        raise _read_only()

    def collapse_range(self, offset: int, length: int) -> None:
        """Raise ``OSError`` (EBADF)."""
        raise _read_only()

    def extents(self) -> list[PhysicalExtent]:
        """Raise ``OSError`` (EBADF), because the shown bytes are not in one file."""
        raise _read_only()

    def extent(self, offset: int, length: int) -> bytes:
        """Return the bytes themselves, because they are not in one file."""
        return self.read_at(offset, length)

    def signature(self) -> Signature:
        """Return the signature of the file itself."""
        return self._base.signature()

    def close(self) -> None:
        """Close the file and the sources of the segments."""
        for segment in self._segments:
            if segment.source is not None:
                segment.source.close()
        self._base.close()


def _read_only() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


def _laid_over(below: list[Segment], top: Segment) -> list[Segment]:
    """Return ``below`` with ``top`` in place of the bytes that it covers."""
    parts = [top]
    for segment in below:
        parts.append(_cut(segment, segment.start, min(segment.stop, top.start)))
        parts.append(_cut(segment, max(segment.start, top.stop), segment.stop))
    return sorted((part for part in parts if part.start < part.stop), key=lambda part: part.start)


def _cut(segment: Segment, start: int, stop: int) -> Segment:
    """Return the part of ``segment`` in ``[start, stop)``, which may be empty."""
    skipped = start - segment.start
    if segment.payload is not None:
        return Segment(start, stop, payload=segment.payload[max(0, skipped) : stop - segment.start])
    return Segment(start, stop, origin=segment.origin + skipped, source=segment.source)
