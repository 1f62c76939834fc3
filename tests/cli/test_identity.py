"""What was typed into a file stays with that file, whatever its name is, and never becomes another file's."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import Mounted, asdffs, environment_in, mounted
from support.samples import block_bytes

pytestmark = pytest.mark.mount


def write(path: Path, body: str = "v: 1\n") -> None:
    path.write_bytes(tree_file(body, [block_bytes(b"data")]))


def killed(path: Path, *options: object, growing: bool = False, replaced: bool = False) -> Mounted:
    """A mount whose daemon is killed, with a refused draft and a file that was copied in."""
    with mounted(path, *options, code=6) as mount:
        if growing:
            mount.tree.write_text(mount.tree.read_text().replace("v: 1", "v: " + "9" * 9000 + "x"))
        if replaced:
            write(path.with_name("new"), "v: 5\n")
            path.with_name("new").rename(path)
            assert "v: 5" in mount.tree.read_text()
        (mount.point / "notes.txt").write_text("precious")
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_text(mount.tree.read_text().replace("v: ", "v: [typed "))
        mount.kill()
    return mount


def kept(path: Path) -> tuple[bool, bool]:
    """Whether the draft and the notes are beside the file."""
    drafts = path.parent.glob(f"{path.name}.rejected-*")
    return any("typed" in draft.read_text() for draft in drafts), (
        path.parent / f"{path.name}.leftover" / "notes.txt"
    ).exists()


@pytest.mark.parametrize("growth", ["", "clone", "copy"])
@pytest.mark.parametrize("spool", [False, True])
def test_a_file_that_is_renamed_after_a_kill(tmp_path: Path, growth: str, spool: bool) -> None:
    """And a growth that made a new file of it is no reason to take it for another one."""
    old, new = tmp_path / "a.asdf", tmp_path / "b.asdf"
    write(old)
    options = [f"growth={growth}"] if growth == "copy" else []
    if spool:
        (tmp_path / "spool").mkdir()
        options.append(f"spool={tmp_path / 'spool'}")
    mount = killed(old, *(["-o", ",".join(options)] if options else []), growing=bool(growth))
    old.rename(new)
    write(old, "other: 1\n")
    done = asdffs("recover", old, environment=mount.environment)
    assert (done.returncode, kept(old)) == (0, (False, False))
    assert "another file had this name before" in done.stdout
    assert asdffs("recover", new, environment=mount.environment).returncode == 7
    assert kept(new) == (True, True)
    assert asdffs("recover", new, environment=mount.environment).stdout.endswith("nothing to recover\n")


@pytest.mark.parametrize("how", ["growing", "replaced"])
def test_recovered_under_its_own_name_after_it_became_a_new_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.asdf"
    write(path)
    mount = killed(path, "-o", "growth=copy", **{how: True})
    assert asdffs("recover", path, environment=mount.environment).returncode == 7
    assert kept(path) == (True, True)


@pytest.mark.parametrize("remade", [False, True])
def test_regression_the_end_of_a_mount_took_the_state_of_another_with_the_same_path(
    tmp_path: Path, *, remade: bool
) -> None:
    """The directory of the first file is renamed or removed, and made again, while the file is mounted."""
    folder, where = tmp_path / "data", {"environment": environment_in(tmp_path)}
    folder.mkdir()
    write(folder / "a.asdf")
    with ExitStack() as first:
        one = first.enter_context(mounted(folder / "a.asdf", at=tmp_path / "m1", code=None, **where))
        (one.point / "notes").write_text("m1")
        folder.rename(tmp_path / "old")
        if remade:
            shutil.rmtree(tmp_path / "old")
        folder.mkdir()
        write(folder / "a.asdf")
        with mounted(folder / "a.asdf", at=tmp_path / "m2", code=7, **where) as two:
            (two.point / "notes").write_text("m2")
            assert (one.point / "notes").read_text() == "m1"
            first.close()
            assert one.umount.returncode in (7, 8)
            assert (two.point / "notes").read_text() == "m2"
            two.edit(b"v: 1", b"v: 2")
    assert (folder / "a.asdf.leftover/notes").read_text() == "m2"
    assert remade or (tmp_path / "old/a.asdf.leftover/notes").read_text() == "m1"


def test_the_history_goes_along(tmp_path: Path) -> None:
    old, new = tmp_path / "a.asdf", tmp_path / "b.asdf"
    write(old)
    with mounted(old) as mount:
        mount.tree.write_text(mount.tree.read_text().replace("v: 1", "v: 2"))
    old.rename(new)
    with mounted(new) as mount:
        trees = list((mount.point / ".asdffs" / "history").iterdir())
        assert ["v: 1" in tree.read_text() for tree in trees] == [True]
