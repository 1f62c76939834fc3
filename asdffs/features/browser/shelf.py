"""The files of one page: those on the command line, or those of a directory as its catalogue lists them.

| what                      | how                                                                    |
|---------------------------|------------------------------------------------------------------------|
| one file                  | open as long as the page, for writing if it may be                     |
| several, or a directory   | read-only, open while they are used; some stay open a while longer     |

A request cannot open any other file.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from asdffs import registry
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, MissingValueError, UsageError
from asdffs.features.browser.first_sight import first_sight, main_of
from asdffs.features.browser.images import Images
from asdffs.features.browser.looking import THUMBNAIL, small_picture
from asdffs.features.browser.session import Session
from asdffs.features.browser.sky import Sky
from asdffs.features.browser.table_rows import TableRows
from asdffs.tree.lookups import json_scalar
from asdffs.tree.sphere import Polygon, coordinates_of, parse_region

#: How many files stay open when nobody uses them.
_OPEN: Final = 6
#: The most files in one answer.
MOST: Final = 200
#: The most columns of values, if none are asked for.
_COLUMNS: Final = 20


class Opened(NamedTuple):
    """An open file, and what answers questions about it."""

    session: Session
    images: Images
    tables: TableRows
    sky: Sky


def opened(session: Session) -> Opened:
    """Return what answers questions about the file of ``session``."""
    tables = TableRows(session)
    return Opened(session, Images(session), tables, Sky(session, tables))


class _Shown:
    """A file that was opened to be looked at, and how many requests use it now."""

    def __init__(self, file: Opened) -> None:
        self.file = file
        self.users = 0

    def close(self) -> None:
        document = self.file.session.document
        with document.scheduler.entered():
            document.close()


class Shelf:
    """The files of a page.  Any thread calls.

    ``first``: the one that is open as long as the page; None if several are looked at.  ``names``: the files, as
    they were typed; ``folders``: directories, whose files the ``catalog`` lists (None: the usual one).
    ``open_file(name)`` opens a file for reading.
    """

    def __init__(
        self,
        first: Session | None,
        names: Sequence[str],
        folders: Sequence[str],
        catalog: str | None,
        open_file: Callable[[str], Document],
    ) -> None:
        self.names = names
        self.folders = folders
        self._catalog = catalog
        self._first = None if first is None else opened(first)
        self._open_file = open_file
        self._open: OrderedDict[str, _Shown] = OrderedDict()
        self._listed = set(names)
        self._columns: list[str] = []
        self._lock = threading.Lock()  # short: of the two above and the users
        self._opening = threading.Lock()

    @contextlib.contextmanager
    def using(self, name: str) -> Iterator[Opened]:
        """Use a file inside the block, in which it stays open; without a name the first.

        Raises ``MissingValueError`` for a file that the page does not show, or as ``open_document``.
        """
        if self._first is not None and name in ("", *self.names):
            yield self._first
            return
        name = name or next(iter(self.names), "")
        if name not in self._listed:
            raise MissingValueError(f"{name or 'a file'}: is not one of the files that this page shows")
        shown = self._take(name)
        try:
            yield shown.file
        finally:
            self._put_back(shown)

    def _take(self, name: str) -> _Shown:
        with self._lock:
            shown = self._open.get(name)
            if shown is not None:
                shown.users += 1
                self._open.move_to_end(name)
                return shown
        with self._opening:  # other files, which are open, are used meanwhile
            with self._lock:
                shown = self._open.get(name)
            if shown is None:
                shown = _Shown(opened(Session(self._open_file(name), name, None, None)))
            with self._lock:
                shown.users += 1
                self._open[name] = shown
                self._open.move_to_end(name)
        return shown

    def _put_back(self, shown: _Shown) -> None:
        """Close the files that were used longest ago, if more than some are open and nobody uses them."""
        with self._lock:
            shown.users -= 1
            idle = [name for name, one in self._open.items() if not one.users]
            closing = [self._open.pop(name) for name in idle[: max(0, len(self._open) - _OPEN)]]
        for one in closing:
            one.close()

    def files(self, where: str, columns: Sequence[str], start: int) -> dict[str, Any]:
        """Return at most ``MOST`` of the files from number ``start`` on, with values and outlines on the sky.

        ``where``: a condition as of ``asdffs find``; empty for all files.  ``columns``: paths of values; without
        any, those of the facts about the first file.  Raises ``UsageError``, ``StorageError``.
        """
        if not self.folders:
            named = [{"name": name, "values": [], "outlines": []} for name in self.names]
            return {"total": len(named), "start": 0, "columns": [], "files": named, "failures": []}
        catalog = registry.needed_feature("catalog")
        columns = list(columns) or self._usual(catalog)
        listing = catalog.list_files(where or None, self.folders, columns, self._catalog)
        with self._lock:
            self._listed.update(listing.files)
        shown = slice(start, start + MOST)
        files = [
            {
                "name": name,
                "values": [_text(value) for value in values],
                "outlines": _outlines(listing.footprints.get(name, "")),
            }
            for name, values in zip(listing.files[shown], listing.values[shown], strict=True)
        ]
        failures = [f"{name}: {reason}" for name, reason in listing.failures[:MOST]]
        return {"total": len(listing.files), "start": start, "columns": columns, "files": files, "failures": failures}

    def thumbnail(self, name: str) -> bytes:
        """Return a small picture of the main image of a file, as PNG.  Raises ``UsageError`` if it has none."""
        with self.using(name) as found, found.session.entered() as document:
            main = main_of(document)
            if main is None or main["kind"] != "array":
                raise UsageError(f"{name}: has no image")
            array = found.session.array(main["path"])
            picture = small_picture(array, array.mask, THUMBNAIL)
        if picture is None:
            raise UsageError(f"{name}: has no image")
        return picture

    def close(self) -> None:
        """Close the files that the page opened."""
        with self._lock:
            closing = list(self._open.values())
            self._open.clear()
        for one in closing:
            one.close()

    def _usual(self, catalog: Any) -> list[str]:
        """Return the paths of the facts about the first file of the directory that can be read."""
        if not self._columns:
            self._columns = self._first_facts(catalog)
        return self._columns

    def _first_facts(self, catalog: Any) -> list[str]:
        for name in catalog.list_files(None, self.folders, (), self._catalog).files[:_COLUMNS]:
            with self._lock:
                self._listed.add(name)
            try:
                with self.using(name) as found:
                    facts = first_sight(found.session)["facts"]
            except (AsdffsError, OSError):
                continue
            return [fact["path"] for fact in facts if fact["path"]][:_COLUMNS]
        return []


def _text(value: Any) -> str:
    return "" if value is None else str(json_scalar(value)) if not isinstance(value, (dict, list)) else "…"


def _outlines(footprint: str) -> list[list[tuple[float, float]]]:
    """Return the polygons of a footprint: corners in degrees."""
    try:
        region = parse_region(footprint) if footprint else []
    except ValueError:
        return []
    return [[coordinates_of(corner) for corner in one.corners] for one in region if isinstance(one, Polygon)]
