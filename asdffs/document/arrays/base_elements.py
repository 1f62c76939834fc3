"""The interface of the elements of an array, and elements that are made in memory.  Imports numpy when called."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from asdffs.arrays.datatypes import Descr
from asdffs.errors import NotPermittedError
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent


def import_numpy(scheduler: Scheduler) -> None:
    """Import numpy.  The first import takes a tenth of a second, and other requests are served meanwhile."""
    if "numpy" not in sys.modules:
        with scheduler.waiting():
            importlib.import_module("numpy")


class Elements:
    """The elements of one array; the base class is read-only.

    ``size`` and offsets are in bytes of the elements as an ``.npy`` file has them, without its header.  ``descr``:
    the numpy description of the dtype; ``fortran``: columns first; ``writable``: ``write`` works.
    """

    descr: Descr
    shape: tuple[int, ...]
    fortran = False
    size: int
    writable = False

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return ``length`` bytes from ``offset``, or their place; fewer at the end.

        Raises ``AsdffsError``, ``OSError``.
        """
        raise NotImplementedError

    def held(self) -> int:
        """Return the bytes that the file has for the elements; fewer than ``size`` if elements share them."""
        return self.size

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` within the array.  Raises ``NotPermittedError``, or as ``Block.write_at``."""
        raise NotPermittedError("the elements of this array have no single place; write its block or edit the tree")


class MadeElements(Elements):
    """Elements that numpy made, of inline data or a mask.  ``array``: an ndarray in any memory order."""

    def __init__(self, array: Any) -> None:
        import numpy as np

        self.descr = np.lib.format.dtype_to_descr(array.dtype)
        self.shape = array.shape
        self.size = array.nbytes
        self._raw: bytes = array.tobytes()

    def read(self, offset: int, length: int) -> bytes:
        """See ``Elements``."""
        return self._raw[offset : offset + length]
