"""Saves and names, decided by node, without FUSE: sequences of operations as programs make them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.paths import ByPath, NoKernel
from support.samples import odd_file

from asdffs.document.opening import open_document
from asdffs.document.saves.history import Places
from asdffs.document.saves.keeping import Keeper, is_disposable, keep_abandoned
from asdffs.errors import (
    CrossViewError,
    GoneError,
    InUseError,
    InvalidTreeError,
    NameExistsError,
    NameRefusedError,
    NoSuchNameError,
    NotPermittedError,
    ReadOnlyError,
)
from asdffs.storage.backend import read_bytes
from asdffs.storage.file_backend import FileFolder
from asdffs.vfs.staging import DraftState
from asdffs.vfs.vfs import Vfs

START = odd_file(padding=b" " * 400)
OLD, NEW, BAD = b"value: 1\n", b"value: 2\n", b"value: [\n"


class Mount:
    """A vfs over a real file, and short verbs."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "data.asdf"
        self.file.write_bytes(START)
        for name in ("spool", "rejected"):
            (folder / name).mkdir()
        self.document = open_document(str(self.file), writable=True)
        places = Places(str(folder / "spool"), str(folder / "rejected"))
        self.vfs = ByPath(Vfs(self.document, places, kernel=NoKernel()))
        self.text = self.read("/tree.yaml")
        self.new = self.text.replace(OLD, NEW)
        self.bad = self.text.replace(OLD, BAD)

    def end(self) -> None:
        self.vfs.end()
        self.document.close()

    def read(self, path: str) -> bytes:
        handle = self.vfs.open(path, write=False, truncate=False)
        found = read_bytes(self.vfs.read(handle, 0, 1 << 20))
        self.vfs.release(handle)
        return found

    def save(self, path: str, text: bytes, *, killed: bool = False) -> None:
        handle = self.vfs.open(path, write=True, truncate=True)
        self.finish_save(handle, text, killed=killed)

    def create(self, path: str, text: bytes) -> None:
        self.finish_save(self.vfs.create(path, 0o644), text)

    def finish_save(self, handle: int, text: bytes, *, killed: bool = False) -> None:
        try:
            self.vfs.write(handle, 0, text)
            self.vfs.flush(handle, killed=killed)
        finally:
            self.vfs.release(handle)

    @property
    def committed(self) -> bytes:
        return self.document.tree.text()

    def names(self, path: str) -> list[str]:
        handle = self.vfs.opendir(path)
        found = [os.fsdecode(name) for name, _, _ in self.vfs.entries_from(handle, 0)]
        self.vfs.closedir(handle)
        return [name for name in found if name not in (".", "..")]

    def exists(self, path: str) -> bool:
        try:
            self.vfs.attributes(path)
        except NoSuchNameError:
            return False
        return True


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    made = Mount(tmp_path)
    yield made
    made.end()


def test_in_place(mount: Mount) -> None:
    mount.save("/tree.yaml", mount.new)
    assert mount.committed == mount.read("/tree.yaml") == mount.new
    assert mount.vfs.staging.state is DraftState.CLEAN


def test_in_place_invalid_then_valid(mount: Mount) -> None:
    with pytest.raises(InvalidTreeError):
        mount.save("/tree.yaml", mount.bad)
    assert mount.committed == mount.text
    assert mount.read("/tree.yaml") == mount.bad
    assert mount.vfs.staging.state is DraftState.REJECTED
    assert mount.document.report.error
    mount.save("/tree.yaml", mount.new)
    assert mount.committed == mount.new
    assert mount.document.report.error == ""
    assert len(mount.document.report.rejected) == 1


def test_rename_onto_the_tree(mount: Mount) -> None:
    mount.create("/sedABC", mount.new)
    mount.vfs.names.rename("/sedABC", "/tree.yaml")
    assert mount.committed == mount.read("/tree.yaml") == mount.new
    assert not mount.exists("/sedABC")


def test_refused_rename_leaves_both_names(mount: Mount) -> None:
    mount.create("/sedABC", mount.bad)
    with pytest.raises(InvalidTreeError):
        mount.vfs.names.rename("/sedABC", "/tree.yaml")
    assert mount.read("/sedABC") == mount.bad
    assert mount.read("/tree.yaml") == mount.committed == mount.text


def test_rename_before_close(mount: Mount) -> None:
    """gio save: the handle of the temporary becomes a handle on the tree."""
    handle = mount.vfs.create("/.goutputstream-1", 0o644)
    mount.vfs.write(handle, 0, mount.new)
    mount.vfs.fsync(handle)
    mount.vfs.names.rename("/.goutputstream-1", "/tree.yaml")
    assert mount.committed == mount.new
    mount.vfs.write(handle, 0, mount.text)
    mount.vfs.flush(handle, killed=False)
    mount.vfs.release(handle)
    assert mount.committed == mount.text


