"""Finds the elements of an array, wherever they are: as bytes for this process, or as a place for other programs.

| the array is                          | its elements        | its stored elements, which other programs read     |
|---------------------------------------|---------------------|-----------------------------------------------------|
| in a block                            | ``BlockElements``   | in the block, if it is not compressed               |
| in another file, by a URI as source   | ``BlockElements``   | in the first block of that file, likewise           |
| in the tree (inline data)             | ``MadeElements``    | nowhere                                             |
| in the FITS file around the ASDF file | ``contained``       | in the HDU; scaled integers have a ``zero``         |
| in chunks in blocks (asdf-zarr)       | ``ChunkedElements`` | nowhere                                             |
| in tiles, which are ndarrays (ASDF.jl) | ``TiledElements``   | nowhere                                             |

Implements the schema core/ndarray: source, shape, strides, offset, datatype, data.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.arrays.branch import Branch
from asdffs.arrays.chunked import Chunked, Tiled
from asdffs.arrays.datatypes import descr_of
from asdffs.arrays.inline import inline_array
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import block_of, packed
from asdffs.document.arrays.chunks import ChunkedElements
from asdffs.document.arrays.contained import ContainedElements, check_shape, contained_elements
from asdffs.document.arrays.elements import BlockElements, Elements, MadeElements, place
from asdffs.document.arrays.tiles import TiledElements
from asdffs.document.changes import BLOCKS, CONTENTS, Subject, content
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.format.container import Region

if TYPE_CHECKING:
    from asdffs.codecs.seeking import Slot

#: ``zero`` of the unsigned integers in FITS: the smallest number of the signed ones, without its sign.
_UNSIGNED: Final = {"int16": ("uint16", 1 << 15), "int32": ("uint32", 1 << 31)}


def elements_of(file: FileState, branch: Branch, *, rows_first: bool = False) -> Elements:
    """Return the elements of the ndarray at ``branch``, by the table above.

    ``rows_first``: they are shown in C order, even if they lie columns first.  Raises ``InvalidArrayError`` if the
    array cannot be shown, another ``AsdffsError``, or ``OSError``.
    """
    array = branch.array
    if array is not None and array.pieces is not None:
        return _gathered(file, branch, array)
    if branch.inline is not None or array is None:
        outline = file.outlines.outline()
        with file.scheduler.waiting():
            return MadeElements(inline_array(outline, branch, file.budget))
    region = file.region(array.source)
    if region is not None:
        return contained_elements(file, array, region)
    if isinstance(array.source, str):
        other, first = source_file(file, array.source), array._replace(source=0)
        return BlockElements(other, first, rows_first=rows_first, elsewhere=True)
    return BlockElements(file, array, rows_first=rows_first)


def _gathered(file: FileState, branch: Branch, array: Ndarray) -> Elements:
    """Return the elements of an array in pieces."""
    if isinstance(array.pieces, Chunked):
        return ChunkedElements(file, array.pieces)
    if isinstance(array.pieces, Tiled):
        return TiledElements(file, branch, functools.partial(elements_of, rows_first=True))
    from asdffs.document.arrays.stacked import StackedElements  # few trees have such arrays

    return StackedElements(file, array)


def source_file(file: FileState, source: str) -> FileState:
    """Return the file whose first block a source, a URI, means.  Raises as ``LinkedFiles.find``."""
    other = file.linked_files.find(source, file)
    if not len(other.table):
        raise InvalidArrayError(f"its source {source[:60]!r} has no block")
    return other


def subjects_of(file: FileState, branch: Branch) -> tuple[Subject, ...]:
    """Return the subjects, besides the tree, whose changes may change the elements of an array."""
    array = branch.array
    if array is not None and array.pieces is not None:
        return (CONTENTS, BLOCKS)
    if array is None or branch.inline is not None or not isinstance(array.source, int):
        return ()
    if array.source >= 0:
        return (content(array.source),)
    return (content(array.source + len(file.table)), BLOCKS)


class Location(NamedTuple):
    """Elements in the file at ``path``, which may be a URL.

    ``offset``: of element 0, ``strides``: between elements, both in bytes.  ``descr``: numpy's description of the
    stored elements.  ``zero`` is to be added to them, which gives elements of ``made``; ``made`` is empty if there is
    nothing to add.  ``version``: what tells this version of the file from another (``FileState.validators``).

    Elements of a compressed block have the name of its ``compression``.  Their ``offset`` and the ``start`` and
    ``stop`` of ``pieces`` count in the decoded content, the ``place`` of a piece in the file.
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    descr: Any
    version: Mapping[str, int | str]
    zero: int = 0
    made: str = ""
    compression: str = ""
    pieces: Sequence[Slot] = ()


def location_of(file: FileState, branch: Branch, *, pieces: int = 0) -> Location:
    """Return where the elements of the array at ``branch`` are.

    ``pieces``: the most pieces of a compressed block; 0 if only elements that can be read as they are are wanted.
    Raises ``NotPermittedError`` with the reason if they are nowhere as such, and otherwise as ``elements_of``.
    """
    array = branch.array
    if array is None or branch.inline is not None:
        raise NotPermittedError("its elements are in the text of the tree")
    if array.pieces is not None:
        where = "other files" if array.in_files else "several chunks"
        raise NotPermittedError(f"its elements are in {where}")
    region = file.region(array.source)
    if region is not None:
        return _in_region(file, array, region)
    if isinstance(array.source, str):
        return _in_block(source_file(file, array.source), array._replace(source=0), pieces)
    return _in_block(file, array, pieces)


def _in_block(file: FileState, array: Ndarray, pieces: int) -> Location:
    number = block_of(len(file.table), array)
    compressed, name = file.table.header(number).compressed, file.contents.codecs.name(number)
    if compressed and not pieces:
        raise NotPermittedError(f"block {number} is compressed ({name})")
    where = place(file, array)
    descr = descr_of(array.datatype, array.byteorder)
    start = 0 if file.embedded is None else file.embedded.start
    start += file.contents.stored_stretch(number).offset
    offset = where.offset if compressed else start + where.offset
    found = Location(file.location, offset, where.shape, where.strides, descr, file.validators())
    if not compressed:
        return found
    slots = file.contents.compressed.pieces(number, pieces)
    if slots is None:
        raise NotPermittedError(f"block {number} is stored in more than {pieces} pieces")
    moved = [slot._replace(place=start + slot.place) for slot in slots]
    return found._replace(compression=name, pieces=moved)


def _in_region(file: FileState, array: Ndarray, region: Region) -> Location:
    check_shape(array, region)
    where = file.location, region.offset, region.shape, packed(region.shape, region.item)
    if not region.scaled:
        return Location(*where, ContainedElements(file, array, region).descr, file.validators())
    made, zero = _UNSIGNED.get(region.datatype, ("", 0))
    if not made or (region.scale, region.zero) != (1, zero):
        raise NotPermittedError("the data of its FITS extension are scaled or compressed")
    if array.datatype != made:
        raise InvalidArrayError(f"its datatype is {str(array.datatype)[:60]}, and the FITS extension has {made}")
    return Location(*where, descr_of(region.datatype, "big"), file.validators(), zero, made)
