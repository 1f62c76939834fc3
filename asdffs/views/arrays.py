"""``arrays/``: each array of the tree at its path in the tree, live.

| in the tree                              | in ``arrays/``                                                         |
|------------------------------------------|------------------------------------------------------------------------|
| an ndarray at ``a.b``                    | ``a/b.npy``, and ``a/b.fits`` where FITS can hold it (``views/fits``)  |
| its mask, as an array, a list or a value | ``a/b/mask.npy``                                                       |
| item 3 of a list                         | the name ``3``                                                         |
| an alias, or a ``$ref`` to this tree     | as what it means: another name for the same bytes                      |
| what holds no array                      | nothing                                                                |

A commit of the tree changes what is here at once.  One thread at a time, whoever has the turn.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Final

from asdffs.document.branch import Branch
from asdffs.document.changes import TREE, Subject
from asdffs.document.document import Document
from asdffs.document.listing import directory_name_of, name_of
from asdffs.document.tree import Path
from asdffs.views.base import Options, ReadOnlyDirectory, ViewDirectory, ViewFile
from asdffs.views.fits import ENDING as FITS_ENDING
from asdffs.views.fits import FitsFile, takes
from asdffs.views.fits_cards import is_installed
from asdffs.views.npy import ENDING, MaskFile, NpyFile

logger = logging.getLogger(__name__)

_MASK: Final = "mask"

Maker = Callable[[Document, Callable[[], Branch]], ViewFile]


class ArrayDirectory(ReadOnlyDirectory):
    """The arrays below ``path`` of the tree."""

    def __init__(self, document: Document, path: Path, *, fits: bool) -> None:
        self._document = document
        self._path = path
        self.identity = path
        self._fits = fits
        self._seen: frozenset[str] | None = None
        self._changed = 0

    def names(self) -> Iterator[str]:
        """Directories and files."""
        self._seen = self._seen or frozenset(self._listing())
        return iter(self._listing())

    def directories(self) -> None:
        """Not known: whoever lists the directory above need not wait for the tree to be read."""

    def version(self) -> int:
        """When names came or went, as far as anybody has listed them before."""
        if self._seen is not None and self._seen != self._listing().keys():
            self._seen = frozenset(self._listing())
            self._changed = self._document.changes.stamp(TREE)
        return self._changed

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """The entry of that name.  Raises ``KeyError``."""
        key, maker = self._listing()[name]
        path = (*self._path, key)
        if maker is None:
            return ArrayDirectory(self._document, path, fits=self._fits)
        of = self._path if maker is MaskFile else path
        file = maker(self._document, functools.partial(self._document.arrays.branch, of))
        file.identity = maker, path
        return file

    def subjects(self) -> tuple[Subject, ...]:
        """The tree."""
        return (TREE,)

    def _listing(self) -> dict[str, tuple[str | int, Maker | None]]:
        """Key and kind of each name; made once for each tree.  Empty when the tree has nothing here any more."""
        try:
            branch = self._document.arrays.branch(self._path)
        except KeyError:
            return {}
        if branch.listing is None:
            branch.listing = dict(self._list(branch))
        found: dict[str, tuple[str | int, Maker | None]] = branch.listing
        return found

    def _list(self, branch: Branch) -> Iterator[tuple[str, tuple[str | int, Maker | None]]]:
        if branch.array is not None and _MASK in branch.scalars:
            yield _MASK + ENDING, (_MASK, MaskFile)
        for key, child in branch.children.items():
            if not child.holds:
                continue
            if child.array is not None:
                yield name_of(key) + ENDING, (key, NpyFile)
            if self._fits and takes(child):
                yield name_of(key) + FITS_ENDING, (key, FitsFile)
            if _is_directory(child):
                yield directory_name_of(key, (ENDING, FITS_ENDING)), (key, None)


def _is_directory(branch: Branch) -> bool:
    """Whether there are arrays below it."""
    if branch.array is not None and _MASK in branch.scalars:
        return True
    return any(child.holds for child in branch.children.values())


class Arrays(ArrayDirectory):
    """See ``View``."""

    directory = "arrays"

    def __init__(self, document: Document, options: Options | None = None) -> None:
        wanted = (options or Options()).fits
        super().__init__(document, (), fits=wanted and is_installed())
        if wanted and not is_installed():
            logger.info("arrays are not shown as .fits, which needs astropy: pip install 'asdffs[fits]'")


PLUGIN = Arrays
