"""Imports what a mount needs later, before it is needed: the modules for changes, decoders and arrays.

Commands that only read headers and the tree, and the start of a mount, do without them.  A mount imports them as soon
as it is in use.  Otherwise they would come from another version if asdffs were upgraded meanwhile, and not at all if
it were removed, or if the process had no file descriptor left.
"""

from __future__ import annotations

import importlib
import logging
from typing import Final

from asdffs import registry

logger = logging.getLogger(__name__)

_MODULES: Final = (
    "asdffs.codecs.seeking.seeker",
    "asdffs.document.arrays.array",
    "asdffs.document.blocks.allocation",
    "asdffs.document.blocks.committing",
    "asdffs.document.blocks.decoding",
    "asdffs.document.blocks.package_codecs",
    "asdffs.document.blocks.steps",
    "asdffs.document.saves.keeping",
    "asdffs.document.tree_fit",
    "asdffs.storage.gap",
    "asdffs.storage.journal",
    "asdffs.tree.outline",
    "asdffs.tree.rechecking",
    "asdffs.tree.validation",
    "difflib",
    "subprocess",
    "urllib.parse",
)


def load(*more: str) -> None:
    """Import the modules, and ``more`` of them, by their names.

    For a thread of its own: a request that needs one of them waits only for that one.
    """
    for name in (*_MODULES, *more):
        importlib.import_module(name)
    for kind in registry.KINDS:
        registry.names(kind)  # they are looked up in the directories of asdffs
    logger.info("all modules are imported")
