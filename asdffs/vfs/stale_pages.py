"""Copies of pages that the kernel may still have after their bytes changed through another view.

The kernel writes back a dirty page of an mmap as a whole, so a page from before such a change brings old bytes back.
A copy is the page as the kernel has it before the program writes to it.  The bytes of a mapped write that differ from
the copy are those that the program wrote.  Without a copy, the kernel's page is as new as the block.

Offsets and lengths are in bytes of the file that the view shows.  The caller holds the main lock.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from asdffs.vfs.namespace import Node

PAGE: Final = 4096
#: Most bytes of all copies.  A copy is only needed until the kernel has dropped its page, so the oldest go first.
_MOST: Final = 32 << 20


def pages_of(offset: int, length: int) -> range:
    """Return the numbers of the pages that contain some of these bytes."""
    return range(offset // PAGE, -(-(offset + length) // PAGE))


class StalePages:
    """All copies of one mount."""

    def __init__(self) -> None:
        self._copies: OrderedDict[tuple[Node, int], bytes] = OrderedDict()
        self._size = 0

    def keep(self, node: Node, offset: int, content: bytes) -> None:
        """Copy ``content``, which is about to change, for each page without an older copy.

        ``offset`` is the beginning of a page.
        """
        for page in pages_of(offset, len(content)):
            if (node, page) not in self._copies:
                start = page * PAGE - offset
                self._put(node, page, content[start : start + PAGE])

    def read(self, node: Node, offset: int, length: int) -> None:
        """Drop the copies of whole pages in this range, because the kernel gets the current bytes."""
        if self._copies:
            for page in range(-(-offset // PAGE), (offset + length) // PAGE):
                self._drop(node, page)

    def forget(self, node: Node) -> None:
        """Drop all copies of ``node``: no program can write to the kernel's pages of it any more."""
        for _, page in [key for key in self._copies if key[0] is node]:
            self._drop(node, page)

    def written(self, node: Node, offset: int, payload: bytes | memoryview) -> None:
        """Update the copies after a write(2) through this view: the kernel puts the bytes into its pages itself."""
        for page in pages_of(offset, len(payload)) if self._copies else ():
            copy = self._copies.get((node, page))
            if copy is not None:
                piece = payload[max(0, page * PAGE - offset) : (page + 1) * PAGE - offset]
                at = max(0, offset - page * PAGE)
                self._put(node, page, copy[:at].ljust(at, b"\0") + piece + copy[at + len(piece) :])

    def cut(self, node: Node, size: int) -> None:
        """Cut the copies after a truncate(2) of the view.  The kernel fills its pages with zeros from there on."""
        for _, page in [key for key in self._copies if key[0] is node and (key[1] + 1) * PAGE > size]:
            self._put(node, page, self._copies[node, page][: max(0, size - page * PAGE)])

    def merge(self, node: Node, offset: int, payload: bytes, now: bytes) -> bytes:
        """Return the bytes to write for a mapped write of ``payload`` where the block has ``now``.

        They are ``now`` with the bytes that the program changed.
        """
        pieces = []
        for start in range(0, len(payload), PAGE):
            page, piece = (offset + start) // PAGE, payload[start : start + PAGE]
            copy = self._copies.get((node, page))
            if copy is not None:
                merged = _stored(piece, copy, now[start : start + PAGE])
                self._drop(node, page)
                if merged != piece:  # until it is dropped, the kernel's page lacks the writes of other programs
                    self._put(node, page, piece)
                piece = merged
            pieces.append(piece)
        return b"".join(pieces)

    def _put(self, node: Node, page: int, copy: bytes) -> None:
        self._drop(node, page)
        self._copies[node, page] = copy
        self._size += len(copy)
        while self._size > _MOST:
            self._size -= len(self._copies.popitem(last=False)[1])

    def _drop(self, node: Node, page: int) -> None:
        self._size -= len(self._copies.pop((node, page), b""))


def _stored(piece: bytes, copy: bytes, now: bytes) -> bytes:
    """Return ``now`` with the bytes of ``piece`` that differ from ``copy``.  Zeros follow the end of ``copy``."""
    if len(now) < len(piece):  # the view became shorter, so the bytes cannot be told apart
        return piece
    old = copy.ljust(len(piece), b"\0")
    if piece[: len(old)] == old[: len(piece)]:
        return now[: len(piece)]
    return bytes(new if new != was else is_ for new, was, is_ in zip(piece, old, now, strict=False))
