"""``arrays/``: each array of the tree at its path in the tree, live.

| in the tree                              | in ``arrays/``                                                         |
|------------------------------------------|------------------------------------------------------------------------|
| an ndarray at ``a.b``                    | ``a/b.npy``, and ``a/b.fits`` where FITS can hold it (``formats/fits``) |
| its mask: an array, a list, a value, nulls | ``a/b/mask.npy``                                                     |
| item 3 of a list                         | the name ``3``                                                         |
| a column of a table                      | the name of the column (``arrays/outline``)                            |
| an alias, or a ``$ref`` to this tree     | as what it means: another name for the same bytes                      |
| a ``$ref`` to another file               | as what is there, read-only; none where that cannot be read            |
| an ndarray whose source is another file  | as any other, read-only                                                |
| what holds no array                      | nothing, but a ``fits/fits`` of headers alone has its ``.fits``        |

A commit of the tree changes what is here at once.  The caller holds the main lock.
"""

from __future__ import annotations

import functools
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from asdffs import registry
from asdffs.arrays.branch import Branch, shown_key
from asdffs.document.changes import TREE, Subject
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError
from asdffs.tree.paths import Path, directory_name_of, name_of
from asdffs.views.base import Options, View, ViewDirectory, ViewFile

if TYPE_CHECKING:  # a file may have no array
    from asdffs.views.formats.base import ArrayFile, ArrayFormat

logger = logging.getLogger(__name__)

_MASK: Final = "mask"
#: Directories of other files in directories of other files: further on they may lead in circles.
_FARTHEST: Final = 4
#: What other files have is looked for again after so many seconds.
_FRESH: Final = 1.0

Maker = Callable[[FileState, Callable[[], Branch]], "ArrayFile"]


class _Entry(NamedTuple):
    """An entry of a listing: a file, made by ``maker`` from the array at ``path``; without ``maker`` a directory.

    ``document``: the file that has the array.
    """

    document: FileState
    path: Path
    maker: Maker | None = None


class _Listing(NamedTuple):
    """The entries of a directory by name.

    ``keys``: children at the same place of the tree, which are nearly all.  ``others``: the rest.  ``until``: when
    the rest is looked for again, in monotonic seconds; None: in the next tree.
    """

    keys: dict[str, str | int]
    others: dict[str, _Entry]
    until: float | None

    def is_same(self, other: _Listing) -> bool:
        """Return whether the names are the same."""
        return self is other or (self.keys.keys() == other.keys.keys() and self.others.keys() == other.others.keys())


