"""A file that takes the place of another: at no instant may more users read it than its sources."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asdffs.storage.file_backend import ACL, FileFolder
from asdffs.storage.new_file import write_over

#: A named user may read.
NAMED = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in ((1, 6, 0xFFFFFFFF), (2, 4, 1), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
)


CASES = [(0o700, 0o600, False), (0o7740, 0o640, False), (0o7777, 0o644, True)]


@pytest.mark.parametrize(("most", "mode", "named"), CASES)
def test_no_line_leaves_more_rights_than_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, mode: int, named: bool
) -> None:
    path = tmp_path / "a.asdf"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, ACL, NAMED)
    except OSError:
        pytest.skip("this file system has no ACLs")
    os.chmod(path, 0o644)
    seen: list[tuple[int, bool]] = []

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(fd: Any, *words: Any, **options: Any) -> Any:
            found = call(fd, *words, **options)
            new = next((one for one in tmp_path.iterdir() if one.name != path.name), None)
            if new is not None:
                seen.append((stat.S_IMODE(new.stat().st_mode), ACL in os.listxattr(new)))
            return found

        return called

    for name in ("fchown", "fchmod", "setxattr", "fdatasync", "fsync"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    write_over(FileFolder(str(tmp_path)), path.name, lambda backend: backend.write_at(0, b"private"), most=most)
    monkeypatch.undo()
    assert len(seen) >= 3
    assert all(not found & ~most & 0o777 for found, _ in seen)
    assert named or not any(acl for _, acl in seen)
    assert (stat.S_IMODE(path.stat().st_mode), ACL in os.listxattr(path)) == (mode, named)
