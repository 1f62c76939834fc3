"""Maps the elements of an array into memory."""

from __future__ import annotations

from typing import Any, Final

from asdffs import registry
from asdffs.arrays.branch import Branch
from asdffs.document.arrays.elements import BlockElements, Elements
from asdffs.document.arrays.finding import location_of
from asdffs.document.block import Block
from asdffs.document.state import FileState
from asdffs.errors import NotPermittedError
from asdffs.storage.backend import read_bytes
from asdffs.storage.urls import is_remote

#: The most pieces of a block that is decoded when it is touched.
_MOST_PIECES: Final = 1 << 20


def mapped(file: FileState, elements: Elements) -> Any:
    """Return a read-only ndarray on the elements: an mmap, or a copy.  See ``Array.mapped``."""
    import numpy as np

    dtype = np.dtype(elements.descr)
    if isinstance(elements, BlockElements) and not elements.elsewhere:
        where = elements.placement
        buffer = Block(file, where.number).buffer()
        return np.ndarray(where.shape, dtype, buffer, where.offset, where.strides)
    file.budget.check(elements.size, "its elements", elements.held)
    raw = np.frombuffer(read_bytes(elements.read(0, elements.size)), dtype)
    return raw.reshape(elements.shape, order="F" if elements.fortran else "C")


def paged(file: FileState, branch: Branch) -> Any:
    """Return an ndarray on the elements whose block is decoded when it is touched (``features/paging``).

    None if that is not better than ``mapped``: they are not in several compressed pieces of a file on this machine,
    or the file is open for writing.  Raises ``NotSupportedError`` if the kernel does not allow it, or as
    ``location_of``.
    """
    import numpy as np

    if file.writable:
        return None
    try:
        where = location_of(file, branch, pieces=_MOST_PIECES)
    except NotPermittedError:
        return None
    if len(where.pieces) < 2 or is_remote(where.path):
        return None
    buffer = registry.needed_feature("paging").paged(where)
    return np.ndarray(where.shape, np.dtype(where.descr), buffer, where.offset, where.strides)
