"""Opens FITS files beside an ASDF file, which have elements of its arrays: the tiles of a cube of DKIST.

Such a file is in the directory of the ASDF file or below it, because a stranger's tree must not lead anywhere else; a
link in there may.  A tree may name ten thousand files, so only the last few that were used stay open.

The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from asdffs.errors import MissingFileError, NotFollowedError
from asdffs.storage.backend import ReadBackend, ReadFolder
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.mount_table import OWN, MountPoints, outside
from asdffs.storage.urls import is_remote, joined_url

#: The most files that stay open: each uses a descriptor.
_MOST: Final = 32
#: Characters of a name in a sentence.
_SHOWN: Final = 60


class DataFile:
    """An open file: ``backend``, the only file of ``folder`` that is open.  ``place``: where it was looked for.

    ``known``: what readers found out about it, such as the places of its images.
    """

    def __init__(self, place: str, folder: ReadFolder, backend: ReadBackend) -> None:
        self.place = place
        self.folder = folder
        self.backend = backend
        self.signature = backend.signature()
        self.known: dict[Any, Any] = {}
        self._release()

    def is_current(self) -> bool:
        """Return whether nobody changed or replaced the file since it was opened; note its rights as they are now."""
        path = self.folder.path(self.backend.name)
        try:
            if is_here(self.place) and self.place != path and outside(self.place, OWN) != path:
                return False  # a link leads elsewhere now
            before, self.signature = self.signature, self.folder.signature(self.backend.name)
        except OSError:
            return False
        self._release()
        return before.is_same_content(self.signature)

    def _release(self) -> None:
        """Close the directory: the next look asks for the one that has its path then."""
        if isinstance(self.folder, FileFolder):
            self.folder.release()


class DataFiles:
    """The files that are open, at most 32.

    ``open_file(place)`` opens the file at an absolute path or a URL.  ``check(file)`` raises ``NotPermittedError`` if
    it may not be shown.
    """

    def __init__(
        self,
        open_file: Callable[[str], tuple[ReadFolder, ReadBackend]],
        check: Callable[[DataFile], None],
    ) -> None:
        self._open_file = open_file
        self._check = check
        self._kept: dict[str, DataFile] = {}

    @contextlib.contextmanager
    def opened(self, place: str) -> Iterator[DataFile]:
        """Open the file at ``place``, as ``place_beside`` returns it; nobody else uses it inside the block.

        Raises ``AsdffsError``, ``OSError``; ``MissingFileError`` if there is no such file.
        """
        found = self._kept.pop(place, None)
        if found is not None and not found.is_current():
            found.backend.close()
            found = None
        if found is None:
            found = DataFile(place, *self._open_file(place))
        try:
            self._check(found)
            yield found
        except BaseException:  # an error may say that the file is damaged: the next read opens it anew
            found.backend.close()
            raise
        self._keep(place, found)

    def close(self) -> None:
        """Close all files."""
        while self._kept:
            self._kept.popitem()[1].backend.close()

    def _keep(self, place: str, found: DataFile) -> None:
        """Keep a file open as the one that was used last."""
        if place in self._kept:  # another thread needed it at the same time
            found.backend.close()
            return
        self._kept[place] = found
        while len(self._kept) > _MOST:
            self._kept.pop(next(iter(self._kept))).backend.close()


def place_beside(name: str, base: str) -> str:
    """Return the path or the URL of the file ``name`` beside the file at ``base``, a path or a whole URL.

    Raises ``NotFollowedError`` if it is not in the directory of ``base`` or below it.
    """
    shown = repr(name[:_SHOWN])
    if is_remote(base):
        from urllib.parse import quote

        if "?" in base or "#" in base:
            raise NotFollowedError(f"{shown} is not read: the URL of this file has a query, which may sign it alone")
        place, home = joined_url(base, quote(name)), joined_url(base, ".")
    elif not is_here(base):
        raise NotFollowedError(f"{shown} is not read: only the program that opened this file knows where it is")
    else:
        home = posixpath.join(posixpath.dirname(base), "")
        place = posixpath.normpath(posixpath.join(home, name))
    if not place.startswith(home) or place == home:
        raise NotFollowedError(f"{shown} is not in the directory of this file, and is not read")
    return place


def is_here(location: str) -> bool:
    """Return whether ``location`` of a file is a path on this machine, so that files beside it can be looked for."""
    return location.startswith("/")


class FoundFile(NamedTuple):
    """A file that was found: its ``size`` in bytes, when it was changed (``mtime_ns``), and its directory."""

    size: int
    mtime_ns: int
    folder: str


def find_beside(names: Iterable[str], base: str) -> dict[str, FoundFile]:
    """Return those of ``names`` that there are beside the local file at ``base``.

    What is in a mount of asdffs is left out: the daemon that asks for it would wait for itself.
    """
    home, found = posixpath.dirname(base), dict[str, FoundFile]()
    own = MountPoints(home, OWN)
    for name in set(names):
        with contextlib.suppress(OSError, NotFollowedError):
            place: str | None = place_beside(name, base)
            if place is None or own.lead(place):
                continue
            if posixpath.dirname(place) != home or os.path.islink(place):
                place = outside(place, OWN)
            if place is not None:
                status = os.stat(place)
                found[name] = FoundFile(status.st_size, status.st_mtime_ns, posixpath.dirname(place))
    return found


def missing_of(names: Iterable[str], base: str) -> list[str]:
    """Return those of ``names`` that would be read beside the local file at ``base``, and are not there."""
    names = sorted(set(names))
    there = find_beside(names, base)
    return [name for name in names if name not in there and _is_beside(name, base)]


def _is_beside(name: str, base: str) -> bool:
    try:
        return bool(place_beside(name, base))
    except NotFollowedError:
        return False


def folders_of(names: Iterable[str], base: str, there: Mapping[str, FoundFile]) -> dict[str, int]:
    """Return the directories in which files beside ``base`` are, or would be, and when each was changed, in ns."""
    home = posixpath.dirname(base)
    folders = {home, *(one.folder for one in there.values())}
    for name in names:
        if "/" in name:
            with contextlib.suppress(OSError, NotFollowedError):
                folder = outside(posixpath.dirname(place_beside(name, base)), OWN)
                folders |= {folder} if folder is not None else set()
    found = dict[str, int]()
    for folder in folders:
        with contextlib.suppress(OSError):
            found[folder] = os.stat(folder).st_mtime_ns
    return found


def is_missing(error: Exception, place: str) -> bool:
    """Return whether the file at ``place`` could not be opened because there is none, and for no other reason."""
    if is_remote(place):
        return isinstance(error, MissingFileError)
    cause = error.__cause__ if isinstance(error, MissingFileError) else error
    return isinstance(cause, (FileNotFoundError, NotADirectoryError))
