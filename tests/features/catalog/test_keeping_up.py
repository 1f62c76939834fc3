"""A catalogue that is brought up to date: what is not read again, what is left out, and what asdffs changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support.commands import Done, command
from support.mounts import environment_in, mounted
from support.samples import odd_file

import asdffs
from asdffs.features.catalog.chunks import Packer
from asdffs.features.catalog.store import FileRow, WritableCatalog, open_catalog
from asdffs.storage import changed_files

Call = Callable[..., Done]
HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


def make(path: Path, value: object = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(HEAD + f"value: {value}\n...\n".encode())
    return path


def killed_in(work: Callable[[], object]) -> None:
    """Do ``work``, which kills its process, in another one."""
    if (child := os.fork()) == 0:
        try:
            work()
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("one/a", "one/b", "two/c"):
        make(tmp_path / f"data/{name}.asdf", f"'{name}'")
    return tmp_path / "data"


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return partial(command, environment=environment_in(tmp_path))


@pytest.fixture
def index(tmp_path: Path, call: Call) -> Callable[..., dict[str, object]]:
    """Index, and return the numbers."""

    def run(*words: object) -> dict[str, object]:
        done = call("index", "--json", "--catalog", tmp_path / "c.db", *words)
        assert done.code == 0, done
        return done.json

    return run


@pytest.fixture
def find(tmp_path: Path, data: Path, call: Call) -> Callable[..., list[str]]:
    """Find, and return the paths below the directory."""

    def run(*words: object) -> list[str]:
        done = call("find", "--catalog", tmp_path / "c.db", *words)
        assert done.err == ""
        return [os.path.relpath(path, data) for path in done.out.splitlines()]

    return run


# -- other names ------------------------------------------------------------------------


def test_the_files_of_a_renamed_directory_are_not_read_again(data: Path, index: Callable, find: Callable) -> None:
    assert index(data)["read"] == 3
    (data / "one").rename(data / "three")
    (data / "two/c.asdf").rename(data / "two/d.asdf")
    facts = index(data)
    assert (facts["found"], facts["read"], facts["moved"], facts["removed"]) == (3, 1, 2, 1)
    assert find("exists value") == ["three/a.asdf", "three/b.asdf", "two/d.asdf"]
    assert find('value == "two/c"') == ["two/d.asdf"]
    assert index(data)["moved"] == 0


def test_another_file_with_the_inode_and_the_time_of_a_removed_one(
    data: Path, index: Callable, find: Callable
) -> None:
    """ext4 uses an inode again at once, and tar and rsync put times back."""
    for number in range(20):
        os.utime(make(data / f"v1/{number:02d}.asdf", 1000 + number), (10**9, 10**9))
    index(data)
    shutil.rmtree(data / "v1")
    for number in range(20):
        os.utime(make(data / f"v2/{number:02d}.asdf", 2000 + number), (10**9, 10**9))
    facts = index(data)
    assert (facts["read"], facts["moved"], facts["removed"]) == (20, 0, 20)
    assert find("value == 2007") == ["v2/07.asdf"]
    assert find("value == 1007") == []


def test_what_also_has_other_content_is_read(data: Path, index: Callable, find: Callable) -> None:
    """Two files that exchange their names, a copy with the old times, and one in place of another."""
    index(data)
    one, two = data / "one/a.asdf", data / "one/b.asdf"
    one.rename(data / "x")
    two.rename(one)
    (data / "x").rename(two)
    shutil.copy2(data / "two/c.asdf", data / "two/copy.asdf")
    (data / "two/c.asdf").unlink()
    facts = index(data)
    assert (facts["read"], facts["moved"], facts["removed"]) == (3, 0, 1)
    assert find('value == "one/a"') == ["one/b.asdf"]
    assert find('value == "two/c"') == ["two/copy.asdf"]


def test_a_hard_link_is_no_other_name_of_what_is_still_there(data: Path, index: Callable, find: Callable) -> None:
    index(data)
    os.link(data / "one/a.asdf", data / "one/link.asdf")
    assert (index(data)["moved"], len(find("exists value"))) == (0, 4)
    (data / "one/a.asdf").unlink()
    assert (index(data)["removed"], find('value == "one/a"')) == (1, ["one/link.asdf"])


def test_a_directory_that_cannot_be_read_is_not_moved(
    data: Path, index: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of its files stays, whatever else has their numbers."""
    index(data)
    moved: list[bytes] = []
    monkeypatch.setattr(WritableCatalog, "move", lambda self, path, new, identity: bool(moved.append(path)))
    os.link(data / "one/a.asdf", data / "two/a.asdf")
    real = os.scandir

    def refusing(place: object) -> object:
        if os.fsencode(place).endswith(b"/one"):  # type: ignore[arg-type]
            raise PermissionError(13, "Permission denied")
        return real(place)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(AssertionError):  # the exit code says that something was kept
        index("--jobs", "1", data)
    assert moved == []


