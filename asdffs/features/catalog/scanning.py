"""``asdffs.scan``: the metadata of files as a dataset of Arrow, read from the files when somebody asks.

DuckDB, polars and pandas take it like a dataset of Parquet files: they say which columns and rows they want.  A row
is a file, a column is the dotted path of a value in the tree.  Only columns that are wanted, or that the condition
needs, leave the processes that read trees; Arrow applies the condition batch by batch.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn

import pyarrow
import pyarrow.dataset

from asdffs.document.scanning import read_text, scalars_in
from asdffs.errors import AsdffsError, UsageError, reason_of
from asdffs.features.catalog.chunks import kinds_of
from asdffs.features.catalog.parquet import array_of, type_of
from asdffs.features.catalog.walking import Walk, roots_of
from asdffs.workers.pool import worker_processes
from asdffs.workflows.ahead import read_ahead

#: Columns that every dataset has: the path or URL of the file, and why it could not be read, or null.
FILE: Final = "@file"
ERROR: Final = "@error"
#: Files of a batch, and characters of a reason.
_BATCH: Final = 256
_LONGEST: Final = 500
#: More columns are not tried one by one to find those that a condition needs; all are read.
_MOST_TRIED: Final = 5000
_OWN: Final = (FILE, ERROR)
#: What pyarrow raises for a value that is not of a type.
_OTHER_TYPE: Final = (
    *(pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError),
    *(OverflowError, TypeError, ValueError),
)
Mismatch = Literal["null", "error"]


def scan(
    *places: str | os.PathLike[str],
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    sample: int = 20,
    mismatch: Mismatch = "null",
    jobs: int = 1,
) -> AsdfDataset:
    """Return the metadata of the files in ``places``, directories, files or prefixes of object stores, as a dataset.

    ``columns``: dotted paths of values, or a mapping from them to types of pyarrow; None: all scalars of the first
    ``sample`` files.  The types that are not given are those of the values in these files, and text where they
    differ.  ``mismatch``: what a later value of another type is: ``null``, or an ``error``.  ``jobs``: how many
    processes read trees; more than 1 needs a main module that can be imported (``if __name__ == "__main__"``).

    The files are listed now, and read at each use.  The dataset also has ``@file``, and ``@error``: why a file could
    not be read.  Raises ``UsageError``, ``MissingFileError``, ``RemoteError``, ``OSError``.
    """
    if mismatch not in ("null", "error"):
        raise UsageError(f"mismatch is null or error, not {mismatch}")
    if isinstance(columns, str):
        raise UsageError(f"columns is a list of paths, such as [{columns!r}]")
    walk = Walk(roots_of([os.fspath(place) for place in places], gone=False))
    files = sorted(os.fsdecode(path) for path, _ in walk.files())
    given = columns if isinstance(columns, Mapping) else {}
    wanted = None if columns is None else [name for name in dict.fromkeys(columns) if name not in _OWN]
    missing = [name for name in wanted if name not in given] if wanted is not None else None
    found = _sampled(files[:sample], missing) if missing is None or missing else {}
    types = {name: given.get(name, found.get(name, pyarrow.string())) for name in (wanted or sorted(found))}
    fields = [(FILE, pyarrow.string()), (ERROR, pyarrow.string()), *types.items()]
    return AsdfDataset(files, pyarrow.schema(fields), mismatch, jobs)


def _sampled(files: Sequence[str], wanted: Sequence[str] | None) -> dict[str, Any]:
    """Return the types of the values in ``files``; of all of them if ``wanted`` is None."""
    values: dict[str, list[Any]] = {}
    for row in _rows(files, wanted):
        for name, value in row.items():
            if name not in _OWN:
                values.setdefault(name, []).append(value)
    return {name: array_of((), type_of(kinds_of(found))).type for name, found in values.items()}


def _rows(files: Sequence[str], wanted: Sequence[str] | None) -> list[dict[str, Any]]:
    """Read files, in this process or in a worker; return what each has of ``wanted``, or all of its scalars."""
    rows = []
    for file, read in read_ahead(files, functools.partial(_values, wanted=wanted)):
        try:
            rows.append({FILE: _shown(file), **read()})
        except (AsdffsError, OSError) as err:
            reason = err.sentence if isinstance(err, AsdffsError) else reason_of(err)
            rows.append({FILE: _shown(file), ERROR: reason[:_LONGEST]})
    return rows


def _values(file: str, wanted: Sequence[str] | None) -> dict[str, Any]:
    values = scalars_in(read_text(file)).values
    return values if wanted is None else {name: values[name] for name in wanted if name in values}


def _shown(file: str) -> str:
    return file.encode("utf-8", "backslashreplace").decode()


class AsdfDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The metadata of files, a row for each.  See ``scan``.

    ``files``: their paths or URLs.  It has ``schema``, ``scanner``, and what pyarrow makes of these: ``to_table``,
    ``to_batches``, ``count_rows``, ``head``, ``take``, ``filter``.  It has no fragments.
    """

    def __init__(  # pyarrow's own would refuse
        self,
        files: Sequence[str],
        schema: pyarrow.Schema,
        mismatch: Mismatch,
        jobs: int,
        condition: pyarrow.dataset.Expression | None = None,
    ) -> None:
        self.files = files
        self._fields = schema
        self._rest = (mismatch, jobs)
        self._condition = condition

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns and their types."""
        return self._fields

    @property
    def partition_expression(self) -> pyarrow.dataset.Expression:
        """An expression that is always true: nothing is known of the files before they are read."""
        return pyarrow.compute.scalar(1) == pyarrow.compute.scalar(1)

    def __repr__(self) -> str:
        return f"<AsdfDataset of {len(self.files)} files and {len(self._fields)} columns>"

    def __reduce__(self) -> tuple[Any, ...]:
        return AsdfDataset, (self.files, self._fields, *self._rest, self._condition)

    def filter(self, expression: pyarrow.dataset.Expression) -> AsdfDataset:
        """Return the rows for which ``expression`` also holds."""
        both = expression if self._condition is None else self._condition & expression
        return AsdfDataset(self.files, self._fields, *self._rest, both)

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pyarrow.dataset.Expression] | None = None,
        filter: pyarrow.dataset.Expression | None = None,  # noqa: A002  # pyarrow's names
        batch_size: int = _BATCH,
        **options: Any,
    ) -> Scanner:
        """Return what reads the files as it is used: it has the methods of ``pyarrow.dataset.Scanner``.

        ``columns`` and ``filter`` are as of ``Dataset.scanner``; other options, which are about fragments and
        threads, mean nothing.  It raises ``pyarrow.ArrowInvalid`` for a value of another type, if ``mismatch`` is
        ``error``.
        """
        condition = self._condition
        if filter is not None:
            condition = filter if condition is None else condition & filter
        schema = self._needed(columns, condition)
        part = functools.partial(_chosen, columns=columns, condition=condition)
        return Scanner(part, self._fields, schema, self._batches(schema, max(1, min(batch_size, _BATCH))))

    def _needed(self, columns: Any, condition: pyarrow.dataset.Expression | None) -> pyarrow.Schema:
        """Return the schema of the columns that are wanted, or that an expression needs."""
        if columns is None or len(self._fields) > _MOST_TRIED:
            return self._fields
        asked = list(columns.values()) if isinstance(columns, Mapping) else []
        asked += [condition] if condition is not None else []
        named = set() if isinstance(columns, Mapping) else set(columns)
        needed = [one for one in self._fields if one.name in named or self._is_in(one.name, asked)]
        return pyarrow.schema(needed or [self._fields.field(FILE)])  # without a column there would be no rows

    def _is_in(self, name: str, expressions: Iterable[pyarrow.dataset.Expression]) -> bool:
        """Return whether an expression needs a column: then it does not fit a schema without it."""
        rest = pyarrow.schema([one for one in self._fields if one.name != name])
        for expression in expressions:
            try:
                pyarrow.dataset.Scanner.from_batches(iter(()), schema=rest, columns={"found": expression})
            except pyarrow.ArrowInvalid:
                return True
        return False

    def _batches(self, schema: pyarrow.Schema, size: int) -> Iterator[pyarrow.RecordBatch]:
        """Read the files, ``size`` at a time.  The next parts are read while one is used, if there are processes."""
        mismatch, jobs = self._rest
        wanted = [name for name in schema.names if name not in _OWN]
        parts = [self.files[start : start + size] for start in range(0, len(self.files), size)]
        if jobs <= 1 or len(parts) <= 1:
            for part in parts:
                yield _batch(_rows(part, wanted), schema, mismatch)
            return
        with worker_processes(jobs, complete=False) as pool:
            ahead = deque(pool.submit(_rows, part, wanted) for part in parts[: 2 * jobs])
            rest = iter(parts[2 * jobs :])
            while ahead:
                rows = ahead.popleft().result()
                ahead.extend(pool.submit(_rows, part, wanted) for part in itertools.islice(rest, 1))
                yield _batch(rows, schema, mismatch)

    # -- what pyarrow would do with an object of C++ -----------------------

    def get_fragments(self, filter: Any = None) -> Iterator[NoReturn]:  # noqa: A002
        """Return none: the files have no form that pyarrow reads by itself."""
        return iter(())

    def replace_schema(self, schema: pyarrow.Schema) -> AsdfDataset:
        """Return the dataset with other columns or types."""
        return AsdfDataset(self.files, schema, *self._rest, self._condition)

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Return all rows in another order, as a dataset in memory."""
        return pyarrow.dataset.dataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Return the rows joined with those of another dataset, as a dataset in memory."""
        return pyarrow.dataset.dataset(self.to_table()).join(right_dataset, *arguments, **options)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Return the rows joined with the nearest of another dataset, as a dataset in memory."""
        return pyarrow.dataset.dataset(self.to_table()).join_asof(right_dataset, *arguments, **options)


