"""A mounted store, without the mount: what is committed when, what a killed mount leaves, what becomes of blocks."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import asdf
import pytest
from support.commands import command
from support.daf_clients import packed
from support.daf_live import Client, taken_up
from support.mounts import environment_in

from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import FailedFileError, InvalidTreeError, UnfinishedError
from asdffs.features.daf import recover_store
from asdffs.features.daf.committing import Commit
from asdffs.features.daf.format import LOG
from asdffs.features.daf.loose import LooseFiles

DENSE = b'{"format":"dense","eltype":"UInt8"}\n'


class Place:
    """A file with an empty store, and the spool of its mounts."""

    def __init__(self, folder: Path) -> None:
        self.path, self.spool = folder / "x.asdf", folder / "spool"
        self.spool.mkdir()
        assert command("daf", "init", self.path, environment=environment_in(folder)).code == 0

    def open(self) -> Client:
        return taken_up(open_document(str(self.path), writable=True), self.spool)

    def seen_later(self) -> dict[str, bytes]:
        """What the next mount shows, and the one after that."""
        client = self.open()
        seen = client.shown()
        client.close()
        again = self.open()
        assert again.shown() == seen
        again.close()
        with asdf.open(self.path) as file:
            assert "daf" in file
        return seen


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def client(place: Place) -> Client:
    client = place.open()
    client.write("axes/a.txt", b"x\ny\nz\n")
    client.mkdir("vectors/a")
    client.commit()
    return client


def vector(client: Client, name: str, content: bytes = b"123") -> None:
    client.write(f"vectors/a/{name}.json", DENSE)
    client.write(f"vectors/a/{name}.data", content)


def keep(client: Client) -> None:
    client.close()


def kill(client: Client) -> None:
    client.kill()


ENDS = pytest.mark.parametrize("end", [keep, kill])


def test_what_is_whole_becomes_a_node_and_what_is_not_waits(client: Client) -> None:
    client.write("vectors/a/v.data", b"123")
    client.commit()
    assert "vectors/a/v.data" not in client.stored()
    client.write("vectors/a/v.json", DENSE)
    client.commit()
    assert client.stored()["vectors/a/v.data"] == b"123"
    client.write("vectors/a/w.data", b"1234")  # no fit for the axis
    client.write("vectors/a/w.json", DENSE)
    client.commit()
    assert "vectors/a/w.data" not in client.stored()
    client.commit(final=True)
    assert client.stored() == client.shown()
    client.close()


def test_what_somebody_is_writing_waits(client: Client) -> None:
    vector(client, "v")
    file = client.file("vectors/a/v.data")
    file.opened(write=True)
    client.commit()
    assert "vectors/a/v.json" not in client.stored()
    file.closed(write=True)
    client.commit()
    assert client.stored()["vectors/a/v.data"] == b"123"
    client.close()


@ENDS
def test_regression_the_other_name_of_a_loose_file_vanished(
    end: Callable[[Client], None], place: Place, client: Client
) -> None:
    client.mkdir(".backup")
    client.write("vectors/a/u.json", DENSE)
    client.link("vectors/a/u.json", ".backup/u.json")
    vector(client, "v")
    client.link("vectors/a/v.data", "vectors/a/w.data")
    client.commit()
    before = client.shown()
    end(client)
    assert place.seen_later() == before


def test_regression_what_was_written_during_a_commit_was_dropped(place: Place, client: Client) -> None:
    vector(client, "v")
    vector(client, "w")
    client.commit()
    file = client.file("vectors/a/w.data")
    file.opened(write=True)
    client.unlink("vectors/a/w.json")
    client.write("vectors/a/w.json", DENSE)
    change = Commit._change_tree

    def changed(self: Commit, old: dict[str, object], new: dict[str, object]) -> None:
        change(self, old, new)
        file.write(3, b"more")  # through a handle, while the disk is waited for

    with mock.patch.object(Commit, "_change_tree", changed):
        client.commit()
    file.closed(write=True)
    assert client.shown()["vectors/a/w.data"] == b"123more"
    client.close()
    assert place.seen_later()["vectors/a/w.data"] == b"123more"


def test_a_tree_that_is_saved_during_a_commit_stays(client: Client) -> None:
    vector(client, "v")
    write = type(client.live.room).write

    def saved(self: object, *arguments: object) -> object:
        text = client.document.tree.text()
        if b"title" not in text:  # by a person, while the disk is waited for
            client.document.commit_tree(text.replace(b"daf:", b"title: x\ndaf:"))
        return write(self, *arguments)  # type: ignore[arg-type]

    with mock.patch.object(type(client.live.room), "write", saved):
        client.commit()
    assert b"title: x\n" in client.document.tree.text()
    assert client.stored()["vectors/a/v.data"] == b"123"
    assert len(client.document.blocks) <= 2
    client.close()


@pytest.mark.parametrize("at", ["_change_tree", "restart"])
@pytest.mark.parametrize("what", ["overwritten", "renamed", "replaced"])
def test_regression_the_log_was_done_again_to_the_wrong_tree(
    what: str, at: str, place: Place, client: Client
) -> None:
    """A crash right before the tree changes, or right after."""
    vector(client, "v")
    client.write("y", b"zero")
    client.commit()
    if what == "overwritten":
        for part in ("json", "data"):
            client.unlink(f"vectors/a/v.{part}")
        vector(client, "v", b"456")
    elif what == "renamed":
        client.write("x", b"one")
        client.rename("x", "y")
        client.write("x", b"two")
    else:
        client.write("y.new", b"one")
        client.rename("y", "y.bak")
        client.rename("y.new", "y")
    before = client.shown()
    owner = Commit if at == "_change_tree" else LooseFiles
    cut = mock.patch.object(owner, at, side_effect=FailedFileError("cut"))
    with cut, pytest.raises(FailedFileError, match="cut"):
        client.commit()
    client.kill()
    assert place.seen_later() == before


@pytest.mark.parametrize("became", [True, False])
def test_regression_what_was_done_after_a_commit_that_failed_was_lost(
    became: bool, place: Place, client: Client
) -> None:
    """Nobody knows whether the tree became what it was to be; the log of either goes on."""
    client.close()
    client = place.open()
    commit_tree = type(client.document).commit_tree

    def failing(document: Document, draft: bytes, *, over: int | None = None) -> None:
        if became:
            commit_tree(document, draft, over=over)
        raise FailedFileError("cut")

    client.write("y", b"zero")
    with mock.patch.object(type(client.document), "commit_tree", failing), pytest.raises(FailedFileError):
        client.commit()
    client.rename("y", "z")
    client.write("y", b"one")
    before = client.shown()
    client.kill()
    assert place.seen_later() == before


@pytest.mark.parametrize("at", ["commit_tree", "restart"])
def test_regression_a_recovery_that_was_cut_took_the_log_of_another_tree(
    at: str, place: Place, client: Client
) -> None:
    """The mount is killed after the tree has changed, and the next one while it takes that up."""
    client.write("y", b"zero")
    client.commit()
    client.write("y.new", b"one")
    client.rename("y", "y.bak")
    client.rename("y.new", "y")
    client.write("vectors/a/v.data", b"waits")
    before = client.shown()
    with (
        mock.patch.object(LooseFiles, "restart", side_effect=FailedFileError("cut")),
        pytest.raises(FailedFileError),
    ):
        client.commit()
    client.kill()
    document = open_document(str(place.path), writable=True)
    cut = mock.patch.object(Document if at == "commit_tree" else LooseFiles, at, side_effect=FailedFileError("cut"))
    with cut, pytest.raises(UnfinishedError, match="cut"):
        taken_up(document, place.spool)
    document.close()
    assert place.seen_later() == before


def test_regression_a_recovery_that_was_cut_did_its_log_twice(place: Place, client: Client) -> None:
    client.write("y", b"zero")
    client.commit()
    client.write("y.new", b"one")
    client.rename("y", "y.bak")
    client.rename("y.new", "y")
    before = client.shown()
    client.kill()
    document = open_document(str(place.path), writable=True)
    with (
        mock.patch("asdffs.features.daf.recovering.remove_logs", side_effect=FailedFileError("cut")),
        contextlib.suppress(FailedFileError),
    ):
        taken_up(document, place.spool)
    document.close()
    assert place.seen_later() == before


def test_regression_a_log_that_could_not_be_written_changed_the_file(place: Place, client: Client) -> None:
    vector(client, "v")
    client.commit()
    before, loose = client.shown(), set(os.listdir(place.spool))
    full = mock.patch.object(LooseFiles, "note", side_effect=OSError(errno.ENOSPC, "no room"))
    with full, pytest.raises(OSError, match="no room"):
        client.file("vectors/a/v.data").truncate(1)
    with full, pytest.raises(OSError, match="no room"):
        client.rename("vectors/a/v.data", "moved")
    assert client.shown() == before
    assert set(os.listdir(place.spool)) == loose
    client.kill()
    assert place.seen_later() == before


def test_regression_what_was_written_into_a_compressed_block_was_lost(place: Place, client: Client) -> None:
    vector(client, "v", b"\x01\x02\x03")
    client.close()
    with asdf.open(place.path, mode="rw") as file:
        file.update(all_array_compression="zlib")
    client = place.open()
    written = client.file("vectors/a/v.data")
    assert written.commits_late
    written.write(1, b"\x09")
    written.flush(durable=False)  # as a close does
    client.kill()
    assert place.seen_later()["vectors/a/v.data"] == b"\x01\x09\x03"


def test_what_a_person_takes_out_of_the_tree_is_gone(client: Client) -> None:
    old = client.document.tree.text()
    client.write("axes/b.txt", b"one\n")
    client.mkdir("vectors/b")
    client.mkdir("vectors/c")
    client.dense("vectors/b/v", "Int8", [1])
    client.commit()
    assert client.live.walk()[1] >= {"vectors/b", "vectors/c"}
    client.document.commit_tree(old)
    client.live.refresh()
    assert "vectors/b/v.data" not in client.shown()
    assert not client.live.walk()[1] & {"vectors/b", "vectors/c"}
    client.commit()
    assert client.stored() == client.shown()
    client.close()


def test_regression_an_old_spelling_came_back(place: Place, client: Client) -> None:
    client.write("scalars/s.json", b'{ "type": "Int8", "value": 1 }\n')
    client.commit()
    assert client.stored()["scalars/s.json"] == b'{ "type": "Int8", "value": 1 }\n'
    client.document.commit_tree(client.document.tree.text().replace(b"value: 1}", b"value: 2}"))
    client.live.refresh()
    now = client.shown()["scalars/s.json"]
    assert b"2" in now
    client.write("foo", b"x")
    client.commit()
    client.document.commit_tree(client.document.tree.text().replace(b"value: 2}", b"value: 1}"))
    client.live.refresh()
    assert client.shown()["scalars/s.json"] == now.replace(b"2", b"1")
    client.close()
    assert place.seen_later()["scalars/s.json"] == now.replace(b"2", b"1")


@ENDS
@pytest.mark.parametrize("synced", [True, False])
def test_names_are_done_again(end: Callable[[Client], None], synced: bool, place: Place, client: Client) -> None:
    vector(client, "v")
    client.mkdir("d1")
    client.mkdir("d2")
    client.write("d1/f", b"hi")
    client.write("k1", b"k" * 3000)
    client.link("k1", "k2")
    if synced:
        client.commit()
    client.rename("d1", "d2")  # over an empty directory
    client.file("k1").write(3000, b"more")  # under both names
    client.rename("vectors/a/v.json", "vectors/a/moved.json")
    client.rename("vectors/a/v.data", "vectors/a/moved.data")
    before = client.shown()
    assert before["d2/f"] == b"hi"
    assert before["k2"].endswith(b"more")
    end(client)
    assert place.seen_later() == before


@pytest.mark.parametrize("torn", [b"[", b'["rename", "y", "z"]'])
def test_a_last_line_of_the_log_that_was_cut_is_not_read(torn: bytes, place: Place, client: Client) -> None:
    """It was never reported as done, even if only its newline is missing."""
    client.write("y", b"zero")
    before = client.shown()
    client.kill()
    with open(place.spool / LOG, "ab") as log:
        log.write(torn)
    assert place.seen_later() == before


@pytest.mark.parametrize("line", [b"5", b"[]", b'["loose"]', b'["unlink", 5]', b'["rename", "y", "z", "x"]', b"\xff"])
def test_regression_a_damaged_line_of_the_log_was_an_internal_error(
    line: bytes, place: Place, client: Client
) -> None:
    client.write("y", b"zero")
    client.kill()
    with open(place.spool / LOG, "ab") as log:
        log.write(line + b"\n")
    document = open_document(str(place.path), writable=True)
    with pytest.raises(UnfinishedError, match="the store log that the last mount left cannot be read"):
        list(recover_store(document, str(place.spool)))
    document.close()


def test_regression_a_rename_was_undone_by_a_tree_that_was_saved(client: Client) -> None:
    client.write("p", b"1" * 3000)
    client.write("q", b"2" * 3000)
    client.commit()
    client.rename("p", "q")
    client.document.commit_tree(client.document.tree.text().replace(b"daf:", b"title: x\ndaf:"))
    client.live.refresh()
    assert client.shown()["q"] == b"1" * 3000
    assert "p" not in client.shown()
    client.commit()
    assert client.stored() == client.shown()
    client.close()


def test_regression_an_unknown_version_was_lost_when_renamed(place: Place, client: Client) -> None:
    client.write("new", b'{"version":[1,2]}\n')
    client.commit()
    client.rename("new", "daf.json")
    client.close()
    assert place.seen_later()["daf.json"] == b'{"version":[1,2]}\n'


def test_a_new_version_changes_no_other_file(place: Place, client: Client) -> None:
    parts = '{"format":"dense","eltype":"UInt32","n_elements":1}'
    client.write("vectors/a/s.json", f'{{"format":"sparse","nzind":{parts}}}\n'.encode())
    client.write("vectors/a/s.nzind", packed("UInt32", [2]))
    client.commit()
    client.write("daf.json", b'{"version":[1,0]}\n')
    before = client.shown()
    client.commit()
    assert client.stored() == before
    client.close()
    assert place.seen_later() == before


# -- blocks ---------------------------------------------------------------------


def test_regression_a_block_that_a_person_uses_again_was_emptied(client: Client) -> None:
    for name in "vwz":
        vector(client, name)
    client.commit()
    number = client.file("vectors/a/w.data").block
    assert number == 1
    for part in ("json", "data"):
        client.unlink(f"vectors/a/w.{part}")
    client.commit()
    client.document.blocks[1].write_at(0, b"MINE")
    mine = b"mine: !core/ndarray-1.1.0 {source: 1, datatype: uint8, byteorder: little, shape: [4]}\n"
    client.document.commit_tree(client.document.tree.text().replace(b"daf:", mine + b"daf:"))
    vector(client, "u")
    client.commit()
    assert client.document.blocks[1].read_at(0, 9) == b"MINE"
    assert client.stored()["vectors/a/u.data"] == b"123"
    client.close()


def test_regression_a_block_was_given_twice_when_a_tree_was_put_back(client: Client) -> None:
    for name in "vwz":
        vector(client, name, f"{name}23".encode())
    client.commit()
    old = client.document.tree.text()
    for part in ("json", "data"):
        client.unlink(f"vectors/a/w.{part}")
    client.commit()
    client.document.commit_tree(old)
    client.live.refresh()
    vector(client, "u")
    client.commit()
    assert client.file("vectors/a/u.data").block != client.file("vectors/a/v.data").block
    assert client.stored()["vectors/a/u.data"] == b"123"
    client.close()


def test_a_file_that_grows_takes_no_block_each_time(client: Client) -> None:
    client.write("metadata.json", b"{" + b"x" * 100_000)
    for number in range(40):
        client.write("metadata.json", client.shown()["metadata.json"] + b"%0150d" % number)
        client.commit()
    assert len(client.document.blocks) <= 3
    client.close()


def test_free_blocks_are_used_by_the_next_mount(place: Place, client: Client) -> None:
    for number in range(6):
        for name in "vw":
            client.dense(f"vectors/a/{name}", "Float64", [number, 1, 2])
        client.close()
        client = place.open()
    assert len(client.document.blocks) <= 4
    client.close()


def test_regression_each_commit_that_failed_took_blocks(client: Client) -> None:
    vector(client, "v")
    fail = mock.patch.object(type(client.document), "commit_tree", side_effect=InvalidTreeError("no"))
    for _ in range(3):
        with fail, pytest.raises(InvalidTreeError):
            client.commit()
    client.commit()
    assert len(client.document.blocks) == 1
    client.close()


def test_regression_one_that_has_no_room_held_up_the_others(place: Place, client: Client) -> None:
    client.write("scalars/s.json", b'{"type":"Int8","value":1}\n')
    client.write("big", b"b" * 50_000)
    append = type(client.document.blocks).append_sized

    def full(self: object, sizes: list[tuple[int, int]]) -> object:
        if any(used > 40_000 for used, _ in sizes):
            raise OSError(errno.ENOSPC, "no room")
        return append(self, sizes)  # type: ignore[arg-type]

    with mock.patch.object(type(client.document.blocks), "append_sized", full), pytest.raises(OSError, match="room"):
        client.commit()
    assert client.stored()["scalars/s.json"] == b'{"type":"Int8","value":1}\n'
    assert client.shown()["big"] == b"b" * 50_000
    client.kill()
    assert place.seen_later()["big"] == b"b" * 50_000


def test_regression_what_could_not_be_taken_up_was_scattered(place: Place, client: Client) -> None:
    client.write("tmpname", b"b" * 50_000)
    client.rename("tmpname", "bigfile")
    before = client.shown()
    client.kill()
    full = mock.patch("asdffs.document.block.Blocks.append_sized", side_effect=OSError(errno.ENOSPC, "no room"))
    document = open_document(str(place.path), writable=True)
    with full, pytest.raises(UnfinishedError, match="cannot be committed"):
        taken_up(document, place.spool)
    document.close()
    assert place.seen_later() == before, "with room it is"


def test_long_names_and_hand_written_trees_hold_up_nothing(place: Place, client: Client) -> None:
    for depth in range(1, 5):
        client.mkdir("/".join(["d" * 220] * depth))
    client.write("/".join(["d" * 220] * 4 + ["f"]), b"deep")
    client.mkdir("matrices/" + "\x01" * 200)
    vector(client, "v")
    client.commit()
    text = client.document.tree.text().decode()
    start = text.index("      v: ")
    line = text[start:].partition("\n")[0]
    held = text.replace(line, line.replace("v: !", "v: &v !")).replace("daf:", "other: {}\ndaf:", 1)
    client.document.commit_tree(held.replace("...\n", "again: *v\n...\n").encode())
    client.live.refresh()
    vector(client, "v", b"456")
    vector(client, "w")
    client.commit()
    assert client.stored() == client.shown()
    with asdf.open(place.path) as file:
        assert file["again"].tolist() == [49, 50, 51], "what the alias meant"
        assert file["daf"]["vectors"]["a"]["v"].tolist() == [52, 53, 54]
    client.close()


def test_times_stay_when_something_else_is_committed(client: Client) -> None:
    vector(client, "v")
    client.write("axes/b.txt", b"one\n")
    client.commit()
    versions = {path: client.file(path).version() for path in client.shown()}
    client.write("foo", b"1")
    client.commit()
    client.document.commit_tree(client.document.tree.text().replace(b"daf:", b"t: 1\ndaf:"))
    client.live.refresh()
    assert {path: client.file(path).version() for path in versions} == versions
    client.close()


def test_a_commit_writes_what_changed(client: Client) -> None:
    """However much there is beside it."""
    client.write("big", os.urandom(1 << 20))
    client.commit()
    vector(client, "v")
    written = []
    write = os.pwrite

    def counted(fd: int, payload: bytes, offset: int) -> int:
        written.append(len(payload))
        return write(fd, payload, offset)

    with mock.patch("os.pwrite", counted):
        client.commit()
    assert 0 < sum(written) < 20_000
    client.close()
