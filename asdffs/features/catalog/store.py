"""The file of a catalogue: SQLite.  One process writes; any number read meanwhile.

Tables ``files``, ``arrays`` and ``blocks`` have rows that SQL may read (docs/catalog.md).  Scalars are in ``columns``
and ``rare`` (``chunks``).  A file belongs to one place of one chunk.  A file that changed gets a place in a new one,
and nobody looks at the old place.  Each chunk is one transaction, so a kill loses one chunk at most.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, overload

from asdffs.errors import MissingFileError, NotCatalogError, Remedy
from asdffs.features.catalog.catalog import PATH, Catalog
from asdffs.features.catalog.chunks import WEIGHT, Packed, Packer
from asdffs.features.catalog.sqlite import connect, error_of, uri_of
from asdffs.storage.own_files import cache_folder

_COPY_COLUMNS: Final = """
INSERT INTO columns SELECT mine.id, c.chunk + ?, c.kinds, c.packed
    FROM part.columns c JOIN part.paths its ON its.id = c.path JOIN main.paths mine ON mine.path = its.path
"""
_COPY_RARE: Final = """
INSERT INTO rare SELECT mine.id, r.chunk + ?, r.place, r.kinds, r.value
    FROM part.rare r JOIN part.paths its ON its.id = r.path JOIN main.paths mine ON mine.path = its.path
"""
_COPY_ARRAYS: Final = """
INSERT INTO arrays SELECT file + ?, path, source, shape, datatype, compression, offset FROM part.arrays
"""
_COPY_BLOCKS: Final = """
INSERT INTO blocks SELECT file + ?, number, offset, size, stored, compression, error FROM part.blocks
"""
_COPY_FILES: Final = """
INSERT INTO files
    SELECT id + ?, path, identity, size, standard, format, container, error, left_out, footprint, chunk + ?, place
    FROM part.files