def test_rename_away_and_create(mount: Mount) -> None:
    """vim with backupcopy=no."""
    mount.vfs.names.rename("/tree.yaml", "/tree.yaml~")
    assert not mount.exists("/tree.yaml")
    assert mount.committed == mount.text
    mount.create("/tree.yaml", mount.new)
    assert mount.committed == mount.new
    assert mount.read("/tree.yaml~") == mount.text
    mount.vfs.names.unlink("/tree.yaml~")
    assert not mount.exists("/tree.yaml~")


def test_rename_away_and_back(mount: Mount) -> None:
    mount.vfs.names.rename("/tree.yaml", "/other")
    mount.vfs.names.rename("/other", "/tree.yaml")
    assert mount.committed == mount.read("/tree.yaml") == mount.text


def test_unlink_and_create(mount: Mount) -> None:
    """install, cp --remove-destination."""
    mount.vfs.names.unlink("/tree.yaml")
    assert mount.committed == mount.text
    mount.create("/tree.yaml", mount.new)
    assert mount.committed == mount.new


def test_hard_link_backup_then_rename(mount: Mount) -> None:
    """gio save -b: the backup keeps the old text."""
    mount.vfs.names.link("/tree.yaml", "/tree.yaml~")
    mount.create("/tmp1", mount.new)
    mount.vfs.names.rename("/tmp1", "/tree.yaml")
    assert mount.read("/tree.yaml~") == mount.text
    assert mount.read("/tree.yaml") == mount.new


def test_an_open_tree_that_is_replaced_keeps_its_text(mount: Mount) -> None:
    reader = mount.vfs.open("/tree.yaml", write=False, truncate=False)
    mount.create("/sed1", mount.new)
    mount.vfs.names.rename("/sed1", "/tree.yaml")
    assert mount.committed == mount.new
    assert read_bytes(mount.vfs.read(reader, 0, 10**6)) == mount.text
    mount.vfs.release(reader)


def test_a_node_without_a_name_is_looked_up_again(mount: Mount) -> None:
    """The kernel may open what it looked up before the name led to another node."""
    before = mount.vfs.names.find("/tree.yaml")
    mount.create("/sed1", mount.new)
    mount.vfs.names.rename("/sed1", "/tree.yaml")
    for ask in (
        lambda: mount.vfs.vfs.open(before, write=False, truncate=False),
        lambda: mount.vfs.vfs.attributes(before),
    ):
        with pytest.raises(GoneError):
            ask()


def test_regression_a_change_of_a_node_without_a_name_is_asked_again(mount: Mount) -> None:
    """A truncate of what the kernel looked up before the name led to another node was an error without a number."""
    vfs, before = mount.vfs.vfs, mount.vfs.names.find("/tree.yaml")
    mount.create("/sed1", mount.new)
    mount.vfs.names.rename("/sed1", "/tree.yaml")
    for change in (
        lambda: vfs.truncate(before, 0),
        lambda: vfs.chmod(before, 0o600),
        lambda: vfs.chown(before, 1, 1),
        lambda: vfs.utimens(before, 1, 1),
        lambda: vfs.set_xattr(before, "user.x", b""),
    ):
        with pytest.raises(GoneError):
            change()
    assert mount.read("/tree.yaml") == mount.new


def test_regression_a_block_that_is_being_removed_was_found_and_opened(mount: Mount) -> None:
    """The removal waits, and others are served meanwhile."""
    vfs, folder = mount.vfs.vfs, mount.vfs.names.find("/blocks")
    node, _ = vfs.lookup(folder, "0001.bin")
    folder.leaving.add("0001.bin")
    for ask in (
        lambda: vfs.lookup(folder, "0001.bin"),
        lambda: vfs.open(node, write=False, truncate=False),
        lambda: vfs.truncate(node, 1),
    ):
        with pytest.raises(NoSuchNameError):
            ask()
    folder.leaving.clear()
    assert vfs.lookup(folder, "0001.bin")[0] is node


def test_names_as_libfuse_made_them_are_names_as_others(mount: Mount) -> None:
    mount.create("/.fuse_hidden01", b"1")
    mount.vfs.names.rename("/.fuse_hidden01", "/.fuse_hidden02")
    assert mount.read("/.fuse_hidden02") == b"1"
    assert ".fuse_hidden02" in set(mount.names("/"))


