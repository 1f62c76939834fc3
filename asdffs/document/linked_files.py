"""Opens the other ASDF files to which a tree refers, by a URI as source or by a ``$ref``.

Implements sections Exploded form and References.  Each file is opened once, read-only, when it is first needed.  It
is read again after another program changed it.  All these files share the scheduler of the file that refers to them.
So one main lock protects all of them, and other requests are served while one is opened.  They also share one
``LinkedFiles``, so that each file is open only once.

The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from asdffs.arrays.branch import Branch
from asdffs.arrays.sources import resolve
from asdffs.document.blocks.transaction import Foreign
from asdffs.document.outlines import Outlines
from asdffs.document.report import Report
from asdffs.errors import (
    AsdffsError,
    InvalidArrayError,
    MissingFileError,
    NotFollowedError,
    NotPermittedError,
    NotSupportedError,
    Remedy,
    reason_of,
)
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import ReadBackend, ReadFolder, Signature
from asdffs.storage.urls import is_remote, joined_url, parse_url, shown_url
from asdffs.tree.paths import Path

if TYPE_CHECKING:
    from asdffs.document.data_files import DataFile, DataFiles

#: The largest number of linked files that are open for one document: each uses a file descriptor.
_MOST: Final = 256
#: Characters of a URI in a sentence.
_SHOWN: Final = 60
#: The largest number of references that are followed from one file to the next.
_FARTHEST: Final = 20


class OtherFile(Protocol):
    """The part of an open file that this module uses."""

    path: str
    outlines: Outlines
    report: Report

    @property
    def location(self) -> str:
        """The path, or the whole URL."""

    @property
    def folder(self) -> ReadFolder:
        """The directory of the file."""

    @property
    def signature(self) -> Signature:
        """The signature of the open file as it is now."""

    def foreign(self) -> Foreign:
        """Return the change that another program made to the file."""

    def follow(self) -> None:
        """Read the file again if another program changed it."""

    def close(self) -> None:
        """Close the file."""


F = TypeVar("F", bound=OtherFile)


class Opener(Protocol[F]):
    """Opens files to which others refer, read-only."""

    def document(self, path: str, linked_files: LinkedFiles[F]) -> F:
        """Open the ASDF file at ``path``, which may be a URL; ``linked_files`` are to have it."""

    def data(self, path: str) -> tuple[ReadFolder, ReadBackend]:
        """Open a file of any format at ``path``, which may be a URL."""


class LinkedFiles(Generic[F]):
    """The files to which ``root`` refers, directly or not.  ``opener`` opens them.

    ``others``: None if only this user sees what the files have; else only such files are followed as all may read who
    may read ``root``, and ``others`` has permission bits besides those of ``root`` (``storage/permissions``).
    ``servers``: those to which local files may lead, ``HOST`` or ``HOST:PORT``.
    """

    def __init__(
        self,
        root: F,
        opener: Opener[F],
        scheduler: Scheduler,
        others: int | None = None,
        servers: Collection[str] = (),
    ) -> None:
        self._root = root
        self._opener = opener
        self._scheduler = scheduler
        self._others = others
        self._servers = servers
        self._opened: dict[str, F] = {}
        self._opening = RankedLock(scheduler, Rank.LINKED_FILES)
        self._told: set[str] = set()
        self._data: DataFiles | None = None

    @property
    def data(self) -> DataFiles:
        """The FITS files beside the ASDF files, which have elements of their arrays."""
        if self._data is None:
            from asdffs.document.data_files import DataFiles  # few trees lead to such files

            self._data = DataFiles(self._open_data, self._check_data)
        return self._data

    def find(self, uri: str, base: F) -> F:
        """Return the file to which ``uri``, without a fragment, refers in the file ``base``, as it is now.

        Raises ``NotFollowedError``, or ``InvalidArrayError`` with the reason if that file cannot be read.
        """
        place = self.place(uri, base.location)
        try:
            return self.at(place)
        except (AsdffsError, OSError, ValueError) as err:
            raise InvalidArrayError(f"{_shown(uri)} cannot be read: {reason_of(err)}") from err

    def place(self, uri: str, base: str) -> str:
        """Return the path or the URL to which ``uri`` refers in the file at ``base``, a path or a whole URL.

        Raises ``NotFollowedError``.
        """
        return place_of(uri, base, self._servers)

    @contextlib.contextmanager
    def visited(self, place: str) -> Iterator[F]:
        """Keep the file at ``place`` open inside the block, so a look at many files needs few descriptors.

        Raises as ``at``.
        """
        before = set(self._opened)
        try:
            yield self.at(place)
        finally:
            for new in self._opened.keys() - before:
                self._opened.pop(new).close()

    def at(self, place: str) -> F:
        """Return the file at an absolute path or a whole URL, as it is now.  Raises ``AsdffsError``, ``OSError``."""
        real = place if is_remote(place) else self._outside(place)
        if real == self._root.location:
            return self._root
        if real not in self._opened:
            with self._opening:
                if real not in self._opened:
                    self._opened[real] = self._open(real)
        found = self._opened[real]
        if found.foreign() is Foreign.REMOVED:
            raise MissingFileError("was removed", path=real)
        found.follow()
        self._check_readers(found.signature, found.folder, found.location)
        return found

    def _outside(self, path: str) -> str:
        """Return the real path of a file that no daemon of asdffs serves, or raise ``NotSupportedError``."""
        from asdffs.storage.mount_table import OWN, outside  # few trees refer to files

        with self._scheduler.waiting():  # it may be on a network
            real = outside(path, OWN)
        if real is None:  # a mount that reads from itself waits for ever, and so do two that read from each other
            raise NotSupportedError("is in a mount of asdffs; name the ASDF file itself", path=path)
        return real

    def _open_data(self, place: str) -> tuple[ReadFolder, ReadBackend]:
        if not is_remote(place):
            self._outside(place)
        with self._scheduler.waiting():  # it may be on a network
            return self._opener.data(place)

    def _check_data(self, found: DataFile) -> None:
        self._check_readers(found.signature, found.folder, found.place)

    def _check_readers(self, signature: Signature, folder: ReadFolder, place: str) -> None:
        """Raise ``NotPermittedError`` if the mount would show the file to users who may not read it."""
        if self._others is None:
            return
        from asdffs.storage.permissions import may_all_read  # most mounts are for one user

        root = self._root.signature.access
        if is_remote(place) or not may_all_read(signature.access, folder.whereabouts(), root, self._others):
            sentence = "is not followed, because other users may use the mount, and may not all read this file"
            raise NotPermittedError(sentence, path=shown_url(place) if is_remote(place) else place)

    def branch(self, reference: str, base: F) -> tuple[F, Branch] | None:
        """Return the target of a ``$ref`` to another file, which is in the file ``base``, and the file of the target.

        Returns None if no array is there, or if the references form a cycle.  Raises as ``find``.
        """
        for _ in range(_FARTHEST):
            uri, _, fragment = reference.partition("#")
            base = self.find(uri, base)
            found = base.outlines.outline().pointed(fragment)
            if found is None or found.external_uri is None:
                return None if found is None else (base, found)
            reference = found.external_uri
        return None

    def finder(self, document: F, path: Path) -> Callable[[], Branch]:
        """Return a function that finds the branch at ``path`` of ``document`` as it is when the function is called.

        ``document`` is the root or one of the linked files.
        """
        if document is self._root:
            return functools.partial(document.outlines.branch, path)
        return functools.partial(self._branch_at, document.location, path)

    def _branch_at(self, file: str, path: Path) -> Branch:
        """Return the branch at ``path`` of ``file``.  Raises ``KeyError`` if the tree no longer has it."""
        return self.at(file).outlines.branch(path)

    def tell(self, reference: str, reason: Exception) -> None:
        """Say once in the report of the root that a reference is not followed, and why."""
        if reference not in self._told:
            self._told.add(reference)
            sentence = f"$ref {reference[:200]} is not followed: {reason_of(reason)}"
            remedy = getattr(reason, "remedy", None)
            self._root.report.refuse(NotFollowedError(sentence, path=self._root.path, remedy=remedy))

    def close(self, owner: F) -> None:
        """Close all linked files if ``owner`` is the root; otherwise do nothing."""
        if owner is not self._root:
            return
        for document in self._opened.values():
            document.close()
        self._opened.clear()
        if self._data is not None:
            self._data.close()

    def _open(self, path: str) -> F:
        if len(self._opened) >= _MOST:
            raise NotSupportedError(f"is not opened, because the tree refers to more than {_MOST} files")
        with self._scheduler.waiting():  # it may be on a network
            return self._opener.document(path, self)


def place_of(uri: str, base: str, servers: Collection[str]) -> str:
    """Return the path or the URL of the file to which ``uri`` refers in the file at ``base``, a path or a whole URL.

    A local file leads to files of this machine and of ``servers``; a remote file to files of its own server.  Raises
    ``NotFollowedError``.
    """
    path = resolve(uri, base)
    if path is not None:
        return path
    try:
        url = parse_url(joined_url(base, uri) if is_remote(base) else uri)
    except (AsdffsError, ValueError) as err:
        raise NotFollowedError(f"{_shown(uri)} is not a file on this machine, and is not followed") from err
    if is_remote(base):
        home = parse_url(base)
        if (url.scheme, url.server) != (home.scheme, home.server):
            raise NotFollowedError(f"{_shown(uri)} is not on the server of this file, and is not followed")
    elif not url.is_web:
        raise NotFollowedError(f"{_shown(uri)} is neither on this machine nor on a web server, and is not followed")
    elif url.server not in servers:
        sentence = f"{_shown(url.shown)} is on the server {url.server}, and is not followed"
        raise NotFollowedError(sentence, remedy=Remedy.SERVER)
    return url.text


def _shown(uri: str) -> str:
    return repr(uri[:_SHOWN])
