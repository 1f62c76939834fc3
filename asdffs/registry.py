"""The registry of plug-ins (commands, codecs, dialects, containers, views, array formats, ...) and of features.

A plug-in is a module ``asdffs/KIND/NAME.py``, or ``asdffs/features/FEATURE/KIND/NAME.py``; commands of the core are
in ``asdffs/cli/commands``, array formats in ``asdffs/views/formats``.  A command is the module itself, every other
plug-in its object ``PLUGIN``.  The module ``base`` is not a plug-in.  A feature is a directory of
``asdffs/features``; without it, its plug-ins are gone and everything else works.  Other distributions add plug-ins
with the entry point group ``asdffs.KIND``.

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
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import all_suffixes
from typing import Any, Final, Literal, TypeVar, get_args

from asdffs.errors import UsageError

logger = logging.getLogger(__name__)

Kind = Literal["commands", "codecs", "dialects", "containers", "views", "formats", "backends", "keywords"]
T = TypeVar("T")
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

#: Directories of the core that have plug-ins; those of the other kinds are called as the kind.
_FOLDERS: Final[dict[Kind, str]] = {"commands": "cli/commands", "formats": "views/formats"}
_ROOT: Final = os.path.dirname(__file__)
_FEATURES: Final = os.path.join(_ROOT, "features")
#: The module of these directories that is not a plug-in.
_BASE: Final = "base"
#: How the names of our groups of entry points begin.
_GROUPS: Final = "asdffs."
#: Endings of the directories with the metadata of installed packages (PyPA, Recording installed projects).
_TOLD: Final = (".dist-info", ".egg-info")
#: Errors that may pass: too many open files, no memory.
_PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

#: Held while installed packages are looked for: threads that open files at the same time wait for the first one.
_looking: Final = threading.RLock()
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


def foreign(kind: Kind) -> Mapping[str, str]:
    """Return the entry points for ``kind`` of installed packages: name -> ``module:attribute``."""
    with _looking:
        return _entry_points().get(f"asdffs.{kind}", {})


def feature(name: str) -> Any:
    """Return the package of a feature; None if this installation does not have it."""
    return importlib.import_module(f"asdffs.features.{name}") if name in features() else None


def needed_feature(name: str) -> Any:
    """Return the package of a feature.  Raises ``UsageError`` if this installation does not have it."""
    if name not in features():
        raise UsageError(f"this needs asdffs/features/{name}, which this installation does not have")
    return feature(name)


@functools.cache
def features() -> tuple[str, ...]:
    """Return the names of the features of this installation, sorted."""
    packages = (f"__init__{end}" for end in all_suffixes())
    wanted = set(packages)
    found = (name for name in _listed(_FEATURES) if wanted & set(_listed(os.path.join(_FEATURES, name))))
    return tuple(sorted(found))


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
        module = importlib.import_module(_own(kind)[name])
        return module if kind == "commands" else getattr(module, "PLUGIN", None)
    target = foreign(kind).get(name)
    return None if target is None else answer(kind, name, lambda: _imported(target), None)


@functools.cache
def own_names(kind: Kind) -> tuple[str, ...]:
    """Return the names of asdffs's own plug-ins, sorted."""
    return tuple(sorted(_own(kind)))


def source_of(kind: Kind, name: str) -> str:
    """Return the path of the source of one of asdffs's own plug-ins."""
    return os.path.join(_ROOT, *_own(kind)[name].split(".")[1:]) + ".py"


@functools.cache
def _own(kind: Kind) -> Mapping[str, str]:
    """Return the modules of plug-ins, by name.  ``pkgutil`` knows them too, but takes 10 ms to import."""
    folders = (_FOLDERS.get(kind, kind), *(f"features/{name}/{kind}" for name in features()))
    return {
        name: f"asdffs.{folder.replace('/', '.')}.{name}"
        for folder in folders
        for file in _listed(os.path.join(_ROOT, folder))
        for end in all_suffixes()
        if file.endswith(end) and (name := file.removesuffix(end)) not in ("__init__", _BASE) and "." not in name
    }


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):  # a feature, or the core, has no plug-in of this kind
        return []


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


@functools.cache
def _entry_points() -> Mapping[str, Mapping[str, str]]:
    """Return the entry points of all installed packages for asdffs: group -> name -> ``module:attribute``.

    If a name occurs twice, the first on ``sys.path`` wins, as for imports.  Importing ``importlib.metadata`` takes
    longer than everything else that a mount does.  So it is imported only if the path has archives, which this module
    cannot read.
    """
    found: dict[str, dict[str, str]] = {}
    if any(os.path.isfile(place) for place in sys.path):
        from importlib import metadata

        for point in (point for package in metadata.distributions() for point in package.entry_points):
            if point.group.startswith(_GROUPS):
                found.setdefault(point.group, {}).setdefault(point.name, point.value)
    for place in reversed(sys.path):
        for folder in _folders(place or "."):
            for group, points in _sections(os.path.join(folder, "entry_points.txt")):
                found.setdefault(group, {}).update(points)
    return found


def _folders(place: str) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return sorted((entry.path for entry in entries if entry.name.endswith(_TOLD)), reverse=True)
    except OSError as err:  # the directory does not exist, or is an archive
        _raise_passing(err)
        return []


def _sections(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the groups of one file that are for asdffs (PyPA, Entry points specification: File format)."""
    raw = b""
    try:
        if os.access(path, os.R_OK):  # most packages have none, which takes longer by an exception
            with open(path, "rb", buffering=0) as file:
                raw = file.read()
    except OSError as err:
        _raise_passing(err)
    for section in f"\n{raw.decode(errors='replace')}".split("\n[")[1:] if _GROUPS.encode() in raw else ():
        group, _, lines = section.partition("\n")
        named = (line.partition("=") for line in lines.splitlines() if not line.startswith("#"))
        if group.startswith(_GROUPS):
            yield group.rstrip("] \t\r"), {name.strip(): value.strip() for name, equals, value in named if equals}


def _raise_passing(err: BaseException) -> None:
    """Raise ``err`` if the next try may succeed, so that its result is not remembered."""
    if isinstance(err, MemoryError) or (isinstance(err, OSError) and err.errno in _PASSING):
        raise err
