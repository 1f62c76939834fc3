"""``asdffs find CONDITION [DIR...]``: list files of a catalogue by their values."""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from asdffs.cli.exit_codes import ExitCode
from asdffs.cli.index import indexed
from asdffs.cli.saying import on_one_line, say
from asdffs.errors import UsageError
from asdffs.tree.conditions import MISSING, parse_condition
from asdffs.tree.paths import format_path, parse_paths
from asdffs.workflows.catalog.places import catalog_of, roots_of
from asdffs.workflows.catalog.query import Match, find
from asdffs.workflows.catalog.store import Catalog, open_catalog


def run(arguments: argparse.Namespace) -> int:
    """Print the files; return 1 if there are none.  Raises ``AsdffsError``, ``OSError``."""
    if arguments.sql and (arguments.columns or arguments.null or arguments.places):
        raise UsageError("--sql takes no DIR, --columns or -0; say it in the SELECT")
    if arguments.null and (arguments.json or arguments.csv or arguments.columns):
        raise UsageError("-0 prints paths alone")
    path, roots = catalog_of(arguments.catalog), roots_of(arguments.places)
    if arguments.fresh:
        if not roots:
            raise UsageError("--fresh: name the directories to look at")
        indexed(path, roots)
    with closing(open_catalog(path, writable=False)) as catalog:
        return _select(arguments, catalog) if arguments.sql else _find(arguments, catalog, roots)


def _find(arguments: argparse.Namespace, catalog: Catalog, roots: Sequence[bytes]) -> int:
    paths = parse_paths(arguments.columns) if arguments.columns else []
    found = find(catalog, parse_condition(arguments.condition), roots, paths)
    names = ["file", *map(format_path, paths)]
    rows = ([os.fsdecode(match.path), *match.values] for match in found)
    if arguments.null:
        _write_paths(found)
    elif arguments.json and not paths:
        print(json.dumps([os.fsdecode(match.path) for match in found], indent=2))
    elif arguments.json or arguments.csv or paths:
        _print_table(arguments, names, rows)
    else:
        say(*(os.fsdecode(match.path) for match in found))
    return int(ExitCode.OK if found else ExitCode.NOT_FOUND)


def _select(arguments: argparse.Namespace, catalog: Catalog) -> int:
    names, rows = catalog.select(arguments.condition)
    _print_table(arguments, names, rows)
    return int(ExitCode.OK)


def _write_paths(found: Sequence[Match]) -> None:
    sys.stdout.flush()
    for match in found:
        sys.stdout.buffer.write(match.path + b"\0")
    sys.stdout.buffer.flush()


def _print_table(arguments: argparse.Namespace, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    if arguments.json:
        print(json.dumps([dict(zip(names, map(_for_json, row), strict=True)) for row in rows], indent=2))
    elif arguments.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_text(cell) for cell in row] for row in rows)
    else:
        say("\t".join(names))
        say(*("\t".join(on_one_line(_text(cell)) for cell in row) for row in rows))


def _for_json(cell: Any) -> Any:
    if cell is MISSING or (isinstance(cell, float) and not math.isfinite(cell)):
        return None
    return cell.isoformat() if isinstance(cell, datetime.date) else cell


def _text(cell: Any) -> str:
    if cell is MISSING or cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell.isoformat() if isinstance(cell, datetime.date) else str(cell)
