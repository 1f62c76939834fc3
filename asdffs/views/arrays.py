"""``arrays/``: each array of the tree at its path in the tree, live.

| in the tree                              | in ``arrays/``                                                         |
|------------------------------------------|------------------------------------------------------------------------|
| an ndarray at ``a.b``                    | ``a/b.npy``, and ``a/b.fits`` where FITS can hold it (``formats/fits``) |
| its mask, as an array, a list or a value | ``a/b/mask.npy``                                                       |
| item 3 of a list                         | the name ``3``                                                         |
| an alias, or a ``$ref`` to this tree     | as what it means: another name for the same bytes                      |
| a ``$ref`` to another file               | as what is there, read-only; none where that cannot be read            |
| an ndarray whose source is another file  | as any other, read-only                                                |
| what holds no array                      | nothing                                                                |

A commit of the tree changes what is here at once.  One thread at a time, whoever has the turn.
"""

from __future__ import annotations

import functools
import importlib
import logging
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from asdffs.document.changes import TREE, Subject
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError
from asdffs.tree.branch import Branch
from asdffs.tree.events import Path
from asdffs.tree.key_names import directory_name_of, name_of
from asdffs.views.base import Options, ReadOnlyDirectory, ViewDirectory, ViewFile
from asdffs.views.formats.npy import ENDING, ArrayFile, MaskFile, NpyFile

logger = logging.getLogger(__name__)

_MASK: Final = "mask"
_FITS_ENDING: Final = ".fits"
#: Directories of other files in directories of other files: further on they may lead in circles.
_FARTHEST: Final = 4
#: What other files have is looked for again after so many seconds.
_FRESH: Final = 1.0

Maker = Callable[[FileState, Callable[[], Branch]], ArrayFile]


class _Entry(NamedTuple):
    """What a name leads to: a file that ``maker`` makes of the array at ``path``, or without one a directory.

    ``document``: the file that it is in.
    """

    document: FileState
    path: Path
    maker: Maker | None = None


class _Listing(NamedTuple):
    """``entries`` by name; ``until``: when they are looked for again (monotonic seconds); None: in the next tree."""

    entries: dict[str, _Entry]
    until: float | None


class ArrayDirectory(ReadOnlyDirectory):
    """The arrays below ``path`` of the tree of ``document``.

    ``far``: how many times a ``$ref`` to another file was followed on the way here.
    """

    def __init__(self, document: FileState, path: Path, *, fits: bool, far: int = 0) -> None:
        self._document = document
        self._path = path
        self._find = document.neighbours.finder(document, path)
        self.identity = document.path, path
        self._fits = fits
        self._far = far
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
        entry = self._listing()[name]
        document, path = entry.document, entry.path
        far = self._far + (document is not self._document)
        if entry.maker is None:
            return ArrayDirectory(document, path, fits=self._fits, far=far)
        file = entry.maker(document, document.neighbours.finder(document, path))
        file.identity = entry.maker, document.path, path
        file.elsewhere = far > 0
        return file

    def subjects(self) -> tuple[Subject, ...] | None:
        """The tree; None in another file, which may change at any time."""
        return None if self._far else (TREE,)

    def _listing(self) -> dict[str, _Entry]:
        """What each name leads to; made once for each tree.  Empty when the tree has nothing here any more."""
        try:
            branch = self._find()
        except KeyError:
            return {}
        if branch.listing is None:
            branch.listing = {}
        listings: dict[int, _Listing] = branch.listing
        known = listings.get(self._far)
        if known is None or (known.until is not None and known.until < time.monotonic()):
            elsewhere = any(child.elsewhere is not None for child in branch.children.values())
            entries = dict(self._list(branch))
            known = listings[self._far] = _Listing(entries, time.monotonic() + _FRESH if elsewhere else None)
        return known.entries

    def _list(self, branch: Branch) -> Iterator[tuple[str, _Entry]]:
        if branch.array is not None and _MASK in branch.scalars:
            yield _MASK + ENDING, _Entry(self._document, self._path, MaskFile)
        for key, child in branch.children.items():
            if child.elsewhere is not None:
                found = self._elsewhere(child.elsewhere)
                if found is not None:
                    yield from self._names(key, *found)
            elif child.holds:
                yield from self._names(key, self._document, child, (*self._path, key))

    def _names(self, key: str | int, document: FileState, branch: Branch, path: Path) -> Iterator[tuple[str, _Entry]]:
        """The names that ``branch`` has, of ``path`` in ``document``."""
        if branch.array is not None:
            yield name_of(key) + ENDING, _Entry(document, path, NpyFile)
        fits = fits_view() if self._fits and branch.holds else None
        if fits is not None and fits.takes(branch):
            yield name_of(key) + _FITS_ENDING, _Entry(document, path, fits.FitsFile)
        if _is_directory(branch):
            yield directory_name_of(key, (ENDING, _FITS_ENDING)), _Entry(document, path)

    def _elsewhere(self, reference: str) -> tuple[FileState, Branch, Path] | None:
        """What a ``$ref`` to another file leads to; None where that cannot be read or leads too far."""
        if self._far >= _FARTHEST:
            return None
        try:
            found = self._document.neighbours.branch(reference, self._document)
        except (AsdffsError, OSError) as err:
            self._document.neighbours.tell(reference, err)
            return None
        return None if found is None else (*found, found[1].path)


@functools.cache
def fits_view() -> Any:
    """The module of .fits files, imported when arrays are first listed; None where its extra is not installed."""
    if find_spec("astropy") is None:
        logger.info("arrays are not shown as .fits, which needs astropy: pip install 'asdffs[fits]'")
        return None
    return importlib.import_module("asdffs.views.formats.fits")


def _is_directory(branch: Branch) -> bool:
    """Whether there are arrays below it."""
    if branch.array is not None and _MASK in branch.scalars:
        return True
    return any(child.holds for child in branch.children.values())


class Arrays(ArrayDirectory):
    """See ``View``."""

    directory = "arrays"

    def __init__(self, document: FileState, options: Options | None = None) -> None:
        super().__init__(document, (), fits=(options or Options()).fits)


PLUGIN = Arrays
