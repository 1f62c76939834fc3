"""Finds the codecs, dialects and views: one module each, one ``PLUGIN`` each.

Purpose: a new codec, dialect or view is one new file.  Users: ``document`` (codecs,
dialects) and ``vfs`` (views).  A module ``asdffs/KIND/NAME.py`` other than ``base``
that defines ``PLUGIN`` is found; packages outside add theirs through the entry point
group ``asdffs.KIND``.  Each kind is read once per process and never changed after.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any, Literal

Kind = Literal["codecs", "dialects", "views"]


@functools.cache
def plugins(kind: Kind) -> tuple[Any, ...]:
    """All plugins of ``kind``, the package's own first, each group sorted by name."""
    from importlib import metadata  # slow to import, and --help needs none of it

    package = importlib.import_module(f"asdffs.{kind}")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"asdffs.{kind}.{name}") for name in names]
    own = [module.PLUGIN for module in modules if hasattr(module, "PLUGIN")]
    foreign = sorted(metadata.entry_points(group=f"asdffs.{kind}"), key=lambda point: point.name)
    return (*own, *(point.load() for point in foreign))
