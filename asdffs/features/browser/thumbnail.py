"""A small picture of an array, for notebooks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from asdffs.features.browser.pictures.png import png
from asdffs.features.browser.pictures.sampling import coarser, complete, first_plane
from asdffs.features.browser.pictures.stretch import grey_levels, limits_of

if TYPE_CHECKING:
    from asdffs.document.arrays.html import Shown

#: Pixels of the longer side of a picture.
_SIDE: Final = 160


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
