"""Programs that save tree.yaml, valid and invalid, on a real mount.

The asdf library reads the new value; comments and block bytes are as they were.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.mounts import LIMIT, Mounted, mounted, run
from support.samples import DATA, MASK, odd_file, opened

pytestmark = pytest.mark.mount

OLD, NEW, BAD = b"value: 1\n", b"value: 2\n", b"value: [1\n"


def bash(mount: Mounted, script: str, **variables: str) -> int:
    done = run("bash", "-c", script, env={**mount.environment, "T": str(mount.tree), **variables})
    return done.returncode


def in_terminal(mount: Mounted, command: str, *keys: str) -> int:
    """Run an editor in tmux, type ``keys``, wait for its end; its exit status."""
    socket, result = f"asdffs-{mount.file.parent.name}", mount.file.parent / "status"
    result.unlink(missing_ok=True)
    tmux = ["tmux", "-L", socket]
    script = f"{command}; echo $? > {result}.new; mv {result}.new {result}; tmux -L {socket} wait-for -S ended"
    run(*tmux, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", script, env=mount.environment)
    try:
        for key in keys:
            run(*tmux, "send-keys", *key.split(" "), env=mount.environment)
        run("timeout", LIMIT, *tmux, "wait-for", "ended", env=mount.environment)
    finally:
        run(*tmux, "kill-server", env=mount.environment)
    return int(result.read_text())


def python(mount: Mounted, text: Path, mode: str) -> int:
    code = f"import sys; t = open(sys.argv[1], 'rb').read(); f = open(sys.argv[2], {mode!r}); "
    code += "f.write(t); f.truncate(); f.close()"
    return run("python3", "-c", code, text, mount.tree).returncode


def vim(backupcopy: str) -> Callable[[Mounted, Path], int]:
    def save(mount: Mounted, text: Path) -> int:
        change = f"call setline(1, readfile('{text}')) | try | silent w | catch | cq 3 | endtry | q!"
        script = f"set backupcopy={backupcopy} | {change}"
        return run("vim", "-Nu", "NONE", "-es", "-c", script, mount.tree, env=mount.environment).returncode

    return save


PROGRAMS: dict[str, Callable[[Mounted, Path], int]] = {
    "cp": lambda m, t: bash(m, 'cp "$N" "$T"', N=str(t)),
    "tee": lambda m, t: bash(m, 'tee "$T" < "$N" > /dev/null', N=str(t)),
    "mv within": lambda m, t: bash(m, f'cp "$N" "{m.point}/new" && mv "{m.point}/new" "$T"', N=str(t)),
    "mv across": lambda m, t: bash(m, 'cp "$N" "$N.2" && mv "$N.2" "$T"', N=str(t)),
    "dd": lambda m, t: bash(m, 'dd if="$N" of="$T" bs=100 conv=fsync status=none', N=str(t)),
    "install": lambda m, t: bash(m, 'install -m 644 "$N" "$T"', N=str(t)),
    "rsync": lambda m, t: bash(m, 'rsync -I "$N" "$T"', N=str(t)),
    "rsync --inplace": lambda m, t: bash(m, 'rsync -I --inplace "$N" "$T"', N=str(t)),
    "python w": lambda m, t: python(m, t, "wb"),
    "python r+": lambda m, t: python(m, t, "rb+"),
    "vim backupcopy=yes": vim("yes"),
    "vim backupcopy=auto": vim("auto"),
    "vim backupcopy=no": vim("no"),
}

#: The shell closes ``>`` without looking at the result: the refusal shows only in ``.asdffs/error``.
SILENT_PROGRAMS: dict[str, Callable[[Mounted, Path], int]] = {
    ">": lambda m, t: bash(m, 'cat < "$N" > "$T"; true', N=str(t)),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(padding=b" " * 500))
    return path


def check_saved(path: Path, value: int) -> None:
    with opened(path) as found:
        assert found["value"] == value
        assert found["data"][:].tobytes() == DATA
        assert found["mask"][:].tobytes() == MASK
    text = path.read_bytes()
    assert b"# a comment to keep\n" in text
    assert b"'observer': \"Ada\"}   # and one at the end of a line\n" in text
    assert b"unknown: !<tag:example.org:thing-1.0.0> {a: &x [1, 2], b: *x}\n" in text


@pytest.mark.parametrize("program", [*PROGRAMS, *SILENT_PROGRAMS])
def test_valid_save(file: Path, program: str, tmp_path: Path) -> None:
    save = (PROGRAMS | SILENT_PROGRAMS)[program]
    text = tmp_path / "new.yaml"
    with mounted(file) as mount:
        text.write_bytes(mount.tree.read_bytes().replace(OLD, NEW))
        assert save(mount, text) == 0, mount.error
        assert mount.error == ""
        assert mount.status["draft"] == "clean"
        check_saved(file, 2)
        assert mount.tree.read_bytes() == text.read_bytes()
        assert (mount.point / ".asdffs/committed.yaml").read_bytes() == text.read_bytes()
    check_saved(file, 2)
    assert sorted(p.name for p in tmp_path.glob("data.asdf*")) == ["data.asdf"]


@pytest.mark.parametrize("program", [*PROGRAMS, *SILENT_PROGRAMS])
def test_invalid_save(file: Path, program: str, tmp_path: Path) -> None:
    save = (PROGRAMS | SILENT_PROGRAMS)[program]
    before = file.read_bytes()
    text = tmp_path / "new.yaml"
    with mounted(file, code=7) as mount:
        text.write_bytes(mount.tree.read_bytes().replace(OLD, BAD))
        assert (save(mount, text) != 0) == (program in PROGRAMS)
        assert "line 9, column" in mount.error or "line 8, column" in mount.error
        assert file.read_bytes() == before
        kept = list((mount.point / ".asdffs/rejected").iterdir())
        assert [path.read_bytes() for path in kept] == [text.read_bytes()]
    assert file.read_bytes() == before
    assert (tmp_path / "data.asdf.rejected-1.yaml").read_bytes() == text.read_bytes()
    assert "rejected-1.yaml" in mount.umount.stderr


@pytest.mark.parametrize(("expression", "status"), [("s/value: 1/value: 2/", 0), ("s/value: 1/value: [/", 4)])
def test_sed(file: Path, expression: str, status: int) -> None:
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


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux drives the terminal")
@pytest.mark.parametrize("valid", [True, False])
def test_nano(file: Path, valid: bool) -> None:
    before = file.read_bytes()
    text = ("extra: 1" if valid else "extra: [1").encode()
    with mounted(file, code=0 if valid else 7) as mount:
        lines = mount.tree.read_bytes().count(b"\n")
        tail = [] if valid else ["n"]
        in_terminal(
            mount,
            f"nano -I +{lines} {mount.tree}",
            text.decode().replace(" ", " Space "),
            "Enter",
            "C-o",
            "Enter",
            "C-x",
            *tail,
        )
        if valid:
            assert mount.error == ""
        else:
            assert "line" in mount.error
            assert file.read_bytes() == before
    if valid:
        with opened(file) as found:
            assert found["extra"] == 1
        check_saved(file, 1)


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux drives the terminal")
def test_vim_in_a_terminal(file: Path) -> None:
    with mounted(file) as mount:
        status = in_terminal(
            mount,
            f"vim -Nu NONE {mount.tree}",
            ":%s/value:",
            "Space",
            "1/value:",
            "Space",
            "2/",
            "Enter",
            ":wq",
            "Enter",
        )
        assert status == 0
    check_saved(file, 2)


def test_growth_keeps_mode_owner_and_xattrs(tmp_path: Path) -> None:
    import os

    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file())
    path.chmod(0o640)
    os.chown(path, 12, 34)
    os.setxattr(path, "user.note", b"keep me")
    link = tmp_path / "link.asdf"
    link.symlink_to(path.name)
    with mounted(link) as mount:
        text = mount.tree.read_bytes().replace(b"value: 1\n", b"value: 2\nlong: " + b"x" * 5000 + b"\n")
        mount.tree.write_bytes(text)
    status = path.stat()
    assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (0o640, 12, 34)
    assert os.getxattr(path, "user.note") == b"keep me"
    assert link.is_symlink()
    check_saved(path, 2)
    raw = path.read_bytes()
    assert raw.find(b"\xd3BLK") % 4096 == 0
    assert b"#ASDF BLOCK INDEX" in raw, "the index is written again"


def test_growth_of_a_hard_linked_file_is_refused(tmp_path: Path) -> None:
    import os

    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file())
    os.link(path, tmp_path / "other")
    before = path.read_bytes()
    with mounted(path, code=7) as mount:
        text = mount.tree.read_bytes().replace(b"value: 1\n", b"value: 2\nlong: " + b"x" * 5000 + b"\n")
        with pytest.raises(OSError, match="File too large"):
            mount.tree.write_bytes(text)
        assert "hard links" in mount.error
    assert path.read_bytes() == before


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
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
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


def test_refused_rename_over_an_open_tree_restores_it(file: Path) -> None:
    before = file.read_bytes()
    with mounted(file, code=7) as mount:
        with open(mount.tree, "rb"):
            assert run("sed", "-i", "s/value: 1/value: ]/", mount.tree).returncode == 4
            assert mount.tree.read_bytes() in before
        assert mount.tree.read_bytes() in before
    assert file.read_bytes() == before


def test_numpy_still_reads_after_a_growth(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file())
    with mounted(path) as mount:
        before = np.fromfile(mount.block(0), dtype=">f4")
        mount.tree.write_bytes(mount.tree.read_bytes().replace(OLD, b"value: 2\nlong: " + b"x" * 9000 + b"\n"))
        assert np.array_equal(np.fromfile(mount.block(0), dtype=">f4"), before)
    check_saved(path, 2)
