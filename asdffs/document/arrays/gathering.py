"""Gathers the elements of a strided array in the order in which an ``.npy`` file has them.

Pure, except for the callback ``fetch``, which reads the block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

#: The largest range of a block that one read covers to gather scattered elements, in bytes.  If the elements lie
#: further apart, rows are read one by one.
_SPAN: Final = 4 << 20
#: The largest ratio of bytes that are read to bytes that are wanted.
_WASTE: Final = 16
#: The largest gap over which ``gather_by_requests`` reads, and its largest read, in bytes.
_NEAR: Final = 64 << 10
_REQUEST: Final = 1 << 20
Fetch = Callable[[int, int], bytes]


def gather(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, part: tuple[int, int], fetch: Fetch
) -> bytes:
    """Return elements ``part[0]`` to ``part[1]`` (exclusive) of a strided array, rows first.

    ``strides``, ``item`` (the size of an element) and ``offset`` (that of the first element) are in bytes.
    ``fetch(offset, length)`` reads bytes of the block.  Raises as ``fetch``.
    """
    first, last = part
    if first >= last:
        return b""
    if not shape:
        return fetch(offset, item)
    row = math.prod(shape[1:])
    below, above = -(-first // row), last // row
    if below > above:  # within one row
        at, start = offset + (below - 1) * strides[0], (below - 1) * row
        return gather(shape[1:], strides[1:], item, at, (first - start, last - start), fetch)
    inner = shape[1:], strides[1:], item
    head = gather(*inner, offset + (below - 1) * strides[0], (row - (below * row - first), row), fetch)
    tail = gather(*inner, offset + above * strides[0], (0, last - above * row), fetch)
    return head + _whole_rows((above - below, *shape[1:]), strides, item, offset + below * strides[0], fetch) + tail


def gather_by_requests(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, fetch: Fetch
) -> bytes:
    """Return all elements of a strided array, rows first, with few reads, because each read may be a request.

    Elements with at most 64 KiB between them are read together, up to 1 MiB.  Arguments as of ``gather``.
    """
    if 0 in shape:
        return b""
    steps = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + item
    near = all(abs(step) <= _NEAR for length, step in zip(shape, strides, strict=True) if length > 1)
    if near and high - low <= _REQUEST:
        return _picked(shape, strides, item, fetch(offset + low, high - low), -low)
    axis = next(number for number, length in enumerate(shape) if length > 1)  # those before it have one element
    count, step = shape[axis], strides[axis]
    rows = max(1, min(count - 1, _REQUEST // max(1, abs(step)))) if near else 1
    parts = (
        gather_by_requests(
            (*shape[:axis], min(rows, count - row), *shape[axis + 1 :]), strides, item, offset + row * step, fetch
        )
        for row in range(0, count, rows)
    )
    return b"".join(parts)


def requests_for(shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int) -> list[tuple[int, int]]:
    """Return the offset and the length of each read that ``gather_by_requests`` makes."""
    found = list[tuple[int, int]]()

    def note(start: int, length: int) -> bytes:
        found.append((start, length))
        return bytes(length)

    gather_by_requests(shape, strides, item, offset, note)
    return found


def _whole_rows(shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, fetch: Fetch) -> bytes:
    """Return all elements of an array: by one read if they are dense enough, otherwise row by row."""
    if 0 in shape:
        return b""
    if not shape:
        return fetch(offset, item)
    steps = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + item
    if high - low <= min(_SPAN, _WASTE * item * math.prod(shape)):
        return _picked(shape, strides, item, fetch(offset + low, high - low), -low)
    parts = (_whole_rows(shape[1:], strides[1:], item, offset + n * strides[0], fetch) for n in range(shape[0]))
    return b"".join(parts)


def _picked(shape: tuple[int, ...], strides: tuple[int, ...], item: int, raw: bytes, offset: int) -> bytes:
    import numpy as np

    return bytes(np.ndarray(shape, np.dtype((np.void, item)), raw, offset, strides).tobytes())
