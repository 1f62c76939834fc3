"""The unit of an array, wherever the tree states it, as astropy writes units.  Pure.

| the array is                                                       | its unit is                             |
|--------------------------------------------------------------------|-----------------------------------------|
| the ``value`` or ``data`` of an object with a ``unit``, as a       | this unit                               |
| quantity, an Angle, a SpectralCoord, an NDCube, a column           |                                         |
| at the key ``err`` beside a ``meta`` with ``bunit_err``            | this one; of ``data``, also ``bunit``   |
"""

from __future__ import annotations

import re
from typing import Final

from asdffs.arrays.branch import Branch, Scalar

_UNIT: Final = "unit"
#: How the keys of metadata that state units begin.
UNITS: Final = "bunit"
#: Keys at which an object with a unit has its array.
_VALUES: Final = ("value", "data")
#: The tag of a magnitude, which has the unit of its zero point as its text.
_MAGNITUDE: Final = re.compile(r".*[:/]units?/magunit-[\d.]+")


def unit_of(array: Branch) -> str:
    """Return the unit of ``array``; empty if the tree states none."""
    above = array.above[0] if array.above else None
    if above is None or not above.mapping:
        return ""
    key = str(array.path[-1])
    if above.tag and _UNIT in above.scalars and key in _VALUES:
        return written_unit(above.scalars[_UNIT])
    meta = above.children.get("meta")
    if meta is None or not meta.units:
        return ""
    names = (f"{UNITS}_{key}", UNITS) if key == "data" else (f"{UNITS}_{key}",)
    stated = [meta.scalars[name] for name in names if name in meta.scalars]
    return written_unit(stated[0]) if stated else ""


def written_unit(unit: Scalar) -> str:
    """Return a unit in the tree as astropy writes it: ``mag(AB)`` for a magnitude whose tag says so."""
    return f"mag({unit.text})" if _MAGNITUDE.fullmatch(unit.tag) else unit.text
