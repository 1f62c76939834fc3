"""FITS files with an ASDF extension, as stdatamodels writes them for JWST.  astropy writes all but the tree."""

from __future__ import annotations

import io
import warnings
import zlib
from pathlib import Path
from typing import Literal, NamedTuple

import asdf
import numpy as np
from astropy.io import fits

OBSERVER = "observer: Ada   # who observed"
TREE = f"""#ASDF 1.0.0
#ASDF_STANDARD 1.6.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
_fits_hash: 0123456789abcdef
meta:
  {OBSERVER}
  exposure: {{time: 107.5, type: NRC_IMAGE}}
data: !core/ndarray-1.1.0
  source: fits:SCI,1
  datatype: float32
  byteorder: big
  shape: [40, 30]
second: !core/ndarray-1.1.0
  source: fits:SCI,2
  datatype: int16
  byteorder: big
  shape: [2, 3]
dq: !core/ndarray-1.1.0
  source: fits:DQ,1
  datatype: uint32
  byteorder: big
  shape: [40, 30]
spectrum: !core/ndarray-1.1.0
  source: fits:EXTRACT1D,1
  datatype:
  - {{name: wavelength, datatype: float64, byteorder: big}}
  - {{name: order, datatype: int16, byteorder: big}}
  byteorder: big
  shape: [5]
...
""".encode()


def with_blocks(count: int = 2) -> bytes:
    """An ASDF file by the asdf library: coefficients of a gwcs, which are in blocks, and an index."""
    buffer = io.BytesIO()
    tree = {"meta": {"observer": "Ada"}, **{f"c{n}": COEFFICIENTS + n for n in range(count)}}
    asdf.AsdfFile(tree).write_to(buffer, all_array_storage="internal")
    return buffer.getvalue()


COEFFICIENTS = np.arange(9.0).reshape(3, 3)
DATA = np.arange(1200, dtype=">f4").reshape(40, 30)
SECOND = np.arange(6, dtype=">i2").reshape(2, 3)
DQ = np.arange(1200, dtype="u4").reshape(40, 30)
SPECTRUM = np.array([(n / 2, n) for n in range(5)], [("wavelength", ">f8"), ("order", ">i2")])

#: Those that the FITS headers state.
UNITS = {"data": "MJy/sr", "wavelength": "um"}


class Form(NamedTuple):
    """How the ASDF file is in the FITS file: as a table or an image, last or second, with or without CHECKSUM."""

    kind: Literal["table", "image"] = "table"
    last: bool = True
    checksum: bool = False


PLAIN = Form()
FORMS = [
    Form(kind, last, checksum) for kind in ("table", "image") for last in (True, False) for checksum in (True, False)
]


def write_fits(path: Path, form: Form = PLAIN, tree: bytes = TREE) -> None:
    """Write the file."""
    parts = [
        fits.ImageHDU(DATA, name="SCI", ver=1),
        fits.ImageHDU(SECOND, name="SCI", ver=2),
        fits.ImageHDU(DQ, name="DQ"),
        fits.BinTableHDU(SPECTRUM, name="EXTRACT1D"),
    ]
    parts[0].header["BUNIT"] = UNITS["data"]
    parts[-1].columns["wavelength"].unit = UNITS["wavelength"]
    parts.insert(len(parts) if form.last else 0, extension(form.kind, tree))
    primary = fits.PrimaryHDU()
    primary.header["TELESCOP"] = ("JWST", "Telescope used to acquire the data")
    fits.HDUList([primary, *parts]).writeto(path, checksum=form.checksum)


def extension(kind: str, tree: bytes) -> fits.BinTableHDU | fits.ImageHDU:
    """The extension ASDF with these bytes."""
    raw = np.frombuffer(tree, np.uint8)
    if kind == "image":
        return fits.ImageHDU(raw, name="ASDF")
    column = fits.Column(name="ASDF_METADATA", format=f"{len(raw)}B", array=raw[None, :])
    return fits.BinTableHDU.from_columns([column], name="ASDF")


def embedded(path: Path) -> bytes:
    """The bytes of the ASDF file inside, as astropy has them.  Its warnings, of checksums too, are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fits.open(path, checksum=True, memmap=False) as hdus:
            hdus.verify("exception")
            data = hdus["ASDF"].data
            return data.tobytes() if data.dtype.names is None else data[0][0].tobytes()


def others(path: Path) -> list[tuple[str, bytes]]:
    """The header of each other HDU, and the bytes of its data as they are in the file."""
    whole = path.read_bytes()
    with fits.open(path, memmap=False) as hdus:
        spans = [(hdu.name, hdu.fileinfo()) for hdu in hdus]
    return [
        (name, whole[where["hdrLoc"] : where["datLoc"] + where["datSpan"]]) for name, where in spans if name != "ASDF"
    ]


def bomb(content: bytes, more: int) -> bytes:
    """``content`` and ``more`` zeros, in whole MiB, as gzip stores them: in a thousandth of their bytes."""
    encoder = zlib.compressobj(9, zlib.DEFLATED, 31)
    stored = encoder.compress(content)
    return stored + b"".join(encoder.compress(bytes(1 << 20)) for _ in range(more >> 20)) + encoder.flush()


def with_tile(path: Path, number: int, stored: bytes) -> None:
    """Replace the only tile of the compressed image in an HDU."""
    with fits.open(path, disable_image_compression=True) as hdus:
        where, header = hdus[number].fileinfo(), hdus[number].header.copy()
        table = bytearray(hdus[number].data.tobytes())
    header["PCOUNT"] = len(stored)
    table[:8] = np.array([len(stored), 0], ">i4").tobytes()
    data, raw = bytes(table) + stored, path.read_bytes()
    raw, rest = raw[: where["hdrLoc"]], raw[where["datLoc"] + where["datSpan"] :]
    path.write_bytes(raw + header.tostring().encode() + data + bytes(-len(data) % 2880) + rest)
