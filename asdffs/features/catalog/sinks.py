"""Places for the files of a Parquet dataset: a directory, or a prefix of an object store."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from asdffs import registry
from asdffs.errors import NameExistsError, Remedy, RemoteError
from asdffs.storage.remote_options import RemoteOptions
from asdffs.storage.urls import is_remote

logger = logging.getLogger(__name__)

#: The tables of a dataset: the names of their directories.
TABLES: Final = ("files", "values", "arrays", "blocks")
_PART: Final = re.compile(rf"(?:{'|'.join(TABLES)})/part-\d{{6,}}\.parquet\Z")


class Sink(Protocol):
    """A place for the files of a dataset."""

    def put(self, name: str, content: bytes) -> None:
        """Store a file.  Raises ``RemoteError``, ``OSError``, as all that follow."""

    def complete(self) -> None:
        """Record that all files are stored."""

    def abandon(self) -> None:
        """Remove what was stored."""


def sink_at(place: str, options: RemoteOptions, *, force: bool) -> Sink:
    """Return the sink for a directory, or for the URL of a prefix of an object store.

    ``force``: replace a dataset that is there; anything else is never removed.  Raises ``NameExistsError``,
    ``UsageError``, ``RemoteError``, ``OSError``.
    """
    if not is_remote(place):
        return _Directory(place, force=force)
    registry.needed_feature("remote")
    return _Prefix(place, options, force=force)


def _check_free(names: Iterable[str], place: str, *, force: bool) -> None:
    """Raise ``NameExistsError`` if there are files at ``place``, unless they are a dataset that may be replaced."""
    found = list(names)
    if found and not all(map(_PART.match, found)):
        raise NameExistsError("has other files than a Parquet dataset; give another name", path=place)
    if found and not force:
        raise NameExistsError("already exists", path=place, remedy=Remedy.FORCE_REPLACE)


class _Directory:
    """A directory, which appears when all files are in it."""

    def __init__(self, place: str, *, force: bool) -> None:
        self._place = os.path.abspath(place)
        if os.path.lexists(place):
            _check_free(_files_in(place) if os.path.isdir(place) else [""], place, force=force)
        self._new = f"{self._place}.new-{os.getpid()}"

    def put(self, name: str, content: bytes) -> None:
        """See ``Sink``."""
        self._make_tables()
        with open(os.path.join(self._new, name), "wb", opener=_for_the_user_alone) as file:
            file.write(content)

    def complete(self) -> None:
        """See ``Sink``."""
        self._make_tables()
        old = f"{self._place}.old-{os.getpid()}"
        if os.path.lexists(self._place):
            os.rename(self._place, old)
        os.rename(self._new, self._place)
        shutil.rmtree(old, ignore_errors=True)

    def abandon(self) -> None:
        """See ``Sink``."""
        shutil.rmtree(self._new, ignore_errors=True)

    def _make_tables(self) -> None:
        os.makedirs(self._new, mode=0o700, exist_ok=True)  # for the user alone, as the catalogue
        for table in TABLES:
            os.makedirs(os.path.join(self._new, table), mode=0o700, exist_ok=True)


def _for_the_user_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _files_in(place: str) -> Iterator[str]:
    for folder, _, names in os.walk(place):
        yield from (os.path.relpath(os.path.join(folder, name), place) for name in names)


class _Prefix:
    """A prefix of an object store."""

    def __init__(self, place: str, options: RemoteOptions, *, force: bool) -> None:
        from asdffs.features.remote.object_stores import Prefix

        self._prefix = Prefix(place, options)
        self._stored: set[str] = set()
        self._before = {name for name, _ in self._prefix.objects()}
        _check_free(self._before, self._prefix.shown, force=force)

    def put(self, name: str, content: bytes) -> None:
        """See ``Sink``."""
        self._prefix.put(name, content)
        self._stored.add(name)

    def complete(self) -> None:
        """See ``Sink``: removes parts of the dataset that was replaced."""
        for name in sorted(self._before - self._stored):
            self._prefix.remove(name)

    def abandon(self) -> None:
        """See ``Sink``: parts that replaced others stay."""
        for name in sorted(self._stored - self._before):
            try:
                self._prefix.remove(name)
            except RemoteError as err:
                logger.warning("a part of the dataset stays: %s", err)
