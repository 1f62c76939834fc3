"""Converts the values of a variable into another unit, by astropy, when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asdffs.errors import NotSupportedError, Remedy, UsageError


class Conversion:
    """A conversion of values from the unit ``stated`` to the unit ``wanted``.  It can be pickled.

    Raises ``UsageError`` if one is not the other in another measure, ``NotSupportedError`` without astropy.
    """

    def __init__(self, name: str, stated: str, wanted: str) -> None:
        self.stated, self.wanted = stated, wanted
        try:
            self._function()(np.zeros(1))
        except (ValueError, TypeError) as err:  # astropy's errors about units are of these types
            why = f"it is in {stated}" if stated else "the file states no unit for it"
            raise UsageError(f"units: {name} cannot be had in {wanted}: {why}") from err

    def dtype_of(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of converted values: integers become floats."""
        return dtype if dtype.kind in "fc" else np.dtype(float)

    def __call__(self, values: Any) -> Any:
        """Return values in the unit ``wanted``."""
        return np.asarray(self._function()(values))

    def _function(self) -> Callable[[Any], Any]:
        try:
            from astropy import units
        except ImportError as err:
            raise NotSupportedError("units are converted by astropy", remedy=Remedy.INSTALL_FITS) from err
        if not self.stated:
            raise ValueError("no unit")
        stated, wanted = units.Unit(self.stated), units.Unit(self.wanted)
        found: Callable[[Any], Any] = stated.get_converter(wanted)
        return found