def test_regression_a_refused_rename_onto_an_open_tree_leaves_the_name(mount: Mount) -> None:
    reader = mount.vfs.open("/tree.yaml", write=False, truncate=False)
    mount.create("/sed1", mount.bad)
    with pytest.raises(InvalidTreeError):
        mount.vfs.names.rename("/sed1", "/tree.yaml")
    assert mount.read("/tree.yaml") == mount.text
    mount.vfs.release(reader)
    mount.save("/tree.yaml", mount.new)
    assert mount.committed == mount.new


def test_killed_writer(mount: Mount) -> None:
    mount.save("/tree.yaml", mount.new, killed=True)
    assert mount.committed == mount.text
    assert mount.vfs.staging.state is DraftState.CUT_OFF
    mount.vfs.finish()
    assert mount.committed == mount.text, "sync does not commit what was cut off"


def test_clean_flush_does_not_judge(mount: Mount) -> None:
    writer = mount.vfs.open("/tree.yaml", write=True, truncate=True)
    mount.vfs.flush(writer, killed=False)  # the shell's, before the first write
    mount.vfs.write(writer, 0, mount.new[:50])
    assert mount.read("/tree.yaml") == mount.new[:50]  # a reader closes in the middle
    assert mount.committed == mount.text
    mount.vfs.write(writer, 50, mount.new[50:])
    mount.vfs.flush(writer, killed=False)
    mount.vfs.release(writer)
    assert mount.committed == mount.new


def test_store_after_flush_is_committed_at_release(mount: Mount) -> None:
    handle = mount.vfs.open("/tree.yaml", write=True, truncate=False)
    mount.vfs.flush(handle, killed=False)
    mount.vfs.write(handle, mount.text.index(OLD) + 7, b"2")
    mount.vfs.release(handle)
    assert mount.committed == mount.new


def test_finish_leaves_a_draft_that_is_being_written(mount: Mount) -> None:
    handle = mount.vfs.open("/tree.yaml", write=True, truncate=True)
    mount.vfs.write(handle, 0, mount.new)
    mount.vfs.finish()
    assert mount.committed == mount.text
    mount.vfs.flush(handle, killed=False)
    mount.vfs.release(handle)
    assert mount.committed == mount.new


def test_a_draft_that_loses_its_name_is_kept(mount: Mount) -> None:
    handle = mount.vfs.open("/tree.yaml", write=True, truncate=True)
    mount.vfs.write(handle, 0, b"unfinished")
    mount.vfs.names.unlink("/tree.yaml")
    mount.vfs.release(handle)
    assert [Path(path).read_bytes() for path in mount.document.report.rejected] == [b"unfinished"]


def test_end_keeps_drafts_and_leftovers(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    mount.file.chmod(0o600)
    (tmp_path / "data.asdf.rejected-1.yaml").write_bytes(b"of an earlier mount")
    mount.save("/tree.yaml", mount.new, killed=True)
    mount.create("/notes", b"copied in")
    mount.create("/.x.swp", b"swap")
    mount.end()
    assert (tmp_path / "data.asdf.rejected-1.yaml").read_bytes() == b"of an earlier mount"
    assert (tmp_path / "data.asdf.rejected-2.yaml").read_bytes() == mount.new
    assert (tmp_path / "data.asdf.rejected-2.yaml").stat().st_mode & 0o777 == 0o600
    assert [p.name for p in (tmp_path / "data.asdf.leftover").iterdir()] == ["notes"]
    assert mount.file.read_bytes() == START
    assert len(mount.document.report.kept) == 2


def keeper_of(path: Path) -> Keeper:
    return Keeper(SimpleNamespace(path=str(path), folder=FileFolder(str(path.parent))))


def test_leftovers_never_overwrite(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"new")
    keeper = keeper_of(tmp_path / "f")
    for _ in range(2):
        keeper.keep_scratch("a", str(tmp_path / "s"))
    assert keeper.kept == [f"{tmp_path}/f.leftover/a", f"{tmp_path}/f.leftover/a.2"]
    assert keeper.failures == []


def test_long_names_and_taken_names_are_kept_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"new")
    path = tmp_path / ("x" * 250)
    (tmp_path / "y.leftover").write_text("a file")
    keeper = keeper_of(path)
    keeper.keep_draft(str(tmp_path / "s"))
    keeper.keep_scratch("z" * 255, str(tmp_path / "s"))
    keeper.keep_scratch("z" * 255, str(tmp_path / "s"))
    other = keeper_of(tmp_path / "y")
    other.keep_scratch("a", str(tmp_path / "s"))
    assert keeper.failures == other.failures == []
    assert len(keeper.kept) == 3
    assert other.kept == [f"{tmp_path}/y.leftover-2/a"]
    assert all(Path(kept).read_bytes() == b"new" for kept in keeper.kept + other.kept)


