"""Nodes that show the same bytes: whose time moves, when, and of whom the kernel is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.paths import ByPath, NoKernel
from support.samples import block_bytes, zlib_block

from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.history import Places
from asdffs.errors import NoSuchNameError
from asdffs.vfs.vfs import Vfs

ARRAY = "!core/ndarray-1.0.0"
BODY = f"""a: {ARRAY} {{source: 0, datatype: uint8, byteorder: big, shape: [9]}}
b: {ARRAY} {{source: 1, datatype: uint8, byteorder: big, shape: [9]}}
c: {ARRAY} {{source: 2, datatype: uint8, byteorder: big, shape: [9]}}
inline: {ARRAY} [1, 2]
"""
NAMES = {
    "a": ("/blocks/0000.bin", "/arrays/a.npy", "/arrays/a.fits", "/exploded/data0000.asdf"),
    "b": ("/blocks/0001.bin", "/arrays/b.npy", "/arrays/b.fits", "/exploded/data0001.asdf"),
    "packed": ("/blocks/0002.bin", "/arrays/c.npy", "/arrays/c.fits", "/exploded/data0002.asdf"),
    "tree": ("/exploded/data.asdf", "/arrays/inline.npy"),
}
PATHS = [path for paths in NAMES.values() for path in paths]


@pytest.fixture
def vfs(tmp_path: Path) -> Iterator[Vfs]:
    path = tmp_path / "files" / "data.asdf"
    path.parent.mkdir()
    content = bytes(range(9))
    path.write_bytes(
        tree_file(BODY, [block_bytes(content), block_bytes(content), zlib_block(content)], padding=b" " * 900)
    )
    os.utime(path, ns=(10**18, 10**18))
    for name in ("spool", "rejected"):
        (tmp_path / name).mkdir()
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path / "spool")))
    yield ByPath(Vfs(document, Places(str(tmp_path / "spool"), str(tmp_path / "rejected")), kernel=NoKernel()))
    document.close()


def times(vfs: Vfs) -> dict[str, int]:
    return {path: vfs.attributes(path).mtime_ns for path in PATHS}


def moved(vfs: Vfs, before: dict[str, int]) -> set[str]:
    return {path for path, time in times(vfs).items() if time > before[path]}


def write(vfs: Vfs, path: str, offset: int, payload: bytes) -> None:
    handle = vfs.open(path, write=True, truncate=False)
    vfs.write(handle, offset, payload)
    vfs.flush(handle, killed=False)
    vfs.release(handle)


def told(vfs: Vfs) -> set[str]:
    return {node.path for node in vfs.take_stale()}


@pytest.mark.feature("fits")
@pytest.mark.parametrize("seen", [True, False], ids=["after a look", "without a look"])
@pytest.mark.parametrize(("kind", "writer"), [(k, n) for k in ("a", "b", "packed") for n in (0, 1)])
def test_what_shows_the_bytes_becomes_newer(vfs: Vfs, kind: str, writer: int, *, seen: bool) -> None:
    """All of it with one time, and nothing else; the kernel is told of what it knew, but not of the writer itself."""
    before = times(vfs) if seen else dict.fromkeys(PATHS, 10**18)
    assert set(before.values()) == {10**18}
    name = NAMES[kind][writer]
    start = vfs.attributes(name).size - 9
    vfs.take_stale()
    write(vfs, name, start + 3, b"x")
    wanted = set(NAMES[kind]) - {name}
    assert told(vfs) >= (wanted if seen else set())
    assert moved(vfs, before) == set(NAMES[kind])
    after = times(vfs)
    assert max(after[path] for path in NAMES[kind]) - min(after[path] for path in NAMES[kind]) < 10**9
    assert moved(vfs, after) == set()
    assert told(vfs) == set()


def test_a_time_that_was_set_stays_until_the_next_change(vfs: Vfs) -> None:
    block, array = NAMES["a"][:2]
    write(vfs, block, 0, b"y")
    for path in (block, array):
        vfs.metadata.utimens(path, 5, 6)
        assert vfs.attributes(path).mtime_ns == 6
    write(vfs, block, 0, b"z")
    vfs.metadata.utimens(block, 7, 8)
    assert vfs.attributes(block).mtime_ns == 8
    assert vfs.attributes(array).mtime_ns > 10**18


@pytest.mark.feature("fits")
def test_a_commit_moves_what_it_concerns(vfs: Vfs) -> None:
    before = times(vfs)
    text = vfs.document.tree.text()
    vfs.document.commit_tree(b"%b" % text.replace(b"inline:", b"# more\ninline:"))
    fits = {path for path in PATHS if path.endswith(".fits")}
    assert moved(vfs, before) == {"/exploded/data.asdf", *fits}, "headers tell of the rest of the tree"
    before = times(vfs)
    vfs.document.commit_tree(text.replace(b"[1, 2]", b"[1, 3]").replace(b"source: 1", b"source: 0"))
    assert moved(vfs, before) == {"/exploded/data.asdf", "/arrays/inline.npy", "/arrays/b.npy", *fits}
    assert told(vfs) >= {"/exploded/data.asdf", "/arrays/inline.npy", "/arrays/b.npy", "/arrays/a.npy"}
    write(vfs, "/arrays/b.npy", vfs.attributes("/arrays/b.npy").size - 9, b"!")
    assert bytes(vfs.document.read_raw(vfs.document.blocks[0].offset + 54, 1)) == b"!", "it shows block 0 now"


def test_what_the_tree_loses_is_gone_and_what_is_open_stays(vfs: Vfs) -> None:
    handle = vfs.open("/arrays/a.npy", write=False, truncate=False)
    text = vfs.document.tree.text()
    vfs.document.commit_tree(text.replace(b"\na: ", b"\nz: "))
    assert told(vfs) == {"/arrays/a.npy"}
    with pytest.raises(NoSuchNameError):
        vfs.attributes("/arrays/a.npy")
    assert vfs.attributes(None, handle).size == vfs.attributes("/arrays/z.npy").size
    vfs.release(handle)


def test_what_has_the_name_now_is_shown(vfs: Vfs) -> None:
    """An item of a list becomes one of a mapping, a mask by value one that is an array: other files, same name."""
    text = vfs.document.tree.text()
    bodies = (
        b"[!core/ndarray-1.0.0 [1]]",
        b"{0: !core/ndarray-1.0.0 [2, 2]}",
        b"[{q: !core/ndarray-1.0.0 [3]}]",
        b"{0: {r: !core/ndarray-1.0.0 [4]}}",
    )
    sizes = []
    for body in bodies[:2]:
        vfs.document.commit_tree(text.replace(b"!core/ndarray-1.0.0 [1, 2]", body))
        sizes.append(vfs.attributes("/arrays/inline/0.npy").size)
    assert sizes[1] == sizes[0] + 8
    for body, name in zip(bodies[2:], ("q", "r"), strict=True):
        vfs.document.commit_tree(text.replace(b"!core/ndarray-1.0.0 [1, 2]", body))
        assert vfs.attributes(f"/arrays/inline/0/{name}.npy").size
    vfs.document.commit_tree(text.replace(b"shape: [9]}", b"shape: [9], mask: 1}", 1))
    assert vfs.attributes("/arrays/a/mask.npy").size
    vfs.document.commit_tree(text.replace(b"\na: ", b"\na: {mask: !core/ndarray-1.0.0 [true]}\nz: "))
    handle = vfs.open("/arrays/a/mask.npy", write=False, truncate=False)
    assert vfs.attributes("/arrays/a/mask.npy").size == 129
    vfs.release(handle)


def test_a_directory_is_newer_when_names_come_or_go(vfs: Vfs) -> None:
    handle = vfs.opendir("/arrays")
    assert b"a.npy" in [name for name, _, _ in vfs.entries_from(handle, 0)]
    before = vfs.attributes("/arrays").mtime_ns
    text = vfs.document.tree.text()
    vfs.document.commit_tree(text.replace(b"[1, 2]", b"[1, 3]"))
    assert vfs.attributes("/arrays").mtime_ns == before
    vfs.document.commit_tree(text.replace(b"\na: ", b"\nz: "))
    assert vfs.attributes("/arrays").mtime_ns > before
    vfs.closedir(handle)


@pytest.mark.feature("fits")
def test_storing_a_block_in_another_way_changes_its_exploded_file_alone(vfs: Vfs) -> None:
    before = times(vfs)
    size = vfs.attributes("/exploded/data0000.asdf").size
    vfs.metadata.set_xattr("/blocks/0000.bin", "user.asdf.compression", b"zlib")
    assert "/exploded/data0000.asdf" in moved(vfs, before)
    assert vfs.attributes("/exploded/data0000.asdf").size != size
