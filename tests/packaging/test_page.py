"""The page of ``asdffs view`` that is in the repository is the one that its source makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_built_page_is_that_of_its_source() -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    done = subprocess.run([ROOT / "scripts/page", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
