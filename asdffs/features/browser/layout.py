"""The parts of a file to scale: header, tree, padding, blocks with what they hold, index."""

from __future__ import annotations

from typing import Any

from asdffs.features.browser.session import Session
from asdffs.tree.key_names import name_of


def parts_of(session: Session) -> dict[str, Any]:
    """Return the size of the file, and its parts in order.

    A part has ``kind``, ``start`` and ``size`` in bytes; a block also ``block``, ``compression``, ``used`` and the
    ``arrays`` in it, by their paths in ``document.arrays``.
    """
    with session.entered() as document:
        outline, count = document.arrays.outline(), len(document.table)
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
        return {"size": document.layout.size, "parts": parts}
