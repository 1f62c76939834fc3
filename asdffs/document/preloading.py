"""Imports modules before they are needed: those for changes, decoders and arrays.

A command that only reads headers and the tree does without them.  A process that may run for long must have them.  If
asdffs is upgraded meanwhile, a later import takes the new version, and if it is removed, the import fails.  It also
fails if the process has no free file descriptor.  So a mount calls ``load`` soon after it is ready.  Commands with an
editor, and programs that open a file for writing, call it when they open the file.
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
    "asdffs.document.saves.corrections",
    "asdffs.document.saves.keeping",
    "asdffs.document.tree_fit",
    "asdffs.storage.gap",
    "asdffs.storage.journal",
    "asdffs.tree.byte_offsets",
    "asdffs.tree.key_table",
    "asdffs.tree.outline",
    "asdffs.tree.rechecking",
    "asdffs.tree.validation",
    "difflib",
    "subprocess",
    "urllib.parse",
)


def load(*more: str) -> None:
    """Import these modules, and ``more`` by their names.  May be called in any thread, and again."""
    for name in (*_MODULES, *more):
        importlib.import_module(name)
    for kind in registry.KINDS:
        registry.names(kind)  # they are looked up in the directories of asdffs
    logger.info("all modules are imported")
