"""Finds where the elements of an array are in the file, if a program can read them there without decoding anything.

| the array is                                    | its stored elements                                        |
|-------------------------------------------------|------------------------------------------------------------|
| in a block without compression                  | in the block, with the strides of the tree                 |
| in another file, by a URI as source             | in the first block of that file                            |
| in the FITS file around the ASDF file           | in the data of the HDU; scaled integers have a ``zero``    |
| compressed, in the tree, in chunks of asdf-zarr | nowhere                                                    |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from asdffs.arrays.branch import Branch
from asdffs.arrays.datatypes import descr_of
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import block_of, packed
from asdffs.document.arrays.contained import ContainedElements, check_shape
from asdffs.document.arrays.elements import place
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.format.container import Region

#: ``zero`` of the unsigned integers in FITS: the smallest number of the signed ones, without its sign.
_UNSIGNED: Final = {"int16": ("uint16", 1 << 15), "int32": ("uint32", 1 << 31)}


class Stored(NamedTuple):
    """Elements in the file at ``path``, which may be a URL.

    ``offset``: of element 0, ``strides``: between elements, both in bytes.  ``descr``: numpy's description of the
    stored elements.  ``zero`` is to be added to them, which gives elements of ``made``; ``made`` is empty if there is
    nothing to add.  ``version``: what tells this version of the file from another (``FileState.validators``).
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    descr: Any
    version: Mapping[str, int | str]
    zero: int = 0
    made: str = ""


def stored_elements(file: FileState, branch: Branch) -> Stored:
    """Return where the elements of the array at ``branch`` are.

    Raises ``NotPermittedError`` with the reason if they are nowhere as such, and otherwise as ``elements_of``.
    """
    array = branch.array
    if array is None or branch.inline is not None:
        raise NotPermittedError("its elements are in the text of the tree")
    if array.chunked is not None:
        raise NotPermittedError("its elements are in chunks of asdf-zarr")
    region = file.region(array.source)
    if region is not None:
        return _in_region(file, array, region)
    if isinstance(array.source, str):
        return _in_block(file.linked_files.find(array.source, file), array._replace(source=0))
    return _in_block(file, array)


def _in_block(file: FileState, array: Ndarray) -> Stored:
    number = block_of(len(file.table), array)
    if file.table.header(number).compressed:
        raise NotPermittedError(f"block {number} is compressed ({file.contents.codecs.name(number)})")
    where = place(file, array)
    start = 0 if file.embedded is None else file.embedded.start
    offset = start + file.contents.stored_stretch(number).offset + where.offset
    descr = descr_of(array.datatype, array.byteorder)
    return Stored(file.location, offset, where.shape, where.strides, descr, file.validators())


def _in_region(file: FileState, array: Ndarray, region: Region) -> Stored:
    check_shape(array, region)
    where = file.location, region.offset, region.shape, packed(region.shape, region.item)
    if not region.scaled:
        return Stored(*where, ContainedElements(file, array, region).descr, file.validators())
    made, zero = _UNSIGNED.get(region.datatype, ("", 0))
    if not made or (region.scale, region.zero) != (1, zero):
        raise NotPermittedError("the data of its FITS extension are scaled")
    if array.datatype != made:
        raise InvalidArrayError(f"its datatype is {str(array.datatype)[:60]}, and the FITS extension has {made}")
    return Stored(*where, descr_of(region.datatype, "big"), file.validators(), zero, made)
