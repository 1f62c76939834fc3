"""Files of the drafts of 2014 and 2015 are mounted as those of today."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.commands import command
from support.drafts import FOLDER, INVALID, SAMPLES, name_of
from support.mounts import environment_in, mounted, run

pytestmark = pytest.mark.mount


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_mounted_edited_unmounted_mounted_again(path: Path, tmp_path: Path) -> None:
    for name in ("exploded0000.asdf", "external.asdf"):  # what others lead to
        shutil.copy(SAMPLES[0].parent / name, tmp_path / name)
    file = Path(shutil.copy(path, tmp_path / "data.asdf"))
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        assert path.read_bytes().startswith(text)
        blocks = {name: contents(mount.point / "blocks" / name) for name in os.listdir(mount.point / "blocks")}
        arrays = {found.name: contents(found) for found in (mount.point / "arrays").rglob("*.npy")}
        if b"\n---" in text:
            done = run("sed", "-i", "s/^--- .*/&\\n# by hand\\nobserver: Ada/", mount.tree)
            assert done.returncode == 0, done.stderr
    expected = 4 if path in INVALID else 9 if path.stem == "unknown_encoding" else 0
    assert command("check", "--deep", file, environment=environment_in(tmp_path)).code == expected
    with mounted(file) as mount:
        if b"\n---" in text:
            assert mount.tree.read_bytes() == text.replace(b"/asdf\n", b"/asdf\n# by hand\nobserver: Ada\n", 1)
        assert blocks == {name: contents(mount.point / "blocks" / name) for name in blocks}
        assert arrays == {found.name: contents(found) for found in (mount.point / "arrays").rglob("*.npy")}
        assert len(blocks) >= 1


def contents(path: Path) -> bytes | int | None:
    """The bytes, or the error in reading them."""
    try:
        return path.read_bytes()
    except OSError as err:
        return err.errno


EXPECTED = [path for path in SAMPLES if path.with_suffix(".expect.npy").exists()]


@pytest.mark.parametrize("path", EXPECTED, ids=name_of)
def test_arrays_and_blocks_of_chains(path: Path, tmp_path: Path) -> None:
    expected = np.load(path.with_suffix(".expect.npy"))
    file = Path(shutil.copy(path, tmp_path / "data.asdf"))
    with mounted(file) as mount:
        assert np.array_equal(np.load(mount.point / "arrays" / "data.npy"), expected)
        assert mount.block(0).read_bytes() == expected.tobytes()
        lossy = b"quantize" in path.read_bytes()
        changed = bytes(4) + expected.tobytes()[4:]
        if lossy:
            with pytest.raises(OSError, match="Read-only file system"):
                mount.block(0).open("r+b")
            assert "quantize rounds values" in mount.error
            os.setxattr(mount.block(0), "user.asdf.compression", b"zlib")
        (tmp_path / "changed").write_bytes(changed)
        assert run("cp", tmp_path / "changed", mount.block(0)).returncode == 0
    with mounted(file) as mount:
        assert mount.block(0).read_bytes() == changed
        name = os.getxattr(mount.block(0), "user.asdf.compression").decode()
        assert name == ("zlib" if lossy else path.stem.removeprefix("real_").replace("_", "+"))


def test_tiles_that_are_cut_short_are_kept_beside_the_file(tmp_path: Path) -> None:
    path = next(path for path in EXPECTED if path.stem == "tile_zlib")
    file = Path(shutil.copy(path, tmp_path / "data.asdf"))
    with mounted(file, code=7) as mount:
        with pytest.raises(OSError, match="Operation not supported"):
            mount.block(0).write_bytes(b"short")
        assert "its tiles hold exactly 24576 bytes, not 5" in mount.error
    assert (tmp_path / "data.asdf.unsaved-1.block-0000.bin").read_bytes() == b"short"
    with mounted(file) as mount:
        assert mount.block(0).read_bytes() == np.load(path.with_suffix(".expect.npy")).tobytes()


def test_drafts_lead_to_each_other(tmp_path: Path) -> None:
    for path in (FOLDER / "2014").glob("*.asdf"):
        shutil.copy(path, tmp_path / path.name)
    with mounted(tmp_path / "refs.asdf") as mount:
        for name in ("local", "nofslash", "ext", "wavelengths/0"):
            assert np.load(mount.point / "arrays" / f"{name}.npy").tolist() == list(range(8)), name
    assert command("check", tmp_path / "refs.asdf", environment=environment_in(tmp_path)).code == 0
