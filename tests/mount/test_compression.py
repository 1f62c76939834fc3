"""Compressed blocks on a real mount: attributes, programs, refusals, checksums, progress, memory."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asdf
import numpy as np
import pytest
from support import codecs
from support.filesystems import filesystem
from support.mounts import LIMIT, Mounted, asdffs, environment_in, mounted, run, set_attribute
from support.processes import memory, until, wait_for
from support.samples import DATA, MASK, block_bytes, header_bytes, odd_file, opened, put, write_sample, zlib_block
from support.slow import CONTENT, SlowCodec, slow_file
from support.terminal import Terminal

from asdffs.document.opening import open_document

pytestmark = pytest.mark.mount
CODECS = sorted(codecs.CODECS)
DEEP = bool(os.environ.get("ASDFFS_DEEP"))


def recompress(block: Path, name: str) -> subprocess.CompletedProcess[str]:
    return set_attribute(block, "user.asdf.compression", name)


@pytest.mark.parametrize("codec", CODECS)
def test_edit_with_programs(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "data.asdf"
    arrays = write_sample(path)
    environment = environment_in(tmp_path)
    with mounted(path) as mount:
        assert recompress(mount.block(1), codec).returncode == 0
        assert mount.block(1).read_bytes() == arrays["little"].tobytes()
        command = ["dd", "if=/dev/zero", f"of={mount.block(1)}", "bs=4", "count=100", "seek=30", "conv=notrunc,fsync"]
        assert run(*command).returncode == 0
        memory = np.memmap(mount.block(1), dtype="<i4", mode="r+", shape=(5000,))
        memory[2000:2100] = 7
        memory.flush()
        del memory
        for block in json.loads(asdffs("info", "--json", path, environment=environment).stdout)["blocks"]:
            file = mount.block(block["index"])
            for name in os.listxattr(file):
                assert os.getxattr(file, name).decode() == str(block[name.removeprefix("user.asdf.")])
        assert os.getxattr(mount.block(1), "user.asdf.compression") == codec.encode()
    expected = arrays["little"].copy()
    expected[30:130] = 0
    expected[2000:2100] = 7
    with opened(path) as found:
        assert np.array_equal(found["little"], expected)
        assert np.array_equal(found["last"], arrays["last"])


def test_it_is_stored_when_the_last_writer_closes(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(blocks=[zlib_block(DATA), block_bytes(MASK)]))
    with mounted(path) as mount:
        first, second = (open(mount.block(0), "r+b", buffering=0) for _ in range(2))
        stored = os.getxattr(mount.block(0), "user.asdf.checksum")
        first.write(b"one")
        second.seek(50)
        second.write(b"two")
        first.close()
        assert os.getxattr(mount.block(0), "user.asdf.checksum") == stored
        second.close()
        assert os.getxattr(mount.block(0), "user.asdf.checksum") != stored
    with opened(path) as found:
        assert found["data"][:].tobytes() == b"one" + DATA[3:50] + b"two" + DATA[53:]


def test_refusals_have_their_sentence(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    raw = odd_file(blocks=[zlib_block(DATA), block_bytes(MASK)]).replace(b"zlib", b"what", 1)
    path.write_bytes(raw)
    with mounted(path) as mount:
        assert mount.block(0).read_bytes() == zlib.compress(DATA)
        assert os.getxattr(mount.block(0), "user.asdf.data_size") == b"100"
        with pytest.raises(OSError, match="Read-only"):
            open(mount.block(0), "r+b")
        assert "'what' is not known; the block shows its stored bytes" in mount.error
        assert "Invalid argument" in recompress(mount.block(1), "sparkle").stderr
        assert "known are none, bls2, blsc" in mount.error
        assert "not supported" in set_attribute(mount.block(1), "user.mine", "1").stderr
    assert path.read_bytes() == raw
    with mounted(path, "-o", "ro") as mount:
        assert "Read-only" in recompress(mount.block(1), "zlib").stderr
    done = asdffs("info", path, environment=environment_in(tmp_path))
    assert "'what' is not known" in done.stdout


@pytest.mark.long
def test_what_cannot_be_stored_is_kept_beside_the_file(tmp_path: Path) -> None:
    """ext4 cannot clone: with that strategy alone the block cannot grow."""
    noise = os.urandom(50_000)
    with filesystem("ext4", tmp_path) as place:
        path = put(place, odd_file(blocks=[zlib_block(DATA), block_bytes(MASK)]))
        with mounted(path, "-o", "growth=clone", code=7) as mount:
            with pytest.raises(OSError, match="File too large"), open(mount.block(0), "r+b", buffering=0) as file:
                file.write(noise)
            assert mount.block(0).read_bytes() == noise
        kept = place / "data.asdf.unsaved-1.block-0000.bin"
        assert str(kept) in mount.umount.stderr
        assert kept.read_bytes() == noise
        with opened(path) as found:
            assert found["data"][:].tobytes() == DATA
        assert (
            "unsaved-1.block-0000.bin keeps a save that is not in the file; remove it when you no longer need it"
            in asdffs("check", path, environment=mount.environment).stdout
        )


# -- checksums ------------------------------------------------------------------


def test_verify(tmp_path: Path) -> None:
    blocks = [block_bytes(DATA), block_bytes(MASK), zlib_block(MASK * 9)]
    path = put(tmp_path, odd_file(blocks=blocks).replace(DATA, DATA[::-1]))
    before = path.read_bytes()
    with mounted(path) as mount:
        assert mount.block(0).read_bytes() == DATA[::-1]
        run("sync", mount.point)
    with mounted(path, "-o", "verify") as mount:
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                mount.block(0).read_bytes()
        assert "block 0: its checksum is" in mount.error
        assert (mount.block(1).read_bytes(), mount.block(2).read_bytes()) == (MASK, MASK * 9)
        run("sync", mount.point)
        assert path.read_bytes() == before, "looking mends nothing"
    done = asdffs("check", path, environment=environment_in(tmp_path))
    assert done.returncode == 4
    assert "its checksum is" in done.stdout


@pytest.mark.parametrize(("option", "has"), [("keep", True), ("zero", False)])
def test_checksum_of_what_was_changed(tmp_path: Path, option: str, has: bool) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), zlib_block(MASK)]))
    with mounted(path, "-o", f"checksum={option}") as mount:
        for number in range(2):
            with open(mount.block(number), "r+b") as file:
                file.write(b"x")
        run("sync", mount.point)
        for number in range(2):
            assert (os.getxattr(mount.block(number), "user.asdf.checksum") != b"0" * 32) is has
    with opened(path) as found:
        assert found["data"][:].tobytes() == b"x" + DATA[1:]


# -- waiting ----------------------------------------------------------------------


@contextlib.contextmanager
def holding(block: Path, content: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has written ``content`` and not closed the block: a fork of ours would close it."""
    opening = f"import os, sys; fd = os.open({str(block)!r}, os.O_RDWR)"
    code = f"{opening}; os.pwrite(fd, {content!r}, 0); print(flush=True)"
    command = [sys.executable, "-c", code + "; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.stdin.close()


@pytest.mark.long
def test_progress_is_shown(tmp_path: Path, codec: SlowCodec) -> None:
    path = put(tmp_path, slow_file())
    codec.allow(1)  # the decoding
    with mounted(path, packages=codec.package) as mount:
        folder = os.open(mount.point / ".asdffs", os.O_RDONLY)

        def progress() -> list[object]:
            """By a descriptor: a lookup in the mount point waits for the sync."""
            with open(os.open("status.json", os.O_RDONLY, dir_fd=folder)) as file:
                return list(json.load(file)["progress"])

        with holding(mount.block(2), b"new"), subprocess.Popen(["sync", mount.point]) as sync:
            until(lambda: progress() == [{"operation": "compression", "block": 2, "done": 0, "total": 200}])
            seen = time.monotonic()
            until(lambda: time.monotonic() - seen > 1, "a second, after which it is worth a line in the log")
            codec.allow()
            assert sync.wait(LIMIT) == 0
        os.close(folder)
        assert mount.status["progress"] == []
        assert "compression of block 2" in Path(str(mount.status["log"])).read_text()
        assert mount.block(2).read_bytes() == b"new" + CONTENT[3:]


@pytest.mark.long
def test_umount_says_what_it_waits_for(tmp_path: Path, codec: SlowCodec) -> None:
    path = put(tmp_path, slow_file())
    codec.allow(1)  # the decoding
    with mounted(path, packages=codec.package) as mount, holding(mount.block(2), b"new"):
        command = shlex.join([sys.executable, "-m", "asdffs", "umount", str(mount.point)])
        with Terminal(command, tmp_path, mount.environment) as umount:
            umount.see("compression of block 2")
            codec.allow()
            assert umount.end() == 5, "it is in use"


def big_file(path: Path, size: int) -> None:
    """One zlib block that is well compressed, made piece by piece."""
    pattern = np.arange(1 << 18, dtype="<u4").tobytes()
    stream, used = zlib.compressobj(1), b""
    pieces = [stream.compress(pattern) for _ in range(size // len(pattern))]
    used = b"".join([*pieces, stream.flush()])
    tree = "%YAML 1.1\n---\nvalue: 1\n...\n"
    header = header_bytes(used, compression=b"zlib", data_size=size)
    path.write_bytes(odd_file(tree=tree, blocks=[header + used, block_bytes(MASK)]))


def spooled(mount: Mounted, spool: Path) -> list[int]:
    """Bytes of each file that the daemon has in its spool."""
    found = []
    for fd in os.listdir(f"/proc/{mount.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was closed just now
            if os.readlink(place := f"/proc/{mount.pid}/fd/{fd}").startswith(str(spool)):
                found.append(os.stat(place).st_blocks * 512)
    return found


@pytest.mark.long
def test_a_large_block_takes_little_memory_and_comes_at_once(tmp_path: Path) -> None:
    """At once: its first bytes, when little more of it is decoded."""
    path, spool, size = tmp_path / "data.asdf", tmp_path / "spool", (2 << 30) if DEEP else (192 << 20)
    big_file(path, size)
    spool.mkdir()
    with mounted(path, "-o", f"spool={spool}") as mount:
        with open(mount.block(0), "rb", buffering=0) as file:
            assert file.read(1 << 16)[:8] == bytes([0, 0, 0, 0, 1, 0, 0, 0])
        assert 0 < max(spooled(mount, spool)) <= 8 << 20
        assert run("dd", f"if={mount.block(0)}", "of=/dev/null", "bs=1M").returncode == 0
        assert memory(mount.pid, "VmHWM") < 200 << 20
        with open(mount.block(0), "rb") as file:
            file.seek(size - 4)
            assert file.read() == ((1 << 18) - 1).to_bytes(4, "little")


@pytest.mark.long
def test_the_room_for_decoded_blocks_is_bounded(tmp_path: Path) -> None:
    path, spool = tmp_path / "data.asdf", tmp_path / "spool"
    big_file(path, 96 << 20)
    spool.mkdir()
    with mounted(path, "-o", f"spool={spool},spool_max=16M") as mount:
        digest = run("md5sum", mount.block(0)).stdout
        assert max(spooled(mount, spool)) <= 20 << 20
        with pytest.raises(OSError, match="No space left"), open(mount.block(0), "r+b", buffering=0) as file:
            file.write(b"x")
        assert "spool_max" in mount.error
        assert run("md5sum", mount.block(0)).stdout == digest
        assert recompress(mount.block(0), "zstd").returncode == 0, "needs no more room than reading"
        assert run("md5sum", mount.block(0)).stdout == digest


def test_a_file_of_the_library_with_every_compression(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    rng = np.random.default_rng(3)
    arrays = {name: rng.integers(0, 30, 300_000, "u1") for name in CODECS}
    file = asdf.AsdfFile(dict(arrays))
    for name in CODECS:
        file.set_array_compression(file[name], name)
    file.write_to(path)
    before, environment = path.read_bytes(), environment_in(tmp_path)
    with mounted(path) as mount:
        for number, name in enumerate(CODECS):
            assert mount.block(number).read_bytes() == arrays[name].tobytes()
            assert os.getxattr(mount.block(number), "user.asdf.compression") == name.encode()
            with open(mount.block(number), "r+b") as block:
                assert block.read(8) == arrays[name].tobytes()[:8]
    assert path.read_bytes() == before, "they were only read"
    assert asdffs("check", "--deep", path, environment=environment).stdout.strip().endswith("nothing wrong")


# -- ending -----------------------------------------------------------------------


#: Bytes that nobody decodes within the time that a test may take.
ENDLESS = 1 << 40


def bomb(path: Path, size: int) -> None:
    """One zstd frame of ``size`` zeros, a multiple of 128 KiB, which takes long to decode and nothing to store."""
    blocks = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"  # RLE
    last = ((1 << 17) << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    used = b"\x28\xb5\x2f\xfd\x00\x38" + blocks * (size // (1 << 17) - 1) + last
    header = header_bytes(used, compression=b"zstd", data_size=size)
    tree = "%YAML 1.1\n---\nvalue: 1\n...\n"
    path.write_bytes(odd_file(tree=tree, blocks=[header + used, block_bytes(MASK)]))


FAR = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.pread(fd, 10, int(sys.argv[2]))
"""


@contextlib.contextmanager
def far_reader(mount: Mounted) -> Iterator[subprocess.Popen[bytes]]:
    """A program that reads at the far end of an endless block 0, and is at it."""
    command = [sys.executable, "-c", FAR, str(mount.block(0)), str(ENDLESS - 100)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: any(one["operation"] == "decoding" for one in mount.status["progress"]))
        yield process
    finally:
        process.kill()
        process.wait(LIMIT)


def test_a_reader_that_is_killed_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    bomb(path, ENDLESS)
    with mounted(path, "-o", "spool_max=16M") as mount:
        with far_reader(mount) as reader:
            reader.kill()
            reader.wait(LIMIT)
            with open(mount.block(0), "rb", buffering=0) as file:
                assert file.read(10) == bytes(10)
        until(lambda: mount.status["progress"] == [])


@pytest.mark.parametrize("how", ["SIGTERM", "umount"])
def test_a_long_decode_does_not_keep_the_mount_from_ending(tmp_path: Path, how: str) -> None:
    path = tmp_path / "data.asdf"
    bomb(path, ENDLESS)
    before = path.read_bytes()
    with mounted(path, "-o", "spool_max=16M", code=None) as mount, far_reader(mount) as reader:
        if how == "SIGTERM":
            os.kill(mount.pid, signal.SIGTERM)
        else:
            run("umount", "-l", mount.point)
            reader.kill()
        wait_for(mount.pid)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir() if "asdffs" in p.name) == []


def test_memory_stays_bounded_whatever_is_decoded(tmp_path: Path) -> None:
    """Twenty blocks that each ask for a window of 128 MiB, one byte read of each."""
    path, size = tmp_path / "data.asdf", 1 << 28
    bomb(path, size)
    raw = path.read_bytes()
    start = raw.index(b"\xd3BLK")
    frame = b"\x28\xb5\x2f\xfd\x00"
    block = raw[start : raw.index(b"\xd3BLK", start + 4)].replace(frame + b"\x38", frame + b"\x88")
    block = block[:38] + bytes(16) + block[54:]
    path.write_bytes(odd_file(tree="%YAML 1.1\n---\nvalue: 1\n...\n", blocks=[block] * 20))
    with mounted(path) as mount:
        for number in range(20):
            with open(mount.block(number), "rb", buffering=0) as file:
                assert file.read(1) == b"\0"
        assert memory(mount.pid, "VmHWM") < 600 << 20


CHURN = """
import os, sys
while True:
    fd = os.open(sys.argv[1], os.O_RDONLY)
    place = 0
    while piece := os.pread(fd, 1 << 17, place):
        place += len(piece)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
"""


@pytest.mark.long
def test_regression_a_reader_and_a_recompression_waited_for_each_other(tmp_path: Path) -> None:
    """In a block larger than the room, so that the reader is decoding when the new bytes are written over the old."""
    path = tmp_path / "data.asdf"
    content = np.random.default_rng(1).integers(0, 16, 24 << 20, "u1")
    asdf.AsdfFile({"a": content}).write_to(path, all_array_compression="zlib")
    with mounted(path, "-o", "spool_max=16M") as mount:
        reader = subprocess.Popen([sys.executable, "-c", CHURN, str(mount.block(0))])
        try:
            for name in ("lz4", "zstd", "lz4", "zstd", "lz4f"):
                assert recompress(mount.block(0), name).returncode == 0
            assert reader.poll() is None, "it reads on"
        finally:
            reader.kill()
            reader.wait()
        assert mount.block(0).read_bytes() == content.tobytes()


@pytest.mark.parametrize("options", [(), ("-o", "verify")])
def test_regression_verify_kept_a_conflict_copy_from_being_made(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = put(tmp_path, odd_file(blocks=[zlib_block(DATA), block_bytes(MASK)]))
    other = odd_file(blocks=[zlib_block(DATA[::-1]), block_bytes(MASK[::-1])])
    with mounted(path, *options, code=7) as mount:
        file = open(mount.block(0), "r+b", buffering=0)
        assert file.read(4) == DATA[:4]
        os.pwrite(file.fileno(), b"PRECIOUS", 0)
        with open(path, "r+b") as foreign:
            foreign.truncate(0)
            foreign.write(other)
        until(lambda: mount.status["conflict"] != [])
        with pytest.raises(OSError, match="Stale"):
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):
            file.close()
        assert "Traceback" not in Path(str(mount.status["log"])).read_text()
    kept = tmp_path / "data.asdf.conflict-1.block-0000.bin"
    assert kept.read_bytes() == b"PRECIOUS" + DATA[8:]


@pytest.mark.long
def test_regression_a_full_copying_file_system_lost_a_block(tmp_path: Path) -> None:
    """btrfs needs new room to overwrite: it is refused before, and the block stays."""
    with filesystem("btrfs", tmp_path) as place:
        path = place / "data.asdf"
        content = np.random.default_rng(1).integers(0, 256, 30 << 20, "u1")
        asdf.AsdfFile({"a": content}).write_to(path)
        with mounted(path) as mount:
            free = os.statvfs(place)
            room = free.f_bavail * free.f_frsize - (45 << 20)
            assert run("fallocate", "-l", room, place / "filler").returncode == 0
            assert "No space left" in recompress(mount.block(0), "bzp2").stderr
            assert mount.block(0).read_bytes() == content.tobytes()
            (place / "filler").unlink()
            assert recompress(mount.block(0), "zstd").returncode == 0
        with opened(path) as found:
            assert np.array_equal(found["a"], content)
        assert sorted(p.name for p in place.iterdir() if "asdffs" in p.name) == []


# -- several at a time, and full disks ------------------------------------------------


def change(block: Path, model: bytearray, rng: random.Random) -> None:
    """One random change of a block, and of what it should be then."""
    kind = rng.random()
    if kind < 0.5:
        with open(block, "r+b", buffering=0) as file:
            for _ in range(3):
                offset, payload = rng.randrange(len(model) + 2000), rng.randbytes(rng.randrange(1, 9000))
                assert os.pwrite(file.fileno(), payload, offset) == len(payload)
                model.extend(bytes(max(0, offset + len(payload) - len(model))))
                model[offset : offset + len(payload)] = payload
            if rng.random() < 0.3:
                os.fsync(file.fileno())
    elif kind < 0.65:
        size = rng.randrange(1 << 19)
        os.truncate(block, size)
        del model[size:]
        model.extend(bytes(size - len(model)))
    elif kind < 0.75:
        os.setxattr(block, "user.asdf.compression", rng.choice(["none", *CODECS]).encode())
    elif kind < 0.8:
        model[:] = rng.randbytes(rng.randrange(1, 200_000))
        scratch = block.with_suffix(".new")
        scratch.write_bytes(model)
        os.rename(scratch, block)
    else:
        assert block.read_bytes() == model


@pytest.mark.long
@pytest.mark.parametrize("options", ["growth=auto", "growth=copy"])
def test_each_thread_its_block(tmp_path: Path, options: str) -> None:
    """Changes of one block are no other program's for those who change others."""
    path = tmp_path / "data.asdf"
    contents = [os.urandom(100_000) + bytes(200_000) for _ in range(3)]
    tree = "%YAML 1.1\n---\nvalue: 1\n...\n"
    path.write_bytes(odd_file(tree=tree, blocks=[zlib_block(content) for content in contents]))
    models = [bytearray(content) for content in contents]
    with mounted(path, "-o", options) as mount:

        def work(number: int) -> None:
            rng = random.Random(number)
            for _ in range(500 if DEEP else 50):
                change(mount.block(number), models[number], rng)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        assert mount.error == ""
    document = open_document(str(path), writable=False)
    for number, model in enumerate(models):
        assert document.blocks[number].read_at(0, len(model) + 1) == model
        assert document.blocks[number].find_checksum_fault() == ""
    document.close()


def fill_up(place: Path, left: int) -> Path:
    """A file that leaves about ``left`` bytes of the file system."""
    ballast, size, step = place / "ballast", 0, 64 << 20
    with open(ballast, "wb") as file:
        while step >= 1 << 17:
            free = os.statvfs(place)
            if free.f_bfree * free.f_frsize - step < left:
                step //= 2
                continue
            os.posix_fallocate(file.fileno(), size, step)
            size += step
    return ballast


@pytest.mark.long
def test_regression_a_full_disk_was_taken_for_another_program(tmp_path: Path) -> None:
    """There is room for the payload and none for the block; what was written is stored when there is room again."""
    noise = bytes(np.random.default_rng(2).integers(0, 2, 30 << 20, "u1"))
    with filesystem("ext4", tmp_path) as place:
        path = put(place, odd_file(blocks=[zlib_block(DATA), block_bytes(MASK)]))
        with mounted(path, "-o", f"spool={tmp_path}") as mount:
            with open(mount.block(0), "r+b", buffering=0) as file:
                file.write(noise)
                ballast = fill_up(place, 7 << 20)
                with pytest.raises(OSError, match="No space left"):
                    os.fsync(file.fileno())
                assert mount.status["conflict"] == []
                assert os.pread(file.fileno(), 100, 0) == noise[:100]
                ballast.unlink()
            assert os.getxattr(mount.block(0), "user.asdf.data_size") == b"%d" % len(noise)
        document = open_document(str(path), writable=False)
        assert document.blocks[0].find_checksum_fault() == ""
        assert document.blocks[0].read_at(0, len(noise)) == noise
        document.close()


@pytest.mark.long
def test_regression_a_reservation_that_was_refused_stayed(tmp_path: Path) -> None:
    with filesystem("ext4", tmp_path) as place:
        path = put(place, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)]))
        before = path.read_bytes()
        with mounted(path) as mount:
            command = ["setfattr", "-n", "user.asdf.allocated_size", "-v", "50000000000", mount.block(1)]
            assert "No space left" in run(*command).stderr
            assert os.getxattr(mount.block(1), "user.asdf.allocated_size") == b"40"
        assert path.stat().st_size < len(before) + 100
        assert path.stat().st_blocks * 512 < 1 << 20
        with opened(path) as found:
            assert found["mask"][:].tobytes() == MASK
