"""Compares reading compressed blocks through the mount with decoding the same bytes in memory by libraries."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import make_compressed
from benchmarks.peers import mounted, offset_of_block
from benchmarks.place import Place, read_all, timed

ROW = "decode {}, MiB/s"
CODECS = ("zlib", "bzp2", "lz4", "zstd", "blsc")
#: With isal, zlib is faster than libz.
LEAST = {"zlib": 1.5, "lz4": 0.9, "zstd": 0.9, "blsc": 0.9}
TARGETS = (
    *(Target(ROW.format(name), "the codec in memory", least=least) for name, least in LEAST.items()),
    *(Target(ROW.format(name), "asdf in memory", least=0.8) for name in ("zlib", "lz4", "zstd")),
)


def measure(place: Place, figures: Figures) -> None:
    size = place.size(512)
    files = {name: make_compressed(place.folder / f"{name}.asdf", size, name) for name in CODECS}
    for _ in range(place.rounds):
        for name, file in files.items():
            row = ROW.format(name)
            stored = _stored(file)
            figures.add(row, "the codec in memory", size / (1 << 20) / timed(DECODERS[name], stored, size))
            del stored
            figures.add(row, "asdf in memory", size / (1 << 20) / timed(_by_library, file))
            for library in place.libraries:
                with mounted(file, place.folder / "mnt", library):
                    block = place.folder / "mnt/blocks/0000.bin"
                    figures.add(row, library, size / (1 << 20) / timed(read_all, block))


def _stored(file: Path) -> bytes:
    with open(file, "rb") as opened:
        opened.seek(offset_of_block(file))
        header = opened.read(54)
        return opened.read(int.from_bytes(header[22:30], "big"))


def _by_library(file: Path) -> None:
    import asdf

    with asdf.open(file) as opened:
        opened["data"][:]


def _zlib(stored: bytes, size: int) -> None:
    assert len(zlib.decompress(stored, bufsize=size)) == size


def _bzp2(stored: bytes, size: int) -> None:
    import bz2

    assert len(bz2.decompress(stored)) == size


def _lz4(stored: bytes, size: int) -> None:
    """Decode chunks: a length of 4 bytes, big-endian, then an LZ4 block that begins with its size, little-endian."""
    import lz4.block

    out, position, filled = bytearray(size), 0, 0
    while position < len(stored):
        length = int.from_bytes(stored[position : position + 4], "big")
        piece = lz4.block.decompress(memoryview(stored)[position + 4 : position + 4 + length])
        out[filled : filled + len(piece)] = piece
        position, filled = position + 4 + length, filled + len(piece)
    assert filled == size


def _zstd(stored: bytes, size: int) -> None:
    import zstandard

    assert len(zstandard.ZstdDecompressor().decompressobj().decompress(stored)) == size


def _blsc(stored: bytes, size: int) -> None:
    import blosc

    assert len(blosc.decompress(stored)) == size


DECODERS: dict[str, Callable[[bytes, int], None]] = {
    "zlib": _zlib,
    "bzp2": _bzp2,
    "lz4": _lz4,
    "zstd": _zstd,
    "blsc": _blsc,
}
