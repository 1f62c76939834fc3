"""The registry of plug-ins: codecs, dialects, containers, views and array formats.

A plug-in is the object ``PLUGIN`` of a module ``asdffs/KIND/NAME.py``; for the kind ``formats``, the directory is
``asdffs/views/formats``.  The module ``base`` is not a plug-in, and neither are packages, which have helpers of
plug-ins.  Other distributions add plug-ins with the entry point group ``asdffs.KIND``.

A plug-in is loaded by its name when it is first needed.  The name of a codec is that of its compression.  If a
plug-in of another distribution cannot be loaded, or fails, this is logged once and everything else works on.
"""

from __future__ import annotations

import errno
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import all_suffixes
from typing import Any, Final, Literal, TypeVar, get_args

logger = logging.getLogger(__name__)

Kind = Literal["codecs", "dialects", "containers", "views", "formats"]
T = TypeVar("T")
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_PACKAGES: Final[dict[Kind, str]] = {
    "codecs": "asdffs.codecs",
    "dialects": "asdffs.dialects",
    "containers": "asdffs.containers",
    "views": "asdffs.views",
    "formats": "asdffs.views.formats",
}
#: The module of these packages that is not a plug-in.
_BASE: Final = "base"
#: Endings of the directories with the metadata of installed packages (PyPA, Recording installed projects).
_TOLD: Final = (".dist-info", ".egg-info")
#: Errors that may pass: too many open files, no memory.
_PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_loaded: Final[dict[tuple[Kind, str], Any]] = {}
_troubles: Final[dict[tuple[Kind, str], str]] = {}


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names of all plug-ins of ``kind``, and load none: asdffs's own first, each group sorted."""
    own = own_names(kind)
    return (*own, *sorted(foreign(kind).keys() - set(own)))


def find(kind: Kind, name: str) -> Any:
    """Load the plug-in ``name`` and return it; None if it does not exist or cannot be loaded (see ``trouble``).

    Raises ``OSError`` or ``MemoryError`` if the reason may pass: too many open files, no memory.
    """
    key = (kind, name)
    if key in _troubles:
        return None
    if key not in _loaded:
        found = _load(kind, name)
        if found is None:
            return None
        _loaded[key] = found
    return _loaded[key]


def each(kind: Kind) -> Iterator[Any]:
    """Yield the plug-ins of ``kind``, and load each one when the iterator reaches it.  Raises as ``find``."""
    return (plugin for name in names(kind) if (plugin := find(kind, name)) is not None)


@functools.cache
def foreign(kind: Kind) -> Mapping[str, str]:
    """Return the entry points for ``kind`` of installed packages: name -> ``module:attribute``."""
    return _entry_points(f"asdffs.{kind}")


def note_trouble(kind: Kind, name: str, reason: object) -> None:
    """Remember why a plug-in does not work, and log it the first time."""
    if (kind, name) not in _troubles:
        logger.warning("the plug-in %s of asdffs.%s is left out: %s", name, kind, reason)
    _troubles[kind, name] = str(reason)


def trouble(kind: Kind, name: str) -> str:
    """Return why the plug-in cannot be used; empty if no reason was noted."""
    return _troubles.get((kind, name), "")


def answer(kind: Kind, name: str, question: Callable[[], T], otherwise: T) -> T:
    """Return ``question()``, a call of the plug-in ``name``; ``otherwise`` if a plug-in of another package fails.

    Such a failure is noted (``note_trouble``).  Raises as ``find`` if it may pass.  Errors of asdffs's own plug-ins
    are raised as they are.
    """
    if name in own_names(kind):
        return question()
    try:
        return question()
    except (Exception, SystemExit) as err:  # noqa: BLE001  # code of another package may raise anything
        _raise_passing(err)
        note_trouble(kind, name, f"{type(err).__name__}: {err}")
        return otherwise


def _load(kind: Kind, name: str) -> Any:
    if name in own_names(kind):
        return getattr(importlib.import_module(f"{_PACKAGES[kind]}.{name}"), "PLUGIN", None)
    target = foreign(kind).get(name)
    return None if target is None else answer(kind, name, lambda: _imported(target), None)


@functools.cache
def own_names(kind: Kind) -> tuple[str, ...]:
    """Return the names of the modules of a package.  ``pkgutil`` knows them too, but takes 10 ms to import."""
    package = importlib.import_module(_PACKAGES[kind])
    files = {file for folder in package.__path__ for file in os.listdir(folder)}
    found = {file.removesuffix(end) for file in files for end in all_suffixes() if file.endswith(end)}
    return tuple(sorted(found - {"__init__", _BASE}))


def _imported(value: str) -> Any:
    module, attributes = parse_target(value)
    found: Any = importlib.import_module(module)
    for name in attributes.split(".") if attributes else ():
        found = getattr(found, name)
    return found


def parse_target(value: str) -> tuple[str, str]:
    """Return the module and the attribute of ``module:attribute``.  Extras in brackets, now obsolete, are ignored."""
    module, _, attributes = value.partition("[")[0].partition(":")
    return module.strip(), attributes.strip()


def _entry_points(group: str) -> Mapping[str, str]:
    """Return the entry points in ``group`` of all installed packages: name -> ``module:attribute``.

    If a name occurs twice, the first on ``sys.path`` wins, as for imports.  Importing ``importlib.metadata`` takes
    longer than everything else that a mount does.  So it is imported only if the path has archives, which this module
    cannot read.
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
    except OSError as err:  # the directory does not exist, or is an archive
        _raise_passing(err)
        return []


def _section(path: str, group: str) -> dict[str, str]:
    """Return the entry points in ``group`` of one file (PyPA, Entry points specification: File format)."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as err:  # most packages have none
        _raise_passing(err)
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


def _raise_passing(err: BaseException) -> None:
    """Raise ``err`` if the next try may succeed, so that its result is not remembered."""
    if isinstance(err, MemoryError) or (isinstance(err, OSError) and err.errno in _PASSING):
        raise err
