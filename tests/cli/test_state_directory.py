"""What belongs to an open file is locked, goes with the file, and is removed only by the process that made it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.filesystems import filesystem
from support.mounts import environment_in, run
from support.samples import block_bytes

from asdffs.cli import state_directory
from asdffs.cli.state_directory import StateDirectory
from asdffs.cli.state_files import Owner, all_mirrors, has_state, identity_of, mirrors_of, owner_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/asdffs"


def made(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or path.name)
    return path


@contextmanager
def opened(
    path: Path, *, spool: Path | None = None, release: bool = True
) -> Iterator[tuple[StateDirectory, list[str]]]:
    """The state of the file at ``path``, as a process that opens it for writing has it."""
    fd, state = os.open(path, os.O_RDONLY), StateDirectory(None if spool is None else str(spool))
    try:
        said = state.claim(str(path), lambda: fd)
        yield state, said
        if release:
            state.release()
    finally:
        state.close()
        os.close(fd)


def typed(path: Path, text: str, spool: Path | None = None) -> None:
    """Leave a draft, as a process that is killed."""
    with opened(path, spool=spool, release=False) as (state, _):
        state.begin()
        Path(state.places.spool, f"1-{text}").write_text(text)


def left(path: Path) -> list[str]:
    """What was left for the process that opens the file now; it stays."""
    with opened(path, release=False) as (state, _):
        return [
            name
            for places in state.past()
            if os.path.isdir(places.spool)
            for name in sorted(os.listdir(places.spool))
        ]


def test_nothing_stays_of_a_file_that_left_nothing(tmp_path: Path, home: Path) -> None:
    with opened(made(tmp_path / "a.asdf")) as (state, _):
        state.begin()
        assert len(list((home / "open").iterdir())) == 1
    assert [path.name for path in home.rglob("*")] == ["open"]
    assert not has_state(str(tmp_path / "a.asdf"))


def test_what_lasts_is_found_when_the_file_is_opened_again(tmp_path: Path) -> None:
    file = made(tmp_path / "a.asdf")
    for count in range(3):
        with opened(file) as (state, _):
            state.begin()
            assert os.path.exists(state.places.log) == (count > 0)
            made(Path(state.places.log))
        file = file.rename(tmp_path / f"{count}.asdf")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_was_left_is_found_whatever_the_name_is(tmp_path: Path, home: Path, elsewhere: bool) -> None:
    spool = tmp_path / "elsewhere" if elsewhere else None
    if spool:
        spool.mkdir()
    typed(made(tmp_path / "a.asdf"), "draft", spool)
    (tmp_path / "a.asdf").rename(tmp_path / "b.asdf")
    other = made(tmp_path / "a.asdf")
    with opened(other) as (state, said):
        assert (len(said), "another file had this name before" in said[0]) == (1, True)
        state.begin()
    assert (left(other), left(tmp_path / "b.asdf")) == ([], ["1-draft"])
    with opened(tmp_path / "b.asdf", spool=spool) as (state, said):
        assert said == []
        state.begin()
        assert os.listdir(state.places.spool) == []
    assert not spool or os.listdir(spool) == []


def test_a_file_that_was_replaced_keeps_its_state(tmp_path: Path) -> None:
    file = made(tmp_path / "a.asdf")
    made(Path(mirrors_of(str(file)), "1.json"))
    with opened(file, release=False) as (state, _):
        state.begin()
        made(Path(state.places.spool, "draft"))
        for count in range(20):
            state.note_replacement(str(made(tmp_path / f"new-{count}")))
    (tmp_path / "new-19").rename(file)
    made(Path(mirrors_of(str(file)), "2.json"))
    assert left(file) == ["draft"]
    assert all_mirrors() == [mirrors_of(str(file))]
    assert sorted(os.listdir(mirrors_of(str(file)))) == ["1.json", "2.json"]


def test_a_directory_in_use_is_never_taken(tmp_path: Path, home: Path) -> None:
    """Two processes that believe to have the same file: as with a lock that the file system does not support."""
    file = made(tmp_path / "a.asdf")
    with opened(file) as (first, _), opened(file) as (second, said):
        first.begin()
        second.begin()
        assert (said, first.places.spool == second.places.spool) == ([], False)
        made(Path(first.places.spool, "mine"))
        made(Path(second.places.log))
    assert list((home / "open").iterdir()) == []


def test_the_notes_of_files_that_this_process_has_open_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive opens one file after the other; those of other processes may be the same file."""
    read = list[str]()
    monkeypatch.setattr(state_directory, "owner_of", lambda place: read.append(place) or owner_of(place))
    typed(made(tmp_path / "left.asdf"), "x")
    with ExitStack() as stack:
        for number in range(10):
            read.clear()
            stack.enter_context(opened(made(tmp_path / f"{number}.asdf")))
            assert len(read) == 1, "what was left"
    read.clear()
    with opened(tmp_path / "0.asdf"):
        assert len(read) == 1