# -- what is left out ---------------------------------------------------------------------


def test_hidden_and_excluded_names_are_left_out(data: Path, index: Callable, find: Callable) -> None:
    for name in (".snapshot/a", ".b", "one/scratch/x", "two/tmp.1", "two/UPPER"):
        make(data / f"{name}.asdf")
    (data / "two/UPPER.asdf").rename(data / "two/UPPER.ASDF")
    assert index(data)["found"] == 6
    facts = index("--exclude", "scratch", "--exclude", "two/tmp*", data)
    assert (facts["found"], facts["removed"]) == (4, 2)
    assert find("value == 1") == ["two/UPPER.ASDF"]
    assert index(data)["found"] == 4, "it is kept"
    assert find("--fresh", "exists value", data) == ["one/a.asdf", "one/b.asdf", "two/UPPER.ASDF", "two/c.asdf"]
    assert index("--exclude", "", data)["found"] == 6
    assert index("--exclude", "two/tmp*", data / "two")["found"] == 2, "whichever directory is named"
    assert index("--exclude", "*.asdf", "--exclude", "*.ASDF", data)["removed"] == 5, "all of it"


def test_a_pattern_speaks_of_names_and_not_of_the_directories_above(data: Path, index: Callable) -> None:
    make(data / "one/deep/d.asdf")
    above = data.parent.name
    for pattern, found in (
        (f"{above[:-1]}*", 4),
        (f"{above}/*/*/*.asdf", 1),
        ("data*", 4),
        (f"{above}/data/*", 0),
        ("one/*.asdf", 2),
        ("deep/", 3),
        (f"{data}/one", 1),
        ("/one", 4),
        ("[ab].asdf", 2),
    ):
        assert index("--exclude", pattern, data)["found"] == found, pattern


@pytest.mark.long
def test_a_kill_between_two_changes_of_a_catalogue_makes_neither(tmp_path: Path) -> None:
    path = str(tmp_path / "c.db")
    with contextlib.closing(open_catalog(path, writable=True)) as catalog:
        catalog.exclude(["scratch"])

    def killed() -> Iterator[str]:
        yield "new"
        os.kill(os.getpid(), signal.SIGKILL)

    killed_in(lambda: open_catalog(path, writable=True).exclude(killed()))
    with contextlib.closing(open_catalog(path, writable=False)) as read:
        assert read.excluded == ["scratch"]


@pytest.mark.long  # it needs pyarrow
def test_exclude_and_if_older_beside_parquet(data: Path, index: Callable, call: Call, tmp_path: Path) -> None:
    words = ("index", "--catalog", tmp_path / "c.db", "--to", "parquet")
    done = call(*words, tmp_path / "out", "--exclude", "value", data)
    assert (done.code, "--exclude is for files, and --without for values" in done.err) == (2, True)
    index(data / "one")
    done = call(*words, tmp_path / "out", "--if-older", "1h", data / "one", data / "two")
    assert done.out == f"{tmp_path}/out: 3 files of {tmp_path}/c.db\n"
    done = call(*words, tmp_path / "all", "--if-older", "1h")
    assert done.out == f"{tmp_path}/all: 3 files of {tmp_path}/c.db\n"


