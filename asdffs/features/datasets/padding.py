"""The codec ``asdffs_pad`` of numcodecs: it adds zeros behind the last chunk of an array, which has fewer rows.

Zarr refuses a short last chunk.  The other codecs that references name come with Zarr, so only arrays whose last
compressed piece is short need asdffs where they are read.  numcodecs finds it by the entry point ``asdffs_pad``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ndarray_copy

#: Its name in metadata, which ``zarr_metadata`` writes.
PAD = "asdffs_pad"


class Pad(Codec):  # type: ignore[misc]  # numcodecs has no types
    """Adds zeros to what another codec decoded, up to ``size`` bytes."""

    codec_id = PAD

    def __init__(self, size: int) -> None:
        self.size = size

    def encode(self, buf: Any) -> Any:
        """Return ``buf`` as it is: a chunk that Zarr writes is whole."""
        return buf

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the bytes ``buf``, and zeros behind them; in ``out`` if that is given.

        Raises ``ValueError`` if there are more than ``size`` bytes.
        """
        found = ensure_contiguous_ndarray(buf).view(np.uint8).reshape(-1)
        if len(found) > self.size:
            raise ValueError(f"a chunk has {len(found)} bytes instead of {self.size}")
        whole = np.zeros(self.size, np.uint8)
        whole[: len(found)] = found
        return whole if out is None else ndarray_copy(whole, out)
