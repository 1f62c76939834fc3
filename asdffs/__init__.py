"""Mounts an ASDF file as a directory, or opens it as a Python object.

>>> import asdffs                                             # doctest: +SKIP
>>> with asdffs.open("data.asdf", "r+") as document:          # doctest: +SKIP
...     document.arrays["roman/data"][0, :10] = 0
...     document.tree_text = document.tree_text.replace("WFI01", "WFI02")

The package has layers, and modules import only from lower ones (docs/design/overview.md):

    cli -> mount -> vfs, daf -> views -> workflows -> document -> tree -> storage, codecs, dialects -> format
    -> registry, errors, scheduling, printable

docs/python.md describes the Python API.  Importing this module imports nothing else, so that commands start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would take longer than importing this module
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
    """Open an ASDF file, and return its ``Document``.  Use it in a ``with`` statement.

    The document has ``tree_text``, ``blocks``, ``arrays`` and ``commit()``.  With ``r+``, the file is locked for
    changes in place, which are crash-safe.  If a crash left a journal, the file is recovered first.  Threads of a
    program may share the document.  Raises ``AsdffsError`` (``MissingFileError``, ``NotAsdfError``,
    ``DamagedFileError``, ``LockedError``), ``OSError``; ``ValueError`` for another mode.
    """
    from asdffs.document.opening import open_shared

    if mode not in ("r", "r+"):
        raise ValueError(f"the mode is 'r' or 'r+', not {mode!r}; create new files with the asdf library")
    return open_shared(path, writable=mode == "r+")


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'asdffs' has no attribute {name!r}")
