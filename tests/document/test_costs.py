"""Calls of Python from a block to the disk: each of four steps asks once, and passes on what it knows."""

from __future__ import annotations

from pathlib import Path

import asdf
import numpy as np
import pytest
from support.calls import calls

import asdffs


def of_document(found: list[str]) -> int:
    """How many of these calls are those of a document and of its storage: others parse, plan or encode."""
    return len([name for name in found if name.startswith(("document/", "storage/", "scheduling"))])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": np.arange(1e6), "b": np.arange(1e6)}).write_to(path)
    return path


def test_a_write(file: Path) -> None:
    with asdffs.open(file, mode="r+") as document:
        block = document.blocks[0]
        block.write_at(0, b"x" * 8)  # sets the checksum to zero
        found = calls(lambda: block.write_at(8, b"y" * 8))
    assert len(found) <= 60
    assert found.count("document/blocks/table.py:BlockTable.header") == 2
    assert found.count("storage/file_backend.py:FileFolder.signature") == 2, "by the call, and before the write"


def test_a_read(file: Path) -> None:
    with asdffs.open(file) as document:
        block = document.blocks[0]
        block.read_at(0, 8)
        assert len(calls(lambda: block.read_at(8, 8))) <= 45


def test_a_save_that_grows(file: Path) -> None:
    with asdffs.open(file, mode="r+") as document:
        text = document.tree.text()
        document.commit_tree(text.replace(b"a: ", b"c: 1\na: "))
        longer = text.replace(b"a: ", b"c: '" + b"x" * 20_000 + b"'\na: ")
        assert of_document(calls(lambda: document.commit_tree(longer))) <= 350


def test_the_last_row_of_a_compressed_block(file: Path) -> None:
    with asdffs.open(file, mode="r+") as document:
        block = document.blocks[0]
        block.set_compression("lz4")
        block.write_at(0, b"x" * 8)
        block.flush(durable=True)
        size = block.size

        def work() -> None:
            block.write_at(size - 8, np.array([7.5]).tobytes())
            block.flush(durable=True)

        assert of_document(calls(work)) <= 400
