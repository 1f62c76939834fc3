"""Finds the codecs, dialects and views: one module each, one ``PLUGIN`` each.

Purpose: a new codec, dialect or view is one new file.  Users: ``document`` (codecs,
dialects) and ``vfs`` (views).  A module ``asdffs/KIND/NAME.py`` other than ``base``
that defines ``PLUGIN`` is found (packages in there hold what plugins need); packages
outside add theirs through the entry point group ``asdffs.KIND``.  Each kind is read once
per process and never changed after; what nobody comes to is not imported.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

Kind = Literal["codecs", "dialects", "views"]

#: Of the folders in which installed packages tell of themselves (PyPA, Recording installed projects).
_TOLD: Final = (".dist-info", ".egg-info")


@functools.cache
def plugins(kind: Kind) -> tuple[Any, ...]:
    """All plugins of ``kind``, the package's own first, each group sorted by name."""
    return tuple(each_plugin(kind))


def each_plugin(kind: Kind) -> Iterator[Any]:
    """The same one by one, each imported when it is asked for."""
    for load in _loaders(kind):
        plugin = load()
        if plugin is not None:
            yield plugin


@functools.cache
def _loaders(kind: Kind) -> tuple[Callable[[], Any], ...]:
    package = importlib.import_module(f"asdffs.{kind}")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)
    own = (functools.partial(_own, f"asdffs.{kind}.{name}") for name in names)
    foreign = sorted(_entry_points(f"asdffs.{kind}").items())
    return (*own, *(functools.partial(_foreign, value) for _, value in foreign))


def _own(module: str) -> Any:
    """None where it has none, such as ``base``."""
    return getattr(importlib.import_module(module), "PLUGIN", None)


def _foreign(value: str) -> Any:
    module, attributes = parse_target(value)
    found: Any = importlib.import_module(module)
    for name in attributes.split(".") if attributes else ():
        found = getattr(found, name)
    return found


def parse_target(value: str) -> tuple[str, str]:
    """Module and attribute of ``module:attribute``; extras in brackets behind it mean nothing any more."""
    module, _, attributes = value.partition("[")[0].partition(":")
    return module.strip(), attributes.strip()


def _entry_points(group: str) -> dict[str, str]:
    """Name -> ``module:attribute`` of every installed package; the first on the path counts, as for imports.

    To import ``importlib.metadata`` takes longer than all that a mount does besides, so only packages that it alone
    can read, in archives, are left to it.
    """
    found: dict[str, str] = {}
    if any(os.path.isfile(place) for place in sys.path):
        from importlib import metadata

        found = {point.name: point.value for point in metadata.entry_points(group=group)}
    for place in reversed(sys.path):
        for folder in _folders(place or "."):
            found |= _section(os.path.join(folder, "entry_points.txt"), group)
    return found


def _folders(place: str) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return sorted((entry.path for entry in entries if entry.name.endswith(_TOLD)), reverse=True)
    except OSError:  # places that are not there, and archives
        return []


def _section(path: str, group: str) -> dict[str, str]:
    """The entry points of ``group`` in one file (PyPA, Entry points specification: File format)."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:  # most packages have none
        return {}
    found = {}
    _, _, section = f"\n{text}".partition(f"\n[{group}]")
    for line in section.splitlines()[1:]:
        if line.startswith("["):
            break
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name.strip()] = value.strip()
    return found