class Formats:
    """The formats in which arrays are shown, without the ``hidden`` ones."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden

    @functools.cached_property
    def _named(self) -> dict[str, ArrayFormat]:
        """All formats by name, loaded when arrays are first listed; without plug-ins that are no formats."""
        found: dict[str, ArrayFormat] = {}
        for name in registry.names("formats"):
            plugin = registry.find("formats", name)
            is_format = functools.partial(_is_format, plugin)
            if plugin is None or not registry.answer("formats", name, is_format, otherwise=False):
                continue
            if plugin.ending in [other.ending for other in found.values()]:
                registry.note_trouble("formats", name, f"another format has the ending {plugin.ending}")
            else:
                found[name] = plugin
        return found

    @functools.cached_property
    def endings(self) -> tuple[str, ...]:
        """The endings of all formats, also hidden ones: names of directories do not depend on what is installed."""
        return tuple(shown.ending for shown in self._named.values())

    @functools.cached_property
    def shown(self) -> dict[str, ArrayFormat]:
        """The formats by name that are not hidden and whose libraries are installed."""
        found = {}
        for name, plugin in self._named.items():
            if name in self._hidden:
                continue
            missing = _missing(name, plugin)
            if missing == "":
                found[name] = plugin
            elif missing is not None:
                logger.info("arrays are not shown as %s, which needs: %s", plugin.ending, missing)
        return found

    def named(self, name: str) -> ArrayFormat | None:
        """Return the format of the file ``name``; None for the name of a directory."""
        return next((shown for shown in self.shown.values() if name.endswith(shown.ending)), None)

    def taking(self, branch: Branch) -> Iterator[ArrayFormat]:
        """Yield the formats that show ``branch``."""
        for name, shown in self.shown.items():
            if registry.answer("formats", name, functools.partial(_takes, shown, branch), otherwise=False):
                yield shown


def _missing(name: str, plugin: ArrayFormat) -> str | None:
    """Return the command that installs what is missing; None if the plug-in does not answer."""
    return registry.answer("formats", name, lambda: plugin.missing(), None)  # it may have no such method


def _takes(plugin: ArrayFormat, branch: Branch) -> bool:
    return plugin.takes(branch)


def _is_format(plugin: ArrayFormat) -> bool:
    """Return whether ``plugin`` is a format.  Raises ``ValueError``, or anything, if it is not."""
    if not isinstance(plugin.ending, str) or plugin.ending[:1] != "." or not callable(plugin.file):
        raise ValueError(f"it has the ending {plugin.ending!r}, and its file is {plugin.file!r}")
    return plugin.mask is None or callable(plugin.mask)


class ArrayDirectory(ViewDirectory):
    """The arrays below ``path`` of the tree of ``document``.

    ``formats``: the formats in which arrays are shown.  ``far``: how many times a ``$ref`` to another file was
    followed on the way here.
    """

    def __init__(self, document: FileState, path: Path, formats: Formats, *, far: int = 0) -> None:
        self._file = document
        self._path = path
        self._find = document.linked_files.finder(document, path)
        self.identity = document.path, path
        self._formats = formats
        self._far = far
        self._seen: _Listing | None = None
        self._changed = 0

    def names(self) -> Iterator[str]:
        """Return the names of files and directories."""
        listing = self._listing()
        self._seen = self._seen or listing
        return itertools.chain(listing.keys, listing.others)

    def directories(self) -> None:
        """Return None, so that to list the directory above does not read the tree."""

    def version(self) -> int:
        """Return when names were added or removed, as far as they were listed before."""
        if self._seen is not None and not self._seen.is_same(self._listing()):
            self._changed = self._file.changes.stamp(TREE)
        self._seen = self._seen and self._listing()  # frees that of an old tree
        return self._changed

    def child(self, name: str) -> ViewFile | ViewDirectory:
        """Return the entry ``name``.  Raises ``KeyError``."""
        listing = self._listing()
        if name in listing.keys:
            shown = self._formats.named(name)
            entry = _Entry(self._file, (*self._path, listing.keys[name]), shown.file if shown else None)
        else:
            entry = listing.others[name]
        document, path = entry.document, entry.path
        far = self._far + (document is not self._file)
        if entry.maker is None:
            return ArrayDirectory(document, path, self._formats, far=far)
        file = entry.maker(document, document.linked_files.finder(document, path))
        file.identity = entry.maker, document.path, path
        file.external = far > 0
        return file

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return the tree; None in another file, which may change at any time."""
        return None if self._far else (TREE,)

    def _listing(self) -> _Listing:
        """Return what each name leads to, made once for each tree; empty if the tree has nothing here any more."""
        try:
            branch = self._find()
        except KeyError:
            return _NOTHING
        if branch.listing is None:
            branch.listing = {}
        listings: dict[int, _Listing] = branch.listing
        known = listings.get(self._far)
        if known is None or (known.until is not None and known.until < time.monotonic()):
            elsewhere = any(child.external_uri is not None for child in branch.children.values())
            with self._file.scheduler.waiting():  # of a hundred thousand arrays it takes a while
                keys = dict(self._keys(branch))
            until = time.monotonic() + _FRESH if elsewhere else None
            known = listings[self._far] = _Listing(keys, dict(self._others(branch)), until)
        return known

    def _keys(self, branch: Branch) -> Iterator[tuple[str, str | int]]:
        """Yield the names of children that are in this file, with their keys."""
        for key, child in branch.children.items():
            if child.external_uri is None and child.holds:
                for name in self._names(key, child):
                    yield name, key

    def _others(self, branch: Branch) -> Iterator[tuple[str, _Entry]]:
        """Yield entries for masks without an array, and for references to other files."""
        if branch.array is not None and branch.masked:
            for shown in self._formats.shown.values():
                if shown.mask is not None:
                    yield _MASK + shown.ending, _Entry(self._file, self._path, shown.mask)
        for key, child in branch.children.items():
            found = self._elsewhere(child.external_uri) if child.external_uri is not None else None
            if found is not None:
                document, target, path = found
                for name in self._names(key, target):
                    its = self._formats.named(name)
                    yield name, _Entry(document, path, its.file if its else None)

    def _names(self, key: str | int, branch: Branch) -> Iterator[str]:
        """Yield the names that ``branch`` has at ``key``."""
        for shown in self._formats.taking(branch):
            yield name_of(shown_key(key, branch)) + shown.ending
        if _is_directory(branch):
            yield directory_name_of(shown_key(key, branch), self._formats.endings)

    def _elsewhere(self, reference: str) -> tuple[FileState, Branch, Path] | None:
        """Return the target of a ``$ref`` to another file; None if it cannot be read or is too far away."""
        if self._far >= _FARTHEST:
            return None
        try:
            found = self._file.linked_files.branch(reference, self._file)
        except (AsdffsError, OSError) as err:
            self._file.linked_files.tell(reference, err)
            return None
        return None if found is None else (*found, found[1].path)


_NOTHING: Final = _Listing({}, {}, None)


def _is_directory(branch: Branch) -> bool:
    """Return whether there are arrays below ``branch``."""
    if branch.array is not None and branch.masked:
        return True
    return any(child.holds for child in branch.children.values())


class Arrays(ArrayDirectory, View):
    """The view ``arrays/``."""

    directory = "arrays"

    def __init__(self, document: FileState, options: Options | None = None) -> None:
        ArrayDirectory.__init__(self, document, (), Formats((options or Options()).hidden))


PLUGIN = Arrays
