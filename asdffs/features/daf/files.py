"""A store as a set of files: paths with contents, and directories.

A directory, a packed file and a mount are all represented as ``Files``; ``properties`` finds the properties in them.
Paths are relative to the root of the store.  For one thread at a time.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from asdffs.errors import InvalidStoreError, MissingFileError
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.file_backend import FileBackend, FileFolder

#: Bytes that are read at a time.
PIECE: Final = 4 << 20


class Content(Protocol):
    """The content of a file.  Sizes and offsets are in bytes."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes (fewer at the end), or the extent where they lie now.  Raises ``AsdffsError``, ``OSError``."""


class Bytes(NamedTuple):
    """Content in memory."""

    raw: bytes

    @property
    def size(self) -> int:
        """See ``Content``."""
        return len(self.raw)

    def read(self, offset: int, length: int) -> bytes:
        """See ``Content``."""
        return self.raw[offset : offset + length]


class OnDisk(NamedTuple):
    """A file on disk; ``size`` and ``mtime_ns`` are from the time when it was found."""

    path: str
    size: int
    mtime_ns: int

    def read(self, offset: int, length: int) -> bytes:
        """See ``Content``."""
        with open(self.path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset)

    def opened(self) -> FileBackend:
        """Open the file for reading; the caller closes it.  Raises ``OSError``."""
        return FileFolder(os.path.dirname(self.path)).open(os.path.basename(self.path), writable=False)

    def check_same(self) -> None:
        """Raise ``InvalidStoreError`` if its size or modification time changed since it was found."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns):
            raise InvalidStoreError("changed while it was read; nothing was written: try again", path=self.path)


class Files:
    """The files of a store.

    ``contents``: by path; ``directories``: paths of all except the root; ``name``: of the store, for messages.
    """

    def __init__(
        self, name: str, contents: dict[str, Content] | None = None, directories: set[str] | None = None
    ) -> None:
        self.name = name
        self.contents = {} if contents is None else contents
        self.directories = set() if directories is None else directories

    def whole(self, path: str) -> bytes:
        """Read a whole file.  Raises ``AsdffsError``, ``OSError``."""
        return b"".join(pieces(self.contents[path]))

    def short(self, path: str, most: int) -> bytes:
        """Read a whole JSON file of at most ``most`` bytes.  Raises ``InvalidStoreError`` for a longer one."""
        size = self.contents[path].size
        if size > most:
            raise InvalidStoreError(f"has {size} bytes, but should be a short JSON object")
        return self.whole(path)

    def shown(self, path: str) -> str:
        """Return the path with the name of the store, printable."""
        return os.path.join(self.name, path).encode(errors="surrogateescape").decode(errors="backslashreplace")


def pieces(content: Content, start: int = 0) -> Iterator[bytes]:
    """Yield the content from the offset ``start`` on, piece by piece."""
    for offset in range(start, content.size, PIECE):
        yield read_bytes(content.read(offset, PIECE))


def read_directory(path: str) -> Files:
    """List the store in the directory ``path``; no file is read yet.

    Raises ``MissingFileError``, ``OSError``, and ``InvalidStoreError`` for an entry that is not a file or directory.
    """
    if not os.path.isdir(path):
        raise MissingFileError("is not a directory", path=path)
    files = Files(path)
    rest = [""]
    while rest:
        above = rest.pop()
        with os.scandir(os.path.join(path, above)) as entries:
            for entry in entries:
                rest += _take(files, os.path.join(above, entry.name), entry)
    return files


def _take(files: Files, path: str, entry: os.DirEntry[str]) -> list[str]:
    """Add an entry to ``files``; return the directories to be listed next."""
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        files.directories.add(path)
        return [path]
    if not stat.S_ISREG(status.st_mode):
        raise InvalidStoreError("is neither a file nor a directory; remove it from the store", path=entry.path)
    files.contents[path] = OnDisk(entry.path, status.st_size, status.st_mtime_ns)
    return []


def above(paths: Iterable[str]) -> set[str]:
    """Return all parent directories of ``paths``."""
    found: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return found


def empty_directories(files: Files) -> set[str]:
    """Return the empty directories."""
    return files.directories - above(files.contents) - above(files.directories)


def sorted_paths(contents: Mapping[str, Content]) -> list[str]:
    """Return the paths sorted by their bytes, so that the order in a file does not depend on the locale."""
    return sorted(contents, key=functools.cache(os.fsencode))