def test_several_roots_and_how_old_they_are(data: Path, index: Callable, call: Call, tmp_path: Path) -> None:
    assert index("--if-older", "1h", data / "one")["read"] == 2
    make(data / "one/new.asdf")
    assert index("--if-older", "1h", data / "one")["found"] == 0
    assert index("--if-older", "1h", data / "one", data / "two")["found"] == 1, "that one was never looked at"
    assert index("--if-older", "0", data / "one")["read"] == 1
    done = call("index", "--catalog", tmp_path / "c.db", "--if-older", "1d", data / "one")
    assert (done.code, done.out) == (0, f"{tmp_path}/c.db: is not older\n")
    (data / "one").rename(data.parent / "elsewhere")
    (data / "one").mkdir()
    with open_catalog(str(tmp_path / "c.db"), writable=False) as catalog:
        before = catalog.last_look(os.fsencode(data / "one"))
        assert before > 0
        done = call("index", "--catalog", tmp_path / "c.db", "--if-older", "0", data / "one")
        assert (done.code, "3 files not found, and kept" in done.err) == (1, True)
        assert catalog.last_look(os.fsencode(data / "one")) == before, "it is not taken for done"
    for wrong in ("soon", "-1", "1w", ""):
        done = call("index", "--catalog", tmp_path / "c.db", f"--if-older={wrong}", data)
        assert (done.code, "give seconds, or 15m, 6h, 2d" in done.err) == (2, True), wrong


