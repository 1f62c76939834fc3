"""Imports what the changes of a file need, before the first change.

Commands that only read, and the start of a mount, do without these modules.  A mount imports them as soon as it is in
use.  Otherwise they would come from another version if asdffs were upgraded meanwhile, and not at all if the process
had no file descriptor left.
"""

from __future__ import annotations

import importlib
from typing import Final

_MODULES: Final = (
    "asdffs.document.blocks.allocation",
    "asdffs.document.blocks.committing",
    "asdffs.document.blocks.steps",
    "asdffs.document.saves.keeping",
    "asdffs.document.tree_fit",
    "asdffs.storage.gap",
    "asdffs.storage.journal",
    "asdffs.tree.rechecking",
    "asdffs.tree.validation",
    "difflib",
    "subprocess",
    "urllib.parse",
)


def load() -> None:
    """Import the modules.  For a thread of its own: a request that needs one of them waits only for that one."""
    for name in _MODULES:
        importlib.import_module(name)
