"""Computes where the elements of an array lie in its block, and checks shape, strides and offset (core/ndarray).

Pure arithmetic on the description in the tree and the size of the block.  Views, the Python API, ``check`` and the
warnings after a save all use this module, so they agree about an array.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import yaml

from asdffs.arrays.datatypes import descr_of, item_size
from asdffs.arrays.ndarrays import Ndarray
from asdffs.errors import InvalidArrayError

#: The largest size of an array, in bytes; file sizes have 63 bits, and include more than the array.
_LARGEST: Final = 1 << 62
#: numpy's limit on axes.
_MOST_AXES: Final = 64


class Placement(NamedTuple):
    """The place of an array's elements in its block.

    ``offset``, ``strides``: in bytes, in block ``number``; ``item``: bytes of an element.  ``fortran``: a file with
    the elements has them columns first.  ``window``: they lie in the block in the order of that file.
    """

    number: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    fortran: bool
    window: bool

    @property
    def size(self) -> int:
        """Bytes of all elements."""
        return self.item * math.prod(self.shape)


def block_of(count: int, array: Ndarray) -> int:
    """Return the number of the array's block in a file of ``count`` blocks.  Raises ``InvalidArrayError``."""
    number = array.block_in(count)
    if number is not None:
        return number
    if array.source is None:
        raise InvalidArrayError("it states neither a source nor data")
    if isinstance(array.source, str):
        raise InvalidArrayError(f"its source is {array.source[:60]!r}, which is not a block of this file")
    raise InvalidArrayError(f"its source is {str(array.source)[:20]}, and the file has {count} blocks")


def place_in(array: Ndarray, number: int, size: int, *, rows_first: bool = False) -> Placement:
    """Return where the elements are in block ``number``, which has ``size`` decoded bytes.

    ``rows_first``: the file has them in C order, even if they lie columns first.  Raises ``InvalidArrayError``.
    """
    if array.odd:
        raise InvalidArrayError(f"its {array.odd}, which is not valid")
    item = item_size(array.datatype)
    if item is None:
        descr_of(array.datatype, array.byteorder)  # raises for an invalid one, with the reason
        raise InvalidArrayError("its datatype is not known")
    shape = array.shape_in(size)
    if shape is None or len(shape) > _MOST_AXES or min(shape, default=0) < 0:
        raise InvalidArrayError("its shape is missing or not valid")
    if item * math.prod(shape) > _LARGEST:
        raise InvalidArrayError("it has more bytes than a file can have")
    strides = array.strides if array.strides is not None else packed(shape, item)
    if len(strides) != len(shape):
        raise InvalidArrayError(f"it has {len(shape)} axes and {len(strides)} strides")
    placement = Placement(
        number, array.offset, shape, strides, item, *_order(shape, strides, item, rows_first=rows_first)
    )
    _check_inside(placement, size)
    descr_of(array.datatype, array.byteorder)  # checks the byteorder and the names of fields
    return placement


def packed(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Return the strides of a contiguous array, rows first, in bytes."""
    strides, step = [], item
    for length in reversed(shape):
        strides.append(step)
        step *= max(1, length)
    return tuple(reversed(strides))


def _order(shape: tuple[int, ...], strides: tuple[int, ...], item: int, *, rows_first: bool) -> tuple[bool, bool]:
    """Return whether a file has the elements columns first, and whether they lie in the block in that order."""
    if _lies(shape, strides, packed(shape, item)):
        return False, True
    columns = _lies(shape, strides, tuple(reversed(packed(tuple(reversed(shape)), item))))
    if rows_first:
        return False, False
    steps = [abs(step) for length, step in zip(shape, strides, strict=True) if length > 1]
    return columns or (len(steps) > 1 and steps == sorted(steps)), columns


def _lies(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether ``strides`` are equivalent to ``wanted``: the stride of an axis of length 1 does not matter."""
    steps = zip(shape, strides, wanted, strict=True)
    return 0 in shape or all(length == 1 or have == want for length, have, want in steps)


def _check_inside(where: Placement, size: int) -> None:
    if 0 in where.shape:
        return
    steps = [(length - 1) * step for length, step in zip(where.shape, where.strides, strict=True)]
    first = where.offset + sum(step for step in steps if step < 0)
    last = where.offset + sum(step for step in steps if step > 0) + where.item
    if first < 0 or last > size:
        raise InvalidArrayError(f"it needs bytes {first} to {last} of block {where.number}, which has {size}")


@contextlib.contextmanager
def array_errors(line: int) -> Iterator[None]:
    """Turn errors of numpy, YAML or astropy inside the block into ``InvalidArrayError`` with ``line``.

    They happen because a tree may state anything about an array.
    """
    try:
        yield
    except InvalidArrayError as err:
        err.line = err.line or line
        raise
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError, yaml.YAMLError) as err:
        reason = str(err).partition("\n")[0][:200] or type(err).__name__
        raise InvalidArrayError(f"it cannot be shown: {reason}", line=line) from err


class ArrayFault(NamedTuple):
    """A reason, ``sentence``, why ``array`` cannot be shown."""

    array: Ndarray
    sentence: str

    def __str__(self) -> str:
        return f"line {self.array.line}: {self.array.name}: {self.sentence}"


def fault_in_block(array: Ndarray, count: int, size_of: Callable[[int], int | None]) -> str:
    """Return why the elements cannot be in the block of the array; empty if they can.

    ``count``: number of blocks in the file.  ``size_of(number)`` returns the decoded bytes of a block, or None if the
    block is damaged, which is not a fault of the array.
    """
    try:
        with array_errors(array.line):
            number = block_of(count, array)
            size = size_of(number)
            if size is not None:
                place_in(array, number, size)
    except InvalidArrayError as err:
        return err.sentence
    return ""


def check_mask_shape(mask: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raise ``InvalidArrayError`` if a mask of the shape ``mask`` cannot be broadcast to its array, of ``shape``.

    As in numpy, axes are compared from the last one on, and a length of 1 fits any length.
    """
    pairs = zip(reversed(mask), reversed(shape), strict=False)
    if len(mask) > len(shape) or not all(one in (1, other) for one, other in pairs):
        raise InvalidArrayError(f"its mask has the shape {list(mask)}, which does not fit {list(shape)}")
