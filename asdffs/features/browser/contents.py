"""What the page shows of a file beside pictures: its tree, its parts to scale, and files to download.

A large tree is sent in parts, so that it does not stop the page.  Texts are cut; the page shows them as text, never
as HTML.  A downloaded array, block or tree has the same bytes as in a mount.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from asdffs import registry
from asdffs.arrays.branch import is_table
from asdffs.document.document import Document
from asdffs.errors import InvalidArrayError, MissingValueError, NotSupportedError, UsageError
from asdffs.features.browser.naming import VALUE
from asdffs.features.browser.session import Session
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.mount_table import filesystem_of
from asdffs.storage.urls import is_remote
from asdffs.tree.lookups import Values, find_value, is_array, plain, short, walk
from asdffs.tree.paths import Path, format_path, name_of, parse_path
from asdffs.tree.values import ValueNode, datatype_text
from asdffs.views.formats.base import ArrayFile, ArrayFormat

#: The most children and matches in one answer, and characters of one value.
MOST: Final = 200
_LONGEST: Final = 300
#: File system -> how a file grows in its middle there; on others it is copied.
_GROWTH: Final = {"xfs": "clone", "btrfs": "clone", "bcachefs": "clone", "ext4": "insert"}
_PIECE: Final = 1 << 20
#: What the name of a downloaded file may have; other characters become ``_``.
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


def children(values: Values, path: str, start: int = 0) -> dict[str, Any]:
    """Return up to ``MOST`` children of the value at ``path`` from number ``start`` on, and how many there are.

    Raises ``MissingValueError``, ``UsageError``, ``InvalidTreeError``.
    """
    steps = parse_path(path)
    node = find_value(values.root(), steps)
    if node is None:
        raise MissingValueError(f"{format_path(steps)}: there is no such value")
    pairs = list(_pairs(node))
    shown = pairs[max(0, start) : max(0, start) + MOST]
    return {"total": len(pairs), "start": start, "children": [_entry((*steps, key), child) for key, child in shown]}


def _pairs(node: ValueNode) -> Iterator[tuple[str | int, ValueNode]]:
    if isinstance(node.value, dict) and not is_array(node):
        yield from node.value.items()
    elif isinstance(node.value, list):
        yield from enumerate(node.value)


def search(values: Values, text: str) -> dict[str, Any]:
    """Return the first ``MOST`` values whose key or text has ``text`` in it, in any case.

    ``more``: whether there are others.
    """
    wanted, found = text.casefold(), list[dict[str, Any]]()
    for path, node in walk(values.root()):
        if path and (wanted in str(path[-1]).casefold() or (_is_scalar(node) and wanted in node.text.casefold())):
            if len(found) == MOST:
                return {"matches": found, "more": True}
            found.append(_entry(path, node))
    return {"matches": found, "more": False}


def _is_scalar(node: ValueNode) -> bool:
    return not isinstance(node.passing_value(), (dict, list))


def _entry(path: Path, node: ValueNode) -> dict[str, Any]:
    """Return what the page shows of one value.

    ``kind``: array, table, mapping, sequence or value.  ``array``: the path of an array in ``document.arrays``.
    """
    shown, held = short(node), _array_in(node)
    array = None if held is None else "/".join(map(name_of, (*path, *held)))
    return {
        "path": format_path(path),
        "key": str(path[-1]),
        "text": shown[:_LONGEST] + ("…" if len(shown) > _LONGEST else ""),
        "line": node.line,
        "open": not is_array(node) and not _is_scalar(node) and bool(node.value),
        "kind": _kind(node, array),
        "tag": node.tag.rpartition("/")[2].lstrip("!"),
        "unit": _unit(node),
        "array": array,
    }


def _kind(node: ValueNode, array: str | None) -> str:
    if array is not None:
        stated = node.value.get("datatype")
        return "table" if stated is not None and _is_record(stated) else "array"
    if _is_scalar(node):
        return "value"
    return "table" if is_table(node.tag) else "mapping" if isinstance(node.value, dict) else "sequence"


def _is_record(datatype: ValueNode) -> bool:
    return datatype_text(plain(datatype)) == "record"


def _array_in(node: ValueNode) -> Path | None:
    """Return the path of the array in a value that is one, or is a quantity of one; None without one."""
    if is_array(node):
        return ()
    inner = node.value.get(VALUE) if isinstance(node.value, dict) else None
    return (VALUE,) if inner is not None and is_array(inner) else None


def _unit(node: ValueNode) -> str:
    stated = node.value.get("unit") if isinstance(node.value, dict) else None
    return stated.text[:40] if stated is not None else ""


def parts_of(session: Session) -> dict[str, Any]:
    """Return the size of the file, and its parts in order.

    A part has ``kind``, ``start`` and ``size`` in bytes; a block also ``block``, ``compression``, ``used`` and the
    ``arrays`` in it, by their paths in ``document.arrays``.
    """
    with session.entered() as document:
        outline, count = document.outlines.outline(), len(document.table)
        arrays: dict[int, list[str]] = {}
        for branch in outline.arrays:
            number = branch.array.block_in(count) if branch.array is not None else None
            path = outline.shown_path(branch)
            if number is not None and path is not None:
                arrays.setdefault(number, []).append("/".join(map(name_of, path)))
        parts = []
        for region in document.layout.regions():
            span = region.span
            part: dict[str, Any] = {"kind": region.kind.value, "start": span.start, "size": len(span)}
            if region.block is not None:
                part |= {
                    "block": region.block,
                    "compression": document.contents.codecs.name(region.block),
                    "used": document.table.header(region.block).used_size,
                    "arrays": arrays.get(region.block, []),
                }
            parts.append(part)
        return {"size": document.layout.size, "parts": parts, "growth": _growth(document)}


def _growth(document: Document) -> str:
    """Return how this file system makes room in a file (``storage/growth``): clone, insert or copy."""
    return _GROWTH.get("" if is_remote(document.path) else filesystem_of(document.path), "copy")


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
        branch = session.array(name).branch
        if not kind.takes(branch):
            raise UsageError(f"{name}: .{what} cannot have such an array")
        path = branch.path
        return kind.file(document, lambda: document.outlines.branch(path))


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


def formats_of(session: Session, name: str) -> list[str]:
    """Return the kinds of files, of npy and fits, that the array ``name`` can be downloaded as."""
    found = []
    for what in ("npy", "fits"):
        try:
            view_of(session, what, name)
        except (NotSupportedError, UsageError):
            continue
        found.append(what)
    return found
