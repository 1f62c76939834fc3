"""An ASDF file as a dataset: variables with named axes and attributes, for xarray and for references."""

from __future__ import annotations

from typing import Any

from asdffs.errors import NotSupportedError

__all__ = ["AsdfParser"]


def __getattr__(name: str) -> Any:
    if name == "AsdfParser":
        try:
            from asdffs.features.datasets.virtual import AsdfParser  # imports VirtualiZarr, xarray and zarr
        except ModuleNotFoundError as err:
            sentence = f"AsdfParser needs {err.name}, which is not installed: pip install 'asdffs[virtualizarr]'"
            raise NotSupportedError(sentence) from err
        return AsdfParser
    raise AttributeError(f"module 'asdffs.features.datasets' has no attribute {name!r}")
