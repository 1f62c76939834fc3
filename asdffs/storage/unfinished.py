"""An interrupted change: find out how far it came, finish it, and show its result.

Each function is idempotent, and may be interrupted at any point and run again.  One thread at a time.
"""

from __future__ import annotations

import bisect
import enum
import errno
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from asdffs.errors import RecoveryError
from asdffs.storage.backend import MovableBackend, PhysicalExtent, ReadBackend, Signature
from asdffs.storage.record import Gap, Kind, Record, RecordImage
from asdffs.storage.sidecars import pour

_STEP = 1 << 16
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Position(enum.Enum):
    """Where the bytes of an interrupted insertion are."""

    OLD = "none has moved"
    NEW = "all have moved"
    MIXED = "some have moved"
    UNKNOWN = "not where they were, nor where they should be"


def belongs(backend: MovableBackend, record: Record) -> bool:
    """Return whether the interrupted change of ``record`` can have left ``backend`` in its current state.

    Raises ``OSError``.
    """
    if backend.signature().inode != record.inode or not _fitting_size(backend.size(), record):
        return False
    if record.gap is None:
        return _witnessed(backend, record, 0) and _all_old_or_new(backend, record.images)
    if record.gap.kind is Kind.SHIFT:
        return _all_old_or_new(backend, [image for image in record.images if image.before])
    position, _ = locate(backend, record, record.gap)
    if position is Position.NEW:
        return _witnessed(backend, record, record.gap.length) and _all_old_or_new(backend, record.images)
    return position is not Position.UNKNOWN


def finish(backend: MovableBackend, record: Record, payload: ReadBackend | None = None) -> bool:
    """Complete or undo the change durably, and return whether the file is the new one.

    ``payload``: the bytes of a fill; None if the file has them all.  Raises ``OSError``, and ``RecoveryError`` for a
    change that only the version that began it can complete.
    """
    if record.gap is None:
        if record.fill is not None and payload is not None:
            pour(payload, backend, record.fill)
        apply(backend, record.images, record.new_size)
        backend.sync()  # invariant 3
        return True
    _refuse_shift(record.gap)
    return finish_insertion(backend, record, record.gap)


def _refuse_shift(gap: Gap) -> None:
    """Raise ``RecoveryError`` for a growth by a strategy that only earlier versions had: the file is half moved."""
    if gap.kind is Kind.SHIFT:
        raise RecoveryError(
            "an earlier version of asdffs was interrupted while it moved the blocks, and only that version can "
            "complete it; open the file with it once, or move the journal beside the file away if the file is another"
        )


def apply(backend: MovableBackend, images: Iterable[RecordImage], new_size: int) -> None:
    """Make a change, without a sync.

    Extends the file first and cuts it last, so that its size is always the old or the new one.
    """
    if backend.size() < new_size:
        backend.truncate(new_size)
    for image in images:
        backend.write_at(image.offset, image.after)
    if backend.size() > new_size:
        backend.truncate(new_size)


def undo(backend: MovableBackend, images: Iterable[RecordImage], old_size: int) -> None:
    """Restore the before-images and the old size, without a sync."""
    for image in images:
        backend.write_at(image.offset, image.before)
    backend.truncate(old_size)


class RecoveredView(NamedTuple):
    """A file as ``finish`` will leave it, read-only; ``new``: whether it has the change."""

    backend: ReadBackend
    new: bool


def as_recovered(backend: MovableBackend, record: Record, payload: ReadBackend | None = None) -> RecoveredView:
    """Return ``backend`` as ``finish`` will leave it.  Raises as ``finish``."""
    gap = record.gap
    if gap is None:
        return _new(backend, record, _filled(record, payload))
    _refuse_shift(gap)
    old = [Segment(0, record.old_size)]
    position, boundary = locate(backend, record, gap)
    if position is Position.NEW:
        return _new(backend, record, [Segment(0, record.new_size)])
    if position is Position.MIXED:
        old = [Segment(0, boundary), Segment(boundary, record.old_size, origin=boundary + gap.length)]
    return RecoveredView(OverlayBackend(backend, record.old_size, old), new=False)


def _new(backend: MovableBackend, record: Record, below: list[Segment]) -> RecoveredView:
    return RecoveredView(OverlayBackend(backend, record.new_size, below, record.images), new=True)


def _filled(record: Record, payload: ReadBackend | None) -> list[Segment]:
    """Return the file with the bytes of ``payload`` in their place."""
    fill = record.fill
    if fill is None or payload is None:
        return [Segment(0, record.new_size)]
    return [
        Segment(0, fill.offset),
        Segment(fill.offset, fill.stop, source=payload),
        Segment(fill.stop, record.new_size, origin=fill.stop),
    ]


# -- insertions -----------------------------------------------------------------


