"""Which bytes of a map's page were stored, and which are merely old."""

from __future__ import annotations

import pytest

from asdffs.vfs.merging import Merger
from asdffs.vfs.namespace import FileNode
from asdffs.views.base import ViewFile

PAGE = 4096


class Window(ViewFile):
    def __init__(self, shift: int) -> None:
        self.shift = shift

    def window(self) -> tuple[int, int]:
        return 0, self.shift


class Views:
    """A block, and an array behind a header of 128 bytes, of which the kernel may have pages."""

    def __init__(self) -> None:
        self.content = bytearray(2 * PAGE)
        self.block = FileNode(0o644, 0, 0, 0, 0, file=Window(0))
        self.array = FileNode(0o644, 0, 0, 0, 0, file=Window(-128))
        self.merger = Merger()
        self.merger.watch([self.block, self.array])

    def fetch(self) -> bytearray:
        """The first page of the array."""
        self.merger.fetch(self.array, 0, PAGE)
        return bytearray(bytes(128) + self.content[: PAGE - 128])

    def write(self, offset: int, raw: bytes) -> None:
        """Through the block."""
        self.merger.change(self.block, offset, bytes(self.content[offset : offset + len(raw)]))
        self.content[offset : offset + len(raw)] = raw

    def store(self, page: bytearray) -> None:
        """The kernel sends the page."""
        now = bytes(128) + bytes(self.content[: PAGE - 128])
        merged = self.merger.merge(self.array, 0, bytes(page), now)
        self.merger.change(self.array, 0, now)
        self.content[: PAGE - 128] = merged[128:]


@pytest.fixture
def views() -> Views:
    return Views()


def test_what_was_written_after_the_page_was_fetched_stays(views: Views) -> None:
    page = views.fetch()
    views.write(5, b"abc")
    page[128 + 20 : 128 + 23] = b"xyz"
    views.store(page)
    assert views.content[:30] == bytes(5) + b"abc" + bytes(12) + b"xyz" + bytes(7)


def test_what_was_stored_over_it_wins(views: Views) -> None:
    page = views.fetch()
    views.write(5, b"abc")
    page[128 + 6] = ord("X")
    views.store(page)
    assert views.content[5:8] == b"aXc"


def test_a_page_that_was_fetched_later_may_bring_the_old_bytes_back(views: Views) -> None:
    """A flag that is set through one view, and cleared through the other."""
    views.write(5, b"abc")
    page = views.fetch()
    assert page[128 + 5 : 128 + 8] == b"abc"
    page[128 + 5] = 0
    views.store(page)
    assert views.content[5:8] == b"\0bc"


def test_of_several_changes_each_counts(views: Views) -> None:
    views.write(5, b"a")
    page = views.fetch()
    views.write(5, b"b")
    views.write(5, b"c")
    page[128 + 9] = 7
    views.store(page)
    assert (views.content[5:6], views.content[9]) == (b"c", 7)


def test_other_blocks_and_unknown_views_are_left_alone(views: Views) -> None:
    unknown = FileNode(0o644, 0, 0, 0, 0, file=Window(0))
    assert views.merger.merge(unknown, 0, b"old!", b"new!") == b"old!"
    assert views.merger.merge(FileNode(0o644, 0, 0, 0, 0), 0, b"old!", b"new!") == b"old!"
    assert views.merger.merge(views.array, 0, b"long", b"short") == b"long"


def test_the_memory_of_changes_is_bounded(views: Views) -> None:
    for number in range(5000):
        views.write(number, bytes([number % 255 + 1]))
    page = bytearray(PAGE)
    views.merger.fetch(views.block, 0, 1)
    for start in range(0, 200_000 * PAGE, 100 * PAGE):
        views.merger.fetch(views.array, start, 100 * PAGE)
    assert len(views.merger.merge(views.array, 0, bytes(page), bytes(PAGE))) == PAGE
