"""Which binding is chosen, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
from asdffs.mount.binding import load_binding
print(load_binding({wanted!r}).name)
"""


def load(wanted: str, *absent: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the bindings load libfuse when they are imported."""
    code = CODE.format(wanted=wanted, absent=absent)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def has_fusepy() -> bool:
    return load("fusepy").returncode == 0


def test_mfusepy_comes_first() -> None:
    assert load("auto").stdout == "mfusepy\n"


@pytest.mark.skipif(not has_fusepy(), reason="fusepy or libfuse2 is not installed")
def test_fusepy_serves_where_it_is_the_only_one() -> None:
    assert load("auto", "mfusepy").stdout == "fusepy\n"


def test_without_any_the_sentence_says_what_to_install() -> None:
    done = load("auto", "mfusepy", "fuse")
    assert done.returncode == 1
    assert "MountError: no usable FUSE binding" in done.stderr
    assert "apt install fuse3" in done.stderr
