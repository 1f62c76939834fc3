"""An array as HTML for notebooks: its facts, and a small picture of its last two axes."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Final

from asdffs import registry
from asdffs.document.arrays.selection import Selectable
from asdffs.errors import AsdffsError
from asdffs.printable import printable

#: The largest array whose picture is made, in bytes: a compressed block is decoded for it.
_LARGEST: Final = 256 << 20


def array_html(array: Selectable, name: str, mask: Callable[[], Selectable | None], *, near: bool) -> str:
    """Return a table of facts about ``array``, whose path is ``name``, beside a picture if it can have one.

    ``mask()`` returns that of the array.  ``near``: it is on this machine; others have no picture, because it would
    be downloaded for it.
    """
    try:
        shape, dtype = array.shape, array.dtype
        picture = preview(array, mask) if near else ""
    except (AsdffsError, OSError, ValueError) as err:
        return f"<div>{text(name)}: {text(str(err))}</div>"
    facts = {
        "path": name,
        "shape": " x ".join(map(str, shape)) or "one element",
        "dtype": str(dtype.newbyteorder("=")),
        "size": size_of(array.nbytes),
    }
    rows = "".join(f"<tr><th>{key}</th><td>{text(value)}</td></tr>" for key, value in facts.items())
    return f'<div style="display:flex;gap:1em;align-items:center"><table>{rows}</table>{picture}</div>'


def preview(array: Selectable, mask: Callable[[], Selectable | None]) -> str:
    """Return a small picture of an array, or the rows of a table; empty if it has none, or is large.

    Raises as ``Array.__getitem__``.
    """
    pictures = registry.feature("browser") if array.nbytes <= _LARGEST else None
    return "" if pictures is None else str(pictures.preview_of(array, mask()))


def size_of(count: int) -> str:
    """Return a number of bytes for people."""
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.4g} {unit}"


def text(value: str) -> str:
    """Return a text of a file as HTML."""
    return html.escape(printable(value, terminal=True))
