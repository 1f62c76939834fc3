"""Headers of blocks and FITS files that state anything: each command ends in a sentence, and the index goes on."""

# ruff: noqa: E501

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.commands import command
from support.mounts import environment_in
from support.odd_files import fits, table_of
from support.samples import block_bytes, put

ND = "!core/ndarray-1.0.0 {source: 0, datatype: uint8, shape: [8]}"
SIZES = (0, 8, 2**63 - 1, 2**63, 2**64 - 1)
COMPRESSIONS = (b"\0\0\0\0", b"zlib", b"bzp2", b"zzzz")
#: Cards of a FITS extension, which replace right ones.
CARDS = (
    ("TFIELDS", 10**19), ("TFIELDS", -1), ("TFIELDS", 10**25), ("NAXIS", 0), ("NAXIS", 1), ("NAXIS", 3), ("NAXIS", 999),
    ("NAXIS", 10**19), ("NAXIS", -1), ("NAXIS1", 0), ("NAXIS1", -8), ("NAXIS1", 2**62), ("NAXIS1", 2**63), ("NAXIS2", 2**40),
    ("NAXIS2", 0), ("PCOUNT", -1), ("PCOUNT", 2**62), ("PCOUNT", 2**63), ("GCOUNT", 0), ("GCOUNT", -5), ("GCOUNT", 2**50),
    ("THEAP", -1), ("THEAP", 2**63), ("THEAP", 10**30), ("BITPIX", 7), ("BITPIX", 64), ("TFORM1", "'999999999999B'"),
    ("TFORM1", "'1QB(99999999999)'"), ("TFORM1", "'X'"), ("TFORM1", "''"), ("TFORM1", 5), ("TSCAL1", "'x'"), ("TSCAL1", "1E999"),
    ("TZERO1", "NaN"), ("TZERO1", 5), ("TDIM1", "'(99999999999,9)'"), ("EXTVER", 10**19), ("XTENSION", "'IMAGE'"), ("XTENSION", "'TABLE'"),
    ("BSCALE", 2.0), ("BZERO", 1e308), ("BLANK", 2**63),
)  # fmt: skip
SOURCES = ("fits:SCI,1", "fits:1", "fits:" + "9" * 5000, "fits:SCI," + "9" * 5000, "fits:²", "fits:,", "fits:ASDF")
COMMANDS = (
    ("info", "F"),
    ("check", "--deep", "F"),
    ("show", "F", "a"),
    ("diff", "F", "F"),
    ("recover", "F"),
    ("repack", "F", "new.asdf", "--force"),
    ("explode", "F", "made", "--force"),
)


def block_headers() -> Iterator[tuple[str, bytes]]:
    for compression, allocated, used, size in itertools.product(COMPRESSIONS, SIZES, SIZES, SIZES):
        header = struct.pack(">HI4sQQQ16s", 48, 0, compression, allocated, used, size, bytes(16))
        yield f"{compression!r} {allocated:x} {used:x} {size:x}", b"\xd3BLK" + header + bytes(8)


def fits_files() -> Iterator[tuple[str, bytes]]:
    """FITS files with one wrong card each, in the extension SCI, and with odd sources."""
    for kind, card in itertools.product(("'BINTABLE'", "'IMAGE'"), CARDS):
        yield f"{kind} {card}", fits_file("fits:SCI,1", kind, dict([card]))
    for source in SOURCES:
        yield source, fits_file(source, "'IMAGE'", {})


def fits_file(source: str, kind: str, cards: dict[str, object]) -> bytes:
    tree = tree_file(f"a: {ND.replace('source: 0', f'source: {source!r}')}\n", [])
    image = {"XTENSION": "'IMAGE'", "BITPIX": 8, "NAXIS": 1, "NAXIS1": 8, "PCOUNT": 0, "GCOUNT": 1}
    rows = table_of(8, "SCI") | {"NAXIS2": 8, "THEAP": 64}
    science = rows if kind == "'BINTABLE'" else {**image, "EXTNAME": "'SCI'"}
    return fits((science | cards, bytes(64)), ({**image, "NAXIS1": len(tree), "EXTNAME": "'ASDF'"}, tree))


def check_commands(folder: Path, name: str, file: str, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command about the file F ends as a command, and the catalogue has a row for it and for another file."""
    (folder / "ar").mkdir()
    put(folder / "ar", tree_file(f"a: {ND}\n", [block_bytes(bytes(8))]), "right.asdf")
    (folder / "F").symlink_to(put(folder / "ar", content, file))
    monkeypatch.chdir(folder)
    environment = environment_in(folder)
    for words in COMMANDS:
        try:
            done = command(*words, environment=environment)
        except Exception as err:
            raise AssertionError(f"{name}: {words}") from err
        assert done.code in range(10), (name, words, done)
    assert command("index", "--catalog", "c.db", "ar", environment=environment).code == 0, name
    found = command("find", "--catalog", "c.db", "--sql", "SELECT count(*) FROM file", environment=environment)
    assert found.out.split()[-1] == "2", name


@pytest.mark.sampled(41)
@pytest.mark.parametrize(("name", "block"), list(block_headers()), ids=lambda value: "")
def test_block_headers(name: str, block: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_commands(tmp_path, name, "F.asdf", tree_file(f"a: {ND}\n", [block], index="absent"), monkeypatch)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("name", "content"), list(fits_files()), ids=lambda value: "")
def test_fits_headers(name: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_commands(tmp_path, name, "F.fits", content, monkeypatch)


def test_regression_a_size_of_2_63_ended_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = struct.pack(">HI4sQQQ16s", 48, 0, b"zlib", 8, 8, 1 << 63, bytes(16))
    test_block_headers("zlib", b"\xd3BLK" + header + bytes(8), tmp_path, monkeypatch)
