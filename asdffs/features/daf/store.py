"""Python API of a FilesDaf store: Python and numpy objects, from a directory or an ASDF file.

>>> import asdffs.features.daf                                          # doctest: +SKIP
>>> with asdffs.features.daf.open("cells.asdf") as store:               # doctest: +SKIP
...     store.scalars["organism"], store.axes["cell"]
...     store.vectors["cell"]["age"].mean(), store.matrices["cell", "gene"]["UMIs"].sum()

Read-only.  Arrays of numbers are memory-mapped if possible.  They show the store as it was when it was opened, and
stay valid after ``close``.  For one thread at a time.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from asdffs.document.opening import open_document
from asdffs.errors import InvalidStoreError, NotSupportedError
from asdffs.features.daf.files import Files, elements, parse_lines, read_directory
from asdffs.features.daf.format import BOOL, STRING, DafScalar, Key
from asdffs.features.daf.properties import ArrayProperty, Fault, Properties, check_indices, find_properties, part_type
from asdffs.features.daf.tree_files import read_store

if TYPE_CHECKING:
    import numpy as np

K = TypeVar("K")
V = TypeVar("V")


class Lazy(Mapping[K, V], Generic[K, V]):
    """A mapping that computes its values on access."""

    def __init__(self, makers: Mapping[K, Callable[[], V]]) -> None:
        self._makers = makers

    def __getitem__(self, key: K) -> V:
        return self._makers[key]()

    def __iter__(self) -> Iterator[K]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return f"<{', '.join(map(repr, self._makers))}>"


class Store:
    """One store.  ``path``: its directory or file; ``version``: of its format; ``faults``: one sentence per fault.

    ``scalars[name]``: int, float, bool or str.  ``axes[name]``: array of the entries.  ``vectors[axis][name]``: array
    as long as the axis.  ``matrices[rows, columns][name]``: array, or a ``scipy.sparse.csc_array`` if it is sparse.
    """

    def __init__(self, files: Files, stack: ExitStack, faults: Sequence[Fault] = ()) -> None:
        self._files = files
        self._stack = stack
        found = find_properties(files)
        if found.version is None:
            raise InvalidStoreError("is not a FilesDaf store: daf.json is missing or invalid", path=files.name)
        self.path = files.name
        self.version = found.version
        self.faults = [f"{fault.path}: {fault.sentence}" for fault in (*faults, *found.faults)]
        self._found = found
        self.scalars: Mapping[str, Any] = {key.name: _python(scalar) for key, scalar in found.scalars.items()}
        self.axes: Mapping[str, np.ndarray[Any, Any]] = Lazy({name: self._axis(name) for name in found.axes})
        arrays = self._arrays()
        self.vectors: Mapping[str, Mapping[str, np.ndarray[Any, Any]]] = {
            axis: Lazy(arrays.get((axis,), {})) for axis in found.axes
        }
        self.matrices: Mapping[tuple[str, str], Mapping[str, Any]] = {
            pair: Lazy(arrays.get(pair, {})) for pair in _pairs(files, found)
        }

    def close(self) -> None:
        """Close the file."""
        self._stack.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FilesDaf store {self.path}: {', '.join(f'{axis} {n}' for axis, n in self._found.axes.items())}>"

    def parts(self, *names: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of a property as they are in its files, by part; indices count from 1.

        For example, ``parts("cell", "gene", "UMIs")``.  Raises ``KeyError``, ``InvalidStoreError``, ``OSError``.
        """
        array = self._found.arrays[Key("matrix" if len(names) > 2 else "vector", names[:-1], names[-1])]
        return {part: self._part(array, part) for part in array.parts}

    def _axis(self, name: str) -> Callable[[], np.ndarray[Any, Any]]:
        return functools.partial(_strings, self._files, Key("axis", (), name).path("txt"))

    def _arrays(self) -> dict[tuple[str, ...], dict[str, Callable[[], Any]]]:
        """Return the functions that read each array, by axes and name."""
        arrays: dict[tuple[str, ...], dict[str, Callable[[], Any]]] = {}
        for key, array in self._found.arrays.items():
            arrays.setdefault(key.axes, {})[key.name] = functools.partial(self._read, array)
        return arrays

    def _part(self, array: ArrayProperty, part: str) -> np.ndarray[Any, Any]:
        path, eltype = array.key.path(part), part_type(array, part)
        try:
            if eltype.name == STRING:
                return _strings(self._files, path)
            return elements(self._files.contents[path], eltype)
        except InvalidStoreError as err:
            err.path = err.path or self._files.shown(path)
            raise

    def _read(self, array: ArrayProperty) -> Any:
        parts = {part: self._part(array, part) for part in array.parts}
        if array.descriptor.indtype is None:
            return parts[array.parts[0]].reshape(array.shape, order="F")
        values = parts.get("nztxt", parts.get("nzval"))
        if values is None:
            values = _all_true(array.nonzero)
        for _, sentence in check_indices(array, parts):
            raise InvalidStoreError(sentence, path=self._files.shown(array.key.path("json")))
        if len(array.shape) == 1:
            return _scattered(array, parts["nzind"].astype("i8") - 1, values)
        return _sparse(array, parts, values)


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open the store in a directory or an ASDF file.

    Raises ``MissingFileError``, ``InvalidStoreError`` if it is not a store, ``NotAsdfError``, ``OSError``.
    """
    place = os.fspath(path)
    with ExitStack() as stack:
        if os.path.isdir(place):
            files, faults = read_directory(place), []
        else:
            document = stack.enter_context(closing(open_document(place, writable=False)))
            tree = read_store(document)
            files, faults = tree.files, tree.faults
        return Store(files, stack.pop_all(), faults)


def _pairs(files: Files, found: Properties) -> list[tuple[str, str]]:
    """Return the pairs of axes that have a directory."""
    parts = [path.split("/")[1:] for path in sorted(files.directories) if path.startswith("matrices/")]
    return [(part[0], part[1]) for part in parts if len(part) == 2 and set(part) <= set(found.axes)]


def _python(scalar: DafScalar) -> Any:
    if scalar.eltype.name in (STRING, BOOL):
        return scalar.value
    return int(scalar.value) if scalar.eltype.integer else float(scalar.value)


def _strings(files: Files, path: str) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.array(parse_lines(files.whole(path)), dtype=object)


def _all_true(count: int) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.ones(count, np.bool_)


def _scattered(array: ArrayProperty, places: Any, values: Any) -> np.ndarray[Any, Any]:
    """Return a sparse vector as a dense array."""
    import numpy as np

    found = np.full(array.shape, "" if array.eltype.name == STRING else 0, values.dtype)
    found[places] = values
    return found


def _sparse(array: ArrayProperty, parts: Mapping[str, Any], values: Any) -> Any:
    """Return a sparse matrix; a dense one for strings, because scipy has no sparse matrices of strings.

    Raises ``NotSupportedError`` if scipy is not installed.
    """
    import numpy as np

    columns, rows = parts["colptr"].astype(np.int64) - 1, parts["rowval"].astype(np.int64) - 1
    if array.eltype.name == STRING:
        found = np.full(array.shape, "", object)
        found[rows, np.repeat(np.arange(array.shape[1]), np.diff(columns))] = values
        return found
    try:
        from scipy.sparse import csc_array
    except ImportError as err:
        sentence = "is a sparse matrix, which needs scipy: pip install 'asdffs[daf]'; Store.parts returns its arrays"
        raise NotSupportedError(sentence, path=array.key.path("json")) from err
    return csc_array((values, rows, columns), shape=array.shape)
