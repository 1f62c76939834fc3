"""Which libfuse is loaded, and what is said when there is none."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from asdffs.errors import MountError, UsageError
from asdffs.mount.libfuse import VERSIONS, describe_libfuse, load_libfuse

THREE = any(Path("/").glob("usr/lib*/**/libfuse3.so.*"))
TWO = any(Path("/").glob("usr/lib*/**/libfuse.so.2*"))
FIRST = VERSIONS[0]


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the dynamic linker find only libraries whose names begin so."""
    real = ctypes.CDLL

    def load(name: str) -> ctypes.CDLL:
        if not name.startswith(names):
            raise OSError(f"{name}: not here")
        return real(name)

    monkeypatch.setattr(ctypes, "CDLL", load)


@pytest.mark.skipif(not THREE, reason="libfuse 3 is not installed")
def test_libfuse_3_comes_first() -> None:
    assert load_libfuse(FIRST).version.startswith("3.")
    assert not load_libfuse("3").old
    assert describe_libfuse("3") == f"libfuse {load_libfuse().version}"


@pytest.mark.skipif(not TWO, reason="libfuse 2 is not installed")
def test_libfuse_2_serves_where_it_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "libfuse.so.2")
    assert load_libfuse(FIRST)[:2] == load_libfuse("2")[:2] == ("2.9", True)
    with pytest.raises(MountError, match=r"libfuse3.so.3: not here; .*; run: sudo apt install fuse3"):
        load_libfuse("3")


def test_without_any_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "none")
    for version, advice in {FIRST: "fuse3", "3": "fuse3", "2": "libfuse2"}.items():
        assert describe_libfuse(version).endswith(f"not here); run: sudo apt install {advice}")


def test_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="not '4'; change"):
        load_libfuse("4")
