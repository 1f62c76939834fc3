"""Writes a catalogue as a Parquet dataset, for DuckDB, polars, pandas and Spark (docs/catalog.md).

``files/`` has a row for each file, with a column for each path of the trees, for those of most files if there are too
many; ``values/`` has a row for each value at another path.  ``arrays/`` and ``blocks/`` have a row for each array and
block.  Each chunk of the catalogue becomes one part, and all parts of a table have the same columns.
"""

from __future__ import annotations

import importlib.util
import io
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from asdffs import registry
from asdffs.errors import NameExistsError, NotSupportedError, Remedy, RemoteError
from asdffs.features.catalog.catalog import Catalog
from asdffs.features.catalog.chunks import Kinds
from asdffs.features.catalog.query import names_of
from asdffs.features.catalog.sqlite import damage_told, shown
from asdffs.storage.urls import RemoteOptions, is_remote
from asdffs.tree.comparing import MISSING, Mark
from asdffs.tree.lookups import json_scalar
from asdffs.tree.paths import Path

#: The largest number of columns for paths of the table of files.
_MOST: Final = 20_000
_FILE: Final = (("@path", "string"), ("@size", "int64"), ("@standard", "string"), ("@format", "string"))
_FILES: Final = (
    *(*_FILE, ("@container", "string"), ("@error", "string"), ("@left_out", "string"), ("@footprint", "string")),
)
_ARRAYS: Final = (
    *(("file", "string"), ("path", "string"), ("source", "string"), ("shape", "string"), ("datatype", "string")),
    *(("compression", "string"), ("offset", "int64")),
)
_VALUES: Final = (("file", "string"), ("path", "string"), ("value", "string"))
_BLOCKS: Final = (
    *(("file", "string"), ("number", "int64"), ("offset", "int64"), ("size", "int64"), ("stored", "int64")),
    *(("compression", "string"), ("error", "string")),
)
#: The type of a column whose values are of these kinds; text for all others.
_TYPES: Final = (
    (Kinds.BOOL, "bool"),
    (Kinds.INT | Kinds.LONG, "int64"),
    (Kinds.INT | Kinds.FLOAT, "float64"),
)


class Choice(NamedTuple):
    """The paths whose values are written: ``paths``, or all if these are none, but for those ``excluded``.

    A path stands for itself and what is below it.
    """

    paths: tuple[Path, ...] = ()
    excluded: tuple[Path, ...] = ()

    def test(self) -> Callable[[str], bool]:
        """Return what tells whether a dotted path was chosen."""
        within, without = _inside(self.paths), _inside(self.excluded)
        return lambda path: (not self.paths or within(path)) and not without(path)


def _inside(paths: Sequence[Path]) -> Callable[[str], bool]:
    names = {name for path in paths for name in names_of(path)}
    below = tuple(f"{name}{sign}" for name in names for sign in ".[")
    return lambda path: path in names or path.startswith(below)


class Exported(NamedTuple):
    """How many files were written, and how many of their values are in ``values/``."""

    files: int
    values: int


def export(
    catalog: Catalog,
    roots: Sequence[bytes],
    sink: Sink,
    note: Callable[[int, int], None] = lambda done, total: None,
    choice: Choice = Choice(),  # noqa: B008  # it is not changed
) -> Exported:
    """Write the files below ``roots`` (all without roots) as a dataset.

    ``note(done, total)`` is called with numbers of files.  Raises ``NotSupportedError`` if pyarrow is not installed,
    ``StorageError``, ``OSError``.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise NotSupportedError("Parquet needs pyarrow, which is not installed: pip install 'asdffs[parquet]'")
    wanted = choice.test()
    types = {path: type_of(kinds) for path, kinds in sorted(catalog.kinds(_MOST, wanted).items())}
    try:
        files = values = 0
        total, _ = catalog.counts()
        seen = 0
        for chunk, _, used, _ in catalog.use_of_chunks():
            done = _export_chunk(catalog, chunk, roots, types, wanted, sink)
            files, values = files + done.files, values + done.values
            seen += used
            note(seen, total)
        sink.complete()
    except BaseException:
        sink.abandon()
        raise
    return Exported(files, values)


def type_of(kinds: Kinds) -> str:
    """Return the name of the Arrow type of a column with values of these kinds."""
    return next((name for known, name in _TYPES if kinds and not kinds & ~known), "string")


def _export_chunk(
    catalog: Catalog,
    chunk: int,
    roots: Sequence[bytes],
    types: dict[str, str],
    wanted: Callable[[str], bool],
    sink: Sink,
) -> Exported:
    files = catalog.rows_of("files", chunk, roots)
    if not files:
        return Exported(0, 0)
    names = {place: shown(path) for path, place, *_ in files}
    table = _table(_FILES, [(shown(path), *rest) for path, _, *rest in files])
    more = list[tuple[str, str, str | None]]()
    for path, values in catalog.columns_of(chunk):
        if path in types:
            with damage_told(catalog.path):  # the values are not of the kinds that it says
                table[path] = array_of([values.get(place, MISSING) for _, place, *_ in files], types[path])
        elif wanted(path):
            told = ((names[place], path, _text(value)) for place, value in values.items() if place in names)
            more += (row for row in told if row[2] is not None)
    import pyarrow

    every = (*_FILES, *types.items())
    whole = {name: table[name] if name in table else pyarrow.nulls(len(files), kind) for name, kind in every}
    sink.put(f"files/part-{chunk:06d}.parquet", _packed(whole))
    sink.put(f"values/part-{chunk:06d}.parquet", _packed(_table(_VALUES, more)))
    for name, columns in (("arrays", _ARRAYS), ("blocks", _BLOCKS)):
        rows = [(shown(path), *rest) for path, *rest in catalog.rows_of(name, chunk, roots)]
        sink.put(f"{name}/part-{chunk:06d}.parquet", _packed(_table(columns, rows)))
    return Exported(len(files), len(more))


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {name: array_of([row[number] for row in rows], kind) for number, (name, kind) in enumerate(columns)}


def array_of(values: Sequence[Any], kind: str) -> Any:
    """Return values as an array of Arrow.  What is no scalar is null; in a column of text, numbers are as in JSON."""
    import pyarrow

    convert = _text if kind == "string" else _number
    return pyarrow.array([convert(value) for value in values], kind)


def _number(value: Any) -> Any:
    return None if value is MISSING or isinstance(value, Mark) else value


def _text(value: Any) -> str | None:
    """Return a value as text: dates as in ISO 8601, and all but text in the form of JSON."""
    if value is None or value is MISSING or isinstance(value, Mark):
        return None
    told = json_scalar(value)
    return told.encode("utf-8", "replace").decode() if isinstance(told, str) else json.dumps(told)


def _packed(table: dict[str, Any]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table(table), file, compression="zstd")
    return file.getvalue()


# -- places for the files of a dataset: a directory, or a prefix of an object store --

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