def test_a_directory_that_took_the_name_is_not_removed(tmp_path: Path, home: Path) -> None:
    with opened(made(tmp_path / "a.asdf")) as (state, _):
        state.begin()
        (home / "open").rename(home / "old")
        shutil.copytree(home / "old", home / "open")
    assert len(list(home.glob("open/*/spool"))) == 1


def test_the_name_of_a_directory_tells_its_file_if_the_note_was_lost(tmp_path: Path, home: Path) -> None:
    file = made(tmp_path / "a.asdf")
    typed(file, "draft")
    (place,) = (home / "open").iterdir()
    (place / "file").write_bytes(b"")
    assert owner_of(str(place)) == Owner("", (identity_of(str(file)),))
    assert left(file) == ["1-draft"]


@needs_root
def test_a_spool_that_another_user_made_meanwhile_is_not_read(tmp_path: Path) -> None:
    spool = tmp_path / "elsewhere"
    spool.mkdir()
    typed(made(tmp_path / "a.asdf"), "draft", spool)
    (place,) = spool.iterdir()
    os.chown(place, 65534, 65534)
    assert left(tmp_path / "a.asdf") == []
    with opened(tmp_path / "a.asdf") as (state, _):
        state.begin()
    assert (place / "1-draft").exists()


@pytest.mark.long
@needs_root
def test_a_copy_of_a_file_system_has_its_own_state(tmp_path: Path) -> None:
    """The files of the copy have the inode numbers and the times of birth of the others."""
    with filesystem("ext4", tmp_path, 16 << 20) as one, tempfile.TemporaryDirectory() as other:
        made(one / "a.asdf")
        made(one / "b.asdf")
        os.sync()
        image = next(path for path in tmp_path.iterdir() if path.is_file() and path.stat().st_size == 16 << 20)
        shutil.copy(image, f"{other}/image")
        os.mkdir(f"{other}/at")
        done = run("mount", "-o", "loop", f"{other}/image", f"{other}/at")
        assert done.returncode == 0, done.stderr
        try:
            copy = Path(other, "at")
            assert identity_of(str(one / "a.asdf")) == identity_of(str(copy / "a.asdf"))
            typed(one / "a.asdf", "of the first")
            assert (left(copy / "a.asdf"), left(one / "a.asdf")) == ([], ["1-of the first"])
            with opened(one / "b.asdf") as (first, _), opened(copy / "b.asdf") as (second, _):
                for state, log in ((first, "first"), (second, "second")):
                    state.begin()
                    made(Path(state.places.log), log)
            for place, log in ((copy, "second"), (one, "first")):
                with opened(place / "b.asdf") as (state, _):
                    state.begin()
                    assert Path(state.places.log).read_text() == log
        finally:
            run("umount", f"{other}/at")


# -- mounts -------------------------------------------------------------------


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tree_file("v: 1\n", [block_bytes(b"data")]))
    return path


@pytest.mark.mount
@needs_root
@pytest.mark.parametrize("kind", ["tmpfs", pytest.param("ext4", marks=pytest.mark.long)])
def test_two_mount_namespaces_with_one_home(tmp_path: Path, kind: str) -> None:
    """Two containers: each has another file at the same path; with copies of an image also of the same identity."""
    point, source, file = tmp_path / "m", write(tmp_path / "source.asdf"), tmp_path / "data/a.asdf"
    file.parent.mkdir()
    point.mkdir()
    disk = "-t tmpfs none"
    if kind == "ext4":
        with filesystem(kind, tmp_path, 16 << 20) as folder:
            write(folder / "a.asdf")
        disk = f"-o loop {tmp_path}/$name"
        for name in ("one", "two"):
            shutil.copy(tmp_path / "ext4.image", tmp_path / name)
    command = f"{sys.executable} -m asdffs"
    script = f"""
        mount {disk} {file.parent} && cp -n {source} {file} && {command} mount {file} {point} &&
        echo $name > {point}/scratch-$name && echo ready && read go &&
        cat {point}/scratch-*; {command} umount {point}; ls {file}.leftover; umount {file.parent}
    """
    pipe = subprocess.PIPE
    with ExitStack() as running:
        places = {}
        for name in ("one", "two"):
            place = places[name] = running.enter_context(
                subprocess.Popen(
                    ["unshare", "--mount", "sh", "-c", script],
                    env={**environment_in(tmp_path), "name": name},
                    stdin=pipe,
                    stdout=pipe,
                    stderr=pipe,
                    text=True,
                )
            )
            assert place.stdout is not None
            assert place.stdout.readline() == "ready\n", place.communicate()
        for name, place in places.items():
            out, errors = place.communicate("go\n")
            assert out == f"{name}\nscratch-{name}\n", errors
