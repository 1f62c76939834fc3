"""Finds the unit of an array: an array may be the value of a quantity (schema unit/quantity).  Pure."""

from __future__ import annotations

import re
from typing import Final

from asdffs.arrays.branch import Branch, Scalar

_QUANTITY: Final = re.compile(r".*[:/]unit/quantity-[\d.]+")


def is_quantity(branch: Branch) -> bool:
    """Return whether ``branch`` is a quantity: a value with a unit."""
    return _QUANTITY.fullmatch(branch.tag) is not None


def quantity_of(array: Branch) -> Branch | None:
    """Return the quantity whose value ``array`` is; None if it is that of none."""
    above = array.above[0] if array.above else None
    return above if above is not None and is_quantity(above) else None


def home_of(array: Branch) -> tuple[Branch | None, str]:
    """Return the mapping or sequence in which an array stands, and its unit; a quantity stands for its value."""
    quantity = quantity_of(array)
    if quantity is None:
        return (array.above[0] if array.above else None), ""
    unit = quantity.scalars.get("unit", Scalar("", plain=False)).text
    return (quantity.above[0] if quantity.above else None), unit
