"""Converts data of FITS files by astropy: scaled numbers, tile-compressed images, and columns of tables.

Needs the extra ``fits``.
"""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

from asdffs.errors import AsdffsError, InvalidArrayError, Remedy
from asdffs.format.container import Region

Read = Callable[[int, int], bytes]
#: Two threads that keep and restore the warnings of the process would mix them up.
_ONE_AT_A_TIME: Final = threading.Lock()
#: Which elements of an image are wanted: a slice with a positive step for each axis.
Part = tuple[slice, ...]


def converted(region: Region, read: Read, size: int, part: Part | None = None, *, stored: bool = False) -> Any:
    """Return the data of an HDU as astropy shows them, as an ndarray; of an image, only ``part`` if it is given.

    ``read(offset, length)`` reads the file, of ``size`` bytes.  ``stored``: leave out BSCALE, BZERO and BLANK.
    Raises ``InvalidArrayError``, ``OSError``, and what ``read`` raises.
    """
    try:
        from astropy.io import fits
    except ImportError as err:
        raise InvalidArrayError(
            "its data are scaled or compressed, and astropy is not installed", remedy=Remedy.INSTALL_FITS
        ) from err
    import numpy as np

    try:
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what astropy finds wrong elsewhere in the file is not about this array
            with (
                io.BufferedReader(_Alone(region, read, size)) as alone,
                fits.open(alone, memmap=False, ignore_missing_simple=True, do_not_scale_image_data=stored) as hdus,
            ):
                if part is not None:
                    return np.array(hdus[0].section[part])
                data = hdus[0].data
                return _columns(data) if data.dtype.names else np.array(data)
    except AsdffsError:
        raise
    except Exception as err:  # astropy and its codecs raise whatever the damage leads to
        if isinstance(err, OSError) and err.errno is not None:
            raise
        raise InvalidArrayError(f"astropy cannot read its FITS extension: {str(err)[:100]}") from err


class _Alone(io.RawIOBase):
    """The header of a region and what follows, as a file object.

    astropy would read all headers before, with rules of its own.
    """

    def __init__(self, region: Region, read: Read, size: int) -> None:
        self._read = read
        self._header = region.header
        self._shift = region.offset - len(region.header)
        self._size = size - self._shift
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
            length = max(0, min(len(buffer), self._size - self._place))
            raw = self._read(self._place + self._shift, length)
        buffer[: len(raw)] = raw
        self._place += len(raw)
        return len(raw)


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
