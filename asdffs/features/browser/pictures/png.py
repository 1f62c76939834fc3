"""Writes PNG images (W3C PNG, third edition): grey levels, and colours with or without transparency."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: Samples of a pixel -> colour type (PNG, section 11.2.1).
_COLOUR_TYPES: Final = {1: 0, 3: 2, 4: 6}


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Return an image.

    ``pixels``: uint8, of the shape (rows, columns) for grey levels, or (rows, columns, 3 or 4) for red, green, blue
    and alpha.  The first row is at the top.
    """
    rows, columns = pixels.shape[:2]
    samples = pixels.shape[2] if pixels.ndim == 3 else 1
    header = struct.pack(">IIBBBBB", columns, rows, 8, _COLOUR_TYPES[samples], 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: no filter
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines, 6)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
