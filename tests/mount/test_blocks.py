"""blocks/NNNN.bin on a real mount: read, write, resize, attributes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.mounts import asdffs, environment_in, mounted, run
from support.plans import scan
from support.samples import DATA, MASK, odd_file, opened, put, write_sample

pytestmark = pytest.mark.mount
ORDER = ["big", "little", "bytes", "last"]


@pytest.mark.long
def test_programs_read_what_asdf_reads(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    arrays = write_sample(path)
    before, mtime = path.read_bytes(), path.stat().st_mtime_ns
    with mounted(path) as mount:
        for number, name in enumerate(ORDER):
            content = arrays[name].tobytes()
            block = mount.block(number)
            assert block.stat().st_size == len(content)
            assert block.stat().st_blocks == -(-len(content) // 512)
            assert run("md5sum", block).stdout.split()[0] == hashlib.md5(content).hexdigest()
            copy = tmp_path / name
            assert run("cp", block, copy).returncode == 0
            assert copy.read_bytes() == content
            assert run("cmp", block, copy).returncode == 0
            for skip, count in [(3, 7), (100, 333), (len(content) - 5, 50)]:
                out = tmp_path / "dd"
                run("dd", f"if={block}", f"of={out}", "bs=1", f"skip={skip}", f"count={count}", "status=none")
                assert out.read_bytes() == content[skip : skip + count]
            mapped = np.memmap(block, dtype=arrays[name].dtype, mode="r", shape=arrays[name].shape)
            assert np.array_equal(mapped, arrays[name])
            del mapped
        assert sorted(p.name for p in (mount.point / "blocks").iterdir()) == [f"{n:04d}.bin" for n in range(4)]
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == mtime


@pytest.mark.parametrize("number", range(4))
def test_dd_writes_at_odd_offsets(tmp_path: Path, number: int) -> None:
    path = tmp_path / "data.asdf"
    arrays = write_sample(path)
    before = path.read_bytes()
    expected = bytearray(arrays[ORDER[number]].tobytes())
    patch = put(tmp_path, b"\x5a" * 301, "patch")
    expected[13 : 13 + 301] = patch.read_bytes()
    with mounted(path) as mount:
        block = mount.block(number)
        command = ["dd", f"if={patch}", f"of={block}", "bs=7", "seek=13", "oflag=seek_bytes", "conv=notrunc,fsync"]
        assert run(*command, "status=none").returncode == 0
        assert block.read_bytes() == expected
    with opened(path) as found:
        for name in ORDER:
            content = bytes(expected) if name == ORDER[number] else arrays[name].tobytes()
            assert found[name][:].tobytes() == content
    after = path.read_bytes()
    changed = [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert len(changed) <= 301 + 16, "only the content and its checksum"


def test_memmap_writes_land_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    arrays = write_sample(path)
    with mounted(path) as mount:
        for number, name in enumerate(ORDER):
            mapped = np.memmap(mount.block(number), dtype=arrays[name].dtype, mode="r+", shape=arrays[name].shape)
            mapped[..., ::3] = 7
            mapped.flush()
            del mapped
            arrays[name][..., ::3] = 7
    with opened(path) as found:
        for name in ORDER:
            assert np.array_equal(found[name][:], arrays[name])


@pytest.mark.long
def test_cp_over_a_block_of_the_same_size(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    arrays = write_sample(path)
    size = path.stat().st_size
    new = arrays["big"][::-1].copy()
    (tmp_path / "new").write_bytes(new.tobytes())
    with mounted(path) as mount:
        assert run("cp", tmp_path / "new", mount.block(0)).returncode == 0
        assert run("rsync", "-I", tmp_path / "new", mount.block(0)).returncode == 0
        assert mount.block(0).read_bytes() == new.tobytes()
    with opened(path) as found:
        assert np.array_equal(found["big"][:], new)
        assert np.array_equal(found["last"][:], arrays["last"])
    assert path.stat().st_size == size


def test_truncate_and_grow_within_the_allocation(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    write_sample(path)
    with mounted(path) as mount:
        before = mount.block(1).read_bytes()
        assert run("truncate", "-s", "1001", mount.block(1)).returncode == 0
        assert mount.block(1).read_bytes() == before[:1001]
        assert run("truncate", "-s", "3000", mount.block(1)).returncode == 0
        assert mount.block(1).read_bytes() == before[:1001] + bytes(1999)
        with open(mount.block(1), "r+b") as file:
            file.seek(5000)
            file.write(b"end")
        assert mount.block(1).read_bytes() == before[:1001] + bytes(3999) + b"end"
        facts = {name: os.getxattr(mount.block(1), f"user.asdf.{name}") for name in ("used_size", "allocated_size")}
        assert facts == {"used_size": b"5003", "allocated_size": b"20000"}
    info = json.loads(asdffs("info", "--json", path, environment=environment_in(tmp_path)).stdout)
    assert info["blocks"][1]["data_size"] == 5003
    assert info["blocks"][1]["slack"] == 20000 - 5003
    assert info["index"] == "valid"


@pytest.mark.parametrize("growth", ["auto", "copy", "insert"])
def test_a_middle_block_grows(tmp_path: Path, growth: str) -> None:
    """The blocks behind it move; their bytes, checksums and the index are right afterwards."""
    path = tmp_path / "data.asdf"
    arrays = write_sample(path)
    new = bytes(range(256)) * 20_000
    with mounted(path, "-o", f"growth={growth}") as mount:
        last = mount.block(3).read_bytes()
        run("cp", "/dev/stdin", mount.block(1), input=new.decode("latin-1"), encoding="latin-1")
        assert mount.block(1).read_bytes() == new
        assert mount.block(3).read_bytes() == last
        with open(mount.block(0), "ab", buffering=0) as file:
            file.write(b"y" * 5000)
        os.truncate(mount.block(1), len(new) + 7_000_000)
        assert mount.status["growth"] != ""
    with opened(path) as found:
        assert np.array_equal(found["last"][:], arrays["last"])
        assert np.array_equal(found["bytes"][:], arrays["bytes"])
        assert np.array_equal(found["big"][:], arrays["big"])
    raw = path.read_bytes()
    layout = scan(raw)
    assert layout.index is not None
    assert raw[layout.offsets[1] + 54 :][: len(new)] == new
    assert not any(raw[layout.offsets[1] + 54 + len(new) :][:7_000_000])
    assert raw[layout.offsets[0] + 54 :][: 64 * 32 * 8 + 5000].endswith(b"y" * 5000)


def test_the_last_block_grows(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    arrays = write_sample(path)
    more = np.random.default_rng(3).integers(0, 255, 3 << 20).astype("u1").tobytes()
    (tmp_path / "more").write_bytes(more)
    with mounted(path) as mount:
        assert run("bash", "-c", f"cat {tmp_path}/more >> {mount.block(3)}").returncode == 0
        assert mount.block(3).read_bytes() == arrays["last"].tobytes() + more
        assert run("sync", mount.point).returncode == 0
        assert mount.block(3).read_bytes() == arrays["last"].tobytes() + more
    with opened(path) as found:
        assert np.array_equal(found["last"][:], arrays["last"])
        assert np.array_equal(found["little"][:], arrays["little"])
    info = json.loads(asdffs("info", "--json", path, environment=environment_in(tmp_path)).stdout)
    assert info["index"] == "valid"
    assert info["blocks"][3]["data_size"] == info["blocks"][3]["allocated_size"] == 2000 + len(more)
    assert info["blocks"][3]["has_checksum"]


def test_attributes_equal_info(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    write_sample(path)
    info = json.loads(asdffs("info", "--json", path, environment=environment_in(tmp_path)).stdout)
    with mounted(path) as mount:
        for block in info["blocks"]:
            file = mount.block(block["index"])
            names = [name.removeprefix("user.asdf.") for name in os.listxattr(file)]
            assert len(names) == 9
            for name in names:
                assert os.getxattr(file, f"user.asdf.{name}").decode() == str(block[name])
        with pytest.raises(OSError, match="not supported"):
            os.setxattr(mount.block(0), "user.foreign", b"1")
        with pytest.raises(OSError, match="No data"):
            os.getxattr(mount.block(0), "user.asdf.nonsense")


def test_a_zero_checksum_stays_zero_and_header_bytes_stay(tmp_path: Path) -> None:
    from support.samples import block_bytes

    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA, size=64, md5=False), block_bytes(MASK, size=90)]))
    with mounted(path) as mount:
        for number in (0, 1):
            with open(mount.block(number), "r+b") as file:
                file.write(b"new")
    new = [block_bytes(b"new" + DATA[3:], size=64, md5=False), block_bytes(b"new" + MASK[3:], size=90)]
    assert path.read_bytes() == odd_file(blocks=new)


def test_a_block_that_is_cut_by_mistake_is_told(tmp_path: Path) -> None:
    """A copy that first makes the block empty is none; one that is shorter than the arrays is."""
    path = tmp_path / "data.asdf"
    write_sample(path)
    with mounted(path, "-o", "strict", code=9) as mount:
        whole = mount.block(0).read_bytes()
        standing = mount.status["warnings"]
        mount.block(0).write_bytes(whole)
        assert mount.status["warnings"] == standing
        run("dd", "if=/dev/zero", f"of={mount.block(0)}", "bs=8", "count=1", "status=none")
        (warning,) = [one for one in mount.status["warnings"] if one not in standing]
        assert f"big: it needs bytes 0 to {len(whole)} of block 0, which has 8" in warning
        mount.block(0).write_bytes(whole)
        assert mount.status["warnings"] == standing
        os.truncate(mount.block(0), 8)
        done = run("sync", mount.point)
        assert (done.returncode, "Input/output error" in done.stderr) == (1, True)
        assert "a block was made smaller" in mount.error
    assert f"a block was made smaller, and an array no longer fits: {warning}" in mount.umount.stderr
    with mounted(path) as mount:
        os.truncate(mount.block(0), 4)
    assert "a block was made smaller, and an array no longer fits: line " in mount.umount.stderr


def test_a_block_that_is_cut_with_its_shape_is_not_told(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file())
    with mounted(path) as mount:
        with mount.block(0).open("r+b") as block:
            block.truncate(40)
        assert len(mount.status["warnings"]) == 1
        text = mount.tree.read_text()
        mount.tree.write_text(text.replace("shape: [25]", "shape: [10]"))
        assert mount.status["warnings"] == []
