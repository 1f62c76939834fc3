"""What the arrays beside an array tell about it: the axis of a curve, the names of the bits of a flag array."""

from __future__ import annotations

import contextlib
import itertools
from typing import Final

from asdffs.errors import AsdffsError
from asdffs.features.browser.naming import VALUE
from asdffs.features.browser.session import Session
from asdffs.features.browser.table_rows import TableRows

#: Names of arrays that are the axis of those beside them, the likeliest first.
_AXES: Final = ("wavelength", "wavelengths", "wave", "spectral_axis", "frequency", "energy", "time", "times", "x")
#: The table that JWST keeps beside ``dq``: its columns BIT and NAME.
_FLAGS: Final = "dq_def"


def axis_of(session: Session, name: str, count: int) -> dict[str, str] | None:
    """Return ``name`` and ``unit`` of the array beside ``name`` that is its axis; None without one."""
    folder, _, own = name.removesuffix(f"/{VALUE}").rpartition("/")
    with session.entered() as document:
        for word, inner in itertools.product(_AXES, ("", f"/{VALUE}")):
            other = f"{folder}/{word}{inner}".lstrip("/")
            if word == own.casefold() or other not in document.arrays:
                continue
            with contextlib.suppress(AsdffsError, OSError):  # one that cannot be read is no axis
                array = document.arrays[other]
                if array.shape == (count,) and array.dtype.kind in "biuf":
                    return {"name": other, "unit": array.units.get("", "")}
    return None


def flags_of(tables: TableRows, name: str) -> dict[str, str]:
    """Return the names of the bits of the flags ``name``, by the number of the bit; empty if the tree tells none."""
    folder = name.rpartition("/")[0]
    try:
        found = tables.page(f"{folder}/{_FLAGS}".lstrip("/"), 0, "", "", descending=False)
    except AsdffsError:
        return {}
    columns = [column["name"].upper() for column in found["columns"]]
    if not {"BIT", "NAME"} <= set(columns):
        return {}
    bit, text = columns.index("BIT"), columns.index("NAME")
    return {row[bit]: row[text].strip() for row in found["rows"]}
