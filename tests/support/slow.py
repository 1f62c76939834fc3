"""A codec package for tests: ``slow`` decodes and encodes, and computes each time until the test lets it go on.

Installed for one mount by putting its folder on PYTHONPATH: asdffs finds it as it finds every
codec of another package, through an entry point.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from support.mounts import LIMIT
from support.plugins import install
from support.processes import until
from support.samples import DATA, MAGIC, MASK, block_bytes, odd_file

_MODULE = f'''
"""Bytes are stored as they are; decoding and encoding them computes, in Python, holding the interpreter."""
import os, time

FOLDER = os.path.dirname(__file__)


def compute():
    with open(FOLDER + "/begun", "ab") as file:
        file.write(b".")
        number = file.tell()
    end = time.monotonic() + {LIMIT}
    while os.path.getsize(FOLDER + "/allowed") < number:
        for _ in range(100_000):
            pass
        if time.monotonic() > end:
            raise ValueError("nobody let it go on")


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


class SlowCodec:
    """The package, in ``folder``, and what holds its computations up.  ``package``: what to put on PYTHONPATH."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "slow-package"
        install(self.package, "asdffs_slow", _MODULE, {"codecs": "slow"})
        self._begun, self._allowed = self.package / "begun", self.package / "allowed"
        self._begun.touch()
        self._allowed.touch()

    @property
    def begun(self) -> int:
        """How many computations have begun."""
        return self._begun.stat().st_size

    def await_begun(self, number: int) -> None:
        """Wait until so many computations have begun."""
        until(lambda: self.begun >= number, f"computation {number} of the slow codec")

    def allow(self, count: int = 1000) -> None:
        """Let the first ``count`` computations end, those that come later as well."""
        self._allowed.write_bytes(bytes(count))
