"""What is kept beside a file is for those who may read the file, and for nobody else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import asdffs, environment_in, run
from support.samples import put

from asdffs.storage.file_backend import FileFolder
from asdffs.storage.permissions import make_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to other users needs root")

GROUP, USER, STRANGER = 65533, 65534, 12345


def of_a_group(path: Path) -> None:
    os.chown(path, 0, GROUP)
    path.chmod(0o640)


def not_of_a_group(path: Path) -> None:
    """Everybody but the group."""
    os.chown(path, 0, GROUP)
    path.chmod(0o604)


def of_another_user(path: Path) -> None:
    os.chown(path, USER, USER)
    path.chmod(0o600)


def with_an_acl(path: Path) -> None:
    if shutil.which("setfacl") is None:
        pytest.skip("setfacl is not installed")
    path.chmod(0o600)
    assert run("setfacl", "-m", f"u:{USER}:rw,g::---", path).returncode == 0


def below_a_default_acl(path: Path) -> None:
    """The directory gives each new file to another user as well."""
    if shutil.which("setfacl") is None:
        pytest.skip("setfacl is not installed")
    path.chmod(0o640)
    assert run("setfacl", "-d", "-m", f"u:{STRANGER}:rw", path.parent).returncode == 0


def can_read(path: Path, user: int, group: int) -> bool:
    return run("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "cat", path).returncode == 0


@pytest.mark.parametrize("give", [of_a_group, not_of_a_group, of_another_user, with_an_acl, below_a_default_acl])
def test_the_same_people_may_read_it(tmp_path: Path, give: Callable[[Path], None]) -> None:
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    path = put(tmp_path, tree_file("v: 1\n", []))
    give(path)
    where = {**environment_in(tmp_path), "EDITOR": "sed -i s/v:/[/"}
    assert asdffs("edit", path, environment=where).returncode == 7
    kept = tmp_path / "data.asdf.rejected-1.yaml"
    for user, group in ((USER, USER), (STRANGER, STRANGER), (STRANGER, GROUP), (STRANGER, 0), (USER, 0)):
        assert can_read(kept, user, group) == can_read(path, user, group), (user, group)


def test_a_directory_that_somebody_else_made_is_not_used(tmp_path: Path) -> None:
    path, planted = tmp_path / "data.asdf", tmp_path / "data.asdf.leftover"
    path.write_bytes(b"")
    planted.mkdir()
    folder = FileFolder(str(tmp_path))
    assert make_directory(folder, planted.name, path.name)
    planted.chmod(0o777)
    assert not make_directory(folder, planted.name, path.name)
    planted.chmod(0o755)
    os.chown(planted, STRANGER, STRANGER)
    assert not make_directory(folder, planted.name, path.name)
    (tmp_path / "link").symlink_to(tmp_path)
    assert not make_directory(folder, "link", path.name)
