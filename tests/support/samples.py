"""ASDF files to test on: by the asdf library, and by hand where it writes no such file."""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

import asdf
import lz4.block
import numpy as np

MAGIC = b"\xd3BLK"
STANDARDS = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0"]

TREE = """\
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
# a comment to keep
meta: {exposure: 12.5, 'observer': "Ada"}   # and one at the end of a line
value: 1
data: !core/ndarray-1.0.0 {source: 0, datatype: float32, byteorder: big, shape: [25]}
mask: !core/ndarray-1.0.0 {source: 1, datatype: uint8, byteorder: little, shape: [40]}
unknown: !<tag:example.org:thing-1.0.0> {a: &x [1, 2], b: *x}
...
"""


def write_sample(path: Path, *, version: str | None = None, **options: object) -> dict[str, np.ndarray]:
    """A file by the asdf library with four arrays; the arrays."""
    rng = np.random.default_rng(42)
    arrays = {
        "big": rng.normal(size=(64, 32)).astype(">f8"),
        "little": rng.integers(0, 1000, size=5000).astype("<i4"),
        "bytes": rng.integers(0, 255, size=777).astype("u1"),
        "last": np.arange(1000, dtype=">u2"),
    }
    tree = {"meta": {"instrument": "NIRCam", "value": 1, "text": "a: b # c"}, **arrays}
    asdf.AsdfFile(tree, version=version).write_to(path, **options)
    return arrays


def header_bytes(
    used: bytes,
    *,
    allocated: int | None = None,
    size: int = 48,
    flags: int = 0,
    md5: bool = True,
    compression: bytes = bytes(4),
    data_size: int | None = None,
) -> bytes:
    """A block header for the stored bytes ``used``."""
    checksum = hashlib.md5(used).digest() if md5 else bytes(16)
    sizes = (allocated or len(used), len(used), len(used) if data_size is None else data_size)
    fields = struct.pack(">I4sQQQ16s", flags, compression, *sizes, checksum)
    return MAGIC + struct.pack(">H", size) + fields.ljust(size, b"\x07")


def block_bytes(used: bytes, *, slack: bytes = b"", size: int = 48, flags: int = 0, md5: bool = True) -> bytes:
    """A block: header, content, slack."""
    return header_bytes(used, allocated=len(used) + len(slack), size=size, flags=flags, md5=md5) + used + slack


def compressed_block(used: bytes, compression: bytes, size: int, *, slack: bytes = b"", md5: bool = True) -> bytes:
    """A block with the stored bytes ``used``, which decode to ``size`` bytes."""
    facts = {"allocated": len(used) + len(slack), "compression": compression, "data_size": size, "md5": md5}
    return header_bytes(used, **facts) + used + slack


def zlib_block(content: bytes, *, slack: bytes = b"", md5: bool = True) -> bytes:
    """A block of ``content``, compressed with zlib."""
    return compressed_block(zlib.compress(content), b"zlib", len(content), slack=slack, md5=md5)


def lz4_block(content: bytes, part: int, *, slack: bytes = b"") -> bytes:
    """A block of ``content`` in ``lz4`` parts of ``part`` bytes."""
    parts = [lz4.block.compress(content[at : at + part]) for at in range(0, len(content), part)]
    stored = b"".join(struct.pack(">I", len(one)) + one for one in parts)
    return compressed_block(stored, b"lz4\0", len(content), slack=slack)


def index_bytes(offsets: list[int]) -> bytes:
    """A block index as the asdf library writes it."""
    return b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n" + b"".join(b"- %d\n" % n for n in offsets) + b"...\n"


DATA = np.arange(25, dtype=">f4").tobytes()
MASK = bytes(range(40))


def odd_file(
    *,
    tree: str | None = TREE,
    comments: str | None = None,
    padding: bytes = b"",
    blocks: list[bytes] | None = None,
    index: str = "right",
    newline: str = "\n",
    tail: bytes = b"",
) -> bytes:
    """A file by hand; ``index``: right, absent, lying, stale, truncated.

    ``comments``: None: the version of the standard to which the tag of ndarrays in ``tree`` belongs.
    """
    if comments is None:
        comments = f"#ASDF_STANDARD {'1.6.0' if 'core/ndarray-1.1.0' in (tree or '') else '1.5.0'}\n"
    text = ("#ASDF 1.0.0\n" + comments + (tree or "")).replace("\n", newline).encode()
    whole = text + padding
    offsets = []
    for block in [block_bytes(DATA), block_bytes(MASK)] if blocks is None else blocks:
        offsets.append(len(whole))
        whole += block
    if offsets:
        if index == "lying":
            middle = [offsets[0], offsets[0] + 60, offsets[-1]] if len(offsets) < 3 else offsets
            if len(offsets) >= 3:
                middle = [offsets[0], *[n + 1 for n in offsets[1:-1]], offsets[-1]]
            whole += index_bytes(middle)
        elif index == "stale":
            whole += index_bytes([n + 1 for n in offsets])
        elif index == "truncated":
            whole += index_bytes(offsets)[:-7]
        elif index == "right":
            whole += index_bytes(offsets)
    return whole + tail


