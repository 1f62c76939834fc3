"""FilesDaf stores in ASDF files: annotated matrices of single-cell biology, as one file and as a directory.

A store is a directory of raw files; packed, it is one ASDF file whose tree says what they are (docs/daf.md), and a
mount of that file shows the directory again, to read and to write.  This package enters asdffs only through the
registry, as a view, and as the command ``asdffs daf``; everything it does with a file it does through ``document``.

>>> import asdffs.daf                                          # doctest: +SKIP
>>> asdffs.daf.open("cells.asdf").vectors["cell"]["age"]       # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from asdffs.daf.store import Store

__all__ = ["open"]


def open(path: str | os.PathLike[str]) -> Store:  # noqa: A001
    """The FilesDaf store in the directory or ASDF file ``path``, read-only; use it in a ``with`` statement.

    Raises ``asdffs.AsdffsError`` (``MissingFileError``, ``InvalidStoreError``, ``NotAsdfError``), ``OSError``.
    """
    from asdffs.daf.store import open_store

    return open_store(path)
