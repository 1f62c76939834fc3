"""The places that a catalogue is about, and the files in them, found by their names, without opening them."""

from __future__ import annotations

import errno
import logging
import operator
import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from asdffs import registry
from asdffs.errors import MissingFileError, UsageError
from asdffs.features.catalog.reading import identity_of, version_of
from asdffs.format.constants import FILE_ENDINGS
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.mount_table import OWN, mounts
from asdffs.storage.urls import RemoteOptions, is_remote, parse_url

logger = logging.getLogger(__name__)

_NAME: Final = operator.attrgetter("name")
_ENDINGS: Final = tuple(map(os.fsencode, FILE_ENDINGS))

_FOREIGN_LINK: Final = "is a link of another user to a private file, and is left out"


class Walk:
    """A search for files with a fitting name below ``roots``: directories, or URLs of prefixes of object stores.

    A root that is a file, or its URL, is taken whatever its name is.  Links to files are files, but another user's
    link does not lead to a private file.  Links to directories are not followed, also if a directory becomes one just
    now.  Directories in which a mount of asdffs shows files once more are left out, and names that begin with a
    dot, such as ``.snapshot``.

    ``remote``: settings for URLs.  ``excluded``: patterns of names, or of the last names of paths, that are left out;
    ``*`` stands for a part of one name.
    ``absent``: the roots that are not there.
    """

    def __init__(
        self, roots: Sequence[bytes], remote: RemoteOptions | None = None, excluded: Sequence[str] = ()
    ) -> None:
        self.absent = set[bytes]()
        self._roots = roots
        self._remote = remote or RemoteOptions()
        self._excluded = [one.rstrip("/").split("/") for one in excluded]
        self._unread = set[bytes]()
        self._vacant = set[bytes]()
        self._empty = dict[bytes, str]()
        own = [mount for mount in mounts() if mount.kind == OWN]
        self._own_points = {os.fsencode(mount.point) for mount in own}
        self._own_devices = {os.makedev(*map(int, mount.device.split(":"))) for mount in own}

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
        or that were on another file system than an empty directory, or than what is left above an absent root: there
        may be a mount point.
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
        from asdffs.features.remote.object_stores import Prefix

        if os.fsdecode(root).lower().endswith(FILE_ENDINGS):
            yield root, ""
            return
        prefix = Prefix(os.fsdecode(root), self._remote)
        for name, version in prefix.objects():
            steps = name.split("/")
            above = ("/".join(steps[: count + 1]) for count in range(len(steps)))
            if name.lower().endswith(FILE_ENDINGS) and not any(map(self._is_left_out, above)):
                yield os.fsencode(prefix.url_of(name)), version_of(version)

    def _local_files(self, root: bytes) -> Iterator[tuple[bytes, str]]:
        try:
            status = os.stat(root)
        except FileNotFoundError:
            self.absent.add(root)
            self._vacant.discard(root)
            self._empty[root] = str(_device_above(root))
            return
        except OSError as err:
            self._miss(root, err)
            return
        if not stat.S_ISDIR(status.st_mode):
            yield root, identity_of(status)
            return
        folder, waiting = FileFolder(os.fsdecode(root)), [""]
        while waiting:
            yield from self._entries(folder, waiting.pop(), waiting)

    def _is_left_out(self, path: str) -> bool:
        """Return whether what is at a path is hidden or excluded."""
        names = path.split("/")
        return names[-1].startswith(".") or any(
            len(patterns) <= len(names) and all(map(fnmatchcase, names[-len(patterns) :], patterns))
            for patterns in self._excluded
        )

    def _entries(self, root: FileFolder, place: str, waiting: list[str]) -> Iterator[tuple[bytes, str]]:
        """Yield path and identity of each fitting file of a directory, by name; add its directories to ``waiting``.

        No link leads to a directory.
        """
        whole = os.fsencode(root.path(place).rstrip("/"))
        try:
            # The path may lead elsewhere by now, but only names come from there: all else is asked by the descriptor.
            with root.below(place).readable() as fd, os.scandir(whole) as entries:
                found = sorted(entries, key=_NAME)
                if not found:
                    self._empty[whole] = str(os.fstat(fd).st_dev)
                again = self._shown_again(found, whole, fd)
                for entry in found:
                    name, is_directory = entry.name, entry.is_dir(follow_symlinks=False)
                    if name.startswith(b".") or not (is_directory or name.lower().endswith(_ENDINGS)):
                        continue
                    path = entry.path
                    if self._excluded and self._is_left_out(os.fsdecode(path)):
                        self._vacant.discard(os.fsencode(root.directory))  # something is there
                    elif is_directory:
                        if path not in again:
                            waiting.append(os.path.join(place, os.fsdecode(name)))
                    elif (status := self._status(name, path, fd)) is not None:
                        yield path, identity_of(status)
        except OSError as err:
            self._miss(whole, err)

    def _shown_again(self, found: Sequence[os.DirEntry[bytes]], whole: bytes, directory: int) -> set[bytes]:
        """Return the paths of mounts of asdffs, and in one of an archive of directories such as ``a.asdf.d``.

        ``found``: the entries of the directory ``whole``, which has this descriptor.
        """
        if os.fstat(directory).st_dev not in self._own_devices:
            return self._own_points
        files = {entry.path for entry in found if os.fsdecode(entry.name).lower().endswith(FILE_ENDINGS)}
        return self._own_points | {path + b".d" for path in files}

    def _status(self, name: bytes, path: bytes, directory: int) -> os.stat_result | None:
        """Return the status of the file that ``name``, in the directory with this descriptor, is or leads to.

        Return None if it is no file, or another user's link to what not everybody may read.
        """
        linked = False
        try:
            own = status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(own.st_mode):
                return own
            if linked := stat.S_ISLNK(own.st_mode):
                status = os.stat(name, dir_fd=directory)
        except OSError as err:
            self._miss(path, err, linked=linked)
            return None
        if linked and own.st_uid not in (status.st_uid, os.geteuid()) and not status.st_mode & 0o004:
            self._miss(path, PermissionError(errno.EPERM, _FOREIGN_LINK))
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _miss(self, place: bytes, err: OSError, *, linked: bool = False) -> None:
        """Note a place that cannot be looked at; one that vanished is not there, unless a link leads to it."""
        logger.warning("%s: %s", os.fsdecode(place), err.strerror)
        if linked or not isinstance(err, FileNotFoundError):
            self._unread.add(place)


def _device_above(path: bytes) -> int:
    """Return the number of the file system of the nearest directory above ``path`` that is there."""
    while True:
        path = os.path.dirname(path)
        try:
            return os.stat(path).st_dev
        except (FileNotFoundError, NotADirectoryError):
            pass


def roots_of(places: Sequence[str], *, gone: bool = False) -> list[bytes]:
    """Return the absolute paths of directories and files, or URLs.

    ``gone``: they need not be there.  Raises ``MissingFileError``, ``UsageError``.
    """
    for place in places:
        if not gone and not is_remote(place) and not os.path.exists(place):
            raise MissingFileError("there is no such file or directory", path=place)
    return [os.fsencode(_url_of(place) if is_remote(place) else os.path.realpath(place)) for place in places]


def _url_of(place: str) -> str:
    """Return the URL of a file or of a prefix, as a catalogue keeps it.  Raises ``UsageError``."""
    registry.needed_feature("remote")
    if not place.partition("?")[0].lower().endswith(FILE_ENDINGS):
        from asdffs.features.remote.object_stores import prefix_of

        return prefix_of(place)
    url = parse_url(place)
    if url.text != url.shown:
        raise UsageError("a catalogue keeps no URL with a query or a user, which may be secret", path=url.shown)
    return url.text
