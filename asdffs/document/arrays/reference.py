"""``ArrayReference``: an array by the place of its file, which other processes can use: pickles, dask workers.

A process that uses a reference opens the file itself, and keeps it open for the next use.  If the file is not the one
that it was when the reference was made, each use raises ``StaleFileError``: values of two versions are never mixed.
Any thread may use a reference.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from asdffs.document.arrays.selection import Selectable, read_outer
from asdffs.errors import NotSupportedError, StaleFileError
from asdffs.storage.urls import is_remote, shown_name

if TYPE_CHECKING:
    import numpy as np

#: How many files one process keeps open.
_MOST: Final = 128


class Version(NamedTuple):
    """What tells one version of a file from another, on every machine that sees it.

    ``number``: the inode, or for a remote file a hash of its tag.  ``size`` in bytes, ``mtime_ns`` in ns.
    """

    number: int
    size: int
    mtime_ns: int


class Referred(Selectable, Protocol):
    """An array of an open file (``Array``)."""

    def versions(self) -> tuple[Version, ...]:
        """Return the versions of the files that have it."""


class Opened(Protocol):
    """An open file (``Document``)."""

    @property
    def arrays(self) -> Any:
        """Its arrays by their paths."""

    def close(self) -> None:
        """Close it."""


class ArrayReference:
    """The array ``name`` of the file at ``path``, which may be a URL, in the version ``versions``.

    ``shape``, ``dtype`` and ``chunks`` are those of the array.  ``open_file(path)`` opens the file; other processes
    find this function by its name.  Selections give copies, as those of ``Array``.
    """

    def __init__(
        self,
        open_file: Callable[[str], Opened],
        path: str,
        name: str,
        versions: tuple[Version, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunks: tuple[int, ...] | None = None,
    ) -> None:
        self._open_file = open_file
        self.path = path
        self.name = name
        self.versions = versions
        self.shape = shape
        self.dtype = dtype
        self.chunks = chunks

    def __repr__(self) -> str:
        return f"<array {self.shape} {self.dtype} {self.name!r} of {shown_name(self.path)}>"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Any:
        """Return a copy of the selected elements.

        Raises ``StaleFileError`` if the file was changed, also during the read, and as ``Array.__getitem__``.
        """
        return self._read(lambda array: array[index])

    def outer(self, index: tuple[Any, ...]) -> Any:
        """Return a copy of the selected elements, as ``read_outer``.  Raises as ``__getitem__``."""
        near = not is_remote(self.path) and self.chunks is None  # what is in pieces has no mmap
        return self._read(lambda array: read_outer(array, index, near=near))

    def _read(self, read: Callable[[Referred], Any]) -> Any:
        """Return what ``read`` makes of the array, if the file has the right version before and after."""
        with open_files.using(self.path, self._open_file) as file:
            if self._is_current(file):
                return self._read_from(file, read)
        # this process may have opened the remote file before it became what the reference is about
        open_files.keep(self.path, self._open_file(self.path))
        with open_files.using(self.path, self._open_file) as file:
            return self._read_from(file, read)

    def _read_from(self, file: Opened, read: Callable[[Referred], Any]) -> Any:
        if not self._is_current(file):
            raise self._stale()
        found = read(file.arrays[self.name])
        if not self._is_current(file):
            raise self._stale()
        return found

    def _is_current(self, file: Opened) -> bool:
        try:
            return bool(file.arrays[self.name].versions() == self.versions)
        except KeyError:
            return False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:  # noqa: FBT001
        """Return a copy of the whole array, for ``numpy.asarray``."""
        import numpy as np

        return np.asarray(self[...], dtype)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Return a key for dask: two references with the same file, version and name are equal."""
        return "asdffs", self.path, self.name, *self.versions

    def to_dask(self, chunks: Any) -> Any:
        """Return a ``dask.array.Array`` that reads each chunk when it is computed.  Raises ``NotSupportedError``."""
        try:
            import dask.array
        except ImportError as err:
            sentence = "dask is not installed: pip install 'dask[array]'"
            raise NotSupportedError(sentence, path=shown_name(self.path)) from err
        from_array: Any = dask.array.from_array
        return from_array(self, chunks=chunks, asarray=True)

    def _stale(self) -> StaleFileError:
        return StaleFileError(
            f"was changed since the array {self.name!r} was made lazy; open it again", path=shown_name(self.path)
        )


class _OpenFile:
    """A file that is open, or will be.  ``users``: reads under way.  ``opening``: held while it is opened."""

    def __init__(self, file: Opened | None = None) -> None:
        self.file = file
        self.users = 0
        self.opening = threading.Lock()

    def open(self, path: str, open_file: Callable[[str], Opened]) -> Opened:
        """Return the file, which one of several threads opens."""
        with self.opening:
            if self.file is None:
                self.file = open_file(path)
            return self.file

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self.file is not None:
            self.file.close()


class OpenFiles:
    """The files that this process keeps open for references.  The last one is the one that was used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._inherited: list[object] = []

    @contextlib.contextmanager
    def using(self, path: str, open_file: Callable[[str], Opened]) -> Iterator[Opened]:
        """Keep the file at ``path`` open inside the block.  Raises as ``open_file``."""
        entry = self._entry(path)
        try:
            yield entry.open(path, open_file)
        finally:
            self._leave(path, entry)

    def keep(self, path: str, file: Opened) -> None:
        """Use ``file``, which was just opened, for the next reads of ``path``."""
        with self._lock:
            known = self._open.pop(path, None)
            self._open[path] = _OpenFile(file)
            unneeded = [*([known] if known is not None and not known.users else []), *self._evicted()]
        _close(unneeded)

    def close(self) -> None:
        """Close all files, because the process ends."""
        while self._open:
            self._open.popitem()[1].close()

    def forget(self) -> None:
        """Use none of the files, because they are those of the process of which this is a fork."""
        self._lock = threading.Lock()  # another thread of that process may have held the lock
        self._inherited.append(self._open)  # kept, because the stores of remote files cannot end in a fork
        self._open = OrderedDict()

    def _entry(self, path: str) -> _OpenFile:
        with self._lock:
            entry = self._open.pop(path, None) or _OpenFile()
            self._open[path] = entry
            entry.users += 1
            return entry

    def _leave(self, path: str, entry: _OpenFile) -> None:
        with self._lock:
            entry.users -= 1
            replaced = not entry.users and self._open.get(path) is not entry
            unneeded = [*([entry] if replaced else []), *self._evicted()]
        _close(unneeded)

    def _evicted(self) -> list[_OpenFile]:
        """Remove the files that were not used for longest, if there are too many, and return them."""
        unused = [path for path, one in self._open.items() if not one.users]
        return [self._open.pop(path) for path in unused[: max(0, len(self._open) - _MOST)]]


def _close(entries: list[_OpenFile]) -> None:
    """Close files; no lock is held, because that may take a while."""
    for entry in entries:
        entry.close()


#: The files of this process.
open_files: Final = OpenFiles()
atexit.register(open_files.close)
os.register_at_fork(after_in_child=open_files.forget)
