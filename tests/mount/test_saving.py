"""What happens around a save of tree.yaml: growth, killed writers, maps, readers of the old tree, leftovers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.mounts import LIMIT, mounted, run
from support.samples import check_saved, odd_file, put

pytestmark = pytest.mark.mount

OLD, NEW, BAD = b"value: 1\n", b"value: 2\n", b"value: [1\n"
LONG = b"value: 2\nlong: " + b"x" * 9000 + b"\n"


@pytest.mark.parametrize(("expression", "status"), [("s/value: 1/value: 2/", 0), ("s/value: 1/value: [/", 4)])
def test_sed_changes_one_byte(file: Path, expression: str, status: int) -> None:
    before = file.read_bytes()
    with mounted(file, code=7 if status else 0) as mount:
        done = run("sed", "-i", expression, mount.tree)
        assert done.returncode == status
        if status:
            assert "Bad message" in done.stderr
            assert mount.tree.read_bytes() in before
    if status:
        assert file.read_bytes() == before
    else:
        check_saved(file, 2)
        assert sum(a != b for a, b in zip(before, file.read_bytes(), strict=True)) == 1


def test_growth_keeps_mode_owner_and_xattrs(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file())
    path.chmod(0o640)
    os.chown(path, 12, 34)
    os.setxattr(path, "user.note", b"keep me")
    link = tmp_path / "link.asdf"
    link.symlink_to(path.name)
    with mounted(link) as mount:
        mount.edit(OLD, LONG)
    status = path.stat()
    assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (0o640, 12, 34)
    assert os.getxattr(path, "user.note") == b"keep me"
    assert link.is_symlink()
    check_saved(path, 2)
    raw = path.read_bytes()
    assert b"#ASDF BLOCK INDEX" in raw, "the index is written again"


def test_growth_keeps_hard_links(tmp_path: Path) -> None:
    path, other = tmp_path / "data.asdf", tmp_path / "other"
    path.write_bytes(odd_file())
    os.link(path, other)
    with mounted(path) as mount:
        mount.edit(OLD, LONG)
    assert path.stat().st_ino == other.stat().st_ino
    check_saved(other, 2)


def test_growth_by_a_new_file_of_a_hard_linked_one_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file())
    os.link(path, tmp_path / "other")
    before = path.read_bytes()
    with mounted(path, "-o", "growth=copy", code=7) as mount:
        with pytest.raises(OSError, match="File too large"):
            mount.edit(OLD, LONG)
        assert "several names" in mount.error
    assert path.read_bytes() == before


def test_a_save_for_which_there_was_no_room_is_corrected_by_the_next(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file())
    os.link(path, tmp_path / "other")
    with mounted(path, "-o", "growth=copy") as mount:
        text = mount.tree.read_bytes()
        with pytest.raises(OSError, match="File too large"):
            mount.tree.write_bytes(text.replace(OLD, LONG))
        mount.tree.write_bytes(text.replace(b"value: 1\n", b"value: 2\n"))
    assert "a save that was refused, and corrected later, is kept" in mount.umount.stderr
    assert b"long: xxx" in (tmp_path / "data.asdf.rejected-1.yaml").read_bytes()
    check_saved(path, 2)


def test_killed_writer_does_not_commit(file: Path) -> None:
    before = file.read_bytes()
    with mounted(file, code=7) as mount:
        text = mount.tree.read_bytes().replace(OLD, NEW)
        code = "import os, sys, signal; f = open(sys.argv[1], 'wb', buffering=0); f.write(sys.stdin.buffer.read()); "
        code += "os.kill(os.getpid(), signal.SIGKILL)"
        import subprocess

        subprocess.run(["python3", "-c", code, mount.tree], input=text, check=False, timeout=LIMIT)
        assert mount.status["draft"] == "cut off"
        assert mount.tree.read_bytes() == text
        assert "killed" in mount.error
        assert file.read_bytes() == before
    assert file.read_bytes() == before
    assert file.with_name("data.asdf.rejected-1.yaml").read_bytes() == text


def test_map_writer_commits_at_release(file: Path) -> None:
    import mmap

    with mounted(file) as mount:
        with open(mount.tree, "rb+") as opened:
            view = mmap.mmap(opened.fileno(), 0)
        place = view.find(OLD)
        view[place + 7 : place + 8] = b"2"
        view.close()
        run("sync", mount.point)
    check_saved(file, 2)


def test_missing_last_newline_is_added(file: Path) -> None:
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        mount.tree.write_bytes(text.replace(OLD, NEW)[:-1])
        assert mount.tree.read_bytes() == text.replace(OLD, NEW)
    check_saved(file, 2)


def test_empty_draft_is_never_judged(file: Path) -> None:
    before = file.read_bytes()
    with mounted(file) as mount:
        mount.tree.write_bytes(b"")
        assert mount.tree.read_bytes() == b""
    assert file.read_bytes() == before


def test_scratch_is_kept_as_leftover(file: Path) -> None:
    before = file.read_bytes()
    with mounted(file, code=7) as mount:
        (mount.point / "notes.txt").write_text("do not lose me")
        (mount.point / ".hidden").write_text("swap")
        (mount.point / "blocks" / "part~").write_text("backup")
        (mount.point / "link").symlink_to("nowhere")
        (mount.point / "blocks" / "raw.dat").write_bytes(b"copied in")
        assert {"notes.txt", ".hidden", "link"} <= {path.name for path in mount.point.iterdir()}
    folder = file.with_name("data.asdf.leftover")
    assert os.readlink(folder / "link") == "nowhere"
    assert {path.name: path.read_bytes() for path in folder.iterdir() if not path.is_symlink()} == {
        "notes.txt": b"do not lose me",
        "raw.dat": b"copied in",
    }
    assert file.read_bytes() == before


def test_reader_of_the_replaced_tree_keeps_its_text(file: Path) -> None:
    with mounted(file) as mount:
        with open(mount.tree, "rb") as reader:
            first = reader.read(20)
            assert run("sed", "-i", "s/value: 1/value: 2/", mount.tree).returncode == 0
            rest = reader.read()
        assert OLD in first + rest
        assert NEW in mount.tree.read_bytes()
        assert not any(path.name.startswith(".fuse_hidden") for path in mount.point.iterdir())
    check_saved(file, 2)


def test_a_save_of_other_lines_corrects_nothing(file: Path) -> None:
    """As two commands of sed do: what was typed in the first one is in no file."""
    with mounted(file, code=7) as mount:
        text = mount.tree.read_bytes()
        more = text.replace(b"...\n", b"other: 3\n...\n")
        for refused in (text.replace(OLD, BAD), more.replace(b"other: 3", b"other: [")):
            with pytest.raises(OSError, match="Bad message"):
                mount.tree.write_bytes(refused)
        mount.tree.write_bytes(more)
    assert BAD in (file.parent / "data.asdf.rejected-1.yaml").read_bytes()
    assert "other: [" in (file.parent / "data.asdf.rejected-2.yaml").read_text()
    assert "a save that was refused, and corrected later, is kept: " in mount.umount.stderr
