"""The record of one pending change, which the journal holds (docs/design/journal.md).

A record has the bytes before and after the change, so that recovery can distinguish our change from a change by
another program.  Immutable, and pure except for reading the file.
"""

from __future__ import annotations

import enum
import os
import struct
import zlib
from itertools import pairwise
from typing import NamedTuple

from asdffs.format.layout import Span, uncovered
from asdffs.format.plan import Plan, Write
from asdffs.storage.backend import MovableBackend, PhysicalExtent

_BODY = struct.Struct(">QQQQQQIIIIQQQQQQII")
_WRITE = struct.Struct(">QQQ")
_EXTENT = struct.Struct(">QQQ")
#: Unchanged bytes that identify the file, in addition to its inode and size.
_WITNESS = 512
#: Larger numbers are in no record; sums of a few of them still are offsets.
_LARGEST = 1 << 60


class Kind(enum.IntEnum):
    """How the bytes after a gap are moved."""

    NONE = 0
    INSERT = 1  # by the file system
    SHIFT = 2  # by copying within the file, by earlier versions: recovery refuses it


class RecordImage(NamedTuple):
    """One write: the bytes before and after it, at ``offset``.

    ``before`` may be shorter than ``after``: the file ended there, or the rest is zeros (an insertion).
    """

    offset: int
    before: bytes
    after: bytes


class Gap(NamedTuple):
    """The bytes from ``offset`` on move ``length`` bytes toward the end of the file.

    ``extents``: the old addresses of the bytes from ``offset`` on.
    """

    kind: Kind
    offset: int
    length: int
    extents: tuple[PhysicalExtent, ...] = ()


class Fill(NamedTuple):
    """Replace ``length`` bytes at ``offset`` by those of the file ``name``, with this inode and CRC-32."""

    offset: int
    length: int
    inode: int
    crc: int
    name: str

    @property
    def stop(self) -> int:
        """End of the replaced bytes."""
        return self.offset + self.length


class Record(NamedTuple):
    """One pending change, and the facts that identify its file; the ``nonce`` distinguishes equal changes.

    Images are disjoint.  Their offsets are those of the new file, and ``before`` is the content once the gap is
    open.
    """

    nonce: int
    inode: int
    old_size: int
    new_size: int
    witness_offset: int
    witness_length: int
    witness_crc: int
    images: tuple[RecordImage, ...]
    gap: Gap | None = None
    fill: Fill | None = None


def make_record(backend: MovableBackend, plan: Plan, fill: Fill | None = None) -> Record:
    """Return the record of an in-place ``plan``.  Reads the before-images and the witness.  Raises ``OSError``."""
    images = tuple(
        RecordImage(write.offset, backend.read_at(write.offset, len(write.payload)), write.payload)
        for write in plan.writes
    )
    return _record(backend, plan, _unchanged(plan), images, None, fill)


