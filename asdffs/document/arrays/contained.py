"""The elements of arrays whose data are in the file around the ASDF file, such as ``source: fits:SCI,1`` of JWST.

| the data are                                     | the elements are                                           |
|--------------------------------------------------|------------------------------------------------------------|
| stored as the tree describes them                | a window on the whole file: extents                        |
| scaled, tile-compressed, or columns that need it | converted by astropy once per array, as astropy shows them |

All are read-only.  Needs the extra ``fits`` (astropy) for what is converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from asdffs.arrays.datatypes import descr_of, item_size
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import place_in
from asdffs.document.arrays.converting import converted
from asdffs.document.arrays.elements import Elements, MadeElements, import_numpy
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.format.container import Region
from asdffs.storage.backend import Extent, read_bytes


class ContainedElements(Elements):
    """Elements in ``region`` of the whole file, stored as the tree describes them."""

    def __init__(self, file: FileState, array: Ndarray, region: Region) -> None:
        """Raises ``InvalidArrayError`` if the tree and the file disagree about the array."""
        stored = array._replace(source=0, byteorder="big", strides=None)
        _check_same(stored, region)
        self._file = file
        self._source = array.source
        placement = place_in(stored, 0, region.length)
        self.descr = descr_of(stored.datatype, stored.byteorder)
        self.shape, self.size = placement.shape, placement.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """See ``Elements``."""
        region = self._file.steady_region(self._source)  # it moves when the tree before it grows
        if region is None or region.length < self.size:
            raise InvalidArrayError("its FITS extension was changed meanwhile")
        return self._file.read_whole(region.offset + offset, max(0, min(length, self.size - offset)))

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Raise ``NotPermittedError``."""
        raise NotPermittedError("this array is outside of the ASDF extension, and read-only here")


def contained_elements(file: FileState, array: Ndarray, region: Region) -> Elements:
    """Return the elements of ``array`` in ``region``, by the table above.

    Raises ``InvalidArrayError`` if they cannot be shown, ``OSError``.
    """
    check_shape(array, region)
    if not region.scaled:
        return ContainedElements(file, array, region)
    file.budget.check(math.prod(region.shape) * region.item, "its elements", lambda: region.length)
    import_numpy(file.scheduler)
    while True:
        before, embedded = file.steady_region(array.source), file.embedded
        try:
            with file.scheduler.waiting():
                if embedded is not None:
                    embedded.check(str(array.source), _whole(file))
                made = MadeElements(converted(region, _whole(file), file.whole_size))
        except InvalidArrayError:
            if file.steady_region(array.source) == before:
                raise
        else:
            if file.steady_region(array.source) == before:  # nothing moved meanwhile
                return made


def check_shape(array: Ndarray, region: Region) -> None:
    """Raise ``InvalidArrayError`` if ``array`` is not all of the data in ``region``."""
    if array.offset or array.shape != region.shape:
        raise InvalidArrayError(
            f"its shape is {_listed(array.shape)}, and the data of the FITS extension have {_listed(region.shape)}"
        )


def _check_same(array: Ndarray, region: Region) -> None:
    item = item_size(array.datatype)
    if region.datatype not in ("", array.datatype):
        raise InvalidArrayError(
            f"its datatype is {str(array.datatype)[:60]}, and the FITS extension has {region.datatype}"
        )
    if item is not None and item != region.item:
        raise InvalidArrayError(f"its elements have {item} bytes, and those of the FITS extension {region.item}")


def _listed(shape: tuple[int, ...] | None) -> str:
    return "not valid" if shape is None else str(list(shape))


def _whole(file: FileState) -> Callable[[int, int], bytes]:
    """Return what reads bytes of the whole file without the main lock."""

    def read(offset: int, length: int) -> bytes:
        with file.scheduler.resumed():
            return read_bytes(file.read_whole(offset, length))

    return read
