"""The file of a catalogue: SQLite.  One process writes; any number read meanwhile.

Tables ``files``, ``arrays`` and ``blocks`` have rows that SQL may read (docs/catalog.md).  Scalars are in ``columns``
and ``rare`` (``chunks``).  A file belongs to one place of one chunk.  A file that changed gets a place in a new one,
and nobody looks at the old place.  Each chunk is one transaction, so a kill loses one chunk at most.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

from asdffs.arrays.footprints import UNKNOWN
from asdffs.errors import MissingFileError, NotCatalogError, Remedy
from asdffs.features.catalog.chunks import FILES, WEIGHT, Kinds, Packed, Packer, dense, unpack, unpack_column
from asdffs.features.catalog.sqlite import connect, damage_told, error_of, select, uri_of
from asdffs.storage.own_files import cache_folder
from asdffs.tree.conditions import MISSING

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
#: Types are asked for: a file that is damaged, or that others wrote, may have any.
_PATH: Final = "CAST(coalesce(path, x'') AS BLOB)"
_IDENTITY: Final = "CAST(coalesce(identity, '') AS TEXT)"
_NAME: Final = "CAST(coalesce(p.path, '') AS TEXT)"
_COUNT: Final = "CAST(coalesce(places, 0) AS INTEGER)"
#: The columns of a table that are exported behind the path of the file, and where they are.
_EXPORTED: Final = {
    "files": ("place size standard format container error left_out footprint", "files f"),
    "arrays": ("a.path source shape datatype compression offset", "files f JOIN arrays a ON a.file = f.id"),
    "blocks": ("number offset b.size stored compression b.error", "files f JOIN blocks b ON b.file = f.id"),
}
#: Bytes of memory from which on chunks are not joined.
_HEAVY: Final = 4 * WEIGHT
#: Up to so many places of a chunk are looked up one by one.
_FEW: Final = 100


class FileRow(NamedTuple):
    """What the catalogue says about one file.  ``error``: why it could not be read, else empty.

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


