"""FilesDaf stores in ASDF files: annotated matrices of single-cell biology, as one file and as a directory.

A store is a directory of raw files.  Packed, it is one ASDF file whose tree describes them (docs/daf.md).  A mount of
that file shows the directory again, for reading and writing.

The rest of asdffs reaches this package only through the registry (as a view) and the command ``asdffs daf``.  This
package accesses ASDF files only through ``document``.

>>> import asdffs.features.daf                                          # doctest: +SKIP
>>> asdffs.features.daf.open("cells.asdf").vectors["cell"]["age"]       # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from asdffs.features.daf.store import Store

__all__ = ["open"]


def open(path: str | os.PathLike[str]) -> Store:  # noqa: A001
    """Open the FilesDaf store in the directory or ASDF file ``path``, read-only, for use in a ``with`` statement.

    Raises ``asdffs.AsdffsError`` (``MissingFileError``, ``InvalidStoreError``, ``NotAsdfError``), ``OSError``.
    """
    from asdffs.features.daf.store import open_store

    return open_store(path)
