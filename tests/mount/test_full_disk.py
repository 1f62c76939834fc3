"""The disk is full when a written block is stored, and stays full until after the unmount: nothing is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.filesystems import filesystem, fill
from support.mounts import asdffs, mounted
from support.samples import put, zlib_block

pytestmark = pytest.mark.mount

SIZE = 600_000
BODY = "a: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [600000]}\n"


@pytest.mark.long
@pytest.mark.parametrize("state_is_full", [True, False])
def test_what_was_written_comes_back(tmp_path: Path, state_is_full: bool) -> None:
    """``state_is_full``: the state directory, with the spool, is on the full disk as well."""
    new = random.Random(4).randbytes(SIZE)
    with filesystem("ext4", tmp_path, 16 << 20) as disk:
        path = put(disk, tree_file(BODY, [zlib_block(bytes(SIZE)), zlib_block(b"next")]))
        options = [] if state_is_full else ["-o", f"spool={tmp_path}"]
        with mounted(path, *options, code=8) as mount:
            file = os.open(mount.block(0), os.O_RDWR)
            assert os.pwrite(file, new, 0) == SIZE
            filler = fill(disk)
            for store in (os.fsync, os.close):
                with pytest.raises(OSError, match="No space left"):
                    store(file)
            assert mount.block(0).read_bytes() == new
        assert mount.umount is not None
        assert "brings it back" in mount.umount.stderr
        filler.unlink()
        done = asdffs("recover", path, environment=mount.environment)
        assert done.returncode == 7, done.stderr
        assert (disk / "data.asdf.unsaved-1.block-0000.bin").read_bytes() == new
        assert asdffs("check", "--deep", path, environment=mount.environment).returncode == 0
