"""Mounts an ASDF file as a directory, or opens it as a Python object.

>>> import asdffs                                             # doctest: +SKIP
>>> with asdffs.open("data.asdf", "r+") as document:          # doctest: +SKIP
...     document.arrays["roman/data"][0, :10] = 0
...     document.tree_text = document.tree_text.replace("WFI01", "WFI02")

The package has layers, and modules import only from lower ones (docs/design/overview.md):

    cli -> mount, page -> vfs, daf -> views -> workflows -> document -> tree, pictures -> storage, codecs, dialects
    -> format -> registry, errors, scheduling, printable, records

docs/python.md describes the Python API.  Importing this module imports nothing else, so that commands start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would take longer than importing this module
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Any, Literal, overload

    from asdffs.document.arrays.array import Array
    from asdffs.document.block import Block
    from asdffs.document.document import Document
    from asdffs.errors import AsdffsError

__all__ = ["Array", "AsdffsError", "Block", "Document", "__version__", "find", "open"]
__version__ = "0.2.0"

_PLACES = {
    "Array": "asdffs.document.arrays.array",
    "AsdffsError": "asdffs.errors",
    "Block": "asdffs.document.block",
    "Document": "asdffs.document.document",
}


#: What features have for programs: a name -> its feature, which has an attribute of this name, or is it.
_OF_FEATURES = {"daf": "daf", "AsdfParser": "datasets", "open_asdf": "asdf_library", "scan": "catalog"}


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


if TYPE_CHECKING:

    @overload
    def find(
        condition: str | None = None,
        *places: str | os.PathLike[str],
        columns: None = None,
        catalog: str | os.PathLike[str] | None = None,
        fresh: bool = False,
    ) -> list[str]: ...
    @overload
    def find(
        condition: str | None = None,
        *places: str | os.PathLike[str],
        columns: Sequence[str],
        catalog: str | os.PathLike[str] | None = None,
        fresh: bool = False,
    ) -> dict[str, list[Any]]: ...


def find(
    condition: str | None = None,
    *places: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    catalog: str | os.PathLike[str] | None = None,
    fresh: bool = False,
) -> list[str] | dict[str, list[Any]]:
    """Return the files of a catalogue for which ``condition`` holds: their paths or URLs, sorted.

    ``condition``: as for the command ``asdffs find`` (docs/conditions.md); None: all files.  A file is opened only
    for what the catalogue does not have.  ``places``: directories, files or URLs to which the search is limited.
    ``columns``: dotted paths of values; then the result is a dict with the paths as ``file`` and a list for each
    column, with None where a file has no such value, as ``pandas.DataFrame`` takes it.  ``catalog``: the file of the
    catalogue; None: the one of the command ``asdffs index``.  ``fresh``: first read what is new or changed in
    ``places``, in this process.

    Raises ``AsdffsError`` (``UsageError``, ``MissingFileError``, ``StorageError``), ``OSError``, also for a file that
    had to be opened and could not.
    """
    from asdffs import registry

    names = [_path(place) for place in places]
    path = None if catalog is None else _path(catalog)
    files, values = registry.needed_feature("catalog").find_files(condition, names, columns or (), path, fresh=fresh)
    return files if columns is None else {"file": files, **values}


def _path(place: str | os.PathLike[str]) -> str:
    import os

    return os.fspath(place)


def __getattr__(name: str) -> Any:
    if name in _OF_FEATURES:
        from asdffs import registry

        if (feature := registry.feature(_OF_FEATURES[name])) is not None:
            return feature if name == _OF_FEATURES[name] else getattr(feature, name)
        raise AttributeError(f"asdffs.{name} is of a feature that this installation does not have")
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'asdffs' has no attribute {name!r}")
