"""An allocation that ends behind the end of the file may hide a block: no room is taken from it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import command
from support.mounts import environment_in
from support.samples import block_bytes, odd_file

from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError

PRECIOUS = b"PRECIOUS!"
#: Where allocated_size is in a header of the standard.
ALLOCATED = slice(14, 22)
DRAFT = b"%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !core/asdf {}\n...\n"


def standard(allocated: int) -> bytes:
    first, hidden = bytearray(block_bytes(b"x" * 64)), block_bytes(PRECIOUS)
    first[ALLOCATED] = struct.pack(">Q", allocated)
    return odd_file(tree=None, blocks=[bytes(first), hidden], index="absent")


def of_2015(allocated: int) -> bytes:
    """Header of 36 bytes: flags, allocated, used, data size, checksum of 8 bytes."""
    blocks = [(allocated, b"x" * 64), (len(PRECIOUS), PRECIOUS)]
    heads = [struct.pack(">IQQQQ", 0, room, len(used), len(used), 0) + used for room, used in blocks]
    return b"#ASDF 0.1.0\n" + DRAFT + b"".join(b"\xd3BLK\0\x24" + head for head in heads)


def of_2014(allocated: int) -> bytes:
    """Header of 44 bytes: flags, allocated, used, data size, checksum of 16 bytes."""
    blocks = [(allocated, b"x" * 64), (len(PRECIOUS), PRECIOUS)]
    heads = [struct.pack(">IQQQ", 0, room, len(used), 0) + bytes(16) + used for room, used in blocks]
    return b"%ASDF 0.1.0\n" + DRAFT + b"".join(b"\x89BLK\0\x2c" + head for head in heads)


@pytest.fixture(params=[standard, of_2015, of_2014])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "a.asdf"
    path.write_bytes(request.param(1 << 40))
    return path


@pytest.mark.feature("drafts")
@pytest.mark.parametrize("made", [standard, of_2015, of_2014])
@pytest.mark.parametrize("allocated", [200, 1 << 40, (1 << 63) - 1])
def test_regression_it_is_not_overwritten(tmp_path: Path, made: Callable[[int], bytes], allocated: int) -> None:
    path = tmp_path / "a.asdf"
    path.write_bytes(made(allocated))
    document = open_document(str(path), writable=True)
    try:
        assert document.blocks[0].read_at(0, 99) == b"x" * 64
        for change in (_append_to, _append):
            with pytest.raises((AsdffsError, OSError)):
                change(document)
    finally:
        document.close()
    assert PRECIOUS in path.read_bytes()


def _append_to(document: Document) -> None:
    document.blocks[0].write_at(64, b"Z" * 30)


def _append(document: Document) -> None:
    document.blocks.append()


@pytest.mark.feature("drafts")
def test_regression_commands_tell_of_it_and_drop_nothing(tmp_path: Path, file: Path) -> None:
    before, environment = file.read_bytes(), environment_in(tmp_path)
    told = command("check", file, environment=environment)
    assert told.code == 4
    assert "allocated_size of the block before it is wrong" in told.out
    repacked = command("repack", file, tmp_path / "b.asdf", environment=environment)
    assert repacked.code != 0
    assert not (tmp_path / "b.asdf").exists()
    assert file.read_bytes() == before
