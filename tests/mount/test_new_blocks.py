"""Appending, removing and reserving blocks, and streams, with the tools that users have."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.mounts import LIMIT, Mounted, asdffs, environment_in, mounted, run, set_attribute
from support.plans import scan
from support.samples import DATA, MASK, block_bytes, header_bytes, odd_file, opened, put, write_sample

pytestmark = pytest.mark.mount
NEW = np.random.default_rng(5).normal(size=(30, 40))
ENTRY = b"new%d: !core/ndarray-1.1.0 {source: %d, datatype: float64, byteorder: little, shape: [30, 40]}\n"


def refer(mount: Mounted, *numbers: int) -> None:
    """Have the tree refer to blocks."""
    entries = b"".join(ENTRY % (number, number) for number in numbers)
    mount.tree.write_bytes(mount.tree.read_bytes().replace(b"\n...\n", b"\n" + entries + b"...\n"))


def bring(mount: Mounted, how: str, source: Path, number: int) -> int:
    """A file becomes block ``number`` as users do that; the exit code."""
    target = mount.block(number)
    if how == "rename":
        run("cp", source, mount.point / "blocks" / "temporary")
        return run("mv", mount.point / "blocks" / "temporary", target).returncode
    if how == "shell":
        return run("bash", "-c", f"cat {source} > {target}").returncode
    if how == "numpy":
        NEW.tofile(target)
        return 0
    words = {"cp": ["cp"], "rsync": ["rsync"], "install": ["install", "-m", "644"]}[how]
    return run(*words, source, target).returncode


@pytest.mark.parametrize(
    "how", ["cp", pytest.param("rsync", marks=pytest.mark.long), "rename", "shell", "numpy", "install"]
)
def test_new_blocks_in_a_row(tmp_path: Path, how: str) -> None:
    path, source = tmp_path / "data.asdf", tmp_path / "new.bin"
    arrays = write_sample(path)
    source.write_bytes(NEW.tobytes())
    with mounted(path) as mount:
        for number in (4, 5, 6):
            assert bring(mount, how, source, number) == 0
            assert mount.block(number).read_bytes() == NEW.tobytes()
        refer(mount, 4, 5, 6)
        assert mount.error == ""
        assert mount.status["warnings"] == []
    with opened(path) as found:
        for number in (4, 5, 6):
            assert np.array_equal(found[f"new{number}"], NEW)
        assert np.array_equal(found["little"], arrays["little"])
    info = json.loads(asdffs("info", "--json", path, environment=environment_in(tmp_path)).stdout)
    assert info["index"] == "valid"
    assert [block["has_checksum"] for block in info["blocks"][4:]] == [True] * 3


def test_a_block_is_durable_before_the_tree_refers_to_it(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    write_sample(path)
    with mounted(path) as mount, open(mount.block(4), "wb", buffering=0) as file:
        file.write(NEW.tobytes())
        refer(mount, 4)  # it is still open
        assert os.getxattr(mount.block(4), "user.asdf.used_size") == b"%d" % NEW.nbytes
        file.close()
    with opened(path) as found:
        assert np.array_equal(found["new4"], NEW)


def test_the_first_block_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"value": 1}).write_to(path)
    with mounted(path) as mount:
        NEW.tofile(mount.block(0))
        refer(mount, 0)
        mount.tree.write_bytes(mount.tree.read_bytes().replace(b"value: 1", b"value: 2  # fits"))
        assert mount.status["growth"] == ""
    with opened(path) as found:
        assert np.array_equal(found["new0"], NEW)
        assert found["value"] == 2


def test_removing_and_what_is_refused(tmp_path: Path) -> None:
    path, source = tmp_path / "data.asdf", tmp_path / "new.bin"
    write_sample(path)
    source.write_bytes(NEW.tobytes())
    before = path.read_bytes()
    with mounted(path) as mount:
        refusals = [
            ("Device or resource busy", "last (line ", ["rm", "-f", mount.block(3)]),
            ("Device or resource busy", "only the last block", ["rm", "-f", mount.block(0)]),
            ("Invalid argument", "next free block is 0004.bin", ["cp", source, mount.block(9)]),
            ("Operation not permitted", "cannot be renamed", ["mv", mount.block(3), mount.point / "away"]),
            ("Operation not permitted", "only a file", ["mkdir", mount.block(4)]),
            ("Operation not permitted", "only a file", ["ln", "-s", "target", mount.block(4)]),
            ("Operation not permitted", "nothing can be created", ["touch", mount.point / ".asdffs" / "new"]),
        ]
        for error, sentence, command in refusals:
            assert error in run(*command).stderr
            assert sentence in mount.error
        assert run("cp", source, mount.block(4)).returncode == 0
        with open(mount.block(4), "rb") as held:
            assert "Device or resource busy" in run("rm", "-f", mount.block(4)).stderr
            assert held.read() == NEW.tobytes()
        assert run("rm", mount.block(4)).returncode == 0
        assert not mount.block(4).exists()
    start = before.index(b"#ASDF BLOCK INDEX")
    assert path.read_bytes()[:start] == before[:start]
    assert scan(path.read_bytes()).offsets == scan(before).offsets


def test_room_is_reserved_and_given_back(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)]))
    with mounted(path) as mount:

        def fact(name: str) -> int:
            return int(os.getxattr(mount.block(1), f"user.asdf.{name}"))

        assert set_attribute(mount.block(1), "user.asdf.allocated_size", "9000").returncode == 0
        assert (fact("allocated_size"), fact("used_size")) == (9000, 40)
        for value, error in (("20", "Invalid argument"), ("many", "Invalid argument")):
            assert error in set_attribute(mount.block(1), "user.asdf.allocated_size", value).stderr
        assert "Operation not permitted" in set_attribute(mount.block(1), "user.asdf.offset", "1").stderr
        with pytest.raises(PermissionError):
            os.removexattr(mount.block(1), "user.asdf.offset")
        assert run("truncate", "-s", "5000", mount.block(1)).returncode == 0
        assert fact("allocated_size") == 9000
        assert run("truncate", "-s", "10", mount.block(1)).returncode == 0
        assert (fact("allocated_size"), fact("used_size")) == (9000, 10)
        assert run("fallocate", "-l", "20000", mount.block(1)).returncode == 0
        assert (fact("allocated_size"), mount.block(1).stat().st_size) == (20000, 20000)
        assert run("fallocate", "-n", "-l", "30000", mount.block(1)).returncode == 0
        assert (fact("allocated_size"), mount.block(1).stat().st_size) == (30000, 20000)
        assert run("fallocate", "-p", "-o", "4", "-l", "3", mount.block(1)).returncode == 0
        assert mount.block(1).read_bytes()[:10] == bytes(range(4)) + bytes(3) + bytes(range(7, 10))
    info = json.loads(asdffs("info", "--json", path, environment=environment_in(tmp_path)).stdout)
    assert info["blocks"][1]["allocated_size"] == 30000
    assert info["index"] == "valid"


# -- streams --------------------------------------------------------------------


def test_a_stream_that_grows_for_long(tmp_path: Path) -> None:
    """``cat >>`` again and again, a reader that follows, tree edits in between; the array follows."""
    path = tmp_path / "data.asdf"
    with open(path, "wb") as file:
        asdf.AsdfFile({"value": 1, "s": asdf.tags.core.Stream([4], np.float32)}).write_to(file)
    rows = put(tmp_path, np.arange(40, dtype="f4").tobytes(), "rows")
    environment = environment_in(tmp_path)
    with mounted(path) as mount, following(mount.block(0), 20 * 160) as follower:
        for number in range(20):
            assert run("bash", "-c", f"cat {rows} >> {mount.block(0)}").returncode == 0
            assert mount.block(0).stat().st_size == (number + 1) * 160
            if number % 5 == 0:
                text = mount.tree.read_bytes().replace(b"value: ", b"value: 1")
                mount.tree.write_bytes(text)
        info = json.loads(asdffs("info", "--json", path, environment=environment).stdout)
        assert info["arrays"][0]["shape"] == [200, 4]
        assert info["blocks"][0]["data_size"] == 3200
        assert os.getxattr(mount.block(0), "user.asdf.data_size") == b"3200"
        assert follower.wait(LIMIT) == 0
        assert follower.stdout.read() == rows.read_bytes() * 20
    assert b"BLOCK INDEX" not in path.read_bytes()
    with asdf.open(path, memmap=False) as found:
        assert found["s"].shape == (200, 4)
        assert found["s"][:].tobytes() == rows.read_bytes() * 20
        assert found["value"] == 11111


@contextlib.contextmanager
def following(block: Path, size: int):
    """``tail -f`` from the start until it has seen ``size`` bytes."""
    command = f"tail -c +1 -s 0.1 -f {block} | head -c {size}"
    process = subprocess.Popen(
        ["bash", "-c", f"set +o pipefail; {command}; kill $(jobs -p) 2>/dev/null; exit 0"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        process.stdout.close()


def test_another_program_appends_to_the_stream(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(blocks=[header_bytes(b"", flags=1, md5=False) + MASK], index="absent"))
    with mounted(path) as mount:
        assert mount.block(0).read_bytes() == MASK
        with open(path, "ab") as file:
            file.write(b"more")
        assert mount.block(0).read_bytes() == MASK + b"more"


# -- blocks of other files --------------------------------------------------------


def test_external_blocks_are_resolved(tmp_path: Path) -> None:
    other = tmp_path / "an other.asdf"
    write_sample(other)
    path = tmp_path / "data.asdf"
    entry = "%s: !core/ndarray-1.0.0 {source: %s, datatype: float64, byteorder: big, shape: [%s]}\n"
    sources = {
        "relative": ("an%20other.asdf", "64, 32"),
        "absolute": (f"file://{tmp_path}/an%20other.asdf", "64, 32"),
        "missing": ("nowhere.asdf", "3"),
        "large": ("an%20other.asdf", "640, 32"),
        "remote": ("https://example.org/x.asdf", "3"),
    }
    body = "".join(entry % (name, source, shape) for name, (source, shape) in sources.items())
    path.write_bytes(odd_file(tree=f"%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n---\nvalue: 1\n{body}...\n", blocks=[]))
    environment = environment_in(tmp_path)
    info = json.loads(asdffs("info", "--json", path, environment=environment).stdout)
    found = {one["array"]: one for one in info["external"]}
    assert found["relative"]["path"] == found["absolute"]["path"] == str(other)
    assert found["relative"]["data_size"] == 64 * 32 * 8
    assert [name for name, one in found.items() if one["trouble"]] == ["missing", "large", "remote"]
    assert "nowhere.asdf" in asdffs("info", path, environment=environment).stdout
    done = asdffs("check", path, environment=environment)
    assert done.returncode == 4
    assert f"{tmp_path}/nowhere.asdf" in done.stdout
    assert "it needs bytes 0 to 163840 of block" in done.stdout
    assert "note: line 11: remote (https://example.org/x.asdf): its source 'https://example.org" in done.stdout