def locate(backend: MovableBackend, record: Record, gap: Gap) -> tuple[Position, int]:
    """Return where the bytes after the gap are now, and the lowest old offset of those that have moved.

    Raises ``OSError``.
    """
    cut = record.old_size + gap.length != backend.size() == record.new_size
    unit = backend.unit()
    limit = -(-(record.new_size - gap.length if cut else record.old_size) // unit) * unit
    stayed, moved = [], []
    total = 0
    addresses = _Addresses(backend.extents())
    for extent in gap.extents:
        length = max(0, min(extent.length, limit - extent.logical))
        total += length
        for logical, now, count in addresses.find(extent, length):
            if now == logical:
                stayed.append(count)
            elif now == logical + gap.length:
                moved.append((logical, count))
    if sum(stayed) + sum(count for _, count in moved) < total:
        return Position.UNKNOWN, 0
    lowest = min((logical for logical, _ in moved), default=0)
    return (Position.MIXED if stayed else Position.NEW) if moved else Position.OLD, lowest


class _Addresses:
    """Extents sorted by their address on the disk."""

    def __init__(self, extents: list[PhysicalExtent]) -> None:
        self._extents = sorted(extents, key=lambda extent: extent.physical)
        self._starts = [extent.physical for extent in self._extents]
        self._longest = max((extent.length for extent in extents), default=0)

    def find(self, wanted: PhysicalExtent, length: int) -> Iterable[tuple[int, int, int]]:
        """Yield parts of the first ``length`` bytes of ``wanted``: old offset, current offset, bytes."""
        first = bisect.bisect_left(self._starts, wanted.physical - self._longest)
        for extent in self._extents[first : bisect.bisect_left(self._starts, wanted.physical + length)]:
            start = max(extent.physical, wanted.physical)
            stop = min(extent.physical + extent.length, wanted.physical + length)
            if start < stop:
                skipped = start - wanted.physical
                yield wanted.logical + skipped, extent.logical + start - extent.physical, stop - start


def finish_insertion(backend: MovableBackend, record: Record, gap: Gap) -> bool:
    """Finish a complete insertion, or undo an incomplete one; return whether the file is the new one.

    Raises ``OSError``.
    """
    while True:
        position, boundary = locate(backend, record, gap)
        if position is Position.OLD:
            return _not_begun(backend, record)
        if position is Position.NEW:
            return _fill(backend, record, gap)
        if position is Position.UNKNOWN:
            raise OSError(errno.EUCLEAN, "the bytes of the file were moved on the disk since the interrupted growth")
        backend.collapse_range(boundary, gap.length)  # synced later; after a crash it is repeated


def _fill(backend: MovableBackend, record: Record, gap: Gap) -> bool:
    try:
        backend.allocate(gap.offset, gap.length)
    except OSError as err:
        if err.errno not in _FULL or not all(_is_before(backend, image) for image in record.images):
            raise
        backend.collapse_range(gap.offset, gap.length)
        return _not_begun(backend, record)
    apply(backend, record.images, record.new_size)
    backend.sync()  # invariant 3
    return True


def _not_begun(backend: MovableBackend, record: Record) -> bool:
    if backend.size() > record.old_size:
        backend.truncate(record.old_size)
    backend.sync()  # invariant 3
    return False


# -- does the record belong to the file -------------------------------------------


def _fitting_size(size: int, record: Record) -> bool:
    """Return whether the change can leave a file of ``size`` bytes.

    A change in place can also leave sizes in between (decision 2), and so could a shift.
    """
    if record.gap is None or record.gap.kind is Kind.SHIFT:
        least, most = sorted((record.old_size, record.new_size))
        return least <= size <= most
    return size in (record.old_size, record.old_size + record.gap.length, record.new_size)


def _witnessed(backend: MovableBackend, record: Record, shift: int) -> bool:
    witness = backend.read_at(record.witness_offset + shift, record.witness_length)
    return zlib.crc32(witness) == record.witness_crc


def _all_old_or_new(backend: MovableBackend, images: Iterable[RecordImage]) -> bool:
    return all(_old_or_new(backend, image) for image in images)


def _old_or_new(backend: MovableBackend, image: RecordImage) -> bool:
    """Return whether each byte is the one before or after the change; past the old end, before is zero."""
    for start in range(0, len(image.after), _STEP):
        now = backend.read_at(image.offset + start, min(_STEP, len(image.after) - start))
        after = image.after[start : start + len(now)]
        before = image.before[start : start + len(now)].ljust(len(now), b"\0")
        if now not in (before, after) and any(n not in pair for n, *pair in zip(now, before, after, strict=True)):
            return False
    return True


def _is_before(backend: MovableBackend, image: RecordImage) -> bool:
    return backend.read_at(image.offset, len(image.after)) == image.before.ljust(len(image.after), b"\0")


class Segment(NamedTuple):
    """Bytes ``[start, stop)`` as shown: those of the file, or of another file ``source``, from ``origin`` on."""

    start: int
    stop: int
    origin: int = 0
    source: ReadBackend | None = None


class OverlayBackend:
    """``base`` shown as ``size`` bytes made of ``segments``, in order and without gaps, with ``images`` over them.

    See ``ReadBackend``.
    """

    def __init__(
        self, base: ReadBackend, size: int, segments: list[Segment], images: Iterable[RecordImage] = ()
    ) -> None:
        self._base = base
        self._size = size
        self._segments = segments
        self._images = tuple(images)

    @property
    def name(self) -> str:
        """The file's name."""
        return self._base.name

    def size(self) -> int:
        """Return the size as shown, in bytes."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return the bytes as shown."""
        stop = min(offset + length, self._size)
        shown = bytearray().join(
            self._piece(segment, max(offset, segment.start), min(stop, segment.stop))
            for segment in self._segments
            if segment.start < stop and offset < segment.stop
        )
        for image in self._images:
            low, high = max(offset, image.offset), min(stop, image.offset + len(image.after))
            if low < high:
                shown[low - offset : high - offset] = image.after[low - image.offset : high - image.offset]
        return bytes(shown)

    def _piece(self, segment: Segment, start: int, stop: int) -> bytes:
        found = (segment.source or self._base).read_at(segment.origin + start - segment.start, stop - start)
        return found.ljust(stop - start, b"\0")

    def unit(self) -> int:
        """Return the unit of the file itself, in bytes."""
        return self._base.unit()

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
