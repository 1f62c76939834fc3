"""What a catalogue answers: which files it knows, their values, and tables for SQL and for an export.

``store`` has the tables, and what changes them.
"""

from __future__ import annotations

import itertools
import operator
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Self

from asdffs.arrays.footprints import UNKNOWN
from asdffs.features.catalog.chunks import FILES, Kinds, dense, unpack, unpack_column
from asdffs.features.catalog.sqlite import damage_told, error_of, select
from asdffs.tree.comparing import MISSING

#: Types are asked for: a file that is damaged, or that others wrote, may have any.
PATH: Final = "CAST(coalesce(path, x'') AS BLOB)"
_IDENTITY: Final = "CAST(coalesce(identity, '') AS TEXT)"
_NAME: Final = "CAST(coalesce(p.path, '') AS TEXT)"
_COUNT: Final = "CAST(coalesce(places, 0) AS INTEGER)"
#: The columns of a table that are exported behind the path of the file, and where they are.
_EXPORTED: Final = {
    "files": ("place size standard format container error left_out footprint", "files f"),
    "arrays": ("a.path source shape datatype compression offset", "files f JOIN arrays a ON a.file = f.id"),
    "blocks": ("number offset b.size stored compression b.error", "files f JOIN blocks b ON b.file = f.id"),
}
#: Up to so many places of a chunk are looked up one by one.
_FEW: Final = 100


class Catalog:
    """One open catalogue at ``path``, to be asked.  For one thread.

    As a context manager, it closes the file, and turns errors of SQLite into ours.
    """

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._sql = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            raise error_of(error, self.path) from error

    def close(self) -> None:
        """Close the file."""
        self._sql.close()

    def known(self, root: bytes) -> dict[bytes, str]:
        """Return the identity of each file below the directory ``root``, or of the file ``root``, by its path."""
        below, arguments = _below([root])
        return dict(self._sql.execute(f"SELECT {PATH}, {_IDENTITY} FROM files WHERE {below}", arguments).fetchall())

    def last_look(self, root: bytes) -> float:
        """Return when ``root`` was last looked at; 0 if never."""
        found = self._sql.execute("SELECT CAST(at AS REAL) FROM looks WHERE root = ?", (root,)).fetchone()
        return float(found[0]) if found is not None else 0.0

    @property
    def excluded(self) -> list[str]:
        """The patterns of files that are left out."""
        return [one for (one,) in self._sql.execute("SELECT CAST(pattern AS TEXT) FROM excluded ORDER BY 1")]

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
        query = f"SELECT {PATH}, CAST(place AS INTEGER) FROM files WHERE chunk = ? AND error = '' AND {below} {few}"
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

        Of ``files``: path, place, and what a ``FileRow`` has from ``size`` to ``footprint``.  Of ``arrays`` and
        ``blocks``: the path of the file, and the columns of the table.
        """
        below, arguments = _below(roots, "f.path")
        names, source = _EXPORTED[table]
        kinds = dict.fromkeys(("place", "size", "offset", "number", "b.size", "stored"), "INTEGER")
        each = ", ".join(f"CAST({name} AS {kinds.get(name, 'TEXT')})" for name in names.split())
        query = f"SELECT {PATH.replace('path', 'f.path')}, {each} FROM {source} WHERE f.chunk = ? AND {below}"
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


def _below(roots: Sequence[bytes], path: str = "path") -> tuple[str, list[bytes]]:
    """Return the condition that ``path`` is below one of ``roots``, and its arguments; all are without roots.

    A root may be a file.  What is below a directory is all from ``ROOT/`` up to ``ROOT0``.
    """
    each = f"({path} = ? OR ({path} > ? AND {path} < ?))"
    starts = [root.removesuffix(b"/") for root in roots]
    arguments = ((root, start + b"/", start + b"0") for root, start in zip(roots, starts, strict=True))
    return f"({' OR '.join(each for _ in roots) or '1'})", list(itertools.chain.from_iterable(arguments))
