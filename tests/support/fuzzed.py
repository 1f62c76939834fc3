"""Bytes that are wrong in ways nobody thought of, and what a reader of them is for ``fuzzed_readers``."""

from __future__ import annotations

import random
import re
import tempfile
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from support.arrays import tree_file
from support.drafts import block_36, draft
from support.samples import block_bytes, odd_file, zlib_block

#: Where seeds are that must be files, and scratch.
FOLDER = tempfile.TemporaryDirectory()
#: Arrays up to so many bytes are read.
READ = 1 << 20
ARRAYS = """\
a: &a !core/ndarray-1.0.0 {source: 0, datatype: float32, byteorder: little, shape: [5, 5], mask: 7.0}
b: !core/ndarray-1.0.0 {source: 1, datatype: [ascii, 4], shape: [10], strides: [2]}
c: !core/ndarray-1.0.0 {source: -1, datatype: [{name: x, datatype: int16, byteorder: big}, [ucs4, 2]], shape: ['*']}
d: !core/ndarray-1.0.0 [[1, null], [3, 4]]
e: {<<: &m {x: 1, y: *a}, z: {$ref: '#/a'}}
f: !fits/fits-1.0.0 [{header: [[SIMPLE, true], ['', text]], data: *a}]
t: !table/table-1.0.0 {columns: [{name: q, data: *a}]}
daf: {version: [1, 0], scalars: {s: {type: Float64, value: 1.5}}}
"""
STARTS = (
    tree_file(ARRAYS, [block_bytes(bytes(range(100))), zlib_block(bytes(50)), block_bytes(bytes(70))]),
    odd_file(padding=b" " * 50),
    draft(b"a: !core/ndarray {source: 0, datatype: uint8, shape: [4]}\n", block_36(b"data")),
    draft(b"a: 1\n", block_36(b"---\n[zlib]\n...\n" + zlib.compress(bytes(500)), 500)),
)
WORDS = (b"*a", b"&a ", b"<<: ", b"{$ref: '#/a'}", b"!core/ndarray-1.0.0 ", b"[[[[", b"}", b"-1", b"99999999999")
WORDS += (b"null", b"\xff")
NAMES = "abcdefgh"
#: What numbers in a text become.
NUMBERS = (b"0", b"-1", b"1", b"2147483648", b"9223372036854775807", b"18446744073709551616", b"1e999", b".nan", b"*")
LENGTHS = (0, 1, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_NUMBER = re.compile(rb"-?[0-9]+")
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


def mutated_of(rng: random.Random, seed: bytes, words: Sequence[bytes]) -> bytes:
    """``seed`` with some bytes and numbers changed, pieces moved, doubled or cut, or ``words`` put in."""
    raw = bytearray(seed)
    for _ in range(rng.randint(1, 6)):
        if not raw:
            break
        rng.choice((*_CHANGES, lambda rng, raw, at: _put(raw, at, 0, rng.choice(words))))(
            rng, raw, rng.randrange(len(raw))
        )
    return bytes(raw)


def _put(raw: bytearray, at: int, length: int, piece: bytes) -> None:
    raw[at : at + length] = piece


def _swap(raw: bytearray, at: int, start: int, length: int) -> None:
    raw[at : at + length], raw[start : start + length] = raw[start : start + length], raw[at : at + length]


def _renumber(raw: bytearray, at: int, number: bytes) -> None:
    if found := _NUMBER.search(raw, at):
        raw[slice(*found.span())] = number


#: Ways to change ``raw`` at a place.
_CHANGES: tuple[Callable[[random.Random, bytearray, int], None], ...] = (
    lambda rng, raw, at: _put(raw, at, 1, rng.randbytes(1)),
    lambda rng, raw, at: _put(raw, at, 1, bytes([raw[at] ^ 1 << rng.randrange(8)])),
    lambda rng, raw, at: _put(raw, at, rng.randrange(1, 40), b""),
    lambda rng, raw, at: _put(raw, at, 0, raw[(start := rng.randrange(len(raw))) : start + rng.randrange(1, 200)]),
    lambda rng, raw, at: _put(raw, at, 8, rng.choice(LENGTHS).to_bytes(8, "big")),
    lambda rng, raw, at: _put(raw, at, 4, (rng.choice(LENGTHS) & 0xFFFFFFFF).to_bytes(4, "little")),
    lambda rng, raw, at: _swap(raw, at, rng.randrange(len(raw)), rng.randrange(1, 40)),
    lambda rng, raw, at: _renumber(raw, at, rng.choice(NUMBERS)),
    lambda rng, raw, at: _put(raw, max(at, min(100, len(raw) // 2)), len(raw), b""),
)


def tangled(rng: random.Random) -> bytes:
    """A tree of mappings that merge, alias and refer to each other."""
    lines = []
    known: list[str] = []
    for number in range(rng.randint(2, 60)):
        name = f"{rng.choice(NAMES)}{number}"
        parts = [f"k{n}: {_value(rng, known)}" for n in range(rng.randint(0, 8))]
        if known and rng.random() < 0.5:
            chosen = rng.choices(known, k=rng.randint(1, 20))
            parts.insert(0, f"<<: [{', '.join(f'*{one}' for one in chosen)}]")
        lines.append(f"{name}: &{name} {{{', '.join(parts)}}}\n")
        known.append(name)
    return tree_file("".join(lines), [block_bytes(bytes(100))])


def _value(rng: random.Random, known: list[str]) -> str:
    kind = rng.randrange(5)
    if kind == 0 or not known:
        return "!core/ndarray-1.0.0 {source: 0, datatype: uint8, shape: [4]}"
    if kind == 1:
        return f"*{rng.choice(known)}"
    if kind == 2:
        keys = "/".join(
            part for _ in range(rng.randint(1, 5)) for part in (rng.choice(known), f"k{rng.randrange(8)}")
        )
        return f"{{$ref: '#/{keys}'}}"
    if kind == 3:
        return f"[{', '.join(f'*{one}' for one in rng.choices(known, k=rng.randint(1, 30)))}]"
    return str(rng.randrange(100))