def test_what_cannot_be_kept_stays_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"new")
    keeper = keeper_of(tmp_path / "no such folder" / "f")
    keeper.keep_draft(str(tmp_path / "s"))
    assert keeper.kept == []
    assert str(tmp_path / "s") in keeper.failures[0]
    assert (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("name", "disposable"),
    [(".x.swp", True), ("4913", True), ("a~", True), ("#a#", True), ("a", False), ("#a", False)],
)
def test_disposable_names(name: str, disposable: bool) -> None:
    assert is_disposable(name) is disposable


def test_rename_onto_a_block_copies(mount: Mount) -> None:
    mount.create("/blocks/.0001.bin.AbC123", bytes(40))
    mount.vfs.names.rename("/blocks/.0001.bin.AbC123", "/blocks/0001.bin")
    assert mount.read("/blocks/0001.bin") == bytes(40)
    assert not mount.exists("/blocks/.0001.bin.AbC123")


def test_scratch_names_links_and_attributes(mount: Mount) -> None:
    vfs = mount.vfs
    mount.create("/a", b"1")
    vfs.names.symlink("/.#tree.yaml", "me@here.1")
    assert vfs.metadata.readlink("/.#tree.yaml") == "me@here.1"
    vfs.names.link("/a", "/b")
    assert vfs.attributes("/b").links == 2
    vfs.names.rename("/a", "/b")  # the same file: nothing happens
    assert mount.exists("/a")
    vfs.names.unlink("/a")
    assert mount.read("/b") == b"1"
    vfs.metadata.chmod("/b", 0o600)
    vfs.metadata.chown("/b", 5, -1)
    vfs.metadata.utimens("/b", 1, 2)
    shown = vfs.attributes("/b")
    assert (shown.mode, shown.uid, shown.mtime_ns) == (0o600, 5, 2)
    vfs.metadata.chmod("/tree.yaml", 0o600)
    assert vfs.attributes("/tree.yaml").mode == 0o644
    with pytest.raises(NameExistsError):
        vfs.names.rename("/b", "/.#tree.yaml", replace=False)


def test_refusals(mount: Mount) -> None:
    names = mount.vfs.names
    mount.create("/a", b"1")
    for work, error in [
        (lambda: names.unlink("/blocks/0000.bin"), InUseError),
        (lambda: names.rename("/blocks/0000.bin", "/x"), NotPermittedError),
        (lambda: names.mkdir("/blocks/0002.bin", 0), NotPermittedError),
        (lambda: names.symlink("/blocks/0002.bin", "x"), NotPermittedError),
        (lambda: names.create("/blocks/0009.bin", 0), NameRefusedError),
        (lambda: names.create("/.asdffs/x", 0), NotPermittedError),
        (lambda: names.create("/" + "x" * 256, 0), NameRefusedError),
        (lambda: names.rename("/a", "/blocks"), InUseError),
        (lambda: names.link("/blocks/0000.bin", "/x"), NotPermittedError),
        (lambda: names.rename("/nothing", "/x"), NoSuchNameError),
    ]:
        with pytest.raises(error):
            work()
    assert mount.read("/a") == b"1"


def test_read_only(tmp_path: Path) -> None:
    (tmp_path / "data.asdf").write_bytes(START)
    document = open_document(str(tmp_path / "data.asdf"), writable=False)
    vfs = ByPath(Vfs(document, Places(str(tmp_path), str(tmp_path)), kernel=NoKernel()))
    for work in (
        lambda: vfs.open("/tree.yaml", write=True, truncate=False),
        lambda: vfs.open("/blocks/0000.bin", write=True, truncate=False),
        lambda: vfs.create("/x", 0),
        lambda: vfs.names.unlink("/tree.yaml"),
        lambda: vfs.truncate("/tree.yaml", 0),
        lambda: vfs.metadata.chmod("/tree.yaml", 0),
    ):
        with pytest.raises(ReadOnlyError):
            work()
    vfs.end()
    document.close()


def test_regression_an_unlink_of_an_open_tree_is_not_undone_by_a_later_rename(mount: Mount) -> None:
    reader = mount.vfs.open("/tree.yaml", write=False, truncate=False)
    mount.vfs.names.unlink("/tree.yaml")
    mount.vfs.release(reader)
    mount.create("/bad", mount.bad)
    with pytest.raises(InvalidTreeError):
        mount.vfs.names.rename("/bad", "/tree.yaml")
    assert not mount.exists("/tree.yaml")
    mount.create("/tree.yaml", mount.new)
    assert mount.committed == mount.read("/tree.yaml") == mount.new


