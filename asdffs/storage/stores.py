"""A file in an object store that a program has opened, with that program's credentials, as a ``ReadFolder``.

A store is one of obstore, or anything with its methods ``head``, ``get_range`` and ``get_ranges`` (obspec).  Parts of
64 KiB are kept in memory, so that headers of neighbouring blocks are one request.  Nothing is kept on the disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from asdffs.errors import RemoteError
from asdffs.storage.backend import Access, Extent, RemoteFile, Signature

#: Bytes of a part, and the most parts that are kept.
_PART: Final = 1 << 16
_MOST: Final = 256


class Store(Protocol):
    """An object store that a program has opened.  ``start`` and ``end`` are in bytes; the end is exclusive."""

    def head(self, path: str) -> Mapping[str, Any]:
        """Return the facts of a file: ``size`` in bytes, ``last_modified``, a datetime, and perhaps ``e_tag``."""

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        """Return bytes of a file."""

    def get_ranges(self, path: str, *, starts: Sequence[int], ends: Sequence[int]) -> Sequence[Any]:
        """Return several parts of a file."""


class StoreFolder:
    """The place of the file at ``path`` of ``store``.  ``url``: its name for messages and references.

    See ``ReadFolder``.  Methods also raise what the store raises.
    """

    def __init__(self, store: Store, path: str, url: str) -> None:
        self._file = _File(store, path, url)

    def path(self, name: str) -> str:
        """Return the URL."""
        return self._file.location

    def whereabouts(self) -> str:
        """Return the URL."""
        return self._file.location

    def open(self, name: str, *, writable: bool) -> _File:
        """Return the file.  Raises ``OSError`` (EROFS) if it shall be ``writable``."""
        if writable:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return self._file

    def signature(self, name: str) -> Signature:
        """Return the signature of the version that was opened."""
        return self._file.signature()


class _File(RemoteFile):
    """A file in a store.  See ``ReadBackend``, ``RemoteFile``."""

    def __init__(self, store: Store, path: str, url: str) -> None:
        self.name = url.rpartition("/")[2]
        self.location = url
        self.validator = _Version(store.head(path))
        self._store = store
        self._path = path
        self._parts: dict[int, bytes] = {}

    def size(self) -> int:
        """Return the size in bytes."""
        return int(self.validator.size)

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``ReadBackend``: a long part is one request, short ones come with their neighbours."""
        stop = min(offset + length, self.size())
        if stop - offset > _PART:
            return self._whole(self._store.get_range(self._path, start=offset, end=stop), stop - offset)
        numbers = range(offset // _PART, -(-stop // _PART))
        self._bring([number for number in numbers if number not in self._parts])
        found = b"".join(self._parts[number] for number in numbers)
        start = offset - offset // _PART * _PART
        return found[start : start + max(0, stop - offset)]

    def extent(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes as ``read_at``."""
        return self.read_at(offset, length)

    def unit(self) -> int:
        """Return 1: nothing is moved here."""
        return 1

    def signature(self) -> Signature:
        """Return a signature made of URL and version."""
        mark = hashlib.sha256(repr((self.location, self.validator.tag)).encode()).digest()
        stamp = self.validator.modified_ns
        return Signature(0, int.from_bytes(mark[:7], "big"), self.size(), stamp, stamp, Access(0o444))

    def close(self) -> None:
        """Forget what was read."""
        self._parts.clear()

    def requests(self) -> dict[str, Any]:
        """Return that a read may need a request."""
        return {"whole": False}

    def fetch_ahead(self, parts: Sequence[tuple[int, int]]) -> None:
        """Fetch all ``parts`` at the same time."""
        self._bring(sorted(set(self._missing(parts)))[: _MOST // 2])

    def _missing(self, parts: Sequence[tuple[int, int]]) -> Iterator[int]:
        for start, stop in parts:
            numbers = range(start // _PART, -(-min(stop, self.size()) // _PART))
            yield from (number for number in numbers if number not in self._parts)

    def _bring(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        if len(self._parts) + len(numbers) > _MOST:
            self._parts.clear()
        starts = [number * _PART for number in numbers]
        ends = [min(start + _PART, self.size()) for start in starts]
        found = self._store.get_ranges(self._path, starts=starts, ends=ends)
        for number, start, end, part in zip(numbers, starts, ends, found, strict=True):
            self._parts[number] = self._whole(part, end - start)

    def _whole(self, part: Any, length: int) -> bytes:
        """Return the bytes of an answer.  Raises ``RemoteError`` if it has not ``length`` bytes."""
        found = bytes(part)
        if len(found) != length:
            sentence = (
                f"the server sends {len(found)} bytes where it was asked for {length}; it may send only whole files"
            )
            raise RemoteError(sentence, path=self.location)
        return found


class _Version:
    """The version of a file: ``size`` in bytes, ``tag``, its ETag or None, and ``modified_ns``, its time."""

    def __init__(self, facts: Any) -> None:
        self.size = int(facts["size"])
        self.tag: str | None = facts.get("e_tag")
        self.modified_ns = int(facts["last_modified"].timestamp() * 1_000_000_000)
