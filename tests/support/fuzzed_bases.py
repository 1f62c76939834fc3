"""What a reader of bytes that somebody else wrote is for the fuzzer."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from support.fuzzed import NUMBERS, mutated_of

#: Where seeds are that must be files, and scratch.
FOLDER = tempfile.TemporaryDirectory()
#: Arrays up to so many bytes are read.
READ = 1 << 20
JSON = (b'"', b"{", b"[", b"null", b"\\ud800", b"\xff", *NUMBERS)

Mutate = Callable[[random.Random, bytes], bytes]


class Reader(NamedTuple):
    """``seeds()``: valid inputs.  ``mutant(rng, seed)``: a wrong one.  ``read(raw, number)``: raises what it likes.

    ``handled``: what all callers of what ``read`` calls handle.
    """

    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, int], object]
    mutant: Mutate
    handled: tuple[type[Exception], ...] = ()


def words_in(*words: bytes) -> Mutate:
    return lambda rng, seed: mutated_of(rng, seed, words)


class Source:
    """See ``codecs.base.Source``."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]
