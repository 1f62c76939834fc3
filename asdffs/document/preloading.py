"""Imports modules before they are needed, and keeps the code of asdffs in memory, for a process that runs for months.

A command that only reads headers and the tree does without the modules for changes, decoders and arrays.  If asdffs
is upgraded while a process runs, a later import takes the new version, and if it is removed, the import fails.  It
also fails if the process has no free file descriptor.  So a mount calls ``load`` soon after it is ready.  Commands
with an editor, and programs that open a file for writing, call it when they open the file.

A mount may need any module, so it calls ``keep`` first: a module that is imported later is still the one of the
version that runs.  The small libraries that decode blocks are imported as well.  Large libraries (numpy, astropy) are
not: most mounts never need them.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import struct
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any, Final, NamedTuple

from asdffs import registry

#: Bytes of a compiled module before its code: magic number, flags, mtime and size of the source (PEP 552).
_HEAD: Final = 16
#: The module of a package itself.
_START: Final = "__init__.py"
#: Seconds of rest after each directory.  There is one GIL: without it, requests would wait 20 ms.
_REST: Final = 0.001


class _Kept(NamedTuple):
    """A module: the path of its source, the mtime and size of that, and what was read from which file."""

    path: str
    stats: dict[str, float]
    file: str
    content: bytes


class _Loader(SourceFileLoader):
    """Loads a module from what was kept, and anything else that belongs to it, such as its text, from the disk."""

    def __init__(self, name: str, kept: _Kept) -> None:
        super().__init__(name, kept.path)
        self._kept = kept

    def path_stats(self, path: Any) -> Any:
        return self._kept.stats

    def get_data(self, path: Any) -> bytes:
        return self._kept.content if path == self._kept.file else super().get_data(path)

    def set_data(self, path: Any, data: Any, *, _mode: int = 0) -> None:
        """Write nothing: the directory may belong to another version by now."""


class KeptCode:
    """Finds the modules of a package that were not imported yet when it was made.  See ``sys.meta_path``."""

    def __init__(self, package: ModuleType) -> None:
        found = (one for folder in package.__path__ for one in _modules(folder, package.__name__))
        self._modules = {name: _kept(folder, file) for name, folder, file in found if name not in sys.modules}

    def install(self) -> None:
        """Be asked before all other finders from now on."""
        sys.meta_path.insert(0, self)

    def forget_imported(self) -> None:
        """Free what was kept of the modules that are imported by now."""
        self._modules = {name: kept for name, kept in self._modules.items() if name not in sys.modules}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to load the module ``name``; None if it is not one of these."""
        kept = self._modules.get(name)
        if kept is None:
            return None
        folder, file = os.path.split(kept.path)
        spec = ModuleSpec(name, _Loader(name, kept), origin=kept.path, is_package=file == _START)
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(folder)
        return spec


def _modules(folder: str, package: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each module of a package, its directory, and its file there."""
    with os.scandir(folder) as found:
        entries = list(found)
    if not any(entry.name == _START for entry in entries):
        return  # it has other files than modules
    for entry in entries:
        name = entry.name
        if name.endswith(".py"):
            yield (package if name == _START else f"{package}.{name[:-3]}"), folder, name
        elif not name.startswith("__") and entry.is_dir():
            yield from _modules(entry.path, f"{package}.{name}")
    time.sleep(_REST)


def _kept(folder: str, file: str) -> _Kept:
    """Read the compiled module if it belongs to the source, else the source."""
    path = f"{folder}/{file}"
    stat = os.stat(path)
    stats = {"mtime": stat.st_mtime, "size": stat.st_size}
    compiled = f"{folder}/__pycache__/{file[:-3]}.{sys.implementation.cache_tag}.pyc"
    with contextlib.suppress(OSError):
        content = _read(compiled)
        if content[4:_HEAD] == struct.pack("<III", 0, int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF):
            return _Kept(path, stats, compiled, content)
    return _Kept(path, stats, path, _read(path))


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


logger = logging.getLogger(__name__)


_MODULES: Final = (
    "asdffs.codecs.seeking",
    "asdffs.document.arrays.array",
    "asdffs.document.blocks.allocation",
    "asdffs.document.blocks.committing",
    "asdffs.document.blocks.decoding",
    "asdffs.document.blocks.steps",
    "asdffs.document.saves.keeping",
    "asdffs.document.tree_fit",
    "asdffs.document.writers",
    "asdffs.storage.changed_files",
    "asdffs.storage.copying",
    "asdffs.storage.growth",
    "asdffs.storage.journal",
    "asdffs.storage.mount_table",
    "asdffs.arrays.outline",
    "asdffs.arrays.rechecking",
    "asdffs.arrays.validation",
    "ctypes",
    "difflib",
    "hashlib",
    "pwd",
    "subprocess",
    "tempfile",
    "urllib.parse",
)


_PACKAGE: Final = __name__.partition(".")[0]
#: Libraries of codecs, which may be missing.
_LIBRARIES: Final = ("lz4.block", "lz4.frame", "zstandard", "isal.igzip_lib", "isal.isal_zlib")


def keep() -> KeptCode:
    """Read all modules of asdffs that are not imported yet, and import them from memory from now on."""
    code = KeptCode(sys.modules[_PACKAGE])
    code.install()
    for kind in registry.KINDS:
        registry.own_names(kind)  # they are looked up in the directories of asdffs
    return code


def load(*more: str, libraries: bool = False) -> None:
    """Import these modules, and ``more`` by their names.  May be called in any thread, and again.

    ``libraries``: import those of codecs, too, as far as they are installed.
    """
    for name in (*_MODULES, *more):
        importlib.import_module(name)
    for name in _LIBRARIES if libraries else ():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for kind in registry.KINDS:
        registry.names(kind)  # they are looked up in the directories of asdffs
    logger.info("all modules are imported")