"""
_COPY_CELLS: Final = "INSERT INTO sky SELECT cell, file + ? FROM part.sky"
#: Bytes of memory from which on chunks are not joined.
_HEAVY: Final = 4 * WEIGHT


class FileRow(NamedTuple):
    """One file as the catalogue has it.  ``error``: why it could not be read, else empty.

    ``footprint``: where it is on the sky (``arrays/footprints``); ``cells``: those of the sky that have it.
    """

    path: bytes
    identity: str
    size: int
    standard: str = ""
    format: str = ""
    container: str = ""
    error: str = ""
    left_out: tuple[str, ...] = ()
    footprint: str = ""
    cells: tuple[int, ...] = ()
    arrays: tuple[tuple[Any, ...], ...] = ()
    blocks: tuple[tuple[Any, ...], ...] = ()


class WritableCatalog(Catalog):
    """One open catalogue that is changed.  Whoever changes it is alone (``indexing.writing``)."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self._dropped = False

    @contextlib.contextmanager
    def _changes(self) -> Iterator[None]:
        """Make all changes of the body, or none if it raises or the process is killed."""
        with self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
            yield

    def add(self, files: Sequence[FileRow], packed: Packed) -> None:
        """Add a chunk of files with their scalars; what was known of these files is replaced."""
        with self._changes():
            chunk = self._insert_chunk(len(files), packed)
            for place, row in enumerate(files):
                self._remove(row.path)
                self._insert(row, chunk, place)
            self._drop_unused()

    def _insert_chunk(self, places: int, packed: Packed) -> int:
        """Add a chunk, and return its number."""
        chunk = self._sql.execute("INSERT INTO chunks VALUES (NULL, ?)", (places,)).lastrowid
        assert chunk is not None
        self._sql.execute("INSERT INTO weights VALUES (?, ?)", (chunk, packed.weight))
        paths = dict.fromkeys(itertools.chain(packed.columns, (one.path for one in packed.rare)))
        self._sql.executemany("INSERT OR IGNORE INTO paths (path) VALUES (?)", ((path,) for path in paths))
        self._sql.executemany(
            "INSERT INTO columns SELECT id, ?, ?, ? FROM paths WHERE path = ?",
            ((chunk, one.kinds.value, one.packed, path) for path, one in packed.columns.items()),
        )
        self._sql.executemany(
            "INSERT INTO rare SELECT id, ?, ?, ?, ? FROM paths WHERE path = ?",
            ((chunk, one.place, one.kinds.value, one.value, one.path) for one in packed.rare),
        )
        return chunk

    def join(self, chunks: Sequence[int]) -> None:
        """Put the files of some chunks into one new chunk, without the places that are not in use.

        Chunks that say that they are small, and are not, stay.
        """
        with self._changes():
            files, packer = list[int](), Packer()
            for chunk in chunks:
                kept = self._places_of(chunk)
                places = {place: packer.files + number for number, (_, place) in enumerate(kept)}
                for path, values in self.columns_of(chunk):
                    packer.join(path, {places[place]: value for place, value in values.items() if place in places})
                    if packer.weight > _HEAVY:
                        return
                files += (number for number, _ in kept)
                packer.files = len(files)
            new = self._insert_chunk(len(files), packer.packed())
            moved = [(new, place, number) for place, number in enumerate(files)]
            self._sql.executemany("UPDATE files SET chunk = ?, place = ? WHERE id = ?", moved)
            self._drop_unused()

    def _places_of(self, chunk: int) -> list[tuple[int, int]]:
        """Return number and place of each file of a chunk, in the order of their places."""
        query = "SELECT id, CAST(place AS INTEGER) FROM files WHERE chunk = ? ORDER BY place"
        return self._sql.execute(query, (chunk,)).fetchall()

    def move(self, path: bytes, new: bytes, identity: str) -> bool:
        """Note that a file has another name now; return whether it was known, and could be read."""
        with self._changes():
            self._remove(new)
            renamed = "UPDATE files SET path = ?, identity = ? WHERE path = ? AND error = ''"
            return bool(self._sql.execute(renamed, (new, identity, path)).rowcount)

    def remove(self, paths: Iterable[bytes]) -> int:
        """Remove files that are gone, and return how many there were."""
        with self._changes():
            count = sum(self._remove(path) for path in paths)
            self._drop_unused()
        return count

    def merge(self, path: str) -> int:
        """Take over all files of the catalogue at ``path``, and return how many these are.

        What was known of the same files is replaced.  Raises ``MissingFileError``, ``NotCatalogError``, and as
        ``error_of``.
        """
        open_catalog(path, writable=False).close()  # it is there, and of this version
        self._sql.execute("ATTACH DATABASE ? AS part", (uri_of(path, "mode=ro"),))
        try:
            with self._changes():
                return self._take_over()
        except sqlite3.Error as err:
            found = error_of(err, path)
            raise found if isinstance(found, NotCatalogError) else error_of(err, self.path) from err
        finally:
            self._sql.execute("DETACH DATABASE part")

    def _take_over(self) -> int:
        """Copy the rows of the attached catalogue ``part``, with numbers of their own."""
        paths = self._sql.execute(f"SELECT {PATH} FROM part.files").fetchall()
        for (path,) in paths:
            self._remove(path)
        (chunk,) = self._sql.execute("SELECT coalesce(max(chunk), 0) FROM chunks").fetchone()
        (file,) = self._sql.execute("SELECT coalesce(max(id), 0) FROM files").fetchone()
        for statement, arguments in (
            ("INSERT OR IGNORE INTO paths (path) SELECT path FROM part.paths", ()),
            ("INSERT INTO chunks SELECT chunk + ?, places FROM part.chunks", (chunk,)),
            ("INSERT INTO weights SELECT chunk + ?, weight FROM part.weights", (chunk,)),
            (_COPY_COLUMNS, (chunk,)),
            (_COPY_RARE, (chunk,)),
            (_COPY_FILES, (file, chunk)),
            (_COPY_CELLS, (file,)),
            (_COPY_ARRAYS, (file,)),
            (_COPY_BLOCKS, (file,)),
        ):
            self._sql.execute(statement, arguments)
        self._drop_unused()
        return len(paths)

    def _drop_unused(self) -> None:
        """Remove chunks of which no place is in use."""
        unused = self._sql.execute("SELECT chunk FROM chunks WHERE chunk NOT IN (SELECT chunk FROM files)").fetchall()
        self._dropped |= bool(unused)
        for chunk in unused:
            for table in ("columns", "rare", "weights", "chunks"):
                self._sql.execute(f"DELETE FROM {table} WHERE chunk = ?", chunk)

    def forget_paths(self) -> None:
        """Remove the paths that no file has any more, if chunks were removed.  This looks at every path."""
        if self._dropped:
            unused = " AND ".join(f"id NOT IN (SELECT path FROM {table})" for table in ("columns", "rare"))
            self._sql.execute(f"DELETE FROM paths WHERE {unused}")
            self._dropped = False

    def _insert(self, row: FileRow, chunk: int, place: int) -> None:
        done = self._sql.execute(
            "INSERT INTO files VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row[:7], json.dumps(row.left_out) if row.left_out else "", row.footprint, chunk, place),
        )
        number = done.lastrowid
        self._sql.executemany("INSERT INTO sky VALUES (?, ?)", [(cell, number) for cell in row.cells])
        self._sql.executemany(
            "INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?, ?)", [(number, *one) for one in row.arrays]
        )
        self._sql.executemany(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)", [(number, *one) for one in row.blocks]
        )

    def _remove(self, path: bytes) -> int:
        found = self._sql.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
        if found is None:
            return 0
        for table, column in (("arrays", "file"), ("blocks", "file"), ("sky", "file"), ("files", "id")):
            self._sql.execute(f"DELETE FROM {table} WHERE {column} = ?", found)
        return 1

    def note_look(self, roots: Iterable[bytes], at: float) -> None:
        """Note that all below ``roots`` was looked at; ``at``: when that began, in seconds since 1970."""
        with self._changes():
            self._sql.executemany("INSERT OR REPLACE INTO looks VALUES (?, ?)", [(root, at) for root in roots])

    def exclude(self, patterns: Iterable[str]) -> None:
        """Leave out the files that ``patterns`` name, from the next index on, and no others."""
        with self._changes():
            self._sql.execute("DELETE FROM excluded")
            self._sql.executemany("INSERT OR IGNORE INTO excluded VALUES (?)", [(one,) for one in patterns])


def catalog_of(path: str | None) -> str:
    """Return ``path``, or the path of the catalogue that is used if none is named."""
    return path or os.path.join(cache_folder(), "catalog.sqlite")


@overload
def open_catalog(path: str, *, writable: Literal[True]) -> WritableCatalog: ...


@overload
def open_catalog(path: str, *, writable: Literal[False]) -> Catalog: ...


def open_catalog(path: str, *, writable: bool) -> Catalog:
    """Open the catalogue at ``path``; a writable one is made if it is missing or empty, or of an older version.

    Raises ``MissingFileError``, ``StorageError``, ``OSError``.
    """
    if not writable and not os.path.exists(path):
        raise MissingFileError("there is no catalogue", path=path, remedy=Remedy.INDEX)
    if writable:
        if path == catalog_of(None):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        elif not os.path.isdir(folder := os.path.dirname(path) or "."):  # a typing error must not make directories
            raise MissingFileError("there is no such directory for a catalogue", path=folder)
        with contextlib.suppress(FileExistsError):  # for the user alone: it has values of files of others
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return (WritableCatalog if writable else Catalog)(path, connect(path, writable=writable))
