"""asdffs: an ASDF file as a directory, and as a Python object that is as small.

>>> import asdffs                                             # doctest: +SKIP
>>> with asdffs.open("data.asdf", "r+") as document:          # doctest: +SKIP
...     document.arrays["roman/data"][0, :10] = 0
...     document.tree_text = document.tree_text.replace("WFI01", "WFI02")

The package is built in floors; imports go down only (docs/design/overview.md):

    cli -> mount -> vfs, daf -> views -> document -> storage, codecs, dialects -> format -> registry, errors

docs/python.md is the page for programs.  Importing this module imports nothing else, so that commands start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not that of typing, which takes longer to import than all of this
if TYPE_CHECKING:
    import os
    from typing import Any, Literal

    from asdffs.document.arrays.array import Array
    from asdffs.document.block import Block
    from asdffs.document.document import Document
    from asdffs.errors import AsdffsError

__all__ = ["Array", "AsdffsError", "Block", "Document", "__version__", "open"]
__version__ = "0.2.0"

_PLACES = {
    "Array": "asdffs.document.arrays.array",
    "AsdffsError": "asdffs.errors",
    "Block": "asdffs.document.block",
    "Document": "asdffs.document.document",
}


def open(path: str | os.PathLike[str], mode: Literal["r", "r+"] = "r") -> Document:  # noqa: A001
    """Open an ASDF file: ``tree_text``, ``blocks``, ``arrays``, ``commit()``; use it in a ``with`` statement.

    ``r+``: under the lock, for changes in place that are safe against crashes; what a crash left is finished first.
    Threads of a program may share what this returns.  Raises ``AsdffsError`` (``MissingFileError``, ``NotAsdfError``,
    ``DamagedFileError``, ``LockedError``), ``OSError``; ``ValueError`` for another mode.
    """
    from asdffs.document.opening import open_shared

    if mode not in ("r", "r+"):
        raise ValueError(f"the mode is 'r' or 'r+', not {mode!r}; a new file is asdf's to write")
    return open_shared(path, writable=mode == "r+")


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'asdffs' has no attribute {name!r}")
