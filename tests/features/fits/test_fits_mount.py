"""A FITS file with an ASDF extension as a directory, and in the commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits
from support.fits_files import DATA, DQ, SECOND, SPECTRUM, TREE, Form, embedded, others, write_fits
from support.mounts import asdffs, environment_in, mounted, run

pytestmark = pytest.mark.mount


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jw_cal.fits"
    write_fits(path, Form(last=False, checksum=True))
    return path


def test_mounted(file: Path) -> None:
    before = others(file)
    with mounted(file) as mount:
        assert mount.tree.read_bytes() == TREE
        assert sorted(os.listdir(mount.point)) == [".asdffs", "arrays", "blocks", "tree.yaml"]
        arrays = mount.point / "arrays"
        for name, wanted in {"data": DATA, "second": SECOND, "dq": DQ, "spectrum": SPECTRUM}.items():
            assert np.array_equal(np.load(arrays / f"{name}.npy"), wanted)
        assert np.array_equal(np.load(arrays / "data.npy", mmap_mode="r")[7], DATA[7])
        assert np.array_equal(fits.getdata(arrays / "data.fits"), DATA)
        with pytest.raises(PermissionError):
            np.load(arrays / "data.npy", mmap_mode="r+")
        run("sed", "-i", "s/Ada/Grace/", mount.tree)
        long = mount.tree.read_bytes().replace(b"107.5", b"x" * 5000)
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(long.replace(b"meta:", b"meta: ["))
        assert "line" in (mount.point / ".asdffs/error").read_text()
        mount.tree.write_bytes(long)  # what follows the extension moves
        assert np.array_equal(np.load(arrays / "data.npy"), DATA)
    assert embedded(file).rstrip(b" ") == TREE.replace(b"Ada", b"Grace").replace(b"107.5", b"x" * 5000)
    assert others(file) == before


def test_commands(file: Path) -> None:
    environment, before = environment_in(file.parent), others(file)

    def call(*words: object, code: int = 0) -> str:
        done = asdffs(*words, environment=environment)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    assert call("get", "meta.observer", file) == "Ada\n"
    call("set", "meta.observer=Grace", "-p", "meta.program=1234", file)
    assert "Grace" in call("tree", file, "meta")
    assert "meta.observer" in call("grep", "Grace", file)
    call("check", file)
    facts = json.loads(call("info", "--json", file))
    assert facts["inside"] == {"format": "FITS", "size": file.stat().st_size, "start": 2 * 2880}
    assert f"FITS, {file.stat().st_size} bytes; the ASDF file in it has" in call("info", file)
    other = file.with_name("other.fits")
    write_fits(other, Form("image"))
    assert "observer" in call("diff", file, other, code=1)
    assert others(file) == before
    out = file.with_name("out")
    for words in (
        ("explode", file, out),
        ("repack", file, out),
        ("repack", file),
        ("upgrade", file, out),
        ("implode", file, out),
    ):
        assert "inside a FITS file" in call(*words, code=2)
    assert not out.exists()
    assert "only its tree can be changed" in call("block", file, "new", "--replace", file, code=2)


def test_set_tells_that_jwst_may_not_read_the_value(file: Path) -> None:
    """The hash in the tree is none of these headers."""
    environment = environment_in(file.parent)
    asdffs("set", f"_fits_hash={'0' * 63}f", file, environment=environment)
    done = asdffs("set", "meta.observer=Grace", file, environment=environment)
    assert done.returncode == 0
    assert "the FITS headers were changed after the tree was written" in done.stderr


def test_an_array_that_the_tree_describes_wrongly_is_a_fault(file: Path) -> None:
    environment = environment_in(file.parent)
    asdffs("set", "data.shape:=[30, 40]", file, environment=environment)
    done = asdffs("check", file, environment=environment)
    assert done.returncode == 4
    assert "its shape is [30, 40], and the data of the FITS extension have [40, 30]" in done.stdout + done.stderr


def test_no_extension_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(DATA, name="SCI")]).writeto(path)
    for command in ("info", "check", "tree"):
        done = asdffs(command, path, environment=environment_in(tmp_path))
        assert done.returncode == 4
        assert (
            "is a FITS file without an extension named ASDF (it has: SCI); it has no tree"
            in done.stdout + done.stderr
        )
