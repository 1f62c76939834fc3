"""No file ends a command, a view or a program in anything but a sentence, soon, and in little memory.

``./scripts/test --deep`` looks at 25,000 files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

COUNT = 25_000 if os.environ.get("ASDFFS_DEEP") else 120
#: Each is one test, with its own time limit.
PROCESSES = 50 if os.environ.get("ASDFFS_DEEP") else 4


@pytest.mark.parametrize("part", range(PROCESSES))
def test_wrong_files_end_in_sentences(part: int) -> None:
    each = COUNT // PROCESSES
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "support.fuzzed", str(part * each), str(each)],
        env={**os.environ, "PYTHONPATH": f"{tests}:{os.environ.get('PYTHONPATH', '')}:{tests.parent}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout[-5000:] + done.stderr[-2000:]
