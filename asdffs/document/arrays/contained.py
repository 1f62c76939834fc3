"""The elements of arrays whose data are in the file around the ASDF file, such as ``source: fits:SCI,1`` of JWST.

| the data are                                     | the elements are                                           |
|--------------------------------------------------|------------------------------------------------------------|
| stored as the tree describes them                | a window on the whole file: extents                        |
| scaled, tile-compressed, or columns that need it | converted by astropy once per array, as astropy shows them |

All are read-only.  Needs the extra ``fits`` (astropy) for what is converted.
"""

from __future__ import annotations

import io
import math
import os
import warnings
from typing import Any

from asdffs.arrays.datatypes import descr_of, item_size
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import place_in
from asdffs.document.arrays.elements import Elements, MadeElements, import_numpy
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError, NotPermittedError, Remedy
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
        before = file.steady_region(array.source)
        try:
            with file.scheduler.waiting():
                made = MadeElements(_converted(file, region))
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


class _Alone(io.RawIOBase):
    """The header of a region and what follows, as a file object; used without the main lock.

    astropy would read all headers before, with rules of its own.
    """

    def __init__(self, file: FileState, region: Region) -> None:
        self._file = file
        self._header = region.header
        self._shift = region.offset - len(region.header)
        self._size = file.whole_size - self._shift
        self._place = 0

    def readable(self) -> bool:
        """See ``io.RawIOBase``."""
        return True

    def seekable(self) -> bool:
        """See ``io.RawIOBase``."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """See ``io.RawIOBase``."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """See ``io.RawIOBase``."""
        raw = self._header[self._place : self._place + len(buffer)]
        if not raw:
            with self._file.scheduler.resumed():
                length = max(0, min(len(buffer), self._size - self._place))
                raw = read_bytes(self._file.read_whole(self._place + self._shift, length))
        buffer[: len(raw)] = raw
        self._place += len(raw)
        return len(raw)


def _converted(file: FileState, region: Region) -> Any:
    """Return the data of an HDU as astropy shows them, as an ndarray.  Raises ``InvalidArrayError``."""
    try:
        from astropy.io import fits
    except ImportError as err:
        raise InvalidArrayError(
            "its data are scaled or compressed, and astropy is not installed", remedy=Remedy.INSTALL_FITS
        ) from err
    import numpy as np

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what astropy finds wrong elsewhere in the file is not about this array
            with (
                io.BufferedReader(_Alone(file, region)) as alone,
                fits.open(alone, memmap=False, ignore_missing_simple=True) as hdus,
            ):
                data = hdus[0].data
                return _columns(data) if data.dtype.names else np.array(data)
    except AsdffsError:
        raise
    except Exception as err:  # astropy and its codecs raise whatever the damage leads to
        if isinstance(err, OSError) and err.errno is not None:
            raise
        raise InvalidArrayError(f"astropy cannot read its FITS extension: {str(err)[:100]}") from err


def _columns(table: Any) -> Any:
    """Return the columns of a FITS table, converted, as one structured array."""
    import numpy as np

    columns = {name: np.asarray(table[name]) for name in table.dtype.names}
    for name, column in columns.items():
        if column.dtype == object:
            raise InvalidArrayError(f"the column {name} of its FITS extension has rows of different lengths")
    fields = [(name, column.dtype, column.shape[1:]) for name, column in columns.items()]
    found = np.empty(len(table), fields)
    for name, column in columns.items():
        found[name] = column
    return found
