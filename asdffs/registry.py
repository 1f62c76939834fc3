"""Finds codecs, dialects, views and array formats: one module each, one ``PLUGIN`` each.

A module ``asdffs/KIND/NAME.py`` other than ``base`` that defines ``PLUGIN`` is found (packages in there hold what
plug-ins need); packages outside add theirs through the entry point group ``asdffs.KIND``.  A plug-in is loaded by its
name when it is first needed; a codec's name is that of its compression.  One from outside that cannot be loaded, or
does not answer, is logged once, and harms nothing else.
"""

from __future__ import annotations

import errno
import functools
import importlib
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar, get_args

logger = logging.getLogger(__name__)

Kind = Literal["codecs", "dialects", "views", "formats"]
T = TypeVar("T")
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_PACKAGES: Final[dict[Kind, str]] = {
    "codecs": "asdffs.codecs",
    "dialects": "asdffs.dialects",
    "views": "asdffs.views",
    "formats": "asdffs.views.formats",
}
#: Modules of these packages that are no plug-ins.
_BASE: Final = "base"
#: Of the folders in which installed packages tell of themselves (PyPA, Recording installed projects).
_TOLD: Final = (".dist-info", ".egg-info")
#: What passes: too many open files, no memory.
_PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_loaded: Final[dict[tuple[Kind, str], Any]] = {}
_troubles: Final[dict[tuple[Kind, str], str]] = {}


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names of ``kind`` without loading any: the package's own first, each group sorted."""
    own = _own_names(kind)
    return (*own, *sorted(foreign(kind).keys() - set(own)))


def find(kind: Kind, name: str) -> Any:
    """Return the plug-in ``name``, loaded; None where there is none, or it cannot be loaded (see ``trouble``).

    Raises ``OSError`` where that may pass: too many open files, no memory.
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
    """Yield the plug-ins of ``kind`` one by one, each loaded when it is asked for; raises as ``find``."""
    return (plugin for name in names(kind) if (plugin := find(kind, name)) is not None)


@functools.cache
def foreign(kind: Kind) -> Mapping[str, str]:
    """Return the entry points of other packages: name -> ``module:attribute``."""
    return _entry_points(f"asdffs.{kind}")


def note_trouble(kind: Kind, name: str, reason: object) -> None:
    """Remember that a plug-in does not work, and log it the first time."""
    if (kind, name) not in _troubles:
        logger.warning("the plug-in %s of asdffs.%s is left out: %s", name, kind, reason)
    _troubles[kind, name] = str(reason)


def trouble(kind: Kind, name: str) -> str:
    """Return why the plug-in cannot be used; empty as far as nobody knows a reason."""
    return _troubles.get((kind, name), "")


def answer(kind: Kind, name: str, question: Callable[[], T], otherwise: T) -> T:
    """Return what ``question()`` to the plug-in ``name`` returns; ``otherwise`` where one from outside fails."""
    if name in _own_names(kind):
        return question()
    try:
        return question()
    except (Exception, SystemExit) as err:  # noqa: BLE001  # somebody else's code may end in anything
        _raise_passing(err)
        note_trouble(kind, name, f"{type(err).__name__}: {err}")
        return otherwise


def _load(kind: Kind, name: str) -> Any:
    if name in _own_names(kind):
        return getattr(importlib.import_module(f"{_PACKAGES[kind]}.{name}"), "PLUGIN", None)
    target = foreign(kind).get(name)
    return None if target is None else answer(kind, name, lambda: _imported(target), None)


@functools.cache
def _own_names(kind: Kind) -> tuple[str, ...]:
    package = importlib.import_module(_PACKAGES[kind])
    found = (module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)
    return tuple(sorted(name for name in found if name != _BASE))


def _imported(value: str) -> Any:
    module, attributes = parse_target(value)
    found: Any = importlib.import_module(module)
    for name in attributes.split(".") if attributes else ():
        found = getattr(found, name)
    return found


def parse_target(value: str) -> tuple[str, str]:
    """Module and attribute of ``module:attribute``; extras in brackets behind it mean nothing any more."""
    module, _, attributes = value.partition("[")[0].partition(":")
    return module.strip(), attributes.strip()


def _entry_points(group: str) -> Mapping[str, str]:
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
    except OSError as err:  # places that are not there, and archives
        _raise_passing(err)
        return []


def _section(path: str, group: str) -> dict[str, str]:
    """The entry points of ``group`` in one file (PyPA, Entry points specification: File format)."""
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
    """Raise ``err`` where the next try may succeed: what it hides must not be remembered."""
    if isinstance(err, MemoryError) or (isinstance(err, OSError) and err.errno in _PASSING):
        raise err
