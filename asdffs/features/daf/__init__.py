"""FilesDaf stores in ASDF files: annotated matrices of single-cell biology, as one file and as a directory.

A store is a directory of raw files.  Packed, it is one ASDF file whose tree describes them (docs/daf.md).  A mount of
that file shows the directory again, for reading and writing.

This package accesses ASDF files only through ``document``.

>>> import asdffs                                              # doctest: +SKIP
>>> asdffs.daf.open("cells.asdf").vectors["cell"]["age"]       # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asdffs.document.document import Document
    from asdffs.features.daf.store import Store

__all__ = ["open"]


def open(path: str | os.PathLike[str]) -> Store:  # noqa: A001
    """Open the FilesDaf store in the directory or ASDF file ``path``, read-only, for use in a ``with`` statement.

    Raises ``asdffs.AsdffsError`` (``MissingFileError``, ``InvalidStoreError``, ``NotAsdfError``), ``OSError``.
    """
    from asdffs.features.daf.store import open_store

    return open_store(path)


def recover_store(document: Document, spool: str) -> Iterator[str]:
    """Replay and commit the log that a killed mount left in ``spool``, if there is one; see ``recovering``."""
    if not os.path.isdir(spool) or not os.listdir(spool):
        return
    from asdffs.features.daf.format import LOG, NEXT  # few mounts were killed

    if any(os.path.exists(os.path.join(spool, name)) for name in (LOG, NEXT)):
        from asdffs.features.daf.recovering import recover_store

        yield from recover_store(document, spool)