def _chosen(batch: pyarrow.RecordBatch, columns: Any, condition: Any) -> pyarrow.Table:
    """Return the columns and rows of a batch that are wanted."""
    whole = pyarrow.dataset.dataset(pyarrow.Table.from_batches([batch]))
    return whole.to_table(columns=columns, filter=condition, use_threads=False)


class Scanner:
    """One scan of a dataset, used once.  It has what pyarrow, DuckDB and polars ask a ``Scanner`` of pyarrow for.

    pyarrow's own would read ahead in a thread of Arrow, which calls Python even when the interpreter ends.  Here,
    files are read when the next rows are asked for, and by nobody else.

    ``choose(batch)`` returns a table of what is wanted of a batch.  ``whole``: all columns of the dataset;
    ``schema``: those of ``batches``.
    """

    def __init__(
        self,
        choose: Callable[[pyarrow.RecordBatch], pyarrow.Table],
        whole: pyarrow.Schema,
        schema: pyarrow.Schema,
        batches: Iterator[pyarrow.RecordBatch],
    ) -> None:
        self.dataset_schema = whole
        self.projected_schema = choose(_batch((), schema, "null")).schema
        self._choose = choose
        self._batches = batches

    def to_batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows."""
        for batch in self._batches:
            yield from self._choose(batch).to_batches()

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """Return a reader of the rows."""
        return pyarrow.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pyarrow.Table:
        """Return all rows."""
        return pyarrow.Table.from_batches(self.to_batches(), self.projected_schema)

    def head(self, num_rows: int) -> pyarrow.Table:
        """Return the first rows."""
        found, count = [], 0
        for batch in self.to_batches():
            found.append(batch)
            count += batch.num_rows
            if count >= num_rows:
                break
        return pyarrow.Table.from_batches(found, self.projected_schema).slice(0, num_rows)

    def take(self, indices: Any) -> pyarrow.Table:
        """Return rows by their numbers."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(self._choose(batch).num_rows for batch in self._batches)


