"""An array as HTML for notebooks: its facts, and a small picture of its last two axes."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import Any, Final, Protocol

from asdffs.errors import AsdffsError
from asdffs.features.browser.pictures.png import png
from asdffs.features.browser.pictures.sampling import coarser, complete, first_plane
from asdffs.features.browser.pictures.stretch import grey_levels, limits_of
from asdffs.printable import printable

#: Pixels of the longer side of a picture.
_SIDE: Final = 160
#: The largest array whose picture is made, in bytes: a compressed block is decoded for it.
_LARGEST: Final = 256 << 20


class Shown(Protocol):
    """An array (``Array``)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""

    @property
    def dtype(self) -> Any:
        """The numpy dtype."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    def __getitem__(self, index: Any) -> Any:
        """Return a copy of the selected elements."""


def array_html(array: Shown, name: str, *, near: bool) -> str:
    """Return a table of facts about ``array``, whose path is ``name``, beside a picture if it can have one.

    ``near``: it is on this machine; others have no picture, because it would be downloaded for it.
    """
    try:
        shape, dtype = array.shape, array.dtype
        picture = thumbnail(array) if near and array.nbytes <= _LARGEST else ""
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


def thumbnail(array: Shown) -> str:
    """Return an ``img`` of the first image in an array; empty if it is none.  Raises as ``Array.__getitem__``."""
    import numpy as np

    if len(array.shape) < 2 or min(array.shape) < 1 or max(array.shape[-2:]) < 2 or array.dtype.kind not in "biufc":
        return ""
    plane = first_plane(complete((), array.shape), array.shape)
    step = -(-max(array.shape[-2:]) // _SIDE)
    found = np.asarray(array[coarser(plane, step)])
    values = np.abs(found) if found.dtype.kind == "c" else found
    pixels = grey_levels(values, limits_of(values))[::-1]  # the first row of an image of the sky is at the bottom
    source = base64.b64encode(png(pixels)).decode()
    return f'<img alt="picture of the array" src="data:image/png;base64,{source}" {_pixelated(pixels.shape)}>'


def _pixelated(shape: Sequence[int]) -> str:
    """Return the attributes that show a small picture larger."""
    factor = max(1, _SIDE // max(shape))
    return f'width="{shape[1] * factor}" height="{shape[0] * factor}" style="image-rendering:pixelated"'


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
