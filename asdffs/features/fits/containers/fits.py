"""FITS files with an ASDF extension, as JWST has them: the ASDF file is the data of the extension named ASDF.

The extension is a table of bytes with one row and one column, or an image of bytes.  Its size, NAXIS1, is the size of
the ASDF file, and data fill whole records of 2,880 bytes.  A tree that grows takes these bytes first:

1. within the last record of the extension: NAXIS1 changes;
2. if the extension is the last HDU: records are appended to the file;
3. else all HDUs behind it move.  They move by so many bytes that the file system need not copy them, and NAXIS1
   counts what is not needed, which are spaces behind the tree.

A shorter tree is followed by spaces, and NAXIS1 stays.  If the ASDF file has blocks, what is not needed is padding
before the first.  Implements FITS 4.0.  Pure.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from asdffs.errors import DamagedFileError, InvalidArrayError, NoRoomError, NotAsdfError
from asdffs.features.fits.hdus import RECORD, Hdu, filled, read_hdus, sum_of, with_integer, with_sums, with_text
from asdffs.features.fits.tiles import check_tiles, tile_of
from asdffs.format.container import Embedded, Read, Region
from asdffs.format.plan import Move, Plan, Write
from asdffs.format.text import difference

_NAME: Final = "ASDF"
_PREFIX: Final = "fits:"
#: Larger blocks of a file system are not used to move HDUs, in bytes.
_LARGEST_UNIT: Final = 1 << 12
#: Bytes that are summed at once.
_PIECE: Final = RECORD * 400
#: The most columns of a table (FITS 4.0, section 7.2.1).
_MOST_COLUMNS: Final = 999
#: The key of the tree with the hash of the FITS headers.
_HASH: Final = re.compile(rb"^_fits_hash: *([0-9a-f]{64})\s*$", re.MULTILINE)
#: The sum of an HDU with a right CHECKSUM: all bits are ones (FITS 4.0, section 4.4.2.7).
_RIGHT: Final = 0xFFFF_FFFF
#: Compressions of tiles that are decoded.  For damaged HCOMPRESS_1 and PLIO_1, astropy goes beyond its memory.
_TILES: Final = ("RICE_1", "RICE_ONE", "GZIP_1", "GZIP_2")
#: Keywords from which such an image is decoded: a file of DKIST has hundreds of others, and astropy looks at all.
_TILED: Final = re.compile(
    r"XTENSION|BITPIX|NAXIS\d*|[PG]COUNT|TFIELDS|THEAP|T(TYPE|FORM|SCAL|ZERO|NULL|DIM)\d+|Z\w*|BLANK|BSCALE|BZERO"
)
#: The datatypes of ASDF by BITPIX (FITS 4.0, table 8).
_DATATYPES: Final = {8: "uint8", 16: "int16", 32: "int32", 64: "int64", -32: "float32", -64: "float64"}


class Fits:
    """FITS files.  See ``Container``."""

    def claims(self, head: bytes) -> bool:
        """Return whether ``head`` is the first card of a FITS file."""
        return head.startswith(b"SIMPLE  =")

    def find(self, read: Read, size: int) -> Embedded:
        """Return the ASDF file in the extension named ASDF.  See ``Container``."""
        hdus = tuple(read_hdus(read, size))
        for hdu in hdus:
            if hdu.name == _NAME and hdu.number:
                return _embedded(hdus, hdu, read, size)
        names = ", ".join(hdu.name for hdu in hdus[1:9] if hdu.name) or "none with a name"
        raise NotAsdfError(f"is a FITS file without an extension named ASDF (it has: {names}); it has no tree")

    def data(self, read: Read, size: int, target: str) -> Region:
        """Return the data of the HDU with this number or name, ``SCI`` or ``SCI,2``.  See ``Container``."""
        hdu = _named(read_hdus(read, size), target)
        if hdu is None:
            raise InvalidArrayError(f"it has no extension {target[:60]!r}")
        if hdu.header.text("XTENSION") not in (None, "IMAGE") and not hdu.header.flag("ZIMAGE"):
            raise InvalidArrayError(f"its extension {target[:60]!r} is no image")
        found = _region(hdu, size)
        check_tiles(hdu, read)
        return found


class EmbeddedInFits(NamedTuple):
    """The ASDF file in the HDU ``own``.  See ``Embedded``.  ``whole``: the size of the FITS file in bytes."""

    hdus: tuple[Hdu, ...]
    own: Hdu
    whole: int
    kind: str = "FITS"

    @property
    def start(self) -> int:
        """See ``Embedded``."""
        return self.own.data

    @property
    def size(self) -> int:
        """See ``Embedded``."""
        return self.own.length

    @property
    def _last(self) -> bool:
        """Whether nothing follows the extension."""
        return self.whole <= self.own.stop

    def size_for(self, least: int, unit: int) -> int:
        """See ``Embedded``, and the rules of this module."""
        room = filled(self.size)
        if least <= room or self._last:
            return max(least, self.size)
        step = math.lcm(RECORD, unit if unit <= _LARGEST_UNIT else 1)
        return room + -(-(least - room) // step) * step

    def enclose(self, plan: Plan, read: Read) -> tuple[Plan, Embedded]:
        """See ``Embedded``."""
        if plan.move is not None or filled(plan.new_size) < filled(self.size):
            raise NoRoomError("the ASDF file cannot become so much shorter inside a FITS file")
        after = self._with_size(plan, read)
        rest = Write(plan.new_size, bytes(max(0, self.size - plan.new_size)))
        writes = [Write(self.start + write.offset, write.payload) for write in (*plan.writes, rest)]
        changed = difference(self.own.header.raw, after.own.header.raw)
        if changed is not None:
            writes.append(Write(self.own.header.start + changed[0], changed[1]))
        source, growth = self.own.stop, after.own.stop - self.own.stop
        move = None
        if growth and not self._last:
            move = Move(source, source + growth, self.whole - source)
            writes.append(Write(self.start + plan.new_size, bytes(source + growth - self.start - plan.new_size)))
        writes = [write for write in writes if write.payload]
        return Plan(self.whole, after.whole, tuple(writes), move, self.start + plan.steady), after

    def _with_size(self, plan: Plan, read: Read) -> EmbeddedInFits:
        """Return what is embedded after ``plan``: the header has the new size, and right checksums."""
        header = self.own.header
        if plan.new_size != self.size:
            header = with_integer(header, "NAXIS1", plan.new_size)
            if header.text("TFORM1") is not None:
                header = with_text(header, "TFORM1", f"{plan.new_size}B")
        if header.text("DATASUM") is not None or header.text("CHECKSUM") is not None:
            header = with_sums(header, sum_of(self._data_after(plan, read)))
        own = self.own._replace(header=header, length=plan.new_size)
        growth = own.stop - self.own.stop
        whole = max(own.stop, self.whole) if self._last else self.whole + growth
        return EmbeddedInFits(tuple(_moved(hdu, own, growth) for hdu in self.hdus), own, whole)

    def _data_after(self, plan: Plan, read: Read) -> Iterator[bytes]:
        """Yield the data of the extension, with filling, as ``plan`` leaves them."""
        room, end = filled(self.size), filled(plan.new_size)
        rest = Write(plan.new_size, bytes(max(0, self.size - plan.new_size)))
        for place in range(0, end, _PIECE):
            stop = min(place + _PIECE, end)
            piece = bytearray(read(self.start + place, max(0, min(stop, room) - place)).ljust(stop - place, b"\0"))
            for write in (*plan.writes, rest):
                first, last = max(place, write.offset), min(stop, write.offset + len(write.payload))
                if first < last:
                    piece[first - place : last - place] = write.payload[first - write.offset : last - write.offset]
            yield bytes(piece)

    def contradictions(self, text: bytes, read: Read) -> Iterator[str]:
        """See ``Embedded``: headers that changed after the tree was written, and wrong checksums of the extension."""
        stated = _HASH.search(text)
        if stated is not None and stated[1].decode() != self._hash():
            yield (
                "the FITS headers were changed after the tree was written (_fits_hash differs), so jwst reads the "
                "FITS keywords, and not the values of the tree that have one"
            )
        header = self.own.header
        data = sum_of(self._data_after(Plan(self.size, self.size), read))
        if header.text("DATASUM") not in (None, str(data)):
            yield "DATASUM of the extension ASDF is wrong"
        elif header.text("CHECKSUM") is not None and sum_of([header.raw, data.to_bytes(4, "big")]) != _RIGHT:
            yield "CHECKSUM of the extension ASDF is wrong"

    def _hash(self) -> str:
        """Return the hash of all other headers, as jwst writes it into the tree."""
        digest = hashlib.sha256()
        for hdu in self.hdus:
            if hdu.name != _NAME:
                digest.update(hdu.header.raw)
        return digest.hexdigest()

    def region(self, source: str) -> Region | None:
        """Return the data of the HDU to which ``fits:SCI,1`` or ``fits:2`` refers.  See ``Embedded``."""
        if not source.startswith(_PREFIX):
            return None
        hdu = self._meant(source)
        if hdu is None:
            raise InvalidArrayError(f"its source is {source[:60]!r}, and the FITS file has no such extension")
        return _region(hdu, self.whole)

    def check(self, source: str, read: Read) -> None:
        """Check compressed tiles.  See ``Embedded``."""
        hdu = self._meant(source)
        if hdu is not None:
            check_tiles(hdu, read)

    def units(self, source: str) -> dict[str, str]:
        """Return BUNIT, and TUNITn of each TTYPEn.  See ``Embedded``."""
        hdu = self._meant(source) if source.startswith(_PREFIX) else None
        if hdu is None:
            return {}
        header, names = hdu.header, {"BUNIT": ""}
        if not header.flag("ZIMAGE"):  # else the columns are those of the compressed tiles
            columns = range(1, min(header.integer("TFIELDS") or 0, _MOST_COLUMNS) + 1)
            names |= {f"TUNIT{n}": name for n in columns if (name := header.text(f"TTYPE{n}"))}
        return {name: unit for keyword, name in names.items() if (unit := header.text(keyword))}

    def _meant(self, source: str) -> Hdu | None:
        return _named(self.hdus, source[len(_PREFIX) :])


def _moved(hdu: Hdu, own: Hdu, growth: int) -> Hdu:
    if hdu.number == own.number:
        return own
    if hdu.number < own.number:
        return hdu
    return hdu._replace(header=hdu.header._replace(start=hdu.header.start + growth), data=hdu.data + growth)


def _named(hdus: Iterable[Hdu], target: str) -> Hdu | None:
    """Return the first HDU that ``SCI,1``, ``SCI`` or ``2`` names."""
    name, _, version = target.partition(",")
    return next((hdu for hdu in hdus if _is_meant(hdu, name.strip(), version.strip())), None)


def _is_meant(hdu: Hdu, name: str, version: str) -> bool:
    if name.isdecimal() and not version:
        return str(hdu.number) == name
    return hdu.name == name.upper() and version in ("", str(hdu.version))


def _embedded(hdus: tuple[Hdu, ...], own: Hdu, read: Read, size: int) -> EmbeddedInFits:
    header, kind = own.header, own.header.text("XTENSION")
    forms = (f"{own.length}B", "B") if own.length == 1 else (f"{own.length}B",)
    plain = header.integer("BITPIX") == 8 and (header.integer("PCOUNT") or 0) == 0
    table = kind == "BINTABLE" and own.axes[1:] == (1,) and header.text("TFORM1") in forms
    image = kind == "IMAGE" and len(own.axes) == 1 and header.number("BZERO") in (None, 0)
    if not plain or not (table or image):
        raise NotAsdfError(
            "its extension ASDF is neither one cell of bytes nor an image of bytes", offset=header.start
        )
    if own.data + own.length > size:
        raise DamagedFileError("the FITS file ends inside its extension ASDF", offset=own.data)
    return EmbeddedInFits(hdus, own, size)


def _region(hdu: Hdu, size: int) -> Region:
    """Return where the data of ``hdu`` are.  Raises ``InvalidArrayError``."""
    header, axes = hdu.header, hdu.axes
    bits = header.integer("BITPIX") or 8
    item, datatype = abs(bits) // 8, _DATATYPES[bits]
    if not axes or hdu.data + max(hdu.length, item * math.prod(axes)) > size:  # GCOUNT may be 0
        what = "has no data" if not axes else "is cut off by the end of the file"
        raise InvalidArrayError(f"its source, the FITS extension {hdu.name or hdu.number}, {what}")
    if header.flag("ZIMAGE"):
        return _compressed_region(hdu)
    if header.text("XTENSION") in ("BINTABLE", "TABLE", "A3DTABLE"):
        empty = axes[0] == 0 != axes[-1]  # any number of rows
        if len(axes) != 2 or empty or not 0 <= (header.integer("TFIELDS") or 0) <= _MOST_COLUMNS:
            raise InvalidArrayError(
                f"its source, the FITS table {hdu.name or hdu.number}, has no valid NAXIS or TFIELDS"
            )
        scaled = header.text("XTENSION") == "TABLE" or _is_converted(hdu)
        return Region(hdu.data, axes[0] * axes[1], axes[0], (axes[1],), "", scaled, header.once() if scaled else b"")
    scale, zero = (header.number(keyword) for keyword in ("BSCALE", "BZERO"))
    scaled = zero not in (None, 0) or scale not in (None, 1)
    linear = (1 if scale is None else scale, zero or 0)
    shape, once = tuple(reversed(axes)), header.once() if scaled else b""
    return Region(hdu.data, item * math.prod(axes), item, shape, datatype, scaled, once, *linear)


def _compressed_region(hdu: Hdu) -> Region:
    """Return where a tile-compressed image is (FITS 4.0, section 10).  Raises ``InvalidArrayError``."""
    header = hdu.header
    count, bits = header.integer("ZNAXIS") or 0, header.integer("ZBITPIX")
    axes = [header.integer(f"ZNAXIS{n}") or 0 for n in range(1, min(count, _MOST_COLUMNS) + 1)]
    sentence = f"its source, the FITS extension {hdu.name or hdu.number}, is a tile-compressed image"
    if bits not in _DATATYPES or not axes or min(axes) < 1:
        raise InvalidArrayError(f"{sentence} without a valid ZBITPIX, ZNAXIS or ZNAXISn")
    if not 0 <= (header.integer("TFIELDS") or 0) <= _MOST_COLUMNS:
        raise InvalidArrayError(f"{sentence} without a valid TFIELDS")
    if header.text("ZCMPTYPE") not in _TILES:
        raise InvalidArrayError(f"{sentence} of another compression than {', '.join(_TILES)}; use funpack")
    shape = tuple(reversed(axes))
    scale, zero = header.number("BSCALE"), header.number("BZERO")
    linear = (1 if scale is None else scale, zero or 0)
    facts = hdu.data, hdu.length, abs(bits) // 8, shape, "", True
    return Region(*facts, header.once(_TILED.fullmatch), *linear, tile_of(hdu))


def _is_converted(hdu: Hdu) -> bool:
    """Return whether astropy converts a column: it is scaled, logical, of bits, or of variable length."""
    header = hdu.header
    for n in range(1, (header.integer("TFIELDS") or 0) + 1):
        form = (header.text(f"TFORM{n}") or "").lstrip("0123456789")
        if form[:1] in "LXPQ" or header.number(f"TZERO{n}") or header.number(f"TSCAL{n}") not in (None, 1):
            return True
    return False


PLUGIN = Fits()
