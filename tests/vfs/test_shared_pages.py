"""Pages of maps that come late, or while another write of the same block waits: both writers keep their bytes."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import LIMIT
from support.paths import ByPath, NoKernel
from support.samples import block_bytes

from asdffs.document.blocks.transaction import Transaction
from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.history import Places
from asdffs.errors import StaleFileError
from asdffs.scheduling import WorkerThreads
from asdffs.storage.backend import read_bytes
from asdffs.vfs.coherence import PageRange
from asdffs.vfs.namespace import Node
from asdffs.vfs.vfs import Vfs

NDARRAY = "!core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big"
BODY = f"a: {NDARRAY}, shape: [90]}}\nlow: {NDARRAY}, shape: [40]}}\nhigh: {NDARRAY}, shape: [40], offset: 50}}\n"
HEADER = 128
BLOCK, ARRAY = "/blocks/0000.bin", "/arrays/a.npy"


class Meeting(WorkerThreads):
    """Who waits for the n-th time (``skipped`` before it) goes on when ``other`` is at its end, or waits itself."""

    def __init__(self) -> None:
        super().__init__()
        self.other: Callable[[], None] | None = None
        self.skipped = 0
        self.thread: threading.Thread | None = None
        self._stuck = threading.Event()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        with super().waiting():
            if self.other is not None and self.skipped:
                self.skipped -= 1
            elif self.other is not None:
                self.thread = threading.Thread(target=self._run, args=(self.other,), daemon=True)
                self.other = None
                self.thread.start()
                assert self._stuck.wait(LIMIT)
            elif threading.current_thread() is self.thread:
                self._stuck.set()
            yield

    def _run(self, other: Callable[[], None]) -> None:
        with self.entered():
            other()
        self._stuck.set()


class Kernel(NoKernel):
    """Drops pages as it is told to; ``calls``: of which paths, and whether that is waited for.

    ``dirty``: a page to send first, by path.
    ``then``: what programs do when pages are gone, once.  ``answers``: whether it is quick enough.
    """

    def __init__(self, mount: Mount) -> None:
        super().__init__()
        self.mount = mount
        self.calls: list[list[str]] = []
        self.waits: list[bool] = []
        self.dirty: dict[str, tuple[int, bytearray]] = {}
        self.then: list[Callable[[], object]] = []
        self.answers = True

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        self.awaited.update(region.node for region in regions)
        try:
            return self._drop(regions, patience) if regions else set()
        finally:
            self.awaited -= Counter(region.node for region in regions)

    def _drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        self.calls.append(sorted(region.node.path for region in regions))
        self.waits.append(patience > 0)
        for region in regions if self.answers else ():
            if region.node.path in self.dirty:
                self.mount.send_meanwhile(*self.dirty.pop(region.node.path))
        if self.then:
            self.then.pop()()
        return {region.node for region in regions} if self.answers and patience else set()


class Mount:
    """A vfs over a file whose array is all of its block."""

    def __init__(self, folder: Path) -> None:
        path = folder / "data.asdf"
        path.write_bytes(tree_file(BODY, [block_bytes(bytes(90))]))
        (folder / "spool").mkdir()
        self.scheduler = Meeting()
        self.document = open_document(str(path), writable=True, settings=Settings(scheduler=self.scheduler))
        self.kernel = Kernel(self)
        self.vfs = ByPath(
            Vfs(self.document, Places(str(folder / "spool"), str(folder / "spool")), kernel=self.kernel)
        )

    def open(self, path: str) -> int:
        return self.vfs.open(path, write=True, truncate=False)

    def page(self, handle: int) -> bytearray:
        """What a map of it shows, fetched now."""
        return bytearray(read_bytes(self.vfs.read(handle, 0, 4096)))

    def send(self, handle: int, page: bytearray) -> None:
        """The kernel has the page written."""
        self.vfs.write(handle, 0, bytes(page), mapped=True)

    def send_meanwhile(self, handle: int, page: bytearray) -> None:
        """The kernel has it written by another request, while this one waits."""

        def send() -> None:
            with self.scheduler.entered():
                self.send(handle, page)

        with WorkerThreads.waiting(self.scheduler):
            sending = threading.Thread(target=send, daemon=True)
            sending.start()
            sending.join(LIMIT)
        assert not sending.is_alive()

    def meet(self, other: Callable[[], None], skipped: int) -> None:
        """Have ``other`` run while the next change waits."""
        self.scheduler.other, self.scheduler.skipped = other, skipped

    def join(self) -> None:
        """Until it is done."""
        assert self.scheduler.thread is not None
        with self.scheduler.waiting():
            self.scheduler.thread.join(LIMIT)

    def content(self) -> bytes:
        return read_bytes(self.document.blocks[0].read_at(0, 90))


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    made = Mount(tmp_path)
    with made.scheduler.entered():
        yield made
    made.document.close()


WAITS = pytest.mark.parametrize("skipped", [0, 1, 2])
WANTED = bytes(10) + b"one" + bytes(7) + b"two" + bytes(67)


def test_a_page_comes_when_the_other_writer_has_closed(mount: Mount) -> None:
    array, block = mount.open(ARRAY), mount.open(BLOCK)
    page = mount.page(array)
    mount.vfs.write(block, 10, b"one")
    mount.vfs.release(block)
    page[HEADER + 20 : HEADER + 23] = b"two"
    mount.send(array, page)
    assert mount.content() == WANTED


@WAITS
def test_a_page_comes_while_another_one_waits(mount: Mount, skipped: int) -> None:
    """The first write of a block waits, for its checksum and the header: nothing was written by then."""
    array, block = mount.open(ARRAY), mount.open(BLOCK)
    first, second = mount.page(block), mount.page(array)
    first[10:13] = b"one"
    second[HEADER + 20 : HEADER + 23] = b"two"
    mount.meet(lambda: mount.send(array, second), skipped)
    mount.send(block, first)
    mount.join()
    assert mount.content() == WANTED


@WAITS
def test_who_opens_it_while_a_write_waits_gets_no_old_page(mount: Mount, skipped: int) -> None:
    """Nobody else had the block open when the write began, so what it changes is not remembered."""

    def other() -> None:
        array = mount.open(ARRAY)
        page = mount.page(array)
        page[HEADER + 20 : HEADER + 23] = b"two"
        mount.send(array, page)

    block = mount.open(BLOCK)
    mount.meet(other, skipped)
    mount.vfs.write(block, 10, b"one")
    mount.join()
    assert mount.content() == WANTED


def test_what_was_stored_before_a_write_is_older(mount: Mount) -> None:
    array, block = mount.open(ARRAY), mount.open(BLOCK)
    page = mount.page(array)
    page[HEADER + 10 : HEADER + 14] = b"XXXX"
    mount.kernel.dirty[ARRAY] = array, page
    mount.vfs.write(block, 10, b"one")
    assert mount.content()[8:16] == b"\0\0oneX\0\0"
    assert mount.kernel.calls[:1] == [[ARRAY]]
    assert not any(mount.kernel.waits[1:]), "nobody waits for the pages of who writes"


def test_a_page_that_was_read_too_early_is_dropped_again(mount: Mount) -> None:
    """It was dropped, and read again before the change."""
    array, block = mount.open(ARRAY), mount.open(BLOCK)
    mount.kernel.then = [lambda: mount.page(array)]
    mount.vfs.write(block, 10, b"one")
    assert mount.kernel.calls == [[ARRAY], [ARRAY]]
    mount.vfs.write(block, 10, b"two")
    assert mount.kernel.calls[2:] == [[ARRAY]]


def test_what_cannot_be_dropped_in_time_is_told_from_old_bytes(mount: Mount) -> None:
    array, block = mount.open(ARRAY), mount.open(BLOCK)
    page = mount.page(array)
    mount.kernel.answers = False
    mount.vfs.write(block, 10, b"one")
    page[HEADER + 20 : HEADER + 23] = b"two"
    mount.send(array, page)
    assert mount.content() == WANTED
    mount.send(array, page)
    assert mount.content() == WANTED


def test_a_mapped_write_that_is_waited_for_drops_the_pages_of_others_and_does_not_wait(mount: Mount) -> None:
    array, block = mount.open(ARRAY), mount.open(BLOCK)
    page = mount.page(array)
    page[HEADER + 20 : HEADER + 23] = b"two"
    mount.kernel.dirty[ARRAY] = array, page
    mount.vfs.write(block, 10, b"one")
    assert mount.kernel.calls == [[ARRAY], [BLOCK], [BLOCK]]
    assert mount.kernel.waits == [True, False, False]


def test_views_of_other_bytes_do_not_wait_for_each_other(mount: Mount) -> None:
    low, high = mount.open("/arrays/low.npy"), mount.open("/arrays/high.npy")
    mount.send(low, mount.page(low))
    mount.vfs.write(high, HEADER, b"one")
    assert mount.kernel.calls == []
    assert mount.content()[50:53] == b"one"


def test_beside_one_that_is_mapped_a_view_gets_no_pages(mount: Mount) -> None:
    array = mount.open(ARRAY)
    assert not mount.vfs.is_direct(array)
    mount.send(array, mount.page(array))
    block, high = mount.open(BLOCK), mount.open("/arrays/high.npy")
    assert mount.vfs.is_direct(block)
    assert mount.vfs.is_direct(high)
    assert not mount.vfs.is_direct(mount.open(ARRAY)), "the same view"
    mount.vfs.write(block, 10, b"one")
    mount.vfs.write(high, HEADER, b"two")
    assert mount.kernel.calls == [[ARRAY], [ARRAY]]
    for handle in (array, block, high, array + 3):
        mount.vfs.release(handle)
    assert not mount.vfs.is_direct(mount.open(BLOCK))


def test_pages_of_an_array_that_is_elsewhere_now_are_refused(mount: Mount) -> None:
    """Until the kernel dropped them: they would write the old bytes to the new place."""
    array = mount.open("/arrays/low.npy")
    page = mount.page(array)
    page[HEADER : HEADER + 3] = b"new"
    text = mount.document.tree.text()
    moved = text.replace(b"shape: [40]}", b"shape: [40], offset: 50}")
    mount.kernel.answers = False
    mount.vfs.staging.drafts.commit(moved)
    with pytest.raises(StaleFileError, match="other bytes"):
        mount.send(array, page)
    assert mount.content() == bytes(90)
    mount.kernel.answers = True
    mount.vfs.staging.drafts.commit(text)
    mount.send(array, mount.page(array))
    assert mount.kernel.calls[-2:] == [["/arrays/low.npy"]] * 2, "before the commit, and after it"


def test_a_created_file_is_known_as_open(mount: Mount) -> None:
    """A program may map it: before another view changes its bytes, its pages are dropped."""
    created = mount.vfs.create("/blocks/0001.bin", 0o644)
    mount.vfs.write(created, 0, bytes(90))
    text = mount.document.tree.text().replace(
        b"low: !core/ndarray-1.0.0 {source: 0", b"low: !core/ndarray-1.0.0 {source: 1"
    )
    mount.vfs.staging.drafts.commit(text)
    low = mount.open("/arrays/low.npy")
    mount.vfs.write(low, HEADER, b"one")
    assert ["/blocks/0001.bin"] in mount.kernel.calls


def test_after_a_failed_write_other_views_are_told(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have written a part."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "a bad disk")

    array, block = mount.open(ARRAY), mount.open(BLOCK)
    monkeypatch.setattr(Transaction, "write_content", fail)
    with pytest.raises(OSError, match="a bad disk"):
        mount.vfs.write(block, 10, b"one")
    assert {node.path for node in mount.vfs.take_stale()} == {ARRAY}
    mount.vfs.release(array)
