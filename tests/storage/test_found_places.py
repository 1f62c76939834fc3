"""What is kept in the cache directory belongs to one version of one file."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.processes import until
from support.samples import compressed_block, odd_file

from asdffs.document.opening import Settings, open_document
from asdffs.storage.backend import Signature
from asdffs.storage.own_files import load_places, save_places

KNOWN = Signature(1, 2, 3, 4, 5)
CONTENT = np.repeat(np.random.default_rng(3).integers(0, 250, 6 << 20, "u1"), 4).tobytes()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "asdffs"


def test_only_the_same_version_gets_it(cache: Path) -> None:
    save_places(KNOWN, "block 1", b"places")
    assert load_places(KNOWN, "block 1") == b"places"
    assert load_places(KNOWN, "block 2") == b""
    for field in ("device", "inode", "size", "mtime_ns", "ctime_ns"):
        assert load_places(KNOWN._replace(**{field: 77}), "block 1") == b""


def test_nothing_is_kept_of_a_file_that_just_changed_or_is_remote(cache: Path) -> None:
    save_places(KNOWN._replace(ctime_ns=time.time_ns()), "block 1", b"places")
    save_places(KNOWN._replace(device=0), "block 1", b"places")
    assert not cache.exists()


def test_a_link_is_not_followed_and_no_room_is_no_error(cache: Path, tmp_path: Path) -> None:
    save_places(KNOWN, "block 1", b"places")
    (kept,) = cache.iterdir()
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert load_places(KNOWN, "block 1") == b""
    kept.unlink()
    cache.rmdir()
    cache.write_bytes(b"in the way")
    save_places(KNOWN, "block 1", b"places")


@pytest.mark.long
def test_points_of_zlib_are_kept_until_the_file_changes(cache: Path, tmp_path: Path) -> None:
    """The second time the last bytes are read without the first ones; not after a change in place."""
    path = tmp_path / "data.asdf"
    stored = zlib.compress(CONTENT)
    path.write_bytes(odd_file(blocks=[compressed_block(stored, b"zlib", len(CONTENT))], padding=b" " * 500))
    until(lambda: time.time_ns() - path.stat().st_ctime_ns > 200_000_000, "a file old enough to be known")
    assert read_last(path, tmp_path) > 20 << 20
    assert read_last(path, tmp_path) < 12 << 20
    document = open_document(str(path), writable=True)
    document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2"))
    document.close()
    assert read_last(path, tmp_path) > 20 << 20


def read_last(path: Path, spool: Path) -> int:
    """Read the end of the block; return the bytes that are in its spool then."""
    document = open_document(str(path), writable=False, settings=Settings(spool=str(spool)))
    assert document.blocks[0].read_at(len(CONTENT) - 10, 10) == CONTENT[-10:]
    decoded = document.contents.compressed.block(0)
    assert decoded is not None
    kept = decoded.kept
    document.close()
    return kept
