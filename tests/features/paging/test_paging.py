"""``mapped(lazy=True)``: memory that is decoded when it is touched, by real programs on a real kernel."""

from __future__ import annotations

import gc
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrays import tree_file
from support.processes import until
from support.samples import block_bytes, compressed_block, lz4_block, zlib_block

import asdffs
from asdffs.errors import AsdffsError, NotSupportedError
from asdffs.features.paging import userfault
from asdffs.features.paging.userfault import Userfault

SHAPE = (300, 1000)
VALUES = np.arange(300_000, dtype="<i4").reshape(SHAPE)
PIECE = 100_001  # neither whole pages nor whole elements


def cannot_page() -> str:
    try:
        Userfault().close()
    except OSError as err:
        return str(err)
    return ""


pytestmark = pytest.mark.skipif(bool(cannot_page()), reason=f"userfaultfd: {cannot_page()}")


def zstd_block(content: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    parts = [zstandard.compress(content[at : at + PIECE]) for at in range(0, len(content), PIECE)]
    return compressed_block(b"".join(parts), b"zstd", len(content))


def written(path: Path, block: bytes, more: str = "") -> Path:
    facts = f"source: 0, datatype: int32, byteorder: little, shape: [{SHAPE[0]}, {SHAPE[1]}]"
    path.write_bytes(tree_file(f"data: !core/ndarray-1.0.0 {{{facts}}}\n{more}", [block]))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    view = "source: 0, datatype: int32, byteorder: little, shape: [40, 50], strides: [-8000, 12], offset: 1100000"
    block = lz4_block(VALUES.tobytes(), PIECE)
    return written(tmp_path_factory.mktemp("paging") / "a.asdf", block, f"view: !core/ndarray-1.0.0 {{{view}}}\n")


def resident(array: np.ndarray[Any, Any]) -> int:
    """The bytes of memory behind the mapping of ``array``, by the kernel."""
    address, inside = array.__array_interface__["data"][0], False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            head = line.split()
            if "-" in head[0] and not head[0].endswith(":"):
                start, stop = (int(end, 16) for end in head[0].split("-"))
                inside = start <= address < stop
            elif inside and head[0] == "Rss:":
                return int(head[1]) << 10
    raise AssertionError("there is no such mapping")


def pagers(of: int) -> list[int]:
    """The processes that ``of`` started, and those that they started."""
    found = list[int]()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == of:
            found += [int(name), *pagers(int(name))]
    return found


@pytest.mark.parametrize("kind", ["lz4", "zstd"])
def test_only_what_is_touched_is_there(tmp_path: Path, kind: str) -> None:
    block = zstd_block(VALUES.tobytes()) if kind == "zstd" else lz4_block(VALUES.tobytes(), PIECE)
    with asdffs.open(written(tmp_path / "a.asdf", block)) as document:
        mapped = document.arrays["data"].mapped(lazy=True)
        assert resident(mapped) == 0
        np.testing.assert_array_equal(mapped[100, :50], VALUES[100, :50])
        assert 0 < resident(mapped) <= PIECE
        np.testing.assert_array_equal(mapped, VALUES)
        assert not mapped.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            mapped[0, 0] = 1


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_elements_in_any_order(path: Path, data: st.DataObject) -> None:
    with asdffs.open(path) as document:
        mapped = document.arrays["data"].mapped(lazy=True).reshape(-1)
        for start in data.draw(st.lists(st.integers(0, VALUES.size - 1), min_size=1, max_size=20)):
            length = data.draw(st.sampled_from([1, 10, 1024, 30_000]))
            np.testing.assert_array_equal(mapped[start : start + length], VALUES.reshape(-1)[start : start + length])


def test_a_view_and_what_outlives_the_document(path: Path) -> None:
    with asdffs.open(path) as document:
        view, whole = document.arrays["view"], document.arrays["data"].mapped(lazy=True)
        np.testing.assert_array_equal(view.mapped(lazy=True), view[:])
    assert whole[299, 999] == VALUES[299, 999]


def test_pagers_end_with_their_memory(path: Path) -> None:
    before = pagers(os.getpid())
    with asdffs.open(path) as document:
        mapped = document.arrays["data"].mapped(lazy=True)
        row = mapped[7]
        ours = set(pagers(os.getpid())) - set(before)
        assert len(ours) >= 1
        del mapped
        assert row[5] == VALUES[7, 5]
        del row
    until(lambda: not ours & set(pagers(os.getpid())))


@pytest.mark.parametrize(
    ("block", "options"),
    [(block_bytes, {}), (zlib_block, {}), (lambda raw: lz4_block(raw, len(raw)), {}), (None, {"mode": "r+"})],
)
def test_otherwise_it_is_as_without_lazy(tmp_path: Path, block: Any, options: dict[str, str]) -> None:
    raw = VALUES.tobytes()
    path = written(tmp_path / "a.asdf", block(raw) if block else lz4_block(raw, PIECE))
    before = pagers(os.getpid())
    with asdffs.open(path, **options) as document:
        np.testing.assert_array_equal(document.arrays["data"].mapped(lazy=True), VALUES)
        assert set(pagers(os.getpid())) <= set(before)


def test_a_kernel_without_it_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(userfault, "_NUMBERS", {platform.machine(): 100_000})
    with asdffs.open(path) as document, pytest.raises(NotSupportedError) as caught:
        document.arrays["data"].mapped(lazy=True)
    told = "memory cannot be filled when it is touched (userfaultfd: Function not implemented); use mapped()"
    assert caught.value.sentence == told


def test_a_pager_that_does_not_start_is_told(path: Path, tmp_path: Path) -> None:
    """Before any touch, which would wait for ever; and nothing stays open."""
    copy = tmp_path / "copy.asdf"
    copy.write_bytes(path.read_bytes())
    with asdffs.open(copy) as document:
        array = document.arrays["data"]
        assert array[0, 1] == 1
        copy.rename(tmp_path / "elsewhere.asdf")
        gc.collect()
        before = os.listdir("/proc/self/fd"), pagers(os.getpid())
        with pytest.raises(AsdffsError, match="the process that decodes did not start|removed"):
            array.mapped(lazy=True)
        gc.collect()
        assert (os.listdir("/proc/self/fd"), pagers(os.getpid())) == before


def test_a_long_table_and_a_closed_standard_error(tmp_path: Path, started: Any) -> None:
    """It is longer than a pipe has room for, which the pager empties later."""
    values = np.arange(3_000_000, dtype="<i4")
    facts = "source: 0, datatype: int32, byteorder: little, shape: [3000, 1000]"
    path = tmp_path / "a.asdf"
    path.write_bytes(tree_file(f"data: !core/ndarray-1.0.0 {{{facts}}}\n", [lz4_block(values.tobytes(), 1000)]))
    one = program(
        path, "os.close(2); again = document.arrays['data'].mapped(lazy=True); print(again[-1, -1])", started
    )
    assert one.communicate()[0] == "2999999\n"


# -- other ends, each in a program of its own ---------------------------------------------

PROGRAM = """
import os, sys, asdffs
document = asdffs.open(sys.argv[1])
mapped = document.arrays["data"].mapped(lazy=True)
print(mapped[0, 0], flush=True)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Programs that are killed at the end."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for one in found:
        one.kill()
        one.communicate()


def program(path: Path, more: str, started: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """Run ``more`` after the array is mapped; a line of input lets it go on, and its output has begun."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PROGRAM + more, str(path)]
    started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
    assert started[-1].stdout is not None
    assert started[-1].stdout.readline() == "0\n"
    return started[-1]


LAST = "input(); print(mapped[-1, -1], flush=True)"


def test_a_damaged_piece_is_sigbus_with_the_reason(tmp_path: Path, started: Any) -> None:
    bad = written(tmp_path / "bad.asdf", lz4_block((VALUES // 100).tobytes(), PIECE))
    raw = bytearray(bad.read_bytes())
    raw[-600:-300] = b"\xff" * 300
    bad.write_bytes(raw)
    one = program(bad, LAST, started)
    _, errors = one.communicate("\n")
    assert one.returncode == -signal.SIGBUS
    assert f"asdffs: {bad}: " in errors
    assert errors.endswith("; the program that touches the array there gets SIGBUS\n")


def test_a_changed_file_is_sigbus_with_the_reason(path: Path, tmp_path: Path, started: Any) -> None:
    copy = tmp_path / "copy.asdf"
    copy.write_bytes(path.read_bytes())
    one = program(copy, LAST, started)
    with copy.open("ab") as file:
        file.write(b" ")
    _, errors = one.communicate("\n")
    assert one.returncode == -signal.SIGBUS
    assert "copy.asdf: another program changed the file" in errors


def test_a_killed_pager_is_replaced(path: Path, started: Any) -> None:
    one = program(path, LAST, started)
    for _ in range(3):
        parent, pager = pagers(one.pid)
        os.kill(pager, signal.SIGKILL)
        until(lambda parent=parent, pager=pager: pagers(parent) not in ([], [pager]))
    output, _ = one.communicate("\n")
    assert (output, one.returncode) == (f"{VALUES[-1, -1]}\n", 0)


def test_memory_whose_pagers_always_die_is_poisoned(path: Path, started: Any) -> None:
    one = program(path, LAST, started)
    parent, _ = pagers(one.pid)
    while pids := pagers(parent):
        os.kill(pids[0], signal.SIGKILL)
        until(lambda pids=pids: pagers(parent) not in ([], pids) or state_of(parent) == "Z")
    one.communicate("\n")
    assert one.returncode == -signal.SIGBUS


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_without_any_pager_a_program_waits_for_a_signal_and_sees_no_zeros(path: Path, started: Any) -> None:
    one = program(path, LAST, started)
    for pid in pagers(one.pid):
        os.kill(pid, signal.SIGKILL)
    assert one.stdin is not None
    one.stdin.write("\n")
    one.stdin.flush()
    until(lambda: "handle_userfault" in Path(f"/proc/{one.pid}/wchan").read_text())
    one.terminate()
    output, _ = one.communicate()
    assert (output, one.returncode) == ("", -signal.SIGTERM)


def test_no_pager_stays_when_the_program_is_killed(path: Path, started: Any) -> None:
    one = program(path, LAST, started)
    ours = pagers(one.pid)
    assert len(ours) == 2
    one.kill()
    one.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ours))


def test_in_a_fork_and_in_a_system_call_it_is_no_memory(path: Path, started: Any) -> None:
    more = """
pid = os.fork()
if not pid:
    mapped[-1, -1]
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
try:
    os.write(os.open("/tmp", os.O_WRONLY | os.O_TMPFILE), mapped[200])
except OSError as err:
    print(err.strerror)
print(mapped[-1, -1])
"""
    output, _ = program(path, more, started).communicate()
    assert output.splitlines() == [str(-signal.SIGSEGV), "Bad address", str(VALUES[-1, -1])]
