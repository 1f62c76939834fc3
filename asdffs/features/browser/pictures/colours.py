"""Gives grey levels colours, by the colour maps of the package cmap: those of matplotlib, DS9 and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asdffs.errors import NotSupportedError, Remedy, UsageError

if TYPE_CHECKING:
    import numpy as np

GREY = "gray"


def coloured(levels: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Return the colours of ``levels``, uint8: ``levels`` itself for ``gray``, else with an axis of 3 more.

    Raises ``UsageError`` for an unknown colour map, ``NotSupportedError`` without the package cmap.
    """
    if name == GREY:
        return levels
    try:
        from cmap import Colormap
    except ImportError as err:
        raise NotSupportedError("colours need cmap, which is not installed", remedy=Remedy.INSTALL_SHOW) from err
    try:
        table = Colormap(name).lut(256)
    except (ValueError, TypeError, KeyError) as err:
        raise UsageError(f"the colour map {name!r} is not known; try viridis, magma, inferno, turbo or gray") from err
    colours = (table[:, :3] * 255).round().astype("u1")
    found: np.ndarray[Any, Any] = colours[levels]
    return found
