#!/usr/bin/env python3
"""Makes an archive to try things on: files as the Roman telescope's, in a directory for each night.

Usage: scripts/make_archive.py DIRECTORY [FILES]     FILES: how many there are; 5000 by default

Each file has about 200 scalars, a footprint on the sky, an image of 128 x 128 pixels and a mask.  Every 97th file has
something odd: no image, a long list, or an end in the middle.  Needs only Python.  The same numbers give the same
files, byte for byte.
"""

from __future__ import annotations

import math
import random
import struct
import sys
from array import array
from pathlib import Path

SIDE = 128
NIGHT = 100
#: Degrees from the centre of an image to its side.
HALF = 0.0628
FILTERS = ["F062", "F087", "F106", "F129", "F158", "F184"]
STATES = ["COMPLETE", "SKIPPED"]
HEAD = ["#ASDF 1.0.0", "#ASDF_STANDARD 1.6.0", "%YAML 1.1", "%TAG ! tag:stsci.edu:asdf/", "--- !core/asdf-1.1.0"]
IMAGE = "!core/ndarray-1.1.0 {source: %d, datatype: %s, byteorder: little, shape: [%d, %d]}"


_noise = random.Random(0)
#: Pixels from which rows are taken: numbers as of a detector, and one bad one in a hundred.
NOISE = array("f", (_noise.gauss(2.0, 0.3) for _ in range(1 << 16))).tobytes()
BAD = bytes(_noise.random() < 0.01 for _ in range(1 << 16))


def make(path: Path, number: int) -> None:
    """Make the file of exposure ``number``."""
    chance = random.Random(number)
    blocks = [
        b"".join(piece(NOISE, chance, 4) for _ in range(SIDE)),
        b"".join(piece(BAD, chance, 1) for _ in range(SIDE)),
    ]
    odd = number // 97 % 3 if number % 97 == 96 else None
    text = "\n".join([*HEAD, *tree(chance, number, has_image=odd != 0, is_long=odd == 1), "...", ""])
    content = text.encode() + b"".join(map(block, blocks if odd != 0 else []))
    path.write_bytes(content[: len(content) // 2] if odd == 2 else content)


def piece(pool: bytes, chance: random.Random, size: int) -> bytes:
    """Return a row of pixels of ``size`` bytes, from somewhere in ``pool``."""
    start = chance.randrange(len(pool) // size - SIDE) * size
    return pool[start : start + SIDE * size]


def block(content: bytes) -> bytes:
    """Return a block of the content (ASDF 1.6, "Block"), without a checksum."""
    size = len(content)
    return b"\xd3BLK\x00\x30" + struct.pack(">I4sQQQ16s", 0, b"", size, size, size, b"") + content


def tree(chance: random.Random, number: int, *, has_image: bool, is_long: bool) -> list[str]:
    """Return the lines of the tree."""
    night = f"2027-{1 + number // NIGHT // 28 % 12:02d}-{1 + number // NIGHT % 28:02d}"
    kind = chance.choice(["WFI_IMAGE"] * 8 + ["WFI_DARK", "WFI_FLAT"])
    right, up = chance.uniform(0, 360), math.degrees(math.asin(chance.uniform(-1, 1)))
    name = f"{{name: WFI, detector: WFI{1 + number % 18:02d}, optical_element: {chance.choice(FILTERS)}}}"
    steps = ", ".join(f"step_{step:02d}: {chance.choice(STATES)}" for step in range(16))
    wcs = f"ra_ref: {right:.8f}, dec_ref: {up:.8f}, v2_ref: {chance.uniform(-1000, 1000):.4f}, vparity: -1"
    lines = [
        "roman:",
        "  meta:",
        "    telescope: ROMAN",
        f"    filename: r{number:06d}_cal.asdf",
        f"    instrument: {name}",
        "    exposure:",
        f"      type: {kind}",
        f"      exposure_time: {chance.choice([54.72, 107.52, 139.8, 293.1])}",
        f"      start_time: '{night}T{chance.randrange(24):02d}:{chance.randrange(60):02d}:00.000'",
        f"      nresultants: {chance.randrange(4, 12)}",
        f"    target: {{ra: {right:.6f}, dec: {up:.6f}, name: field {chance.randrange(400)}}}",
        f"    wcsinfo: {{{wcs},",
        f"      s_region: {region(right, up, chance.uniform(0, 360))}}}",
        f"    cal_step: {{{steps}}}",
        "    statistics:",
        *(f"      quantity_{one:03d}: {chance.gauss(0, 1):.9f}" for one in range(150)),
        *([f"    log: [{', '.join(map(str, range(150)))}]"] if is_long else []),
    ]
    if has_image:
        lines += [f"  data: {IMAGE % (0, 'float32', SIDE, SIDE)}", f"  dq: {IMAGE % (1, 'uint8', SIDE, SIDE)}"]
    return lines


def region(right: float, up: float, turn: float) -> str:
    """Return the four corners of a square image, ``turn`` degrees round its centre, in the words of STC-S."""
    words = []
    for corner in range(4):
        words += map("{:.9f}".format, moved(right, up, turn + 45 + 90 * corner, HALF * math.sqrt(2)))
    return f"POLYGON ICRS {' '.join(words)}"


def moved(right: float, up: float, towards: float, far: float) -> tuple[float, float]:
    """Return the place ``far`` degrees from another one, in the direction ``towards`` (from north, eastwards)."""
    a, d, t, r = map(math.radians, (right, up, towards, far))
    sine = math.sin(d) * math.cos(r) + math.cos(d) * math.sin(r) * math.cos(t)
    east = math.atan2(math.sin(t) * math.sin(r) * math.cos(d), math.cos(r) - math.sin(d) * sine)
    return math.degrees(a + east) % 360, math.degrees(math.asin(sine))


def main(words: list[str]) -> int:
    """Make the archive that the words of the command line name."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder, count = Path(words[0]), int(words[1]) if len(words) > 1 else 5000
    for number in range(count):
        night = folder / f"night{number // NIGHT:03d}"
        if number % NIGHT == 0:
            night.mkdir(parents=True, exist_ok=True)
        make(night / f"r{number:06d}_cal.asdf", number)
    print(f"{folder}: {count} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
