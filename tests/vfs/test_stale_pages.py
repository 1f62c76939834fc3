"""Which bytes of a mapped write were stored, and which are merely old."""

from __future__ import annotations

from asdffs.vfs.namespace import FileNode, Owner
from asdffs.vfs.shared_pages import PAGE, StalePages


class Views:
    """The first page of a block, and the kernel's page of a view of it; both are the same bytes at first."""

    def __init__(self) -> None:
        self.content = bytearray(PAGE)
        self.page = bytearray(PAGE)
        self.node = FileNode(Owner(0o644, 0, 0, 0))
        self.stale = StalePages()

    def write(self, offset: int, raw: bytes) -> None:
        """Through another view."""
        self.stale.keep(self.node, 0, bytes(self.content))
        self.content[offset : offset + len(raw)] = raw

    def write_here(self, offset: int, raw: bytes) -> None:
        """write(2) through the view itself: the kernel puts it into its page."""
        self.stale.written(self.node, offset, raw)
        self.content[offset : offset + len(raw)] = self.page[offset : offset + len(raw)] = raw

    def send(self) -> None:
        """The kernel sends the page."""
        self.content[:] = self.stale.merge(self.node, 0, bytes(self.page), bytes(self.content))

    def read(self) -> None:
        """The kernel dropped the page, and reads it again."""
        self.stale.read(self.node, 0, PAGE)
        self.page[:] = self.content


def test_what_others_wrote_stays_beside_what_was_stored() -> None:
    views = Views()
    views.write(5, b"abc")
    views.page[20:23] = b"xyz"
    views.send()
    assert views.content[:30] == bytes(5) + b"abc" + bytes(12) + b"xyz" + bytes(7)


def test_what_was_stored_over_it_wins() -> None:
    views = Views()
    views.write(5, b"abc")
    views.page[6] = ord("X")
    views.send()
    assert views.content[5:8] == b"aXc"


def test_regression_a_byte_that_is_stored_back() -> None:
    """X, then Y and X again through the same mmap, while another view writes beside it."""
    views = Views()
    views.write(700, b"o")
    for byte in b"YX":
        views.page[500] = byte
        views.send()
    assert views.content[500:501] == b"X"
    assert views.content[700:701] == b"o"


def test_a_page_that_was_read_again_is_new() -> None:
    """A flag that is set through one view, and cleared through the other."""
    views = Views()
    views.write(5, b"abc")
    views.read()
    views.page[5] = 0
    views.send()
    assert views.content[5:8] == b"\0bc"


def test_the_copy_follows_a_write_through_the_view_itself() -> None:
    views = Views()
    views.write(5, b"abc")
    views.write_here(4, b"wxyz")
    views.write(5, b"ABC")
    views.send()
    assert views.content[4:8] == b"wABC"
    views.page[5] = 0
    views.send()
    assert views.content[4:8] == b"w\0BC"


def test_behind_the_end_of_a_copy_are_zeros() -> None:
    """The file was shorter when the copy was made; write(2) and truncate(2) change its end."""
    views = Views()
    views.stale.keep(views.node, 0, b"x" * 10)
    views.content[:10] = views.page[:10] = b"x" * 10
    views.content[3:4] = b"o"
    views.write_here(100, b"abc")
    views.content[101:102] = b"B"
    views.send()
    assert views.content[:104] == b"xxxoxxxxxx" + bytes(90) + b"aBc\0"
    views.page[5:] = bytes(PAGE - 5)
    views.content[5:] = bytes(PAGE - 5)
    views.stale.cut(views.node, 5)
    views.content[50:51] = b"n"
    views.send()
    assert views.content[:60].rstrip(b"\0") == b"xxxox" + bytes(45) + b"n"


def test_only_whole_pages_that_were_read_are_new() -> None:
    views = Views()
    views.write(5, b"abc")
    views.stale.read(views.node, 0, PAGE - 1)
    views.stale.read(views.node, 1, 2 * PAGE)
    views.send()
    assert views.content[5:8] == b"abc"


def test_other_views_are_left_alone() -> None:
    views, other = Views(), FileNode(Owner(0o644, 0, 0, 0))
    views.write(0, b"new!")
    assert views.stale.merge(other, 0, b"old!", b"new!") == b"old!"
    views.stale.forget(views.node)
    assert views.stale.merge(views.node, 0, b"old!", b"new!") == b"old!"


def test_the_memory_of_copies_is_bounded() -> None:
    stale, node = StalePages(), FileNode(Owner(0o644, 0, 0, 0))
    for start in range(0, 64 << 20, 1 << 20):
        stale.keep(node, start, bytes(1 << 20))
    assert sum(map(len, stale._copies.values())) == 32 << 20
    assert stale.merge(node, 0, bytes(PAGE), b"n" * PAGE) == bytes(PAGE), "the oldest are gone"
    last = (64 << 20) - PAGE
    assert stale.merge(node, last, bytes(PAGE), b"n" * PAGE) == b"n" * PAGE
