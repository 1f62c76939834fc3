"""Files that the page offers: an array as .npy or .fits, a block, the tree.  The same bytes as in a mount."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from asdffs import registry
from asdffs.errors import InvalidArrayError, MissingValueError, NotSupportedError, UsageError
from asdffs.features.browser.session import Session
from asdffs.storage.backend import Extent, read_bytes
from asdffs.views.formats.base import ArrayFile, ArrayFormat

_PIECE: Final = 1 << 20
#: What the name of a downloaded file may have; other characters become ``_``.
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Download(NamedTuple):
    """A file of ``size`` bytes.  ``pieces()`` yields them, and raises ``AsdffsError`` if they change meanwhile."""

    name: str
    size: int
    pieces: Callable[[], Iterator[bytes]]


def download(session: Session, what: str, name: str) -> Download:
    """Return the file ``what`` (npy, fits, block or tree) of ``name``: an array, or the number of a block.

    Raises ``MissingValueError``, ``UsageError``, ``NotSupportedError``, or as the views.
    """
    if what == "tree":
        text, _ = session.text()
        return Download("tree.yaml", len(text), lambda: iter([text]))
    if what == "block":
        return _block(session, name)
    if what not in ("npy", "fits"):
        raise UsageError("a download is npy, fits, block or tree")
    view = view_of(session, what, name)
    with session.entered():
        view.open_for_reading()
        size = view.size()
    return Download(f"{_plain(name) or 'array'}.{what}", size, lambda: _pieces(session, view.read, size))


def view_of(session: Session, what: str, name: str) -> ArrayFile:
    """Return the file of an array as a view makes it.  Raises ``MissingValueError``, ``NotSupportedError``."""
    kind: ArrayFormat | None = registry.find("formats", what)
    if kind is None:
        raise NotSupportedError(f"this installation makes no .{what}")
    if kind.missing():
        raise NotSupportedError(f"{what} needs a package that is not installed: {kind.missing()}")
    with session.entered() as document:
        try:
            branch = document.arrays[name].branch
        except KeyError as err:
            raise MissingValueError(f"{name}: there is no such array") from err
        if not kind.takes(branch):
            raise UsageError(f"{name}: .{what} cannot have such an array")
        path = branch.path
        return kind.file(document, lambda: document.arrays.branch(path))


def _block(session: Session, name: str) -> Download:
    with session.entered() as document:
        if not name.isdecimal() or int(name) >= len(document.blocks):
            raise MissingValueError(f"there is no block {name}")
        block = document.blocks[int(name)]
        size = block.size
    return Download(f"{int(name):04d}.bin", size, lambda: _pieces(session, block.read_at, size))


def _pieces(session: Session, read: Callable[[int, int], bytes | Extent], size: int) -> Iterator[bytes]:
    place = 0
    while place < size:
        with session.entered():
            piece = read_bytes(read(place, min(_PIECE, size - place)))
        if not piece:
            raise InvalidArrayError("the file was changed while it was downloaded")
        place += len(piece)
        yield piece


def _plain(name: str) -> str:
    return _ODD.sub("_", name).strip("._")[:100]
