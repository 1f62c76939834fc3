"""A codec package for tests: ``slow`` decodes and encodes; each takes three seconds of computing.

Installed for one mount by putting its folder on PYTHONPATH: asdffs finds it as it finds every
codec of another package, through an entry point.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from support.samples import DATA, MAGIC, MASK, block_bytes, odd_file

SECONDS = 3
_MODULE = f'''
"""Bytes are stored as they are; decoding and encoding them computes, in Python, holding the interpreter."""
import time


def compute():
    end = time.monotonic() + {SECONDS}
    while time.monotonic() < end:
        pass


class Slow:
    id = b"slow"
    extra = ""
    ratio = 1

    def available(self):
        return True

    def memory(self, stored):
        return 0

    def decode(self, stored, size):
        compute()
        yield stored.read_at(0, stored.size)

    def encode(self, content):
        compute()
        yield content.read_at(0, content.size)


PLUGIN = Slow()
'''
CONTENT = bytes(range(200))


def slow_block() -> bytes:
    """A block that the codec ``slow`` decodes."""
    size, checksum = len(CONTENT), hashlib.md5(CONTENT).digest()
    header = struct.pack(">I4sQQQ16s", 0, b"slow", size, size, size, checksum)
    return MAGIC + struct.pack(">H", len(header)) + header + CONTENT


def slow_file(count: int = 1) -> bytes:
    """A file whose blocks from 2 on are slow; room for growth of the tree."""
    blocks = [block_bytes(DATA), block_bytes(MASK), *[slow_block()] * count, block_bytes(bytes(300_000))]
    return odd_file(blocks=blocks, padding=bytes(1000))


def install(folder: Path) -> Path:
    """Write the package into ``folder``; what to put on PYTHONPATH."""
    package = folder / "slow-package"
    described = package / "asdffs_slow-1.dist-info"
    described.mkdir(parents=True)
    (package / "asdffs_slow.py").write_text(_MODULE)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: asdffs-slow\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[asdffs.codecs]\nslow = asdffs_slow:PLUGIN\n")
    return package
