"""Blocks in the mount's terms: what a failure leaves, and who may still open what is being removed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from unittest import mock

import pytest
from support.paths import ByPath, NoKernel
from support.samples import DATA, MASK, block_bytes, odd_file, opened, zlib_block

from asdffs.document.block import Block
from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.history import Places
from asdffs.errors import FailedFileError, NoSuchNameError
from asdffs.scheduling import SingleThread
from asdffs.vfs.vfs import Vfs

TREE = "%YAML 1.1\n---\nvalue: 1\n...\n"


def mounted(tmp_path: Path, raw: bytes) -> Vfs:
    path = tmp_path / "files" / "data.asdf"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw)
    for name in ("spool", "rejected"):
        (tmp_path / name).mkdir(exist_ok=True)
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path / "spool")))
    return ByPath(Vfs(document, Places(str(tmp_path / "spool"), str(tmp_path / "rejected")), kernel=NoKernel()))


def block(vfs: Vfs, number: int) -> bytes:
    return vfs.document.blocks[number].read_at(0, vfs.document.blocks[number].size)


def scratch(vfs: Vfs, path: str, content: bytes) -> None:
    handle = vfs.create(path, 0o600)
    vfs.write(handle, 0, content)
    vfs.flush(handle, killed=False)
    vfs.release(handle)


def test_regression_a_failed_fill_was_taken_for_a_foreign_change_and_forgotten(tmp_path: Path) -> None:
    """Its journal and its payload stay: the next open has the new bytes, where neither old nor new were left."""
    vfs = mounted(tmp_path, odd_file(blocks=[block_bytes(DATA * 60), block_bytes(MASK)]))

    def pour(payload: object, store: object, fill: object, **options: object) -> None:
        store.write_at(fill.offset, b"half of it")
        raise OSError(28, "No space left on device")

    with mock.patch("asdffs.document.blocks.steps.pour", pour), pytest.raises(FailedFileError):
        vfs.metadata.set_xattr("/blocks/0000.bin", "user.asdf.compression", b"zlib")
    assert vfs.foreign.look()
    assert block(vfs, 0) == DATA * 60, "reads go on, of what recovery will make"
    with pytest.raises(FailedFileError):
        vfs.document.commit_tree(vfs.document.tree.text().replace(b"value: 1", b"value: 2"))
    vfs.end()
    vfs.document.close()
    path = tmp_path / "files" / "data.asdf"
    assert len(list(path.parent.iterdir())) == 3, "file, journal, payload"
    document = open_document(str(path), writable=True)
    assert "completed" in document.report.recovery
    assert document.blocks[0].read_at(0, 6000) == DATA * 60
    document.close()
    assert [entry.name for entry in path.parent.iterdir()] == ["data.asdf"]
    with opened(path) as found:
        assert found["data"][:].tobytes() == DATA


def test_a_rename_that_fails_leaves_a_compressed_block_as_it_was(tmp_path: Path) -> None:
    vfs = mounted(tmp_path, odd_file(blocks=[zlib_block(DATA), block_bytes(MASK)]))
    scratch(vfs, "/blocks/new", b"new content" * 50)
    document = vfs.document
    failing = mock.patch.object(Block, "flush", side_effect=OSError(28, "full"))
    with failing, pytest.raises(OSError, match="full"):
        vfs.names.rename("/blocks/new", "/blocks/0000.bin")
    assert block(vfs, 0) == DATA
    assert not document.contents.compressed.dirty
    vfs.names.rename("/blocks/new", "/blocks/0000.bin")
    assert block(vfs, 0) == b"new content" * 50
    document.close()


def test_a_rename_that_fails_leaves_no_new_block(tmp_path: Path) -> None:
    vfs = mounted(tmp_path, odd_file(tree=TREE, blocks=[block_bytes(DATA)]))
    scratch(vfs, "/blocks/new", b"new content")
    document = vfs.document
    failing = mock.patch.object(Block, "write_at", side_effect=OSError(28, "full"))
    with failing, pytest.raises(OSError, match="full"):
        vfs.names.rename("/blocks/new", "/blocks/0001.bin")
    assert len(document.blocks) == 1
    vfs.names.rename("/blocks/new", "/blocks/0001.bin")
    assert block(vfs, 1) == b"new content"
    document.close()


class Curious(SingleThread):
    """A scheduler whose others try to open a block whenever somebody waits."""

    stopping, wanted = False, True

    def __init__(self) -> None:
        self.vfs: Vfs | None = None
        self.refused = 0

    @contextlib.contextmanager
    def waiting(self):
        vfs, self.vfs = self.vfs, None
        if vfs is not None:
            with contextlib.suppress(NoSuchNameError):
                vfs.open("/blocks/0001.bin", write=True, truncate=False)
                raise AssertionError("it was opened while it is being removed")
            self.refused += 1
            self.vfs = vfs
        yield

    @contextlib.contextmanager
    def resumed(self):
        yield


def test_nobody_opens_a_block_that_is_being_removed(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(tree=TREE, blocks=[block_bytes(DATA), block_bytes(MASK)]))
    (tmp_path / "spool").mkdir()
    scheduler = Curious()
    document = open_document(str(path), writable=True, settings=Settings(scheduler=scheduler))
    vfs = ByPath(Vfs(document, Places(str(tmp_path / "spool"), str(tmp_path / "spool")), kernel=NoKernel()))
    scheduler.vfs = vfs
    vfs.names.unlink("/blocks/0001.bin")
    scheduler.vfs = None
    assert scheduler.refused >= 2
    assert len(document.blocks) == 1
    document.close()