def put(folder: Path, content: bytes, name: str = "data.asdf") -> Path:
    """Write a file with ``content`` into ``folder``; return its path."""
    (folder / name).write_bytes(content)
    return folder / name


#: Every oddity of the layout that a file may have: name -> bytes.
ODD_FILES = {
    "plain": odd_file(),
    "crlf": odd_file(newline="\r\n"),
    "comments": odd_file(comments="#ASDF_STANDARD 1.5.0\n# more\n#\n"),
    "no comments": odd_file(comments=""),
    "no tree": odd_file(tree=None),
    "no blocks": odd_file(blocks=[]),
    "no blocks, padded": odd_file(blocks=[], padding=bytes(500)),
    "header only": odd_file(tree=None, blocks=[], comments=""),
    "header and comment": odd_file(tree=None, blocks=[]),
    "padding NUL": odd_file(padding=bytes(3000)),
    "padding spaces": odd_file(padding=b" " * 3000),
    "padding stale text": odd_file(padding=b"\nold: text\n...\n#ASDF 1.0.0\n\xd3BL" * 50),
    "headers of 64 bytes": odd_file(blocks=[block_bytes(DATA, size=64), block_bytes(MASK, size=64)]),
    "slack": odd_file(blocks=[block_bytes(DATA, slack=b"\xaa" * 33), block_bytes(MASK, slack=b"\xd3BLK" * 9)]),
    "no checksums": odd_file(blocks=[block_bytes(DATA, md5=False), block_bytes(MASK, md5=False)]),
    "unreferenced block": odd_file(
        blocks=[block_bytes(DATA), block_bytes(MASK), block_bytes(b"nobody refers to me")]
    ),
    "empty block": odd_file(blocks=[block_bytes(DATA), block_bytes(MASK), block_bytes(b"")]),
    "fakes in data": odd_file(
        blocks=[block_bytes(DATA), block_bytes(MASK), block_bytes(MAGIC + b"#ASDF BLOCK INDEX\n--- [1, 2]\n...\n")]
    ),
    "index absent": odd_file(index="absent"),
    "index stale": odd_file(index="stale"),
    "index truncated": odd_file(index="truncated"),
    "index lying in the middle": odd_file(
        blocks=[block_bytes(DATA), block_bytes(MASK), block_bytes(b"three"), block_bytes(b"four")], index="lying"
    ),
    "NULs after index": odd_file(tail=bytes(100)),
    "NULs after blocks": odd_file(index="absent", tail=bytes(100)),
    "streamed": odd_file(blocks=[block_bytes(DATA), header_bytes(b"", flags=1, md5=False) + MASK], index="absent"),
}

#: Its tree has a byte that is no UTF-8: a file that libraries before strict checks wrote.
BAD_UTF8_FILE = odd_file(padding=b" " * 500).replace(b"comment to keep", b"comment, caf\xe9  "[:15])


def opened(path: Path) -> asdf.AsdfFile:
    """``asdf.open`` with checksums verified and every block read."""
    return asdf.open(path, validate_checksums=True, lazy_load=False, memmap=False, ignore_unrecognized_tag=True)


def check_saved(path: Path, value: int) -> None:
    """An ``odd_file`` whose tree was saved with another value: all else is as it was."""
    with opened(path) as found:
        assert found["value"] == value
        assert found["data"][:].tobytes() == DATA
        assert found["mask"][:].tobytes() == MASK
    text = path.read_bytes()
    assert b"# a comment to keep\n" in text
    assert b"'observer': \"Ada\"}   # and one at the end of a line\n" in text
    assert b"unknown: !<tag:example.org:thing-1.0.0> {a: &x [1, 2], b: *x}\n" in text


def make_night(folder: Path, count: int) -> Path:
    """Make a directory of ``count`` images of 40 x 50, side by side on the sky around 0 h; return it."""
    folder.mkdir()
    for number in range(count):
        west, south = 359.9 + 0.1 * (number % 4), 0.1 * (number // 4)
        corners = ((0, 0), (0.08, 0), (0.08, 0.08), (0, 0.08))
        region = "POLYGON ICRS " + " ".join(f"{(west + x) % 360:.3f} {south + y:.3f}" for x, y in corners)
        meta = {"telescope": "ROMAN", "exposure": {"exposure_time": 100 + number}, "s_region": region}
        tree = {"roman": {"meta": meta, "data": np.full((40, 50), number, "f4") + np.eye(40, 50)}}
        asdf.AsdfFile(tree).write_to(folder / f"r{number:02}.asdf")
    return folder
