"""Where on the sky the image of a file is, from its tree: an ``s_region``, else a ``wcsinfo``.

The footprint is text (``tree/sphere``).  It is empty if the tree tells nothing, and begins with ``?`` and a reason if
it tells something that is not understood: a search then names the file, instead of leaving it out silently.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from asdffs.arrays.scalars import Scalars
from asdffs.tree.paths import format_path
from asdffs.tree.sphere import Vector, coordinates_of, parse_region, point_at, polygon_of, text_of

#: Before the reason why a footprint is not known.
UNKNOWN: Final = "?"
#: How the paths of what tells of the sky end.
_REGIONS: Final = ("s_region", "S_REGION")
_CTYPE: Final = "wcsinfo.ctype1"
_TELLING: Final = (*_REGIONS, _CTYPE)
_GWCS: Final = "wcs.steps"
#: Keywords of a wcsinfo, and their values with which the outline is right; a keyword may be missing.
_UNDERSTOOD: Final = {
    **dict.fromkeys(("cunit1", "cunit2"), ("DEG",)),
    "lonpole": ("180", "180.0"),
    "radesys": ("ICRS", "FK5"),
    "equinox": ("2000", "2000.0"),
}
#: The corners of an image, in halves of its lengths.
_CORNERS: Final = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def footprint_of(found: Scalars) -> str:
    """Return the footprint of a file with these scalars and arrays."""
    values = found.values
    told = {path: value for path, value in values.items() if path.endswith(_TELLING)}
    regions = {value: None for path, value in told.items() if _ends(path, *_REGIONS) and isinstance(value, str)}
    try:
        if regions:
            return _checked(text_of([shape for text in regions for shape in parse_region(text)]))
        for path in filter(lambda path: _ends(path, _CTYPE), told):
            above = path.removesuffix(_CTYPE)
            beside = above.removesuffix("meta.")
            return _checked(_of_wcsinfo(values, f"{above}wcsinfo.", _shape_of(found, f"{beside}data")))
    except (ValueError, OverflowError) as err:
        return f"{UNKNOWN} {'s_region' if regions else 'wcsinfo'}: {err}"
    if any(_ends(path, _GWCS) for path in found.full):
        return f"{UNKNOWN} it has a gwcs and no s_region"
    return f"{UNKNOWN} it has more values than are kept" if "." in found.left_out else ""


def _ends(path: str, *names: str) -> bool:
    """Return whether the last steps of a dotted path are one of ``names``."""
    return any(path == name or path.endswith(f".{name}") for name in names)


def _checked(text: str) -> str:
    """Return a footprint that can be read again, although its numbers were rounded.  Raises ``ValueError``."""
    parse_region(text)
    return text


def _shape_of(found: Scalars, path: str) -> tuple[int, ...]:
    """Return the shape of the array at a dotted path.  Raises ``ValueError`` without one."""
    shapes = (array.shape for array in found.arrays if format_path(array.path) == path and array.shape is not None)
    return next((shape for shape in shapes if len(shape) >= 2), None) or _refuse(f"there is no image at {path}")


def _refuse(why: str) -> Any:
    raise ValueError(why)


def _of_wcsinfo(values: Mapping[str, Any], lead: str, shape: tuple[int, ...]) -> str:
    """Return the outline of an image in a TAN projection (FITS 4.0, section 8).  Raises ``ValueError``."""

    def number(name: str, otherwise: float | None = None) -> float:
        value = values.get(lead + name, otherwise)
        return float(value) if isinstance(value, (int, float)) else _refuse(f"it has no number {name}")

    for name, known in _UNDERSTOOD.items():
        stated = values.get(lead + name)
        if stated is not None and str(stated).upper() not in known:
            _refuse(f"{name} {str(stated)[:60]} is not known here")
    kinds = [str(values.get(f"{lead}ctype{n}")).upper() for n in (1, 2)]
    if kinds != ["RA---TAN", "DEC--TAN"]:
        _refuse(f"{', '.join(kinds)[:60]} is not known here")
    if f"{lead}cd1_1" in values:
        matrix = [[number(f"cd{i}_{j}", 0.0) for j in (1, 2)] for i in (1, 2)]
    else:
        steps = [number(f"cdelt{i}") for i in (1, 2)]
        matrix = [[steps[i - 1] * number(f"pc{i}_{j}", float(i == j)) for j in (1, 2)] for i in (1, 2)]
    center = point_at(number("crval1"), number("crval2"))
    corners = []
    for right, up in _CORNERS:
        x = shape[-1] / 2 * (1 + right) + 0.5 - number("crpix1")
        y = shape[-2] / 2 * (1 + up) + 0.5 - number("crpix2")
        plane = [math.radians(row[0] * x + row[1] * y) for row in matrix]
        corners.append(_from_plane(center, *plane))
    return text_of([polygon_of(corners)])


def _from_plane(center: Vector, x: float, y: float) -> Vector:
    """Return the point of the sky at a place of the tangential plane at ``center``: east and north in radians."""
    a, d = map(math.radians, coordinates_of(center))
    along = math.cos(d) - y * math.sin(d)
    where = (
        math.degrees(a + math.atan2(x, along)),
        math.degrees(math.atan2(math.sin(d) + y * math.cos(d), math.hypot(x, along))),
    )
    return point_at(where[0] % 360, where[1])
