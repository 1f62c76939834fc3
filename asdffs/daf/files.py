"""A store as files: paths, what each holds, and directories, wherever they are.

A directory, a packed file and a mount are all such ``Files``; what their properties are is found by ``properties``.
Paths are relative to the root of the store.  One thread at a time.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from asdffs.errors import InvalidStoreError, MissingFileError
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.file_backend import FileBackend, FileFolder

#: What is read at a time, in bytes.
PIECE: Final = 4 << 20


class Content(Protocol):
    """What a file holds.  Sizes and offsets in bytes."""

    @property
    def size(self) -> int:
        """How many bytes."""

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Bytes, fewer at the end, or where they are now.  Raises ``AsdffsError``, ``OSError``."""


class Bytes(NamedTuple):
    """Bytes that are there."""

    raw: bytes

    @property
    def size(self) -> int:
        """See ``Content``."""
        return len(self.raw)

    def read(self, offset: int, length: int) -> bytes:
        """See ``Content``."""
        return self.raw[offset : offset + length]


class OnDisk(NamedTuple):
    """A file of a directory, as it was when it was found: of this ``size``, and changed at ``mtime_ns``."""

    path: str
    size: int
    mtime_ns: int

    def read(self, offset: int, length: int) -> bytes:
        """See ``Content``."""
        with open(self.path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset)

    def opened(self) -> FileBackend:
        """The file, to be closed by who asks.  Raises ``OSError``."""
        return FileFolder(os.path.dirname(self.path)).open(os.path.basename(self.path), writable=False)

    def check_same(self) -> None:
        """Raise ``InvalidStoreError`` when it is not what was found, as far as size and time tell."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns):
            raise InvalidStoreError("changed while it was read; nothing was written: try again", path=self.path)


@dataclass(slots=True)
class Files:
    """A store.  ``contents``: by path; ``directories``: all of them but the root; ``name``: for sentences."""

    name: str
    contents: dict[str, Content] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

    def whole(self, path: str) -> bytes:
        """All of a file.  Raises ``AsdffsError``, ``OSError``."""
        return b"".join(pieces(self.contents[path]))

    def short(self, path: str, most: int) -> bytes:
        """All of a file of at most ``most`` bytes.  Raises ``InvalidStoreError`` for a longer one."""
        size = self.contents[path].size
        if size > most:
            raise InvalidStoreError(f"has {size} bytes, and is to be a short JSON object")
        return self.whole(path)

    def shown(self, path: str) -> str:
        """The path as a person reads it."""
        return os.path.join(self.name, path).encode(errors="surrogateescape").decode(errors="backslashreplace")


def pieces(content: Content, start: int = 0) -> Iterator[bytes]:
    """All of it from ``start`` on, piece by piece."""
    for offset in range(start, content.size, PIECE):
        yield read_bytes(content.read(offset, PIECE))


def read_directory(path: str) -> Files:
    """The store in the directory ``path``; nothing of it is read yet.

    Raises ``MissingFileError``, ``InvalidStoreError`` for what is no file or directory, ``OSError``.
    """
    if not os.path.isdir(path):
        raise MissingFileError("is no directory", path=path)
    files = Files(path)
    rest = [""]
    while rest:
        above = rest.pop()
        with os.scandir(os.path.join(path, above)) as entries:
            for entry in entries:
                rest += _take(files, os.path.join(above, entry.name), entry)
    return files


def _take(files: Files, path: str, entry: os.DirEntry[str]) -> list[str]:
    """Take an entry up; the directories that are to be looked into."""
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        files.directories.add(path)
        return [path]
    if not stat.S_ISREG(status.st_mode):
        raise InvalidStoreError("is neither a file nor a directory, which one file cannot hold", path=entry.path)
    files.contents[path] = OnDisk(entry.path, status.st_size, status.st_mtime_ns)
    return []


def above(paths: Iterable[str]) -> set[str]:
    """All directories that lead to ``paths``."""
    found: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return found


def empty_directories(files: Files) -> set[str]:
    """The directories in which nothing is."""
    return files.directories - above(files.contents) - above(files.directories)


def sorted_paths(contents: Mapping[str, Content]) -> list[str]:
    """By their bytes, as the order of a file must not depend on a locale."""
    return sorted(contents, key=functools.cache(os.fsencode))
