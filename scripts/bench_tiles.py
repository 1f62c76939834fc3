"""Compares decoding tiles and quantized values of the draft of 2015 with a copy of the same array by numpy.

The array has 4096 x 4096 floats in tiles of 32 x 32.  The functions alternate in each round; medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import time
from collections.abc import Callable

import numpy as np

from asdffs.codecs.base import Readable
from asdffs.features.drafts.encodings import Quantize, Tile

SIDE = 4096


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    rounds = parser.parse_args().rounds
    array = np.random.default_rng(1).random((SIDE, SIDE), np.float32)
    tile = Tile((32, 32), array.shape, 4)
    items = array.tobytes()
    tiles = b"".join(tile.encode(Readable.of(items)))
    chunk = struct.pack(">BddQ", 12, 0.0, 1.0, 1 << 20) + bytes((1 << 20) * 12 // 8)
    rows: dict[str, Callable[[], object]] = {
        "copy by numpy": array.copy,
        "decode tiles": lambda: sum(map(len, tile.decode(Readable.of(tiles), tile.size, "big"))),
        "encode tiles": lambda: sum(map(len, tile.encode(Readable.of(items)))),
        "decode quantized": lambda: sum(map(len, Quantize(32).decode(Readable.of(chunk * 16), array.nbytes, "big"))),
    }
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, work in rows.items():
            found.setdefault(name, []).append(array.nbytes / timed(work) / 1e6)
    native = statistics.median(found["copy by numpy"])
    for name, rates in found.items():
        rate = statistics.median(rates)
        print(f"{name:<18} {rate:>8,.0f} MB/s   {rate / native:5.2f} x copy by numpy")


if __name__ == "__main__":
    main()
