"""Nodes of views are given back, unless somebody needs them; a new one shows the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.samples import block_bytes

from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.document.saves.places import Places
from asdffs.vfs import recent_nodes
from asdffs.vfs.namespace import DirectoryNode
from asdffs.vfs.vfs import Vfs

COUNT = 500
BODY = "l:\n" + "- !core/ndarray-1.0.0 {source: 0, datatype: uint8, shape: [4]}\n" * COUNT


@pytest.fixture
def vfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vfs]:
    monkeypatch.setattr(recent_nodes, "_STAYS", 0)
    for name in ("spool", "rejected"):
        (tmp_path / name).mkdir()
    path = tmp_path / "data.asdf"
    path.write_bytes(tree_file(BODY, [block_bytes(b"data")]))
    document: Document = open_document(str(path), writable=True)
    yield Vfs(document, Places(str(tmp_path / "spool"), str(tmp_path / "rejected")))
    document.close()


def listed(vfs: Vfs) -> dict[str, tuple[object, ...]]:
    """What a long listing shows of each array."""
    handle = vfs.opendir("/arrays/l")
    names = list(vfs.entries_from(handle, 0))
    found = {name: vfs.entry_attributes(handle, name) for name in names if name not in (".", "..")}
    vfs.closedir(handle)
    return {name: tuple(shown) for name, shown in found.items() if shown is not None}


def folder(vfs: Vfs) -> DirectoryNode:
    found = vfs.names.find("/arrays/l")
    assert isinstance(found, DirectoryNode)
    return found


def test_a_listing_leaves_few_nodes_and_shows_the_same_again(vfs: Vfs) -> None:
    first = listed(vfs)
    assert len(first) >= COUNT
    assert len(folder(vfs).seen) < 5
    assert listed(vfs) == first, "inodes and times"
    assert {name: folder(vfs).number_of(name) for name in first} == {name: shown[9] for name, shown in first.items()}


def test_what_is_open_or_was_changed_stays(vfs: Vfs) -> None:
    handle = vfs.open("/arrays/l/3.npy", write=False, truncate=False)
    vfs.metadata.utimens("/arrays/l/4.npy", 5, 6)
    node = vfs.names.find("/arrays/l/3.npy")
    shown = listed(vfs)
    assert vfs.names.find("/arrays/l/3.npy") is node
    assert shown["4.npy"][3:5] == (6, 5)
    vfs.release(handle)
    del node
    listed(vfs)
    listed(vfs)
    assert {"4.npy"} <= folder(vfs).seen.keys()
    assert len(folder(vfs).seen) < 10


def test_the_kernel_is_still_told_of_what_is_open(vfs: Vfs) -> None:
    handle = vfs.open("/arrays/l/3.npy", write=False, truncate=False)
    listed(vfs)
    vfs.take_stale()
    writer = vfs.open("/blocks/0000.bin", write=True, truncate=False)
    vfs.write(writer, 0, b"new!")
    stale, _ = vfs.take_stale()
    assert vfs.names.find("/arrays/l/3.npy") in stale
    assert len(stale) < 10, "and of no others"
    for each in (handle, writer):
        vfs.release(each)
