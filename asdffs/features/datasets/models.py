"""The axes of the arrays of known data models, by what the metadata say about the telescope.  Pure.

Only arrays directly in the group of the model count, not those in its metadata.  Of each model, the last two axes are
rows (y) and columns (x) of the detector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_IMAGE: Final = ("y", "x")
#: Telescope -> number of axes -> their names.
_AXES: Final[Mapping[str, Mapping[int, tuple[str, ...]]]] = {
    "ROMAN": {2: _IMAGE, 3: ("resultant", *_IMAGE)},
    "JWST": {2: _IMAGE, 3: ("integration", *_IMAGE), 4: ("integration", "group", *_IMAGE)},
}
#: Models of JWST whose first axis of three is another one.
_OTHER: Final = {"IFUCubeModel": ("wavelength", *_IMAGE)}


def known_axes(attributes: Mapping[str, Any], name: str, ndim: int) -> tuple[str, ...] | None:
    """Return the names of the axes of the array ``name``, which has ``ndim`` axes; None if they are not known.

    ``attributes``: the metadata of the group, by dotted paths.
    """
    if "." in name:
        return None
    names = _AXES.get(str(attributes.get("meta.telescope")).upper(), {}).get(ndim)
    other = _OTHER.get(str(attributes.get("meta.model_type")))
    return other if names is not None and other is not None and len(other) == ndim else names
