"""Sources and references that lead to other files: ``arrays/`` follows them, and nothing is written there."""

from __future__ import annotations

import os
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import command
from support.mounts import environment_in, mounted, run
from support.processes import until

pytestmark = pytest.mark.mount

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


def write_tree(path: Path, body: str) -> Path:
    path.write_text(f"{HEAD}{body}...\n")
    return path


def write_other(path: Path, *, compression: str | None = None) -> Path:
    tree = {"group": {"x": np.arange(5), "y": np.arange(6.0).reshape(2, 3)}, "list": [{"z": np.arange(3)}]}
    asdf.AsdfFile(tree).write_to(path, all_array_compression=compression)
    return path


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_arrays_of_another_file(tmp_path: Path, compression: str | None) -> None:
    write_other(tmp_path / "other.asdf", compression=compression)
    body = """\
one: {$ref: "other.asdf#/group/x"}
all: {$ref: "other.asdf#/group"}
item: {$ref: "other.asdf#/list/0/z"}
top: {$ref: other.asdf}
none: {$ref: "other.asdf#/nothing"}
gone: {$ref: "gone.asdf#/x"}
far: {$ref: "http://localhost/x.asdf#/x"}
source: !core/ndarray-1.1.0 {source: other.asdf, datatype: int64, byteorder: little, shape: [5]}
"""
    file = write_tree(tmp_path / "data.asdf", body)
    with mounted(file) as mount:
        arrays = mount.point / "arrays"
        found = sorted(str(path.relative_to(arrays)) for path in arrays.rglob("*.npy"))
        expected = ["all/x.npy", "all/y.npy", "item.npy", "one.npy", "source.npy"]
        assert found == [*expected, "top/group/x.npy", "top/group/y.npy", "top/list/0/z.npy"]
        assert np.load(arrays / "one.npy").tolist() == list(range(5))
        assert np.load(arrays / "all" / "y.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
        assert np.load(arrays / "source.npy", mmap_mode="r").tolist() == list(range(5))
        for name in ("one.npy", "source.npy", "all/x.npy"):
            assert os.stat(arrays / name).st_mode & 0o222 == 0
            with pytest.raises(OSError, match="Read-only file system"):
                (arrays / name).open("r+b")
            assert "mount that one to change it" in mount.error
    done = command("check", file, environment=environment_in(tmp_path))
    assert done.code == 4
    assert done.out.count("error: ") == 2
    assert f"line 10: $ref other.asdf#/nothing: there is no 'nothing' in {tmp_path}/other.asdf" in done.out
    assert "line 11: $ref gone.asdf#/x: it cannot be read" in done.out
    sentence = "'http://localhost/x.asdf' is on the server localhost, and is not followed"
    assert f"note: line 12: $ref http://localhost/x.asdf#/x: {sentence}" in done.out


def test_other_files_that_change_or_come_later(tmp_path: Path) -> None:
    file = write_tree(tmp_path / "data.asdf", 'x: {$ref: "other.asdf#/list/0/z"}\n')
    with mounted(file) as mount:
        path = mount.point / "arrays" / "x.npy"
        assert not path.exists()
        write_other(tmp_path / "other.asdf")
        until(path.exists, "the array of a file that came later")
        assert "$ref other.asdf#/list/0/z is not followed: 'other.asdf' cannot be read" in mount.error
        assert np.load(path).tolist() == [0, 1, 2]
        with asdf.open(tmp_path / "other.asdf", mode="rw") as other:
            other["list"][0]["z"][1] = 77
            other.update()
        assert np.load(path).tolist() == [0, 77, 2]
        asdf.AsdfFile({"list": [{"z": np.arange(9.0)}]}).write_to(tmp_path / "new.asdf")
        os.replace(tmp_path / "new.asdf", tmp_path / "other.asdf")
        assert np.load(path).tolist() == list(range(9))
        (tmp_path / "other.asdf").write_bytes(b"no ASDF file any more")
        with pytest.raises(OSError, match="Input/output error"):
            path.read_bytes()
        assert (mount.point / "tree.yaml").read_text().count("$ref") == 1


def test_circles_have_an_end(tmp_path: Path) -> None:
    write_tree(tmp_path / "b.asdf", 'group: {back: {$ref: "data.asdf#/group"}, x: !core/ndarray-1.1.0 [1]}\n')
    body = 'group: {there: {$ref: "b.asdf#/group"}, x: !core/ndarray-1.1.0 [2]}\nself: {$ref: "data.asdf#/self"}\n'
    file = write_tree(tmp_path / "data.asdf", body)
    with mounted(file) as mount:
        arrays = mount.point / "arrays"
        done = run("find", arrays, "-name", "x.npy")
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.split()) == 5
        assert np.load(arrays / "group/there/x.npy").tolist() == [1], "who looked deeper took nothing away"
        assert np.load(arrays / "group/x.npy").tolist() == [2]
    done = command("check", file, environment=environment_in(tmp_path))
    assert "line 7: $ref data.asdf#/self: it leads in a circle" in done.out


@pytest.mark.parametrize(
    "there",
    [
        'there: {$ref: "mnt-data.asdf/exploded/data.asdf#/data"}',
        'there: {$ref: "mnt-data.asdf/arrays/data.npy#/data"}',
        'there: {$ref: "mnt-data.asdf/arrays/there/x.asdf#/data"}',
        'there: {$ref: "link/exploded/data.asdf#/data"}',
        "there: !core/ndarray-1.1.0\n"
        "  {source: ./x/../mnt-data.asdf/exploded/data0000.asdf, datatype: int8, byteorder: big, shape: [5]}",
    ],
)
def test_a_reference_into_the_mount_itself_holds_nobody_up(tmp_path: Path, there: str) -> None:
    """Whoever serves a file cannot wait for it."""
    data = "data: !core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: big, shape: [5]}\n"
    file = write_tree(tmp_path / "data.asdf", f"{data}{there}\n")
    (tmp_path / "link").symlink_to("mnt-data.asdf")
    with mounted(file) as mount:
        (mount.point / "blocks" / "0000.bin").write_bytes(b"12345")
        found = sorted(name for name in os.listdir(mount.point / "arrays") if name.endswith(".npy"))
        assert found == ["data.npy", *(["there.npy"] if "source" in there else [])]
        assert np.load(mount.point / "arrays" / "data.npy").tobytes() == b"12345"
        if "source" in there:
            with pytest.raises(OSError, match="Input/output error"):
                (mount.point / "arrays" / "there.npy").read_bytes()
            assert "is in a mount of asdffs; name the ASDF file itself" in mount.error


def test_odd_references_are_no_arrays(tmp_path: Path) -> None:
    body = f"""\
data: !core/ndarray-1.1.0 [1, 2]
l: [1]
nul: {{$ref: "bad%00name#/data"}}
far: {{$ref: "#/l/{"1" * 5000}"}}
long: {{$ref: "{"x" * 5000}#/l"}}
folder: {{$ref: "mnt-data.asdf"}}
fifo: {{$ref: "fifo#/l"}}
"""
    os.mkfifo(tmp_path / "fifo")
    file = write_tree(tmp_path / "data.asdf", body)
    with mounted(file) as mount:
        assert sorted(path.name for path in (mount.point / "arrays").glob("*.npy")) == ["data.npy"]
        assert np.load(mount.point / "arrays" / "data.npy").tolist() == [1, 2]
    done = command("check", file, environment=environment_in(tmp_path))
    assert done.code == 4
    assert "Traceback" not in done.err
    assert done.out.count("$ref") == 5
