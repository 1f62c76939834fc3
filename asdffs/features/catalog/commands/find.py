"""``asdffs find CONDITION [DIR...]``: list files of a catalogue by their values."""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from asdffs.cli.arguments import CATALOG, add_json, add_remote
from asdffs.cli.printing import Rows, counted, on_one_line, say
from asdffs.cli.reading import remote_of
from asdffs.cli.results import ExitCode, failed
from asdffs.errors import UsageError
from asdffs.features.catalog.catalog import Catalog
from asdffs.features.catalog.commands.index import bring_up, indexed, tell_unread, way_here
from asdffs.features.catalog.query import Match, find
from asdffs.features.catalog.store import catalog_of, open_catalog
from asdffs.features.catalog.walking import roots_of
from asdffs.printable import numbered, printable
from asdffs.tree.comparing import MISSING
from asdffs.tree.conditions import parse_condition
from asdffs.tree.lookups import json_scalar
from asdffs.tree.paths import format_path, parse_paths

#: The command that names the files whose footprint is not understood.
UNPLACED: Final = "asdffs find --sql \"SELECT path, footprint FROM file WHERE footprint LIKE '?%'\""
logger = logging.getLogger(__name__)

SUMMARY: Final = "list files of a catalogue by a condition on their values"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs find 'roman.meta.exposure.type == "WFI_IMAGE" and roman.meta.exposure.exposure_time > 100'
  asdffs find -0 'meta.flag == "bad"' /data/2026 | xargs -0 ls -l
  asdffs find --columns meta.date,meta.target 'exists meta.target'
  asdffs find 'cone(270.9, 66.5, 5 arcmin) and roman.meta.exposure.type == "WFI_IMAGE"'
  asdffs find --sql 'SELECT datatype, count(*) FROM array GROUP BY datatype'

docs/conditions.md describes CONDITION.  asdffs index has put the values into the catalogue; a file is opened only for
what the catalogue does not have.  What asdffs changed is seen; --fresh runs asdffs index on DIR first, to see also
what other programs changed.  docs/catalog.md describes the tables for --sql.
"""
    parser.add_argument("condition", metavar="CONDITION", help="what must hold; with --sql, a SELECT")
    parser.add_argument("places", metavar="DIR", nargs="*", default=[], help="only files below DIR (default: all)")
    parser.add_argument("--columns", metavar="PATH,...", help="print these values as well")
    parser.add_argument("-0", "--null", action="store_true", help="end each path with a NUL, for xargs -0")
    parser.add_argument("--csv", action="store_true", help="print a table as CSV")
    parser.add_argument("--fresh", action="store_true", help="index what changed below DIR first")
    parser.add_argument("--sql", action="store_true", help="CONDITION is a SELECT over the tables of the catalogue")
    parser.add_argument("--catalog", metavar="FILE", help=CATALOG)
    add_json(parser, "one JSON array")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the files; return 1 if there are none.  Raises ``AsdffsError``, ``OSError``."""
    if arguments.sql and (arguments.columns or arguments.null or arguments.places):
        raise UsageError("--sql takes no DIR, --columns or -0; say it in the SELECT")
    if arguments.null and (arguments.json or arguments.csv or arguments.columns):
        raise UsageError("-0 prints paths alone")
    path, roots = catalog_of(arguments.catalog), roots_of(arguments.places, gone=not arguments.fresh)
    if arguments.fresh:
        if not roots:
            raise UsageError("--fresh: name the directories to look at")
        indexed(path, roots, way_here(arguments))
    else:
        bring_up(path, roots)
    with open_catalog(path, writable=False) as catalog:
        return _select(arguments, catalog) if arguments.sql else _find(arguments, catalog, roots)


def _find(arguments: argparse.Namespace, catalog: Catalog, roots: Sequence[bytes]) -> int:
    paths = parse_paths(arguments.columns) if arguments.columns else []
    condition = parse_condition(arguments.condition)
    with counted("reading", "finding") as note:
        found, failures = find(catalog, condition, roots, paths, remote_of(arguments), note)
    _print(arguments, ["file", *map(format_path, paths)], found)
    tell_unread(catalog, roots)
    if condition.circles and (count := catalog.unplaced(roots)):
        logger.warning("%s a place on the sky that is not understood; why: %s", _with_verb(count), UNPLACED)
    codes = [failed(name, err) for name, err in failures]
    return int(max([*codes, ExitCode.OK if found else ExitCode.NOT_FOUND]))


def _with_verb(count: int) -> str:
    return f"{numbered(count, 'file')} {'has' if count == 1 else 'have'}"


def _print(arguments: argparse.Namespace, names: Sequence[str], found: Sequence[Match]) -> None:
    rows = ([os.fsdecode(match.path), *match.values] for match in found)
    if arguments.null:
        _write_paths(found)
    elif arguments.json and not arguments.columns:
        print(json.dumps([os.fsdecode(match.path) for match in found], indent=2))
    elif arguments.json or arguments.csv or arguments.columns:
        _print_table(arguments, names, rows)
    else:
        say(*(os.fsdecode(match.path) for match in found))


def _select(arguments: argparse.Namespace, catalog: Catalog) -> int:
    names, rows = catalog.select(arguments.condition)
    _print_table(arguments, names, rows)
    return int(ExitCode.OK)


def _write_paths(found: Sequence[Match]) -> None:
    sys.stdout.flush()
    terminal = sys.stdout.isatty()
    for match in found:
        name = printable(os.fsdecode(match.path), terminal=True).encode() if terminal else match.path
        sys.stdout.buffer.write(name + b"\0")
    sys.stdout.buffer.flush()


def _print_table(arguments: argparse.Namespace, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    if arguments.json:
        print(json.dumps([dict(zip(names, map(_for_json, row), strict=True)) for row in rows], indent=2))
    elif arguments.csv:
        writer = csv.writer(Rows(), lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_text(cell) for cell in row] for row in rows)
    else:
        say("\t".join(names))
        say(*("\t".join(on_one_line(_text(cell)) for cell in row) for row in rows))


def _for_json(cell: Any) -> Any:
    """Return a value as JSON has it (``json_scalar``); a missing one is null."""
    if isinstance(cell, dict):
        return {key: _for_json(item) for key, item in cell.items()}
    if isinstance(cell, list):
        return list(map(_for_json, cell))
    return None if cell is MISSING else json_scalar(cell)


def _text(cell: Any) -> str:
    if cell is MISSING or cell is None:
        return ""
    if isinstance(cell, (bool, dict, list)):
        return json.dumps(_for_json(cell), ensure_ascii=False)
    return cell.isoformat() if isinstance(cell, datetime.date) else str(cell)
