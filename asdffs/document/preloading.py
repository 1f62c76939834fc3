"""Imports modules before they are needed: those for changes, decoders and arrays.

A command that only reads headers and the tree does without them.  A process that may run for long must have them.  If
asdffs is upgraded meanwhile, a later import takes the new version, and if it is removed, the import fails.  It also
fails if the process has no free file descriptor.  So a mount calls ``load`` soon after it is ready.  Commands with an
editor, and programs that open a file for writing, call it when they open the file.

A mount may need any module, so it calls ``keep`` first.  The small libraries that decode blocks are imported as well.
Large libraries (numpy, astropy) are not: most mounts never need them.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from typing import TYPE_CHECKING, Final

from asdffs import registry

if TYPE_CHECKING:
    from asdffs.document.kept_code import KeptCode

logger = logging.getLogger(__name__)

_MODULES: Final = (
    "asdffs.codecs.seeking",
    "asdffs.document.arrays.array",
    "asdffs.document.blocks.allocation",
    "asdffs.document.blocks.committing",
    "asdffs.document.blocks.decoding",
    "asdffs.document.blocks.package_codecs",
    "asdffs.document.blocks.steps",
    "asdffs.document.saves.corrections",
    "asdffs.document.saves.keeping",
    "asdffs.document.tree_fit",
    "asdffs.storage.gap",
    "asdffs.storage.journal",
    "asdffs.arrays.outline",
    "asdffs.arrays.rechecking",
    "asdffs.arrays.validation",
    "difflib",
    "subprocess",
    "urllib.parse",
)


_PACKAGE: Final = __name__.partition(".")[0]
#: Libraries of codecs, which may be missing.
_LIBRARIES: Final = ("lz4.block", "lz4.frame", "zstandard", "isal.igzip_lib", "isal.isal_zlib")


def keep() -> KeptCode:
    """Read all modules of asdffs that are not imported yet, and import them from memory from now on."""
    from asdffs.document.kept_code import KeptCode

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
