"""What the kernel knows by a number: nodes stay until it forgets them; a new one shows the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.paths import NoKernel
from support.samples import block_bytes

from asdffs.document.opening import open_document
from asdffs.document.saves.history import Places
from asdffs.errors import GoneError
from asdffs.vfs import inodes
from asdffs.vfs.areas import Areas
from asdffs.vfs.inodes import ROOT, Place
from asdffs.vfs.namespace import DirectoryNode, Node, number_on
from asdffs.vfs.vfs import Vfs

COUNT = 500
BODY = "l:\n" + "- !core/ndarray-1.0.0 {source: 0, datatype: uint8, shape: [4]}\n" * COUNT


class Mount:
    """The nodes of a file, with numbers as for the kernel."""

    def __init__(self, vfs: Vfs) -> None:
        self.vfs = vfs
        self.areas = Areas(vfs)
        self.place = Place(vfs, vfs.root)

    def give(self, path: str) -> int:
        return self.areas.inodes.give(self.place, self.vfs.names.walk(path), alone=True)

    def listed(self) -> dict[str, tuple[int, tuple[object, ...]]]:
        """What READDIRPLUS shows of each array, and the numbers that it gives."""
        handle = self.vfs.opendir(self.folder)
        names = [os.fsdecode(name) for name, _, _ in self.vfs.entries_from(handle, 0)]
        entries = {name: self.vfs.entry(handle, name) for name in names}
        self.vfs.closedir(handle)
        found = {name: entry for name, entry in entries.items() if entry is not None}
        return {
            name: (self.areas.inodes.give(self.place, node), tuple(shown)) for name, (node, shown) in found.items()
        }

    @property
    def folder(self) -> DirectoryNode:
        found = self.vfs.names.walk("/arrays/l")
        assert isinstance(found, DirectoryNode)
        return found


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    for name in ("spool", "rejected"):
        (tmp_path / name).mkdir()
    path = tmp_path / "data.asdf"
    path.write_bytes(tree_file(BODY, [block_bytes(b"data")]))
    document = open_document(str(path), writable=True)
    yield Mount(Vfs(document, Places(str(tmp_path / "spool"), str(tmp_path / "rejected")), kernel=NoKernel()))
    document.close()


def test_what_is_forgotten_is_dropped_and_made_again(mount: Mount) -> None:
    first = mount.listed()
    assert len(first) == len(mount.folder.seen) >= COUNT
    for number, _ in first.values():
        mount.areas.forget(number, 1)
    assert len(mount.folder.seen) == 0
    again = mount.listed()
    assert {name: shown for name, (_, shown) in again.items()} == {name: shown for name, (_, shown) in first.items()}
    assert not {number for number, _ in first.values()} & {number for number, _ in again.values()}


def test_each_answer_counts(mount: Mount) -> None:
    number = mount.give("/arrays/l/3.npy")
    assert mount.give("/arrays/l/3.npy") == number
    mount.areas.forget(number, 1)
    assert mount.areas.enter(number).item is mount.vfs.names.walk("/arrays/l/3.npy")
    mount.areas.forget(number, 1)
    with pytest.raises(GoneError):
        mount.areas.enter(number)


@pytest.mark.parametrize("number", [0, ROOT, 99, (1 << 64) - 1])
def test_the_root_stays_and_unknown_numbers_are_ignored(mount: Mount, number: int) -> None:
    mount.areas.forget(number, 1 << 63)
    assert mount.areas.enter(ROOT).item is mount.vfs.root


def test_what_is_open_or_was_changed_stays(mount: Mount) -> None:
    node, changed = mount.vfs.names.walk("/arrays/l/3.npy"), mount.vfs.names.walk("/arrays/l/4.npy")
    handle = mount.vfs.open(node, write=False, truncate=False)
    mount.vfs.utimens(changed, 5, 6)
    for number, _ in mount.listed().values():
        mount.areas.forget(number, 1)
    assert mount.folder.seen == {"3.npy": node, "4.npy": changed}
    mount.vfs.release(handle)


def test_the_kernel_is_still_told_of_what_is_open(mount: Mount) -> None:
    node: Node = mount.vfs.names.walk("/arrays/l/3.npy")
    handle = mount.vfs.open(node, write=False, truncate=False)
    for number, _ in mount.listed().values():
        mount.areas.forget(number, 1)
    mount.vfs.take_stale()
    writer = mount.vfs.open(mount.vfs.names.walk("/blocks/0000.bin"), write=True, truncate=False)
    mount.vfs.write(writer, 0, b"new!")
    assert set(mount.vfs.take_stale()) == {node}
    for each in (handle, writer):
        mount.vfs.release(each)


def test_a_number_goes_to_what_takes_the_place(mount: Mount) -> None:
    """A file that is renamed onto a block: the kernel goes on with the number of the file."""
    vfs = mount.vfs
    file, handle = vfs.create(vfs.root, "x", 0o644)
    number, block = mount.areas.inodes.give(mount.place, file), mount.give("/blocks/0000.bin")
    vfs.release(handle)
    became = vfs.names.rename(vfs.root, "x", vfs.names.walk("/blocks"), "0000.bin")
    assert became is not None
    mount.areas.inodes.become(*became)
    assert mount.areas.enter(number).item is mount.areas.enter(block).item is vfs.names.walk("/blocks/0000.bin")
    mount.areas.forget(block, 1)
    assert mount.areas.enter(number).item.inode == number


def test_a_node_that_no_view_shows_any_more_is_looked_up_again(mount: Mount) -> None:
    node = mount.vfs.lookup(mount.folder, "3.npy")[0]
    assert mount.vfs.attributes(node).size > 4
    document = mount.vfs.document
    document.commit_tree(document.tree.text().replace(b"l:\n", b"m:\n"))
    with pytest.raises(Exception, match="no such file"):
        mount.vfs.attributes(node)


@pytest.mark.feature("fits")
def test_of_many_nodes_old_ones_are_made_again(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel goes on with their numbers, until names may have changed; what it may just have seen stays."""
    monkeypatch.setattr(inodes, "_MOST", 100)
    first = mount.listed()
    assert len(mount.folder.seen) == len(first), "the kernel keeps attributes for a moment"
    monkeypatch.setattr(inodes, "_STAYS", 0.0)
    numbers = {name: number for name, (number, _) in mount.listed().items()}
    for name in ("0.npy", "1.npy"):
        mount.areas.forget(numbers[name], 2)
        mount.give(f"/arrays/l/{name}")
    before, node = len(mount.folder.seen), mount.vfs.names.walk("/arrays/l/0.npy")
    for _ in range(COUNT):
        mount.areas.inodes.give(mount.place, node)
    assert len(mount.folder.seen) == before, "another request may be about any of them"
    for _ in range(COUNT):
        mount.give("/arrays/l/0.npy")
    assert len(mount.folder.seen) <= 110
    for name, (number, shown) in first.items():
        if name not in ("0.npy", "1.npy"):
            place = mount.areas.enter(number)
            assert (place.item.name, tuple(mount.vfs.attributes(place.item))) == (name, shown)
    for _ in range(COUNT):
        mount.give("/arrays/l/0.npy")
    document = mount.vfs.document
    document.commit_tree(document.tree.text().replace(b"l:\n", b"# new\nl:\n"))
    gone = [number for number, _ in first.values() if number in mount.areas.inodes.known]
    away = [number for number in gone if mount.areas.inodes.known[number].item is None]
    assert len(away) > COUNT
    with pytest.raises(GoneError):
        mount.areas.enter(away[0])


def test_files_of_several_devices_have_numbers_of_their_own() -> None:
    places = [(device, inode) for device in (1, 2, 2049, 2050, 64769) for inode in range(1, 5000, 7)]
    numbers = {number_on(*place) for place in places}
    assert len(numbers) == len(places)
    assert all(1 << 62 <= number < 1 << 63 for number in numbers)