class Catalog:
    """One open catalogue at ``path``.  For one thread.

    As a context manager, it closes the file, and turns errors of SQLite into ours.
    """

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._sql = connection
        self._dropped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            raise error_of(error, self.path) from error

    def close(self) -> None:
        """Close the file."""
        self._sql.close()

    # -- writing ------------------------------------------------------------

    def known(self, root: bytes) -> dict[bytes, str]:
        """Return the identity of each file below the directory ``root``, or of the file ``root``, by its path."""
        below, arguments = _below([root])
        return dict(self._sql.execute(f"SELECT {_PATH}, {_IDENTITY} FROM files WHERE {below}", arguments).fetchall())

    def add(self, files: Sequence[FileRow], packed: Packed) -> None:
        """Add a chunk of files with their scalars; what was known of these files is replaced."""
        with self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
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
        with self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
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
        with self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
            self._remove(new)
            renamed = "UPDATE files SET path = ?, identity = ? WHERE path = ? AND error = ''"
            return bool(self._sql.execute(renamed, (new, identity, path)).rowcount)

    def remove(self, paths: Iterable[bytes]) -> int:
        """Remove files that are gone, and return how many there were."""
        with self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
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
            with self._sql:
                self._sql.execute("BEGIN IMMEDIATE")
                return self._take_over()
        except sqlite3.Error as err:
            found = error_of(err, path)
            raise found if isinstance(found, NotCatalogError) else error_of(err, self.path) from err
        finally:
            self._sql.execute("DETACH DATABASE part")

    def _take_over(self) -> int:
        """Copy the rows of the attached catalogue ``part``, with numbers of their own."""
        paths = self._sql.execute(f"SELECT {_PATH} FROM part.files").fetchall()
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
        with self._sql:
            self._sql.executemany("INSERT OR REPLACE INTO looks VALUES (?, ?)", [(root, at) for root in roots])

    def exclude(self, patterns: Sequence[str]) -> None:
        """Leave out the files that ``patterns`` name, from the next index on, and no others."""
        with self._sql:
            self._sql.execute("DELETE FROM excluded")
            self._sql.executemany("INSERT OR IGNORE INTO excluded VALUES (?)", [(one,) for one in patterns])

    # -- reading ------------------------------------------------------------

    def last_look(self, root: bytes) -> float:
        """Return when ``root`` was last looked at; 0 if never."""
        found = self._sql.execute("SELECT CAST(at AS REAL) FROM looks WHERE root = ?", (root,)).fetchone()
        return float(found[0]) if found is not None else 0.0

    @property
    def excluded(self) -> list[str]:
        """The patterns of files that are left out."""
        return [one for (one,) in self._sql.execute("SELECT CAST(pattern AS TEXT) FROM excluded ORDER BY 1")]

    def identities(self, paths: Iterable[bytes]) -> dict[bytes, str]:
        """Return the identity of each file of ``paths`` that is in the catalogue."""
        query = f"SELECT {_IDENTITY} FROM files WHERE path = ?"
        found = ((path, self._sql.execute(query, (path,)).fetchone()) for path in paths)
        return {path: row[0] for path, row in found if row is not None}

    def footprints(self, cells: Iterable[tuple[int, int]]) -> dict[int, dict[int, str]]:
        """Return the footprints that have a cell in one of the ranges ``cells``: by chunk and place of the file."""
        self._sql.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (first INTEGER, last INTEGER)")
        self._sql.execute("DELETE FROM temp.wanted")
        self._sql.executemany("INSERT INTO temp.wanted VALUES (?, ?)", cells)
        query = (
            "SELECT CAST(chunk AS INTEGER), CAST(place AS INTEGER), CAST(footprint AS TEXT) FROM files "
            "WHERE id IN (SELECT s.file FROM temp.wanted w CROSS JOIN sky s ON s.cell BETWEEN w.first AND w.last)"
        )
        found: dict[int, dict[int, str]] = {}
        for chunk, place, footprint in self._sql.execute(query):
            found.setdefault(chunk, {})[place] = footprint
        return found

    def unplaced(self, roots: Sequence[bytes]) -> int:
        """Return how many files below ``roots`` (all without roots) have a footprint that is not understood."""
        below, arguments = _below(roots)
        query = f"SELECT count(*) FROM files WHERE substr(footprint, 1, 1) = ? AND {below}"
        return int(self._sql.execute(query, [UNKNOWN, *arguments]).fetchone()[0])

    def chunks(self) -> list[tuple[int, int]]:
        """Return each chunk with the number of its places, of which some may not be in use any more."""
        return list(self._sql.execute(f"SELECT chunk, min({_COUNT}, {FILES}) FROM chunks ORDER BY chunk"))

    def files_at(self, chunk: int, places: Sequence[int], roots: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
        """Yield path and place of the files at some ``places`` of a chunk that could be read.

        Only those below ``roots``; all without roots.
        """
        below, arguments = _below(roots)
        few = f"AND place IN ({','.join('?' * len(places))})" if len(places) <= _FEW else ""
        query = f"SELECT {_PATH}, CAST(place AS INTEGER) FROM files WHERE chunk = ? AND error = '' AND {below} {few}"
        wanted = set(places)
        for path, place in self._sql.execute(query, [chunk, *arguments, *(places if few else ())]):
            if place in wanted:
                yield path, place

    def unread(self, roots: Sequence[bytes]) -> int:
        """Return how many files below ``roots`` (all without roots) could not be read."""
        below, arguments = _below(roots)
        query = f"SELECT count(*) FROM files WHERE error != '' AND {below}"
        return int(self._sql.execute(query, arguments).fetchone()[0])

    def chunks_with(self, path: str) -> dict[int, bool]:
        """Return the chunks that have something at a dotted path, and whether it is left out in any file."""
        each = "SELECT chunk, kinds FROM {} WHERE path = (SELECT id FROM paths WHERE path = ?1)"
        query = f"{each.format('columns')} UNION ALL {each.format('rare')}"
        left_out = f"SELECT chunk, max(kinds & {Kinds.LEFT_OUT.value}) FROM ({query}) GROUP BY chunk"
        return {chunk: bool(sign) for chunk, sign in self._sql.execute(left_out, (path,))}

    def column(self, path: str, chunk: int, places: int) -> list[Any]:
        """Return the values at a dotted path for the ``places`` of a chunk.  Raises ``NotCatalogError``."""
        here = "WHERE path = (SELECT id FROM paths WHERE path = ?) AND chunk = ?"
        with damage_told(self.path):
            found = self._sql.execute(f"SELECT packed FROM columns {here}", (path, chunk)).fetchone()
            if found is not None:
                return unpack_column(found[0], places)
            rows = self._sql.execute(f"SELECT place, value FROM rare {here}", (path, chunk))
            return dense({place: unpack(value) for place, value in rows}, places)

    def columns_of(self, chunk: int) -> Iterator[tuple[str, dict[int, Any]]]:
        """Yield each dotted path of a chunk, and what the files at some places of it have there.

        Raises ``NotCatalogError`` if it is damaged.
        """
        columns = self._sql.execute(
            f"SELECT {_NAME}, places, packed FROM columns c JOIN paths p ON p.id = c.path "
            "JOIN chunks USING (chunk) WHERE c.chunk = ?",
            (chunk,),
        )
        rows = self._sql.execute(
            f"SELECT {_NAME}, place, value FROM rare r JOIN paths p ON p.id = r.path WHERE chunk = ? "
            "ORDER BY r.path, place",
            (chunk,),
        )
        with damage_told(self.path):
            for path, places, packed in columns:
                values = enumerate(unpack_column(packed, places))
                yield path, {place: value for place, value in values if value is not MISSING}
            for path, found in itertools.groupby(rows, operator.itemgetter(0)):
                yield path, {place: unpack(value) for _, place, value in found}

    def kinds(self, most: int, wanted: Callable[[str], bool]) -> dict[str, Kinds]:
        """Return the kinds of the scalars at ``wanted`` paths: at most so many, those that most files have."""
        self._sql.create_function("wanted", 1, wanted, deterministic=True)
        kinds = " | ".join(f"max(kinds & {kind.value})" for kind in Kinds)
        rows = self._sql.execute(
            f"SELECT {_NAME}, {kinds} AS found FROM ("
            "SELECT path, kinds, places AS files FROM columns JOIN chunks USING (chunk) "
            "UNION ALL SELECT path, kinds, 1 FROM rare) f JOIN paths p ON p.id = f.path "
            f"WHERE wanted({_NAME}) GROUP BY f.path HAVING found & {(~Kinds.NONE).scalars.value} "
            "ORDER BY sum(files) DESC, p.path LIMIT ?",
            (most,),
        )
        return {path: Kinds(found).scalars for path, found in rows}

    def use_of_chunks(self) -> list[tuple[int, int, int, int]]:
        """Return each chunk with the number of its places, how many of these are in use, and its weight."""
        return self._sql.execute(
            f"SELECT c.chunk, {_COUNT}, count(f.id), coalesce(CAST(w.weight AS INTEGER), 0) "
            "FROM chunks c LEFT JOIN weights w ON w.chunk = c.chunk LEFT JOIN files f ON f.chunk = c.chunk "
            "GROUP BY c.chunk ORDER BY c.chunk"
        ).fetchall()

    def rows_of(self, table: str, chunk: int, roots: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """Return rows for an export, of files of a chunk below ``roots`` (all without roots).

        Of ``files``: path, place, and what a ``FileRow`` has from ``size`` to ``left_out``.  Of ``arrays`` and
        ``blocks``: the path of the file, and the columns of the table.
        """
        below, arguments = _below(roots, "f.path")
        names, source = _EXPORTED[table]
        kinds = dict.fromkeys(("place", "size", "offset", "number", "b.size", "stored"), "INTEGER")
        each = ", ".join(f"CAST({name} AS {kinds.get(name, 'TEXT')})" for name in names.split())
        query = f"SELECT {_PATH.replace('path', 'f.path')}, {each} FROM {source} WHERE f.chunk = ? AND {below}"
        return self._sql.execute(f"{query} ORDER BY place", [chunk, *arguments]).fetchall()

    def counts(self) -> tuple[int, int]:
        """Return how many files there are, and how many of them could not be read."""
        found: tuple[int, int] = self._sql.execute(
            "SELECT count(*), coalesce(sum(error != ''), 0) FROM files"
        ).fetchone()
        return found

    def select(self, query: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return the names of the columns and the rows of a SELECT over the documented views (``sqlite``).

        Raises ``UsageError`` with what SQLite says.
        """
        return select(self._sql, query, self.path)


def catalog_of(path: str | None) -> str:
    """Return ``path``, or the path of the catalogue that is used if none is named."""
    return path or os.path.join(cache_folder(), "catalog.sqlite")


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
    return Catalog(path, connect(path, writable=writable))


def _below(roots: Sequence[bytes], path: str = "path") -> tuple[str, list[bytes]]:
    """Return the condition that ``path`` is below one of ``roots``, and its arguments; all are without roots.

    A root may be a file.  What is below a directory is all from ``ROOT/`` up to ``ROOT0``.
    """
    each = f"({path} = ? OR ({path} > ? AND {path} < ?))"
    starts = [root.removesuffix(b"/") for root in roots]
    arguments = ((root, start + b"/", start + b"0") for root, start in zip(roots, starts, strict=True))
    return f"({' OR '.join(each for _ in roots) or '1'})", list(itertools.chain.from_iterable(arguments))
