"""A copy by two threads, killed in the middle: the new file is not there, and the next run makes it whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import asdf
import numpy as np
import pytest
from crash.test_killed import can_trace
from support.mounts import LIMIT, environment_in

pytestmark = [
    pytest.mark.long,
    pytest.mark.strace,
    pytest.mark.skipif(not can_trace(), reason="needs strace and the right to trace"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor: the kernel copies"),
]
ASDFFS = (sys.executable, "-m", "asdffs")
#: Bytes of the block: so many that two threads copy it.
SIZE = 12 << 20


@pytest.mark.parametrize("nth", [3, 4])
@pytest.mark.parametrize("name", ["repack", "implode"])
def test_a_copy_is_killed(name: str, nth: int, tmp_path: Path) -> None:
    content = np.arange(SIZE // 8)
    asdf.AsdfFile({"a": content}).write_to(tmp_path / "data.asdf")
    environment = environment_in(tmp_path)
    subprocess.run([*ASDFFS, "explode", "data.asdf", "parts"], cwd=tmp_path, env=environment, check=True)
    source = "data.asdf" if name == "repack" else "parts/data.asdf"
    before = sorted(tmp_path.rglob("*"))
    words = [*ASDFFS, name, source, "out.asdf"]
    fault = f"inject=pwrite64:signal=SIGKILL:when={nth}"
    trace = ["strace", "-f", "-qq", "-o", tmp_path / "trace", "-e", "trace=pwrite64", "-e", fault, *words]
    subprocess.run(trace, cwd=tmp_path, env=environment, timeout=LIMIT, check=False)
    lines = (tmp_path / "trace").read_text().splitlines()
    assert any("1048576" in line for line in lines), "two threads copied pieces"
    assert any("SIGKILL" in line for line in lines)
    assert not (tmp_path / "out.asdf").exists()
    subprocess.run(words, cwd=tmp_path, env=environment, timeout=LIMIT, check=True)
    with asdf.open(tmp_path / "out.asdf") as found:
        assert np.array_equal(found["a"], content)
    left = {*tmp_path.rglob("*")} - {*before, tmp_path / "trace", tmp_path / "out.asdf"}
    assert not left
