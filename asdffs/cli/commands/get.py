"""``asdffs get PATH FILE...``: print values of the tree."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.cli.arguments import PATHS, WHERE, add_json, add_remote, add_where
from asdffs.cli.printing import aligned, on_one_line, print_json, say
from asdffs.cli.reading import remote_of
from asdffs.cli.results import ExitCode, for_each
from asdffs.document.scanning import footprint_in
from asdffs.errors import UsageError
from asdffs.storage.urls import is_remote
from asdffs.tree.lookups import Values, for_json, plain
from asdffs.tree.paths import Path, format_path, parse_path
from asdffs.workflows.ahead import looks_at_texts

if TYPE_CHECKING:  # conditions take as long to import as all of this
    from asdffs.tree.conditions import Condition

SUMMARY: Final = "print values of the tree"

_MISSING: Final = object()


class Row(NamedTuple):
    """The values of one file, as they are printed; ``_MISSING`` for one that is missing.

    ``missing``: why.  ``twice``: sentences about keys of the paths that a mapping has twice.
    """

    file: str
    cells: list[Any]
    missing: list[str]
    twice: list[str]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = f"""\
example:
  asdffs get roman.meta.exposure.type data.asdf
  asdffs get roman.meta.filename -p roman.meta.exposure.type *.asdf     a table
  asdffs get --json roman.meta data.asdf | jq .

Text is printed without quotes, and a mapping or sequence as YAML.  Several files give a table: one row for
each file, columns separated by tabs unless the output is a terminal.  Exit code 1: a value is missing.

{PATHS}
{WHERE}"""
    parser.add_argument("path", metavar="PATH", help="the value to print")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file")
    parser.add_argument(
        "-p", "--path", dest="paths", metavar="PATH", action="append", default=[], help="another value"
    )
    how = parser.add_mutually_exclusive_group()
    add_json(how, "JSON: the value; of several files, an array")
    how.add_argument("--yaml", action="store_true", help="print YAML without tags")
    how.add_argument("--raw", action="store_true", help="print the text as it is written in the tree")
    parser.add_argument("--default", metavar="TEXT", help="print this for a missing value, and exit with 0")
    add_where(parser)
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the values; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    if os.path.isfile(arguments.path) and not any(
        os.path.exists(file) or is_remote(file) for file in arguments.files
    ):
        raise UsageError("is a file; the path of the value comes first: asdffs get PATH FILE", path=arguments.path)
    paths = [parse_path(path) for path in (arguments.path, *arguments.paths)]
    condition = _condition(arguments.where)
    rows: list[Row] = []

    def take(file: str, found: tuple[list[Any], list[str], list[str]] | None) -> int:
        if found is None:
            return int(ExitCode.OK)
        rows.append(Row(file, *found))
        told = [*rows[-1].missing, *(f"{sentence}; programs read the last one" for sentence in rows[-1].twice)]
        say(*(f"asdffs: {file}: {sentence}" for sentence in told), file=sys.stderr)
        return int(ExitCode.NOT_FOUND if rows[-1].missing else ExitCode.OK)

    work = looks_at_texts(
        arguments.files, remote_of(arguments), lambda text: _cells(text, paths, condition, arguments)
    )
    code = for_each(work, take)
    (_print_json if arguments.json else _print_text)(arguments, paths, rows)
    if not (code or rows):
        say("asdffs: the condition holds for no file", file=sys.stderr)
        return int(ExitCode.NOT_FOUND)
    return code


def _condition(text: str | None) -> Condition | None:
    """Return the condition of ``--where``; None without one.  Raises ``UsageError``."""
    if text is None:
        return None
    from asdffs.tree.conditions import parse_condition

    return parse_condition(text)


def _cells(
    text: bytes, paths: Sequence[Path], condition: Condition | None, arguments: argparse.Namespace
) -> tuple[list[Any], list[str], list[str]] | None:
    """Return the values of a file with ``text``, or the default, why others are missing, and which keys are twice.

    Return None if the condition does not hold.  Raises ``AsdffsError``.
    """
    values = Values(text)
    if condition is not None and not values.hold(condition, partial(footprint_in, text)):
        return None
    cells = [_cell(values, path, arguments) for path in paths]
    missing = [path for path, cell in zip(paths, cells, strict=True) if cell is _MISSING]
    twice = [sentence for path in paths if (sentence := values.twice(path))]
    if arguments.default is not None:
        return [arguments.default if cell is _MISSING else cell for cell in cells], [], twice
    return cells, list(map(values.missing, missing)), twice


def _cell(values: Values, path: Path, arguments: argparse.Namespace) -> Any:
    if arguments.raw:
        written = values.written(path)
        return _MISSING if written is None else written
    found = values.find(path)
    if found is None:
        return _MISSING
    if arguments.json:
        return for_json(found)
    if isinstance(found.value, (dict, list)) or arguments.yaml:
        from asdffs.cli.trees import as_yaml

        return as_yaml(plain(found))
    return found.text


def _print_json(arguments: argparse.Namespace, paths: Sequence[Path], rows: Sequence[Row]) -> None:
    names = [format_path(path) for path in paths]
    cells = [[None if cell is _MISSING else cell for cell in row.cells] for row in rows]
    objects = [row[0] if len(paths) == 1 else dict(zip(names, row, strict=True)) for row in cells]
    if len(arguments.files) > 1:
        found: Any = [{"file": row.file, "value": one} for row, one in zip(rows, objects, strict=True)]
        print_json(found)
    else:  # null if the condition does not hold, or the file cannot be read
        print_json(objects[0] if objects else None)


def _print_text(arguments: argparse.Namespace, paths: Sequence[Path], rows: Sequence[Row]) -> None:
    if len(arguments.files) == 1:
        for row in rows:
            say(*(line for cell in row.cells if cell is not _MISSING for line in str(cell).split("\n")))
        return
    table = [["FILE", *map(format_path, paths)]] if len(paths) > 1 else []
    table += [[row.file, *map(_on_one_line, row.cells)] for row in rows]
    for line in aligned(table, between="  ") if sys.stdout.isatty() else ("\t".join(cells) for cells in table):
        say(line)


def _on_one_line(cell: Any) -> str:
    """Return a cell of a table; one that is missing is empty."""
    return "" if cell is _MISSING else on_one_line(str(cell))
