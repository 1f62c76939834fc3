"""Every change of the tree in a FITS file, cut at every step: afterwards the file is the old or the new one."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from support.crashes import disks, record
from support.fits_files import TREE, Form, with_blocks, write_fits
from support.memory import MemoryFolder

from asdffs.document.opening import Settings, open_in_folder

NAME = "jw_cal.fits"
SHORT, MIDDLE, LONG = (b"observer: " + b"v" * length for length in (9, 700, 3000))


def change(folder: MemoryFolder, growth: str, *values: bytes) -> None:
    document = open_in_folder(folder, NAME, writable=True, settings=Settings(growth=growth))
    for value in values:
        document.commit_tree(re.sub(rb"observer: \w+", value, document.tree.text()))
        folder.step("version", "", bytes(folder.files[NAME].content))
    document.finish()
    document.close()


def whole_of(folder: MemoryFolder) -> bytes:
    """The file as recovery leaves it."""
    open_in_folder(folder, NAME, writable=True).close()
    return bytes(folder.files[NAME].content)


@pytest.mark.parametrize(
    ("form", "growth", "values", "tree"),
    [
        (Form("table", last=True, checksum=True), "auto", [SHORT, MIDDLE, LONG, SHORT], TREE),
        (Form("image", last=True, checksum=False), "auto", [MIDDLE, LONG], TREE),
        (Form("image", last=False, checksum=True), "auto", [SHORT], TREE),
        (Form("table", last=True, checksum=True), "auto", [SHORT, LONG, SHORT], with_blocks()),
        (Form("table", last=False, checksum=False), "insert", [SHORT, LONG, SHORT], with_blocks()),
        *((Form("table", last=False, checksum=True), growth, [LONG], TREE) for growth in ("clone", "insert", "copy")),
    ],
)
def test_cut_at_every_step(tmp_path: Path, form: Form, growth: str, values: list[bytes], tree: bytes) -> None:
    write_fits(tmp_path / NAME, form, tree)
    start, rng, seen = (tmp_path / NAME).read_bytes(), random.Random(growth), set()
    origin = MemoryFolder({NAME: start})
    folder = MemoryFolder(features=origin.features)
    folder.files = {name: file.copy() for name, file in origin.files.items()}
    events = record(folder, lambda: change(folder, growth, *values))
    versions = [start, *(event.details[0] for event in events if event.kind == "version")]
    assert len(set(versions)) > 1
    for disk in disks(origin, events):
        for crashed in disk.crashes(rng, 8):
            found = whole_of(crashed)
            assert found in versions
            assert not [name for name in crashed.files if name != NAME]
            seen.add(found)
    assert seen == set(versions)
