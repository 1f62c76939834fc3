"""Compares reading compressed blocks through the mount with decoding the same bytes by the libraries.

A library has one thread and decodes into memory.  What has pieces, of lz4 and of several zstd frames, is decoded by
a thread for each processor.  blosc uses all processors itself; what it decodes is written into a file and read back,
as a mount must do it.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import make_compressed
from benchmarks.peers import mounted, offset_of_block
from benchmarks.place import PIECE, Place, read_all, timed

ROW = "decode {}, MiB/s"
CODECS = ("zlib", "bzp2", "lz4", "zstd", "zstd frames", "blsc")
LIBRARY = "the library"
#: With isal, zlib is faster than libz.
LEAST = {"zlib": 1.5, "lz4": 0.9, "zstd": 0.9, "zstd frames": 0.9, "blsc": 0.6}
TARGETS = (
    *(Target(ROW.format(name), LIBRARY, least=least) for name, least in LEAST.items()),
    *(Target(ROW.format(name), "asdf in memory", least=0.8) for name in ("zlib", "lz4", "zstd")),
)


def measure(place: Place, figures: Figures) -> None:
    size = place.size(512)
    files = {name: make_compressed(place.folder / f"{name}.asdf", size, name) for name in CODECS}
    for _ in range(place.rounds):
        for name, file in files.items():
            row = ROW.format(name)
            stored = _stored(file)
            figures.add(row, LIBRARY, size / (1 << 20) / timed(DECODERS[name], stored, size))
            del stored
            if name != "zstd frames":  # the asdf library reads the first frame only
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

    def parts() -> Iterator[memoryview]:
        position = 0
        while position < len(stored):
            length = int.from_bytes(stored[position : position + 4], "big")
            yield memoryview(stored)[position + 4 : position + 4 + length]
            position += 4 + length

    assert _in_pool(lz4.block.decompress, parts(), size) == size


def _zstd_frames(stored: bytes, size: int) -> None:
    import zstandard

    local = threading.local()  # a decompressor is for one thread

    def decode(frame: memoryview) -> bytes:
        if not hasattr(local, "library"):
            local.library = zstandard.ZstdDecompressor()
        return bytes(local.library.decompress(frame))

    starts = [found.start() for found in re.finditer(re.escape(zstandard.FRAME_HEADER), stored)]
    frames = (memoryview(stored)[start:stop] for start, stop in pairwise([*starts, len(stored)]))
    assert _in_pool(decode, frames, size) == size


def _in_pool(decode: Callable[[memoryview], bytes], parts: Iterable[memoryview], size: int) -> int:
    """Decode all parts into memory, with a thread for each processor; return the bytes of content."""
    out, filled, waiting, workers = bytearray(size), 0, deque[Future[bytes]](), os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        for part in chain(parts, [None] * workers):
            if part is not None:
                waiting.append(pool.submit(decode, part))
            if waiting and (part is None or len(waiting) > workers):
                piece = waiting.popleft().result()
                out[filled : filled + len(piece)] = piece
                filled += len(piece)
    return filled


def _zstd(stored: bytes, size: int) -> None:
    import zstandard

    assert len(zstandard.ZstdDecompressor().decompressobj().decompress(stored)) == size


def _blsc(stored: bytes, size: int) -> None:
    import blosc

    with tempfile.TemporaryFile() as file:
        file.write(blosc.decompress(stored))
        file.seek(0)
        buffer, total = bytearray(PIECE), 0
        while got := file.readinto(buffer):
            total += got
    assert total == size


DECODERS: dict[str, Callable[[bytes, int], None]] = {
    "zlib": _zlib,
    "bzp2": _bzp2,
    "lz4": _lz4,
    "zstd": _zstd,
    "zstd frames": _zstd_frames,
    "blsc": _blsc,
}
