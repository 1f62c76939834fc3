"""Steady reads and writes ask few questions, and those that matter: calls of Python are counted, not seconds."""

from __future__ import annotations

import errno
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.calls import calls
from support.paths import ByPath, NoKernel
from support.requests import Client, received, request
from support.samples import odd_file

from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.history import Places
from asdffs.errors import StaleFileError
from asdffs.mount.loop import Loop
from asdffs.mount.protocol import GetAttributes, Name, Opcode, Read, Write
from asdffs.storage.backend import read_bytes
from asdffs.vfs.areas import Areas
from asdffs.vfs.handles import FastPath
from asdffs.vfs.inodes import Place
from asdffs.vfs.vfs import Vfs


class Mount:
    """A file, and a client that asks for it; nobody else is to be served."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.loop = Loop()
        document = open_document(str(path), writable=True, settings=Settings(scheduler=self.loop))
        places = Places(spool=str(folder / "spool"), rejected=str(folder / "rejected"))
        os.mkdir(places.spool)
        self.vfs = ByPath(Vfs(document, places, kernel=NoKernel()))
        self.areas = Areas(self.vfs.vfs)
        self.client = Client(self.areas, self.loop, folder / "queue")

    def open(self, path: str, *, write: bool, truncate: bool) -> int:
        place = Place(self.vfs.vfs, self.vfs.names.find(path))
        return self.areas.opened(place, self.vfs.open(path, write=write, truncate=truncate))

    def write(self, handle: int, offset: int, payload: bytes) -> bool:
        """Whether there was a fast path."""
        with self.loop.lock:
            return bool(self.vfs.write_fast(handle, offset, payload))

    def read(self, handle: int, offset: int, size: int) -> None:
        self.client.ask(Opcode.READ, 1, Read(handle, offset, size))

    def calls(self, opcode: Opcode, value: Any, node: int = 1) -> list[str]:
        """The functions of Python that the answer to a request calls."""
        asked = received(request(opcode, node, value))
        return calls(lambda: self.client.answerer.answer(asked))

    def end(self) -> None:
        self.vfs.document.close()
        self.client.end()


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    (tmp_path / "data.asdf").write_bytes(odd_file())
    served = Mount(tmp_path / "data.asdf", tmp_path)
    yield served
    served.end()


@pytest.mark.parametrize("path", ["/blocks/0000.bin", "/arrays/data.npy"])
def test_steady_reads(mount: Mount, path: str) -> None:
    handle = mount.open(path, write=False, truncate=False)
    mount.read(handle, 0, 16)
    offset = mount.vfs.attributes(path, None).size - 40
    mount.read(handle, offset, 40)
    found = mount.calls(Opcode.READ, Read(handle, offset, 40))
    assert len(found) <= 12, "\n".join(found)


@pytest.mark.parametrize("path", ["/blocks/0001.bin", "/arrays/data.npy"])
def test_names_and_attributes(mount: Mount, path: str) -> None:
    """The first lookup makes a node; after that, questions are answered from what was shown last."""
    node, (above, _, name) = mount.client.node(path), path.rpartition("/")
    again = mount.calls(Opcode.LOOKUP, Name(name), mount.client.node(above))
    assert len(again) <= 25, "\n".join(again)
    attributes = mount.calls(Opcode.GETATTR, GetAttributes(0, 0), node)
    assert len(attributes) <= 12, "\n".join(attributes)


@pytest.mark.parametrize("path", ["/blocks/0000.bin", "/arrays/data.npy"])
def test_steady_writes(mount: Mount, path: str) -> None:
    handle = mount.open(path, write=True, truncate=False)
    offset = mount.vfs.attributes(path, None).size - 40
    assert not mount.write(handle, offset, b"a" * 40)
    mount.vfs.write(handle, offset, b"a" * 40)
    assert mount.write(handle, offset, b"b" * 40)
    found = mount.calls(Opcode.WRITE, Write(handle, offset, 40, 0, memoryview(b"c" * 40)))
    assert len(found) <= 40, "\n".join(found)
    assert mount.vfs.document.blocks[0].read_at(0, 1 << 20)[-40:] == b"c" * 40


BLOCK, ARRAY = "/blocks/0000.bin", "/arrays/data.npy"


def opened(mount: Mount, path: str) -> tuple[int, int]:
    """A handle through which the last 40 bytes were written, so that there is a fast path; their offset."""
    handle = mount.open(path, write=True, truncate=False)
    offset = mount.vfs.attributes(path, None).size - 40
    mount.vfs.write(handle, offset, b"a" * 40)
    assert mount.write(handle, offset, b"b" * 40)
    return handle, offset


@pytest.mark.parametrize("path", [BLOCK, ARRAY])
def test_what_ends_a_fast_path(mount: Mount, path: str) -> None:
    handle, offset = opened(mount, path)
    other = ARRAY if path == BLOCK else BLOCK
    second = mount.open(other, write=True, truncate=False)
    assert not mount.write(handle, offset, b"c" * 40), "another view may have pages"
    mount.vfs.release(second)
    mount.vfs.release(handle)
    handle, _ = opened(mount, path)
    mount.vfs.flush(handle, killed=False)
    assert not mount.write(handle, offset, b"d" * 40), "the file must learn that there is something to flush"
    mount.vfs.write(handle, offset, b"d" * 40)
    assert mount.write(handle, offset, b"e" * 40)
    mount.vfs.finish()
    assert not mount.write(handle, offset, b"f" * 40), "the header has a checksum again"
    mount.vfs.write(handle, offset, b"f" * 40)
    assert mount.write(handle, offset, b"g" * 40)
    text = mount.vfs.document.tree.text()
    mount.vfs.document.commit_tree(text.replace(b"value: 1\n", b"value: 2\n"))
    assert not mount.write(handle, offset, b"h" * 40), "the tree may have made it another array"
    mount.vfs.write(handle, offset, b"h" * 40)
    assert not mount.write(handle, offset, b"h" * 41), "it would grow"
    with mount.vfs.document.change.entered():
        assert not mount.write(handle, offset, b"h" * 40), "somebody changes the file"
    with mount.vfs.document.contents.locks.of(0):
        assert not mount.write(handle, offset, b"h" * 40), "somebody changes the block"


def test_a_foreign_change_is_not_overwritten(mount: Mount) -> None:
    handle, offset = opened(mount, BLOCK)
    path = Path(mount.vfs.document.path)
    with path.open("r+b") as file:
        file.write(b"#")
    before = path.read_bytes()
    with pytest.raises(StaleFileError):
        mount.write(handle, offset, b"c" * 40)
    assert path.read_bytes() == before


def test_what_was_written_is_synced_and_counts_as_a_change(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    handle, offset = opened(mount, ARRAY)
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    before = mount.vfs.attributes(BLOCK, None).mtime_ns
    assert mount.write(handle, offset, b"c" * 40)
    assert mount.vfs.is_dirty(handle)
    assert mount.vfs.attributes(BLOCK, None).mtime_ns > before
    mount.vfs.fsync(handle)
    assert synced
    mount.vfs.finish()
    assert mount.vfs.document.blocks[0].find_checksum_fault() == ""


@pytest.mark.parametrize("what", ["open", "commit", "recompress"])
def test_regression_what_happens_while_a_way_is_found_counts(
    mount: Mount, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """To find it waits while blocks move, and then others are served: a view that was opened then lost a write."""
    handle, offset = opened(mount, BLOCK)
    real = FastPath._find
    text = mount.vfs.document.tree.text()

    def find(self: FastPath, node: Any) -> Any:
        monkeypatch.setattr(FastPath, "_find", real)
        if what == "open":
            mount.open(ARRAY, write=True, truncate=False)
        elif what == "commit":
            mount.vfs.document.commit_tree(text.replace(b"value: 1\n", b"value: 2\n"))
        else:
            mount.vfs.document.blocks[0].set_compression("zlib")
        return real(self, node)

    mount.vfs.document.table.touch()
    monkeypatch.setattr(FastPath, "_find", find)
    assert not mount.write(handle, offset, b"c" * 40)


def test_a_failed_finish_leaves_no_fast_path(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header of the first block may have its checksum already, when that of the last cannot be written."""
    handle, offset = opened(mount, BLOCK)
    editor = type(mount.vfs.document.contents.editor)
    real = editor._put_finished

    def failing(self: Any, headers: Any) -> None:
        real(self, headers)
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(editor, "_put_finished", failing)
        with pytest.raises(OSError, match="full"):
            mount.vfs.finish()
    assert not mount.write(handle, offset, b"c" * 40), "the next write begins anew"
    mount.vfs.write(handle, offset, b"c" * 40)
    assert mount.vfs.document.blocks[0].find_checksum_fault() == ""


