"""Every kind of file, mounted, read back, edited, unmounted, and opened by the asdf library."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.contents import contents
from support.mounts import mounted, run
from support.plans import scan
from support.samples import DATA, MASK, ODD_FILES, STANDARDS, block_bytes, odd_file, put, write_sample

pytestmark = pytest.mark.mount


def by_asdf(whole: bytes) -> list[bytes]:
    """The content of every block as the asdf library reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about some of the oddities, and about a tree without asdf's tag
        with asdf.open(io.BytesIO(whole), lazy_load=False, ignore_unrecognized_tag=True) as found:
            return [block.data.tobytes() for block in found._blocks.blocks]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ODD_FILES)
@pytest.mark.parametrize("edit", ["fits", "grows"])
def test_oddity(tmp_path: Path, name: str, edit: str) -> None:
    path = tmp_path / "data.asdf"
    whole = ODD_FILES[name]
    path.write_bytes(whole)
    text = whole[: scan(whole).text_end]
    blocks = contents(path)[1]
    if "lying" not in name:
        assert by_asdf(whole) == blocks
    newline = b"\r\n" if name == "crlf" else b"\n"
    more = b"# more" + b"!" * (0 if edit == "fits" else 9000) + newline
    marker = text.find(b"%YAML") if b"%YAML" in text else len(text)
    new_text = text[:marker] + more + text[marker:]
    with mounted(path) as mount:
        assert mount.tree.read_bytes() == text
        assert [mount.block(n).read_bytes() for n in range(len(blocks))] == blocks
        mount.tree.write_bytes(new_text)
        for number in range(len(blocks)):
            if blocks[number]:
                with open(mount.block(number), "r+b") as file:
                    file.seek(len(blocks[number]) // 2)
                    file.write(b"\xbd")
                half = len(blocks[number]) // 2
                blocks[number] = blocks[number][:half] + b"\xbd" + blocks[number][half + 1 :]
        assert [mount.block(n).read_bytes() for n in range(len(blocks))] == blocks
    after = path.read_bytes()
    assert after.startswith(new_text)
    assert contents(path)[1] == blocks
    layout = scan(after)
    if "lying" not in name or layout.index is None:
        assert by_asdf(after) == blocks
    moved = scan(whole).offsets != layout.offsets
    if moved and blocks and name != "streamed":
        assert layout.index is not None, "after a change of layout the index is right"


@pytest.mark.parametrize("version", STANDARDS)
def test_every_standard(tmp_path: Path, version: str) -> None:
    path = tmp_path / "data.asdf"
    arrays = write_sample(path, version=version)
    with mounted(path) as mount:
        assert run("sed", "-i", "s/value: 1/value: 2/", mount.tree).returncode == 0
        for number, array in enumerate(arrays.values()):
            assert mount.block(number).read_bytes() == array.tobytes()
        with open(mount.block(1), "r+b") as file:
            file.write(b"\1\2\3\4")
        assert mount.status["warnings"] == []
    arrays["little"][0] = 0x04030201
    with asdf.open(path, validate_checksums=True, lazy_load=False, memmap=False) as found:
        assert found["meta"]["value"] == 2
        assert str(found.version) == version
        for name, array in arrays.items():
            assert np.array_equal(found[name][:], array)


def test_two_thousand_blocks(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)] * 1000))
    with mounted(path) as mount:
        names = sorted(p.name for p in (mount.point / "blocks").iterdir())
        assert names[0] == "0000.bin"
        assert names[-1] == "1999.bin"
        assert len(names) == 2000
        assert mount.block(1998).read_bytes() == DATA
        mount.block(1999).write_bytes(MASK[::-1])
        mount.tree.write_bytes(mount.tree.read_bytes().replace(b"value: 1\n", b"value: 2\nx: " + b"y" * 8000 + b"\n"))
    found = by_asdf(path.read_bytes())
    assert len(found) == 2000
    assert found[:-1] == [DATA, MASK] * 999 + [DATA]
    assert found[-1] == MASK[::-1]


def test_warnings_for_sources_and_shapes(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(padding=bytes(100)))
    with mounted(path) as mount:
        assert mount.status["warnings"] == []
        assert run("sed", "-i", "s/source: 1/source: 7/; s/shape: .25./shape: [26]/", mount.tree).returncode == 0
        assert [str(warning) for warning in mount.status["warnings"]] == [  # type: ignore[attr-defined]
            "line 9: data: it needs bytes 0 to 104 of block 0, which has 100",
            "line 10: mask: its source is 7, and the file has 2 blocks",
        ]


def test_opening_costs_the_same_for_any_number_of_blocks(tmp_path: Path) -> None:
    """With a valid index: the head, the index, two headers, and those of the first 128 entries, in two reads each."""
    from asdffs.format.block_scan import drive
    from asdffs.format.scanner import scan_layout

    for count in (10, 1000):
        whole = odd_file(blocks=[block_bytes(bytes(500))] * count)
        read = []

        def read_at(offset: int, length: int, whole: bytes = whole, read: list[int] = read) -> bytes:
            read.append(length)
            return whole[offset : offset + length]

        layout = drive(scan_layout(len(whole)), read_at)
        assert len(layout.offsets) == count
        assert len(read) <= 12 + 2 * min(count, 128)
        assert sum(read) < (1 << 16) * 3 + count * 16


def test_digest_of_the_finished_file_is_the_stored_bytes(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file())
    with mounted(path) as mount:
        with open(mount.block(1), "r+b") as file:
            file.write(b"new")
        assert hashlib.md5(b"new" + MASK[3:]).digest() not in path.read_bytes(), "not before the file is finished"
        assert run("sync", mount.point).returncode == 0
        assert hashlib.md5(b"new" + MASK[3:]).digest() in path.read_bytes()
