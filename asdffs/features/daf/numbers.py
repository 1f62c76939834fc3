"""The contents of a store as numpy arrays, memory-mapped if the bytes lie unchanged in a file.

numpy is imported only when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asdffs.errors import InvalidStoreError
from asdffs.features.daf.eltypes import Eltype
from asdffs.features.daf.files import Content, OnDisk
from asdffs.features.daf.stored import Stored
from asdffs.storage.backend import read_bytes

if TYPE_CHECKING:
    import numpy as np


def elements(content: Content, eltype: Eltype) -> np.ndarray[Any, Any]:
    """Return all elements as a read-only array with one axis.

    Raises ``InvalidStoreError`` if a Bool is neither 0 nor 1.
    """
    import numpy as np

    found: Any
    if not content.size:
        return np.empty(0, eltype.descr)
    if isinstance(content, OnDisk):
        found = np.memmap(content.path, np.uint8, mode="r", shape=(content.size,)).view(np.ndarray)
    elif isinstance(content, Stored):
        found = np.frombuffer(content.buffer(), np.uint8)
    else:
        found = np.frombuffer(read_bytes(content.read(0, content.size)), np.uint8)
    if eltype.descr == "|b1" and found.max() > 1:
        raise InvalidStoreError("has a Bool that is neither 0 nor 1")
    typed: np.ndarray[Any, Any] = found.view(eltype.descr)
    return typed
