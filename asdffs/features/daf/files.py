"""A store as a set of files: paths with contents, and directories.

A directory, a packed file and a mount are all represented as ``Files``; ``properties`` finds the properties in them.
Paths are relative to the root of the store.  For one thread at a time.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from asdffs.errors import InvalidStoreError, MissingFileError
from asdffs.features.daf.format import Eltype
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.file_backend import FileBackend, FileFolder

if TYPE_CHECKING:
    import numpy as np

#: Bytes that are read at a time.
PIECE: Final = 4 << 20


class Content(Protocol):
    """The content of a file.  Sizes and offsets are in bytes."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes (fewer at the end), or the extent where they lie now.  Raises ``AsdffsError``, ``OSError``."""


@runtime_checkable
class Mapped(Content, Protocol):
    """Content that numpy can read without a copy."""

    def buffer(self) -> Any:
        """Return all bytes.  Raises ``AsdffsError``, ``OSError``."""


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

    def buffer(self) -> Any:
        """See ``Mapped``."""
        import numpy as np

        return np.memmap(self.path, np.uint8, mode="r", shape=(self.size,)).view(np.ndarray)

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


# -- files of strings: one per line, UTF-8, each ended by a newline (section 5) --


def build_lines(lines: Iterable[str]) -> bytes:
    """Return the bytes of a file with these lines."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def parse_lines(raw: bytes) -> list[str]:
    """Return the lines of a whole file.

    Raises ``InvalidStoreError`` if the last line is incomplete or the text is not UTF-8.
    """
    if raw and not raw.endswith(b"\n"):
        raise InvalidStoreError("does not end with a newline: its last line is incomplete")
    try:
        return raw.decode().split("\n")[:-1]
    except UnicodeDecodeError as err:
        line = raw.count(b"\n", 0, err.start) + 1
        raise InvalidStoreError(f"is not UTF-8 in line {line}") from err


def has_returns(content: Content) -> bool:
    """Return whether the first line ends in CR LF; the CR is then an invisible part of the string."""
    line = next(iter(pieces(content)), b"").partition(b"\n")
    return line[0].endswith(b"\r") and bool(line[1])


def count_lines(content: Content) -> int:
    """Count the lines without keeping them.  Raises ``InvalidStoreError`` if the last one is incomplete."""
    count, last = 0, b"\n"
    for piece in pieces(content):
        count += piece.count(b"\n")
        last = piece[-1:]
    if last != b"\n":
        raise InvalidStoreError("does not end with a newline: its last line is incomplete")
    return count


# -- numbers --


def elements(content: Content, eltype: Eltype) -> np.ndarray[Any, Any]:
    """Return all elements as a read-only array with one axis.

    Raises ``InvalidStoreError`` if a Bool is neither 0 nor 1.
    """
    import numpy as np

    if not content.size:
        return np.empty(0, eltype.descr)
    raw = content.buffer() if isinstance(content, Mapped) else read_bytes(content.read(0, content.size))
    found = np.frombuffer(raw, np.uint8)
    if eltype.descr == "|b1" and found.max() > 1:
        raise InvalidStoreError("has a Bool that is neither 0 nor 1")
    typed: np.ndarray[Any, Any] = found.view(eltype.descr)
    return typed
