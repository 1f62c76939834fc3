"""The MD5 of a compressed block stays of the kind that the library which wrote the file takes."""

from __future__ import annotations

import hashlib
import re
import zlib
from pathlib import Path

import asdf
import numpy as np
import pytest

import asdffs
from asdffs.document.writers import sums_content

START = "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


@pytest.mark.parametrize(
    ("library", "old"),
    [
        ("{name: asdf, version: 4.5.0}", True),
        ("{name: asdf, version: 5.2.0}", True),
        ("{name: asdf, version: 2.15.1.dev3}", True),
        ("{name: asdf, version: 5.3.0}", False),
        ("{name: asdf, version: 6.0.0}", False),
        ("{name: asdf, version: 10.0.0}", False),
        ("{name: asdf, version: unknown}", False),
        ("{name: asdf, version: '" + "1" * 5000 + ".1'}", False),
        ("{name: 'ASDF.jl', version: 2.0.0}", False),
        ("{name: [asdf], version: 4.5.0}", False),
        ("4.5.0", False),
    ],
)
def test_libraries(library: str, *, old: bool) -> None:
    assert sums_content(f"{START}asdf_library: !core/software-1.0.0 {library}\n...\n".encode()) is old


def test_texts_without_a_library() -> None:
    assert not sums_content(f"{START}a: asdf_library\n...\n".encode())
    assert not sums_content(b"asdf_library: [\n")


@pytest.mark.parametrize("compression", ["zlib", "lz4"])
@pytest.mark.parametrize(("version", "of_content"), [("4.5.0", True), ("5.3.0", False)])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(None)], ids=["one row", "all"])
def test_an_edit_keeps_the_kind(
    tmp_path: Path, compression: str, version: str, rows: slice, *, of_content: bool
) -> None:
    path, values = tmp_path / "a.asdf", np.arange(300_000).reshape(1000, 300)
    asdf.AsdfFile({"a": values.copy()}).write_to(path, all_array_compression=compression)
    whole = re.sub(rb"version: \d+\.\d+\.\d+\}", f"version: {version}}}".encode(), path.read_bytes(), count=1)
    place = whole.index(b"\xd3BLK") + 38
    if of_content:
        whole = whole[:place] + hashlib.md5(values.tobytes()).digest() + whole[place + 16 :]
    path.write_bytes(whole)
    with asdffs.open(path, "r+") as document:
        document.arrays["a"][rows] = 7
    values[rows] = 7
    with asdffs.open(path) as document:
        header = document.blocks[0].header
        stored = document.read_raw(document.blocks[0].offset + 54, header.used_size)
        assert np.array_equal(document.arrays["a"][...], values)
        assert document.blocks[0].find_checksum_fault() == ""
    assert header.checksum == hashlib.md5(values.tobytes() if of_content else stored).digest()
    assert compression != "zlib" or zlib.decompress(stored) == values.tobytes()
