"""Encodings of the draft of 2015 against naive ones: any shape, tile, item size and number of bits."""

from __future__ import annotations

import itertools
import struct
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.codecs import Bytes

from asdffs.features.drafts.codecs.chain import PLUGIN as CHAINS
from asdffs.features.drafts.encodings import Quantize, Tile


def naively_tiled(items: bytes, tile: Tile) -> bytes:
    """Item by item, as the draft says it in words."""
    rank, found = len(tile.shape), bytearray()
    counts = [-(-n // step) for n, step in zip(tile.original, tile.shape, strict=True)]
    for place in itertools.product(*map(range, counts)):
        for inside in itertools.product(*map(range, tile.shape)):
            at = [place[axis] * tile.shape[axis] + inside[axis] for axis in range(rank)]
            if all(n < length for n, length in zip(at, tile.original, strict=True)):
                number = 0
                for n, length in zip(at, tile.original, strict=True):
                    number = number * length + n
                found += items[number * tile.item : (number + 1) * tile.item]
            else:
                found += bytes(tile.item)
    return bytes(found)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    rank = draw(st.integers(0, 4))
    original = tuple(draw(st.integers(0, 7)) for _ in range(rank))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    return Tile(shape, original, draw(st.sampled_from([1, 2, 3, 4, 7, 8, 16])))


@given(tiles(), st.randoms(use_true_random=False), st.booleans())
def test_tiles_round_trip(tile: Tile, rng, compressed: bool) -> None:
    items = rng.randbytes(tile.size)
    arguments = f"shape: {list(tile.shape)}, original_shape: {list(tile.original)}, item_size: {tile.item}"
    chunk = f"---\n[[tile, {{{arguments}}}]{', zlib' * compressed}]\n...\n".encode()
    encoded = naively_tiled(items, tile)
    stored = chunk + (zlib.compress(encoded) if compressed else encoded)
    chain = CHAINS.codec_for(Bytes(stored))
    assert chain.read_only == chain.unknown == ""
    assert b"".join(chain.decode(Bytes(stored), tile.size)) == items
    again = b"".join(chain.encode(Bytes(items)))
    assert again.startswith(chunk)
    assert (zlib.decompress(again[len(chunk) :]) if compressed else again[len(chunk) :]) == encoded


def naive_values(chunks: list[tuple[int, float, float, list[int]]]) -> list[float]:
    return [value * scale + offset for _, offset, scale, values in chunks for value in values]


def packed(bits: int, values: list[int]) -> bytes:
    """Bit by bit: two's complement, the highest first, padded to a byte."""
    text = "".join(format(value & ((1 << bits) - 1), f"0{bits}b") for value in values)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[place : place + 8], 2) for place in range(0, len(text), 8))


@st.composite
def chunks(draw: st.DrawFn) -> tuple[int, float, float, list[int]]:
    bits = draw(st.integers(1, 64))
    number = st.floats(-1e6, 1e6, allow_nan=False)
    values = st.lists(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1), max_size=20)
    return bits, draw(number), draw(number), draw(values)


@given(st.lists(chunks(), max_size=5), st.sampled_from([32, 64]), st.sampled_from(["big", "little"]))
def test_quantize_against_bits(found: list[tuple[int, float, float, list[int]]], bits: int, order: str) -> None:
    stream = b"".join(
        struct.pack(">BddQ", width, offset, scale, len(values)) + packed(width, values)
        for width, offset, scale, values in found
    )
    dtype = np.dtype(f"f{bits // 8}").newbyteorder(">" if order == "big" else "<")
    expected = np.array(naive_values(found), np.float64).astype(dtype)
    decoded = b"".join(Quantize(bits, (len(expected),)).decode(Bytes(stream), expected.nbytes, order))
    assert decoded == expected.tobytes()


@given(st.binary(max_size=200), st.integers(0, 300))
def test_anything_is_a_chain_or_is_refused(stored: bytes, size: int) -> None:
    chain = CHAINS.codec_for(Bytes(stored))
    try:
        decoded = b"".join(chain.decode(Bytes(stored), size))
    except ValueError as err:
        assert str(err)
    else:
        assert len(decoded) <= size
