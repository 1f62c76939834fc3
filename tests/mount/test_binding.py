"""Which binding is chosen, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import ctypes.util, os, sys
def find_library(name):
    raise AssertionError("to look for libfuse takes as long as half of the imports")
ctypes.util.find_library = find_library
before = dict(os.environ)
for name in {absent!r}:
    sys.modules[name] = None
from asdffs.mount.binding import load_binding
binding = load_binding({wanted!r})
assert dict(os.environ) == before
print(binding.name, 2 if binding.libfuse2 else 3)
"""


def load(wanted: str, *absent: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the bindings load libfuse when they are imported."""
    code = CODE.format(wanted=wanted, absent=absent)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def has_fusepy() -> bool:
    return load("fusepy").returncode == 0


def has_libfuse3() -> bool:
    return any(Path("/").glob("usr/lib*/**/libfuse3.so.*"))


def test_mfusepy_comes_first() -> None:
    """With libfuse 3, where both are."""
    assert load("auto").stdout == ("mfusepy 3\n" if has_libfuse3() else "fusepy 2\n")


@pytest.mark.skipif(not has_fusepy(), reason="fusepy or libfuse2 is not installed")
def test_fusepy_comes_first_with_libfuse_2_alone() -> None:
    code = (
        "from asdffs.mount import binding\n"
        "real = binding._can_load\n"
        "binding._can_load = lambda name: name in binding._LIBFUSE2 and real(name)\n"
        "found = binding.load_binding()\n"
        "print(found.name, found.libfuse2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "fusepy True\n", done.stderr


@pytest.mark.skipif(not has_fusepy(), reason="fusepy or libfuse2 is not installed")
def test_fusepy_serves_where_it_is_the_only_one() -> None:
    assert load("auto", "mfusepy").stdout == "fusepy 2\n"


@pytest.mark.skipif(not has_fusepy(), reason="libfuse2 is not installed")
def test_who_names_a_library_has_that() -> None:
    assert load("auto", FUSE_LIBRARY_PATH="libfuse.so.2").stdout == "mfusepy 2\n"


def test_without_any_the_sentence_says_what_to_install() -> None:
    done = load("auto", "mfusepy", "fuse")
    assert done.returncode == 1
    assert "MountError: no usable FUSE binding" in done.stderr
    assert "apt install fuse3" in done.stderr