def _batch(rows: Sequence[Mapping[str, Any]], schema: pyarrow.Schema, mismatch: Mismatch) -> pyarrow.RecordBatch:
    columns = [_column([row.get(one.name) for row in rows], one, rows, mismatch) for one in schema]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], field: Any, rows: Sequence[Mapping[str, Any]], mismatch: Mismatch) -> Any:
    """Return the values of a column; one of another type is null, or an error."""
    with contextlib.suppress(*_OTHER_TYPE):
        return _converted(values, field.type)
    fitting = [value if _fits(value, field.type) else None for value in values]
    if mismatch == "error":
        number = next(n for n, (value, fit) in enumerate(zip(values, fitting, strict=True)) if value is not fit)
        raise pyarrow.ArrowInvalid(f"{rows[number][FILE]}: {field.name} is {values[number]!r}, not {field.type}")
    return _converted(fitting, field.type)


def _converted(values: Sequence[Any], kind: Any) -> Any:
    if pyarrow.types.is_string(kind):
        return array_of(values, "string")
    if pyarrow.types.is_integer(kind) and any(isinstance(one, float) and not one.is_integer() for one in values):
        raise pyarrow.ArrowInvalid("pyarrow would cut off a fraction")
    numeric = pyarrow.types.is_primitive(kind) and not pyarrow.types.is_boolean(kind)
    if numeric and any(isinstance(one, bool) for one in values):
        raise pyarrow.ArrowInvalid("a boolean is no number here")
    return pyarrow.array(values, kind)


def _fits(value: Any, kind: Any) -> bool:
    try:
        _converted([value], kind)
    except _OTHER_TYPE:
        return False
    return True
