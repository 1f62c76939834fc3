"""The units of an array: those that the tree states, else those of the file around the ASDF file, such as BUNIT."""

from __future__ import annotations

from collections.abc import Mapping

from asdffs.arrays.branch import Branch
from asdffs.arrays.units import unit_of
from asdffs.document.state import FileState


def units_of(file: FileState, branch: Branch) -> Mapping[str, str]:
    """Return the units of the array at ``branch``; without one that is stated, an empty mapping.

    The unit of all elements is at the empty text; those of the fields of records are at their names.
    """
    found = {**file.units(branch.array.source)} if branch.array is not None else {}
    if unit := unit_of(branch):
        found[""] = unit
    return found
