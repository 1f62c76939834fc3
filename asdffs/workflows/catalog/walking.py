"""Finds the files of directories and prefixes for a catalogue: by their names, without opening them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from asdffs.format.constants import FILE_ENDINGS
from asdffs.storage.remote.options import RemoteOptions
from asdffs.storage.remote.urls import is_remote
from asdffs.workflows.catalog.reading import identity_of, version_of

logger = logging.getLogger(__name__)

_ENDINGS: Final = tuple(map(str.encode, FILE_ENDINGS))


class Walk:
    """A search for files with a fitting name below ``roots``: directories, or URLs of prefixes of object stores.

    A root that is a file, or its URL, is taken whatever its name is.  Links to files are files.  Links to directories
    are not followed, so a loop of links ends.  ``remote``: settings for URLs.
    """

    def __init__(self, roots: Sequence[bytes], remote: RemoteOptions | None = None) -> None:
        self._roots = roots
        self._remote = remote or RemoteOptions()
        self._unread = set[bytes]()
        self._vacant = set[bytes]()
        self._empty = dict[bytes, str]()

    def files(self) -> Iterator[tuple[bytes, str]]:
        """Yield path and identity of each file.  What cannot be looked at is logged, and left out.

        Raises ``RemoteError``, ``MissingFileError`` if a prefix cannot be listed.
        """
        for root in self._roots:
            self._vacant.add(root)
            for found in self._remote_files(root) if is_remote(os.fsdecode(root)) else self._local_files(root):
                self._vacant.discard(root)
                yield found

    def is_gone(self, path: bytes, identity: str, *, forget: bool) -> bool:
        """Return whether a file that was not found is gone, and not only its file system or the right to read it.

        ``identity``: what it had.  Without ``forget``, files stay that were below a root where no file is any more,
        or where an empty directory now has another file system: both may be mount points.
        """
        places = [path]
        while (above := os.path.dirname(places[-1])) != places[-1]:
            places.append(above)
        if not self._unread.isdisjoint(places):
            return False
        device = identity.partition(":")[0]
        mounted = self._vacant.isdisjoint(places) and all(self._empty.get(one, device) == device for one in places)
        return mounted or forget

    def _remote_files(self, root: bytes) -> Iterator[tuple[bytes, str]]:
        """Yield the files below a prefix.  A URL that ends as a name of a file is a file, without an identity."""
        from asdffs.storage.remote.listing import Prefix

        if root.lower().endswith(_ENDINGS):
            yield root, ""
            return
        prefix = Prefix(os.fsdecode(root), self._remote)
        for name, version in prefix.objects():
            if name.lower().endswith(FILE_ENDINGS) and not name.rpartition("/")[2].startswith("."):
                yield os.fsencode(prefix.url_of(name)), version_of(version)

    def _local_files(self, root: bytes) -> Iterator[tuple[bytes, str]]:
        try:
            status = os.stat(root)
        except OSError as err:
            self._miss(root, err)
            return
        if not stat.S_ISDIR(status.st_mode):
            yield root, identity_of(status)
            return
        waiting = [root]
        while waiting:
            for entry in self._entries(waiting.pop()):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.name.lower().endswith(_ENDINGS) and not entry.name.startswith(b"."):
                    yield from self._regular(entry)

    def _entries(self, place: bytes) -> list[os.DirEntry[bytes]]:
        try:
            with os.scandir(place) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            if not found:
                self._empty[place] = str(os.stat(place).st_dev)
        except OSError as err:
            self._miss(place, err)
            return []
        return found

    def _regular(self, entry: os.DirEntry[bytes]) -> Iterator[tuple[bytes, str]]:
        try:
            status = entry.stat()
        except OSError as err:
            self._miss(entry.path, err, linked=entry.is_symlink())
            return
        if stat.S_ISREG(status.st_mode):
            yield entry.path, identity_of(status)

    def _miss(self, place: bytes, err: OSError, *, linked: bool = False) -> None:
        """Note a place that cannot be looked at; one that vanished is not there, unless a link leads to it."""
        logger.warning("%s: %s", os.fsdecode(place), err.strerror)
        if linked or not isinstance(err, FileNotFoundError):
            self._unread.add(place)