def make_insertion(backend: MovableBackend, plan: Plan, offset: int, extents: list[PhysicalExtent]) -> Record:
    """Return the record of a ``plan`` whose gap the file system opens at ``offset``.  Raises ``OSError``."""
    move = plan.checked_move
    unit = backend.unit()
    end = -(-plan.old_size // unit) * unit  # preallocated space after the end may be freed at any time
    gap = Gap(Kind.INSERT, offset, move.shift, tuple(_between(extents, offset, end)))
    pieces = (piece for write in writes_around(backend, plan, offset) for piece in _cut_at(write, gap))
    images = tuple(
        RecordImage(
            piece.offset, _opened(backend, gap, piece.offset, len(piece.payload)).rstrip(b"\0"), piece.payload
        )
        for piece in pieces
    )
    return _record(backend, plan, Span(move.source, move.source + move.length), images, gap)


def writes_around(backend: MovableBackend, plan: Plan, offset: int) -> list[Write]:
    """Return the disjoint writes of a ``plan`` whose gap is opened at ``offset``, at or before its source.

    The bytes from ``offset`` to the source must stay in place.  So they are written again there, and zeros
    replace their moved copies.  Raises ``OSError``.
    """
    move = plan.checked_move
    between = backend.read_at(offset, move.source - offset)
    kept = [Write(offset, between), Write(offset + move.shift, bytes(len(between)))]
    return [*plan.writes, *(piece for write in kept for piece in _uncovered(write, plan.writes))]


def build(record: Record) -> list[bytes]:
    """Return the body of ``record`` in pieces, so that a text of many megabytes is not copied."""
    gap = record.gap or Gap(Kind.NONE, 0, 0)
    sizes = (record.nonce, record.inode, record.old_size, record.new_size)
    witness = (record.witness_offset, record.witness_length, record.witness_crc)
    counts = (len(record.images), gap.kind, len(gap.extents))
    fill = record.fill or Fill(0, 0, 0, 0, "")
    name = os.fsencode(fill.name)
    filled = (fill.offset, fill.length, fill.inode, fill.crc, len(name))
    pieces = [_BODY.pack(*sizes, *witness, *counts, gap.offset, gap.length, 0, *filled)]
    for image in record.images:
        pieces += [_WRITE.pack(image.offset, len(image.before), len(image.after)), image.before, image.after]
    pieces += [_EXTENT.pack(extent.logical, extent.physical, extent.length) for extent in gap.extents]
    return [*pieces, name]


def parse(body: bytes) -> Record:
    """Return the record of a ``body`` with a correct checksum.  Raises ``ValueError`` or ``struct.error``."""
    *fields, count, kind, extent_count, offset, length = _BODY.unpack_from(body)[:12]
    *filled, name_length = _BODY.unpack_from(body)[13:]
    if max(*fields[2:], offset, length, *filled[:2]) > _LARGEST or fields[5] > _WITNESS:
        raise ValueError("no record has such numbers")
    images = []
    place = _BODY.size
    for _ in range(count):
        start, before, after = _WRITE.unpack_from(body, place)
        place += _WRITE.size
        if start > _LARGEST:
            raise ValueError("no record has such numbers")
        images.append(RecordImage(start, body[place : place + before], body[place + before : place + before + after]))
        place += before + after
    end = place + extent_count * _EXTENT.size
    extents = tuple(PhysicalExtent(*numbers) for numbers in _EXTENT.iter_unpack(body[place:end]))
    gap = Gap(Kind(kind), offset, length, extents) if kind else None
    fill = Fill(*(*filled, os.fsdecode(body[end : end + name_length]))) if name_length else None
    return Record(*(*fields, tuple(images), gap, fill))


def _record(
    backend: MovableBackend,
    plan: Plan,
    witness: Span,
    images: tuple[RecordImage, ...],
    gap: Gap | None,
    fill: Fill | None = None,
) -> Record:
    seen = backend.read_at(witness.start, min(_WITNESS, len(witness)))
    inode = backend.signature().inode
    nonce = int.from_bytes(os.urandom(8), "little")
    seen_facts = (witness.start, len(seen), zlib.crc32(seen))
    return Record(nonce, inode, plan.old_size, plan.new_size, *seen_facts, images, gap, fill)


def _unchanged(plan: Plan) -> Span:
    """Return the longest run of text that ``plan`` does not change; empty if there is none.

    Bytes of blocks are not used as witness: if they were written last, a power failure may lose them.
    """
    whole = Span(0, min(plan.steady, plan.old_size, plan.new_size))
    return max(uncovered(whole, _spans(plan.writes)), key=len, default=Span(0, 0))


def _uncovered(write: Write, others: tuple[Write, ...]) -> list[Write]:
    """Return the parts of ``write`` that none of ``others`` covers."""
    return [
        Write(span.start, write.payload[span.start - write.offset : span.stop - write.offset])
        for span in uncovered(Span(write.offset, write.offset + len(write.payload)), _spans(others))
    ]


def _cut_at(write: Write, gap: Gap) -> list[Write]:
    """Split ``write`` at both ends of the gap into at most three parts.

    The old bytes inside the gap are zeros, so the before-image of that part need not be kept.
    """
    stop = write.offset + len(write.payload)
    places = [min(max(place, write.offset), stop) for place in (0, gap.offset, gap.offset + gap.length, stop)]
    return [
        Write(start, write.payload[start - write.offset : end - write.offset])
        for start, end in pairwise(places)
        if start < end
    ]


def _spans(writes: tuple[Write, ...]) -> list[Span]:
    return [Span(write.offset, write.offset + len(write.payload)) for write in writes]


def _between(extents: list[PhysicalExtent], start: int, stop: int) -> list[PhysicalExtent]:
    """Return the extents in ``[start, stop)``, cut at both ends."""
    found = []
    for extent in extents:
        cut = max(0, start - extent.logical)
        length = min(extent.logical + extent.length, stop) - extent.logical - cut
        if length > 0:
            found.append(PhysicalExtent(extent.logical + cut, extent.physical + cut, length))
    return found


def _opened(backend: MovableBackend, gap: Gap, offset: int, length: int) -> bytes:
    """Return bytes of the file as they will be once the gap is open and empty."""
    before = backend.read_at(offset, max(0, min(length, gap.offset - offset)))
    start = max(offset, gap.offset + gap.length)
    behind = backend.read_at(start - gap.length, max(0, offset + length - start))
    return before + bytes(max(0, length - len(before) - len(behind))) + behind
