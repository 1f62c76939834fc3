"""The cache of remote files also trims what ``storage/own_files`` keeps beside it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from asdffs.features.remote.cache import trim, used
from asdffs.storage.backend import Signature
from asdffs.storage.own_files import load_places, save_places

KNOWN = Signature(1, 2, 3, 4, 5)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "asdffs"


def test_places_count_and_are_trimmed(cache: Path) -> None:
    save_places(KNOWN, "block 1", b"places")
    assert used() == (1, next(path.stat().st_blocks * 512 for path in cache.iterdir()))
    assert trim(0) == 0
    assert load_places(KNOWN, "block 1") == b""


def test_what_a_killed_program_left_is_trimmed(cache: Path) -> None:
    """It died before the draft got its name: nobody reads the draft, and it counts as a file of the cache."""
    with mock.patch("os.replace", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        save_places(KNOWN, "block 1", b"places")
    assert load_places(KNOWN, "block 1") == b""
    assert used()[0] == len(list(cache.iterdir())) == 1
    assert trim(0) == 0
    assert list(cache.iterdir()) == []
