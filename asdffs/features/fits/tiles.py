"""Checks the compressed tiles of an image (FITS 4.0, section 10) before a library decodes them.

What gzip decodes a tile to is limited by the stored bytes only: a thousand times as much.  So a tile that is stored
in more bytes than its elements take is refused, and a long one is decoded here before, up to its size.  Pure.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from typing import Final

from asdffs.errors import InvalidArrayError
from asdffs.features.fits.hdus import Hdu, Read

#: Columns with compressed tiles.
_COLUMNS: Final = ("COMPRESSED_DATA", "GZIP_COMPRESSED_DATA")
#: A column of descriptors: length and place in the heap, as two integers of 32 or 64 bits.
_DESCRIPTORS: Final = {"P": struct.Struct(">II"), "Q": struct.Struct(">QQ")}
_FORM: Final = re.compile(r"(\d*)([A-Z])")
#: Bytes of a field of a table by its letter (FITS 4.0, table 18).
_WIDTHS: Final = {
    "L": 1,
    "B": 1,
    "A": 1,
    "I": 2,
    "J": 4,
    "E": 4,
    "K": 8,
    "D": 8,
    "C": 8,
    "P": 8,
    "M": 16,
    "Q": 16,
}
_MOST_AXES: Final = 999
#: What a compressed tile may take beyond its elements, in bytes, and the most rows of the table that are looked at.
_ADDED: Final = 1 << 12
#: Longer tiles could decode to more than a request may take, in bytes.
_LONG: Final = 1 << 18
#: For zlib: the head of gzip, and the largest window.
_GZIP: Final = 31
_MOST: Final = 1 << 20


def check_tiles(hdu: Hdu, read: Read) -> None:
    """Raise ``InvalidArrayError`` if a tile of a compressed image is stored in too many bytes; ``OSError``."""
    header = hdu.header
    if not header.flag("ZIMAGE") or len(hdu.axes) != 2:
        return
    width, rows = hdu.axes[0], min(hdu.axes[1], _count(hdu))  # nobody reads more rows
    if rows > _MOST:
        raise InvalidArrayError(f"its image has more than {_MOST:,} compressed tiles")
    size = abs(header.integer("ZBITPIX") or 8) // 8 * math.prod(tile_of(hdu))
    most = size + size // 8 + _ADDED
    heap = hdu.data + (header.integer("THEAP") or width * hdu.axes[1])
    for column, (shape, zipped) in _places(hdu).items():
        table = read(hdu.data, width * rows)
        if len(table) < width * rows or column + shape.size > width:
            raise InvalidArrayError("the table of its compressed tiles is cut off")
        for row in range(rows):
            length, place = shape.unpack_from(table, row * width + column)
            if length > most:
                raise InvalidArrayError(f"its compressed tile {row} has {length} bytes, more than its elements take")
            if zipped and length > _LONG and _is_longer(read(heap + place, length), size):
                raise InvalidArrayError(f"its compressed tile {row} has more elements than the header says")


def tile_of(hdu: Hdu) -> tuple[int, ...]:
    """Return the shape of the largest tile of a compressed image, as numpy has it."""
    return tuple(max(0, min(pair)) for pair in _axes_of(hdu))[::-1]


def _axes_of(hdu: Hdu) -> list[tuple[int, int]]:
    """Return the length of each axis of the image, and of its tiles."""
    header = hdu.header
    axes = range(1, min(header.integer("ZNAXIS") or 0, _MOST_AXES) + 1)
    image = [max(0, header.integer(f"ZNAXIS{n}") or 0) for n in axes]
    tile = [header.integer(f"ZTILE{n}") or (image[0] if n == 1 else 1) for n in axes]
    return list(zip(image, tile, strict=True))


def _count(hdu: Hdu) -> int:
    """Return the number of tiles of a compressed image."""
    return math.prod(-(-length // max(1, tile)) for length, tile in _axes_of(hdu))


def _is_longer(stored: bytes, size: int) -> bool:
    """Return whether gzip decodes to more than ``size`` bytes; damage is for the library to find."""
    try:
        return len(zlib.decompressobj(_GZIP).decompress(stored, size + 1)) > size
    except zlib.error:
        return False


def _places(hdu: Hdu) -> dict[int, tuple[struct.Struct, bool]]:
    """Return where the descriptors of tiles are in a row, how they are written, and whether the tiles are gzip's."""
    found, place = dict[int, tuple[struct.Struct, bool]](), 0
    zipped = (hdu.header.text("ZCMPTYPE") or "").startswith("GZIP")
    for n in range(1, (hdu.header.integer("TFIELDS") or 0) + 1):
        match = _FORM.match(hdu.header.text(f"TFORM{n}") or "")
        count, letter = (int(match[1] or 1), match[2]) if match else (0, "")
        name = hdu.header.text(f"TTYPE{n}")
        if letter in _DESCRIPTORS and name in _COLUMNS and count:
            found[place] = _DESCRIPTORS[letter], zipped or name != _COLUMNS[0]
        place += -(-count // 8) if letter == "X" else count * _WIDTHS.get(letter, 0)
    return found