def test_a_catalogue_of_another_user_gets_no_values(
    data: Path, index: Callable, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may name any file, and its owner would read what find puts into it."""
    index(data)
    assert call("set", "value=secret", data / "one/a.asdf").code == 0
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(tmp_path / "c.db", 65534, 65534)
    done = call("find", "--catalog", tmp_path / "c.db", "exists value")
    assert "has old values of 1 file that asdffs changed" in done.err
    assert "belongs to another user" in done.err
    rows = call(
        "find", "--csv", "--catalog", tmp_path / "c.db", "--sql", "SELECT count(*) FROM scalar WHERE value = 'secret'"
    )
    assert rows.out.split() == ["count(*)", "0"]


@pytest.mark.parametrize("words", [("implode", "--force", "{}/parts/a.asdf"), ("repack", "--force", "{}/one/a.asdf")])
def test_a_file_that_is_replaced_is_changed(data: Path, call: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert call("explode", data / "one/a.asdf", data / "parts").code == 0
    assert call("index", "--catalog", tmp_path / "c.db", "--exclude", "parts", data).code == 0
    assert call(*(word.format(data) for word in words), data / "one/b.asdf").code == 0
    assert call("find", "--catalog", tmp_path / "c.db", 'value == "one/a"').out.split() == [
        f"{data}/one/a.asdf",
        f"{data}/one/b.asdf",
    ]


def test_nobody_waits_for_the_names_of_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "cache_folder", lambda: str(tmp_path))
    changed_files.note_changed("/a")
    with open(tmp_path / "changed", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        changed_files.note_changed("/b")
        assert changed_files.changed_files() == [b"/a", b"/b"]


# -- what asdffs changed -------------------------------------------------------------------


def test_every_catalogue_sees_what_asdffs_changed(
    data: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, environment_in(tmp_path)[name])
    for name in ("c.db", "other.db"):
        assert call("index", "--catalog", tmp_path / name, data).code == 0
    assert call("set", "value:=7", data / "one/a.asdf").code == 0
    with asdffs.open(data / "two/c.asdf", "r+") as document:
        document.commit_tree(HEAD + b"value: 7\n...\n")
    for name in ("c.db", "other.db"):
        done = call("find", "--catalog", tmp_path / name, "value == 7")
        assert (done.out.split(), done.err) == ([f"{data}/one/a.asdf", f"{data}/two/c.asdf"], "")
        done = call(
            "find", "--csv", "--catalog", tmp_path / name, "--sql", "SELECT count(*) FROM scalar WHERE value = 7"
        )
        assert done.out.split() == ["count(*)", "2"]
    done = call("index", "--json", "--catalog", tmp_path / "c.db", data)
    assert done.json["read"] == 0


def test_other_programs_changes_are_seen_only_with_fresh(data: Path, index: Callable, find: Callable) -> None:
    index(data)
    make(data / "one/a.asdf", 7)
    assert find("value == 7") == []
    assert find("--fresh", "value == 7", data) == ["one/a.asdf"]


@pytest.mark.mount
def test_changes_in_a_mount_are_seen_while_it_serves(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "data/a.asdf"
    file.parent.mkdir()
    file.write_bytes(odd_file())
    environment = environment_in(tmp_path)
    assert call("index", "--catalog", tmp_path / "c.db", file.parent).code == 0
    with mounted(file, at=_made(tmp_path / "mnt"), environment=environment) as mount:
        for value in (2, 3):
            mount.edit(b"value: %d\n" % (value - 1), b"value: %d\n" % value)
            done = call("find", "--catalog", tmp_path / "c.db", f"value == {value}")
            assert done.out == f"{file}\n", done


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_catalogue_that_cannot_be_written_says_so(
    data: Path, index: Callable, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(data)
    assert call("set", "value=7", data / "one/a.asdf").code == 0
    (tmp_path / "c.db.lock").unlink()
    (tmp_path / "c.db.lock").mkdir()
    done = call("find", "--catalog", tmp_path / "c.db", 'value == "one/a"')
    assert done.code == 0
    assert "has old values of 1 file that asdffs changed, until the next index: " in done.err


def test_the_names_of_changed_files_take_a_limited_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "cache_folder", lambda: str(tmp_path))
    names = [f"/{'d' * 200}/{number:06d}.asdf" for number in range(12_000)]
    for name in (names[0], *names, names[-1]):
        changed_files.note_changed(name)
    assert (tmp_path / "changed").stat().st_size <= 1 << 20
    known = [os.fsdecode(name) for name in changed_files.changed_files()]
    assert len(known) == len({*known})
    assert {*known} <= {*names}
    assert known[-1] == names[-1]
    assert len(known) > 2000
    cut = os.ftruncate

    for done in (False, True):

        def killing(fd: int, size: int, done: bool = done) -> None:
            if done:
                cut(fd, size)
            os.kill(os.getpid(), signal.SIGKILL)

        with monkeypatch.context() as killed:
            killed.setattr(os, "ftruncate", killing)
            killed_in(lambda: [changed_files.note_changed(name) for name in names])
        assert len({*known} & {os.fsdecode(name) for name in changed_files.changed_files()}) > 500
    changed_files.note_changed(names[0])
    assert changed_files.changed_files()[-1] == os.fsencode(names[0])
    assert (tmp_path / "changed").stat().st_size <= 1 << 20
    (tmp_path / "changed").unlink()
    (tmp_path / "changed").symlink_to(tmp_path / "elsewhere")
    changed_files.note_changed("/a")
    assert not (tmp_path / "elsewhere").exists()
    assert changed_files.changed_files() == []


# -- small ---------------------------------------------------------------------------------


def test_what_is_said_of_wrong_files_and_places(data: Path, index: Callable, call: Call, tmp_path: Path) -> None:
    index(data)
    catalog = tmp_path / "c.db"
    done = call("find", "--catalog", data / "one/a.asdf", "value")
    assert (done.code, "is no catalogue, but a file of another kind; name another file" in done.err) == (4, True)
    done = call("find", "--catalog", catalog, "--columns", "value")
    assert (done.code, "required: CONDITION\n" in done.err) == (2, True), done.err
    shutil.move(data / "one", tmp_path / "gone")
    assert len(call("find", "--catalog", catalog, "exists value", data / "one").out.splitlines()) == 2
    done = call("find", "--catalog", catalog, "exists value", data / "typo")
    assert (done.code, "typo: there is no such file or directory" in done.err) == (3, True)


def test_numbers_and_nouns_agree(data: Path, call: Call, tmp_path: Path) -> None:
    told = call("index", "--catalog", tmp_path / "one.db", data / "two").out
    assert told == f"{tmp_path}/one.db: 1 file, 1 read\n"
    (data / "two/c.asdf").write_bytes(b"nonsense")
    done = call("index", "--catalog", tmp_path / "one.db", data / "two")
    assert "one.db: 1 file cannot be read: asdffs find" in done.err
    done = call("index", "--catalog", tmp_path / "all.db", "--merge", tmp_path / "one.db")
    assert done.out == f"{tmp_path}/all.db: 1 file, 1 merged\n"


def test_the_pages_of_a_catalogue_are_full(tmp_path: Path) -> None:
    """Ten chunks of values that hardly compress.  By their keys, each chunk would split all pages of the others."""
    chance, stored = random.Random(5), 0
    with open_catalog(str(tmp_path / "c.db"), writable=True) as catalog:
        for chunk in range(10):
            packer = Packer()
            for _ in range(200):
                packer.add({f"a{number}": chance.random() for number in range(60)})
            packed = packer.packed()
            stored += sum(len(column.packed) for column in packed.columns.values())
            catalog.add([FileRow(b"/%d/%d" % (chunk, place), "", 1) for place in range(200)], packed)
    assert (tmp_path / "c.db").stat().st_size < 1.6 * stored