def test_regression_rename_onto_a_block_took_the_bytes_of_a_hard_link(mount: Mount) -> None:
    """For the kernel, both names are one file for a moment after the rename: a write to ``/b`` went to the block."""
    mount.create("/a", bytes(40))
    mount.vfs.names.link("/a", "/b")
    before = mount.read("/blocks/0001.bin")
    with pytest.raises(CrossViewError):
        mount.vfs.names.rename("/a", "/blocks/0001.bin")
    assert mount.read("/a") == mount.read("/b") == bytes(40)
    assert mount.read("/blocks/0001.bin") == before
    mount.vfs.names.unlink("/b")
    mount.vfs.names.rename("/a", "/blocks/0001.bin")
    assert mount.read("/blocks/0001.bin") == bytes(40)


def test_regression_rename_onto_an_open_hard_link_of_itself(mount: Mount) -> None:
    mount.create("/a", b"1")
    mount.vfs.names.link("/a", "/c")
    reader = mount.vfs.open("/c", write=False, truncate=False)
    mount.vfs.names.rename("/a", "/c")
    assert mount.read("/a") == mount.read("/c") == b"1"
    mount.vfs.release(reader)
    assert mount.read("/a") == mount.read("/c") == b"1"


def test_regression_tree_renamed_onto_a_block(mount: Mount) -> None:
    with pytest.raises(NotPermittedError):
        mount.vfs.names.rename("/tree.yaml", "/blocks/0000.bin")
    assert mount.read("/tree.yaml") == mount.text
    assert mount.file.read_bytes() == START


def test_regression_same_scratch_name_in_two_directories(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    mount.create("/x.txt", b"one")
    mount.create("/blocks/x.txt", b"two")
    mount.end()
    kept = {path.name: path.read_bytes() for path in (tmp_path / "data.asdf.leftover").iterdir()}
    assert kept == {"x.txt": b"one", "x.txt.2": b"two"}


def test_regression_draft_of_a_node_that_was_a_dot_file_is_found_after_a_crash(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    mount.create("/.tree.yaml.AbC", mount.text)
    mount.vfs.names.rename("/.tree.yaml.AbC", "/tree.yaml")
    handle = mount.vfs.open("/tree.yaml", write=True, truncate=True)
    mount.vfs.write(handle, 0, b"precious")
    keeper = keep_abandoned(mount.document, str(tmp_path / "spool"), str(tmp_path / "rejected"), mount.text)
    assert [Path(path).read_bytes() for path in keeper.kept] == [b"precious"]
    mount.end()


def test_regression_full_spool_leaves_the_tree_readable(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = mount.vfs._spool.path
    monkeypatch.setattr(mount.vfs._spool, "path", spool + "/gone")
    with pytest.raises(FileNotFoundError):
        mount.vfs.open("/tree.yaml", write=True, truncate=True)
    assert mount.read("/tree.yaml") == mount.text
    monkeypatch.setattr(mount.vfs._spool, "path", spool)
    mount.save("/tree.yaml", mount.new)
    assert mount.committed == mount.new


def test_regression_failed_copy_of_a_refused_draft_does_not_hide_the_reason(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "rejected").rename(tmp_path / "away")
    with pytest.raises(InvalidTreeError):
        mount.save("/tree.yaml", mount.bad)
    (tmp_path / "away").rename(tmp_path / "rejected")
    with pytest.raises(InvalidTreeError):
        mount.save("/tree.yaml", mount.bad + b"# again")
    assert [Path(path).read_bytes() for path in mount.document.report.rejected] == [mount.bad + b"# again"]


def test_regression_a_file_that_became_readable_while_it_was_refused_was_never_read(
    mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program writes in two steps, and the second comes between our look at the first and its refusal."""
    read_again = mount.document.read_again

    def read_half_and_let_the_rest_come() -> None:
        monkeypatch.undo()
        try:
            read_again()
        finally:
            mount.file.write_bytes(START.replace(OLD, NEW))

    monkeypatch.setattr(mount.document, "read_again", read_half_and_let_the_rest_come)
    mount.file.write_bytes(b"half a file")
    assert mount.vfs.foreign.look()
    assert mount.document.report.error
    assert mount.vfs.foreign.look()
    assert NEW in mount.read("/tree.yaml")
