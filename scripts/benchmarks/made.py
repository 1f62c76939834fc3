"""Makes ASDF files for the benchmarks without the asdf library: with many blocks, or holes of any size."""

from __future__ import annotations

import struct
from pathlib import Path

_FRAME = 4 << 20
_START = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


def make_file(path: Path, count: int, size: int, *, text: bytes = b"", padding: int = 4096) -> Path:
    """Make a file with ``count`` blocks of ``size`` bytes and a block index, and return its path.

    The contents are holes.  The first ten blocks have an array.  ``text``: more lines of the tree; ``padding``: bytes
    behind the tree.
    """
    arrays = b"".join(
        b"a%d: !core/ndarray-1.1.0 {source: %d, datatype: uint8, byteorder: little, shape: [%d]}\n" % (n, n, size)
        for n in range(min(count, 10))
    )
    tree = _START + b"value: 1\n" + text + arrays + b"...\n"
    offset = len(tree) + padding
    offsets = []
    with open(path, "wb") as file:
        file.write(tree)
        for _ in range(count):
            file.seek(offset)
            file.write(b"\xd3BLK\x00\x30" + struct.pack(">I4sQQQ16s", 0, b"", size, size, size, b""))
            offsets.append(offset)
            offset += 54 + size
        file.truncate(offset)
        if count:
            file.seek(offset)
            lines = b"".join(b"- %d\n" % one for one in offsets)
            file.write(b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n" + lines + b"...\n")
    return path


def fill(path: Path, offset: int, length: int, piece: bytes) -> None:
    """Fill ``length`` bytes from ``offset`` with copies of ``piece``, so that they are not holes."""
    with open(path, "r+b", buffering=0) as file:
        file.seek(offset)
        for _ in range(length // len(piece)):
            file.write(piece)


def make_compressed(path: Path, size: int, compression: str) -> Path:
    """Make a file with values as of a detector, which compress to about half their size.

    ``zstd frames`` is a block of ``zstd`` with a frame for each 4 MiB, which the asdf library does not write.
    """
    import asdf
    import numpy as np

    rng = np.random.default_rng(1)
    piece = rng.normal(1000, 12, 1 << 20).astype("<i2")
    content = np.concatenate([piece + np.int16(n % 7) for n in range(size // piece.nbytes or 1)])
    if compression == "zstd frames":
        return _make_frames(path, content.tobytes())
    asdf.AsdfFile({"data": content}).write_to(path, all_array_compression=compression)
    return path


def _make_frames(path: Path, content: bytes) -> Path:
    import zstandard

    compressor = zstandard.ZstdCompressor()
    stored = b"".join(compressor.compress(content[at : at + _FRAME]) for at in range(0, len(content), _FRAME))
    array = b"data: !core/ndarray-1.1.0 {source: 0, datatype: int16, byteorder: little, shape: [%d]}\n"
    head = struct.pack(">I4sQQQ16s", 0, b"zstd", len(stored), len(stored), len(content), b"")
    path.write_bytes(_START + array % (len(content) // 2) + b"...\n" + b"\xd3BLK\x00\x30" + head + stored)
    return path
