"""``AsdfFileSystem``, the file system ``asdf`` of fsspec: what a mount of an ASDF file shows, for reading.

fsspec finds it by its entry point.  The ASDF file may be on any file system of fsspec, so it works on systems without
FUSE.  docs/fsspec.md has examples.
"""

from __future__ import annotations

import datetime
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from asdffs.document.document import Document
from asdffs.document.opening import open_with_store
from asdffs.errors import StaleFileError
from asdffs.storage.backend import read_bytes
from asdffs.vfs.names import views_of
from asdffs.vfs.staging import TREE
from asdffs.views.base import Options, ViewDirectory, ViewFile
from asdffs.views.status import CommittedTree

#: Bytes that a file reads at a time, if its program reads on.
_AHEAD = 1 << 20


class AsdfFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files that a mount of one ASDF file shows, for reading: ``tree.yaml``, ``blocks/``, ``arrays/`` and others.

    ``fo``: a path or URL of the ASDF file, or a file that is open for reading.  ``target_protocol`` and
    ``target_options``: of the file system that has ``fo``.  ``hide``: names of array formats to leave out.  A file is
    not followed if another program changes it: make the file system again, with ``skip_instance_cache=True``.

    Raises ``AsdffsError`` if it is no ASDF file, and what the other file system raises.
    """

    protocol = "asdf"
    root_marker = ""
    cachable = False

    def __init__(
        self,
        fo: Any = "",
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        hide: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        store: _Fsspec | _OpenFile
        if isinstance(fo, (str, os.PathLike)):
            found = fsspec.open(fo, "rb", protocol=target_protocol, **(target_options or {}))
            store, path, self._name = _Fsspec(found.fs), found.path, found.full_name
        else:
            store, path, self._name = _OpenFile(fo), "", str(getattr(fo, "name", "a file"))
        self._document: Document = open_with_store(store, path, self._name)
        weakref.finalize(self, self._document.close)
        self._top = _Top(self._document, Options(hidden=frozenset(hide)))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path)).strip("/")

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:  # noqa: FBT001, FBT002  # fsspec's
        """Return the entries of a directory, or the entry of a file.  Raises ``FileNotFoundError``."""
        path = self._strip_protocol(path)
        with self._document.scheduler.entered():
            found = self._find(path)
            if isinstance(found, ViewFile):
                return [self._facts(path, found)] if detail else [path]
            names = [f"{path}/{name}".lstrip("/") for name in found.names()]
            return [self._facts(name, self._find(name)) for name in names] if detail else names

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Return ``name``, ``size`` in bytes, and ``type`` of a file or directory.  Raises ``FileNotFoundError``."""
        path = self._strip_protocol(path)
        with self._document.scheduler.entered():
            return self._facts(path, self._find(path))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Return bytes of a file; ``start`` and ``end`` may count from the end.

        Raises ``OSError``, also for a directory or a missing file, and ``AsdffsError``.
        """
        path = self._strip_protocol(path)
        with self._document.scheduler.entered():
            file = self._file(path)
            first, stop, _ = slice(start, end).indices(file.size())
            return read_bytes(file.read(first, max(0, stop - first)))

    def created(self, path: str) -> datetime.datetime:
        """Return when the ASDF file was changed."""
        return self.modified(path)

    def modified(self, path: str) -> datetime.datetime:
        """Return when the ASDF file was changed."""
        return datetime.datetime.fromtimestamp(self._document.signature.mtime_ns / 1e9, datetime.UTC)

    def ukey(self, path: str) -> str:
        """Return what tells this version of a file from another, for caches."""
        return str(fsspec.utils.tokenize(self._name, self._document.validators(), self._strip_protocol(path)))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            raise OSError(30, "asdf:// is read-only; mount the file, or use asdffs.open", path)
        options = {"block_size": _AHEAD, **{name: value for name, value in options.items() if value is not None}}
        with self._document.scheduler.entered():
            self._file(self._strip_protocol(path)).open_for_reading()
        return _File(self, path, mode, **options)

    def _facts(self, path: str, found: ViewFile | ViewDirectory) -> dict[str, Any]:
        if isinstance(found, ViewFile):
            return {"name": path, "size": found.size(), "type": "file"}
        return {"name": path, "size": 0, "type": "directory"}

    def _file(self, path: str) -> ViewFile:
        found = self._find(path)
        if not isinstance(found, ViewFile):
            raise IsADirectoryError(path)
        return found

    def _find(self, path: str) -> ViewFile | ViewDirectory:
        found: ViewFile | ViewDirectory = self._top
        for name in filter(None, path.split("/")):
            if not isinstance(found, ViewDirectory):
                raise NotADirectoryError(path)
            try:
                found = found.child(name)
            except KeyError:
                raise FileNotFoundError(path) from None
        return found


class _File(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is open for reading."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs.cat_file(self.path, start, end))


class _Top(ViewDirectory):
    """The root: ``tree.yaml``, and a directory for each view that the mount shows."""

    def __init__(self, document: Document, options: Options) -> None:
        self._tree = CommittedTree(document)
        self._views = {view.directory: view for view in views_of(document, options).values()}

    def names(self) -> Iterator[str]:
        yield TREE
        yield from (name for name, view in self._views.items() if view.present())

    def child(self, name: str) -> ViewFile | ViewDirectory:
        return self._tree if name == TREE else self._views[name]


class _Fsspec:
    """A file system of fsspec as a ``Store``.  A file on a disk is looked at after each read."""

    def __init__(self, of: AbstractFileSystem) -> None:
        self._of = of
        self._on_disk = isinstance(of, LocalFileSystem)
        self._known: tuple[Any, ...] = ()

    def head(self, path: str) -> dict[str, Any]:
        facts = self._of.info(path)
        tag = facts.get("ETag") or facts.get("etag")
        try:
            modified = self._of.modified(path)
        except (NotImplementedError, KeyError, TypeError):  # some know none
            modified = _NEVER
        self._known = self._version(path)
        return {"size": facts["size"], "e_tag": tag, "last_modified": modified}

    def get_range(self, path: str, *, start: int, end: int) -> bytes:
        found = bytes(self._of.cat_file(path, start=start, end=end))
        self._check(path)
        return found

    def get_ranges(self, path: str, *, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        found = self._of.cat_ranges([path] * len(starts), list(starts), list(ends), on_error="raise")
        self._check(path)
        return [bytes(part) for part in found]

    def _version(self, path: str) -> tuple[Any, ...]:
        facts = self._of.info(path) if self._on_disk else {}
        return tuple(facts.get(name) for name in ("ino", "size", "mtime"))

    def _check(self, path: str) -> None:
        if self._on_disk and self._version(path) != self._known:
            raise StaleFileError("another program changed the file; open it again", path=path)


class _OpenFile:
    """A file that is open for reading as a ``Store``."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def head(self, path: str) -> dict[str, Any]:
        return {"size": self._file.seek(0, os.SEEK_END), "last_modified": _NEVER}

    def get_range(self, path: str, *, start: int, end: int) -> bytes:
        self._file.seek(start)
        found = b""
        while len(found) < end - start and (part := self._file.read(end - start - len(found))):
            found += part
        return found

    def get_ranges(self, path: str, *, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        return [self.get_range(path, start=start, end=end) for start, end in zip(starts, ends, strict=True)]


_NEVER = datetime.datetime.fromtimestamp(0, datetime.UTC)
