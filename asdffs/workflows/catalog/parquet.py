"""Writes a catalogue as a Parquet dataset, for DuckDB, polars, pandas and Spark (docs/catalog.md).

``files/`` has a row for each file, with a column for each path of the trees; ``arrays/`` and ``blocks/`` have a row
for each array and block.  Each chunk of the catalogue becomes one part, and all parts of a table have the same
columns.
"""

from __future__ import annotations

import datetime
import importlib.util
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from asdffs.errors import NotSupportedError, StorageError
from asdffs.tree.conditions import MISSING, Mark
from asdffs.workflows.catalog.chunks import Kinds
from asdffs.workflows.catalog.sinks import Sink
from asdffs.workflows.catalog.store import Catalog

#: The largest number of columns of the table of files.
_MOST: Final = 20_000
_FILE: Final = (("@path", "string"), ("@size", "int64"), ("@standard", "string"), ("@format", "string"))
_FILES: Final = (*_FILE, ("@container", "string"), ("@error", "string"), ("@left_out", "string"))
_ARRAYS: Final = (
    *(("file", "string"), ("path", "string"), ("source", "string"), ("shape", "string"), ("datatype", "string")),
    *(("compression", "string"), ("offset", "int64")),
)
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


def export(
    catalog: Catalog, roots: Sequence[bytes], sink: Sink, note: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Write the files below ``roots`` (all without roots) as a dataset, and return how many these are.

    ``note(done, total)`` is called with numbers of files.  Raises ``NotSupportedError`` if pyarrow is not installed,
    ``StorageError``, ``OSError``.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise NotSupportedError("Parquet needs pyarrow, which is not installed: pip install 'asdffs[parquet]'")
    types = _types_of(catalog)
    try:
        done = 0
        total, _ = catalog.counts()
        seen = 0
        for chunk, _, used in catalog.use_of_chunks():
            done += _export_chunk(catalog, chunk, roots, types, sink)
            seen += used
            note(seen, total)
        sink.complete()
    except BaseException:
        sink.abandon()
        raise
    return done


def _types_of(catalog: Catalog) -> dict[str, str]:
    """Return the type of each column of values.  Paths that have only mappings and lists have none."""
    kinds = {path: kinds & ~Kinds.COLLECTION for path, kinds in catalog.kinds().items()}
    types = {path: type_of(kinds) for path, kinds in sorted(kinds.items()) if kinds}
    if len(types) > _MOST:
        raise StorageError(
            f"has {len(types)} paths, and a Parquet table gets {_MOST} columns at most; index fewer kinds of files",
            path=catalog.path,
        )
    return types


def type_of(kinds: Kinds) -> str:
    """Return the name of the Arrow type of a column with values of these kinds."""
    return next((name for known, name in _TYPES if kinds and not kinds & ~known), "string")


def _export_chunk(catalog: Catalog, chunk: int, roots: Sequence[bytes], types: dict[str, str], sink: Sink) -> int:
    files = catalog.rows_of("files", chunk, roots)
    if not files:
        return 0
    places = [place for _, place, *_ in files]
    facts = [(_shown(path), *rest) for path, _, *rest in files]
    table = _table(_FILES, facts)
    for path, values in catalog.columns_of(chunk):
        if path in types:
            table[path] = _array([values[place] for place in places], types[path])
    whole = {name: table.get(name, _array([MISSING] * len(files), kind)) for name, kind in (*_FILES, *types.items())}
    sink.put(f"files/part-{chunk:06d}.parquet", _packed(whole))
    for name, columns in (("arrays", _ARRAYS), ("blocks", _BLOCKS)):
        rows = [(_shown(path), *rest) for path, *rest in catalog.rows_of(name, chunk, roots)]
        sink.put(f"{name}/part-{chunk:06d}.parquet", _packed(_table(columns, rows)))
    return len(files)


def _shown(path: bytes) -> str:
    """Return a path as text: other bytes than UTF-8 are escaped, as in ``find --sql``."""
    return path.decode("utf-8", "backslashreplace")


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {name: _array([row[number] for row in rows], kind) for number, (name, kind) in enumerate(columns)}


def _array(values: Sequence[Any], kind: str) -> Any:
    import pyarrow

    convert = _text if kind == "string" else _number
    return pyarrow.array([convert(value) for value in values], getattr(pyarrow, kind.replace("bool", "bool_"))())


def _number(value: Any) -> Any:
    return None if value is MISSING or isinstance(value, Mark) else value


def _text(value: Any) -> str | None:
    """Return a value as text: dates as in ISO 8601, and all but text in the form of JSON."""
    if value is None or value is MISSING or isinstance(value, Mark):
        return None
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else json.dumps(value)


def _packed(table: dict[str, Any]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table(table), file, compression="zstd")
    return file.getvalue()
