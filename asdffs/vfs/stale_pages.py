"""Copies of pages that the kernel may still have, although their bytes were changed through another view since.

The kernel writes a dirty page of an mmap as a whole, so a page from before such a change brings old bytes back.  A
copy is the page as the kernel has it, if it still does: the bytes that a program stored are those that differ from
the copy.  No copy means that a page of the kernel is as new as the block.

Offsets and lengths in bytes of the file that the view shows.  The caller holds the main lock.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from asdffs.vfs.namespace import Node

PAGE: Final = 4096
#: Bytes of all copies.  A copy is needed for the moment until the kernel dropped its page, so the oldest give way.
_MOST: Final = 32 << 20


def pages_of(offset: int, length: int) -> range:
    """The pages that have a part of these bytes."""
    return range(offset // PAGE, -(-(offset + length) // PAGE))


class StalePages:
    """The copies of one mount."""

    def __init__(self) -> None:
        self._copies: OrderedDict[tuple[Node, int], bytes] = OrderedDict()
        self._size = 0

    def keep(self, node: Node, offset: int, content: bytes) -> None:
        """``content``, from the beginning of a page on, is about to change: keep it where there is no older copy."""
        for page in pages_of(offset, len(content)):
            if (node, page) not in self._copies:
                start = page * PAGE - offset
                self._put(node, page, content[start : start + PAGE])

    def read(self, node: Node, offset: int, length: int) -> None:
        """The kernel is given these bytes: it has no older ones of a whole page."""
        if self._copies:
            for page in range(-(-offset // PAGE), (offset + length) // PAGE):
                self._drop(node, page)

    def forget(self, node: Node) -> None:
        """The kernel has no page of it any more that anybody can store into."""
        for _, page in [key for key in self._copies if key[0] is node]:
            self._drop(node, page)

    def written(self, node: Node, offset: int, payload: bytes | memoryview) -> None:
        """write(2) wrote these bytes through this view: the kernel puts them into its pages itself."""
        for page in pages_of(offset, len(payload)) if self._copies else ():
            copy = self._copies.get((node, page))
            if copy is not None:
                piece = payload[max(0, page * PAGE - offset) : (page + 1) * PAGE - offset]
                at = max(0, offset - page * PAGE)
                self._put(node, page, copy[:at].ljust(at, b"\0") + piece + copy[at + len(piece) :])

    def cut(self, node: Node, size: int) -> None:
        """truncate(2) of the view: the kernel's pages end there, and are zeros up to a later end."""
        for _, page in [key for key in self._copies if key[0] is node and (key[1] + 1) * PAGE > size]:
            self._put(node, page, self._copies[node, page][: max(0, size - page * PAGE)])

    def merge(self, node: Node, offset: int, payload: bytes, now: bytes) -> bytes:
        """What to write of a mapped write ``payload`` where the block has ``now``: the bytes that were stored."""
        pieces = []
        for start in range(0, len(payload), PAGE):
            page, piece = (offset + start) // PAGE, payload[start : start + PAGE]
            copy = self._copies.get((node, page))
            if copy is not None:
                merged = _stored(piece, copy, now[start : start + PAGE])
                self._drop(node, page)
                if merged != piece:  # the kernel's page lacks what others wrote until it is dropped
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
    """``now`` with the bytes of ``piece`` that are not those of ``copy``; behind the end of the file were zeros."""
    if len(now) < len(piece):  # the view became shorter, and nothing can be told
        return piece
    old = copy.ljust(len(piece), b"\0")
    if piece[: len(old)] == old[: len(piece)]:
        return now[: len(piece)]
    return bytes(new if new != was else is_ for new, was, is_ in zip(piece, old, now, strict=False))