def test_a_write_while_a_view_is_flushed_is_flushed_later(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    handle, offset = opened(mount, ARRAY)
    committer = mount.vfs.document.contents.committer
    real, synced = type(committer).flush, list[int]()

    def flush(self: Any, number: int, *, durable: bool) -> None:
        real(self, number, durable=durable)
        if not synced:
            mount.vfs.write(handle, offset, b"d" * 40)  # by another request, while this one waits
        synced.append(number)

    monkeypatch.setattr(type(committer), "flush", flush)
    mount.vfs._flush_node(mount.vfs._handles.files[handle].node, durable=True)
    assert mount.write(handle, offset, b"e" * 40)
    mount.vfs._flush_node(mount.vfs._handles.files[handle].node, durable=True)
    assert synced == [0, 0]


def test_random_writes_beside_a_model(mount: Mount) -> None:
    """Through both views, in turn and at once, with flushes, commits and finishes between: a bytearray is right."""
    chance = random.Random(4)
    block = mount.vfs.document.blocks[0]
    model = bytearray(block.read_at(0, 1 << 20))
    head = mount.vfs.attributes(ARRAY, None).size - len(model)
    handles: dict[int, int] = {}
    short = 0
    for step in range(1500):
        kind = chance.choice("o" + "w" * 30 + "rccfst")
        if kind == "o" and len(handles) < 3:
            path = chance.choice([BLOCK, ARRAY])
            handles[mount.open(path, write=True, truncate=False)] = 0 if path == BLOCK else head
        elif handles and kind in "wrc":
            handle, shift = chance.choice(list(handles.items()))
            offset = chance.randrange(len(model))
            size = chance.randrange(1, 1 + len(model) - offset)
            if kind == "w":
                payload = chance.randbytes(size)
                done = mount.write(handle, offset + shift, payload)
                short += done
                if not done:
                    mount.vfs.write(handle, offset + shift, payload)
                model[offset : offset + size] = payload
            elif kind == "r":
                assert read_bytes(mount.vfs.read(handle, offset + shift, size)) == model[offset : offset + size]
            else:
                mount.vfs.release(handle)
                del handles[handle]
        elif kind == "f" and handles:
            mount.vfs.flush(next(iter(handles)), killed=False)
        elif kind == "s":
            mount.vfs.finish()
            assert block.find_checksum_fault() == ""
        elif kind == "t":
            text = mount.vfs.document.tree.text()
            mount.vfs.document.commit_tree(re.sub(rb"value: \d+\n", b"value: %d\n" % (step * 1000), text))
        assert block.read_at(0, 1 << 20) == model
    assert short > 100
