"""``asdffs unset PATH FILE...``: remove values from the tree."""

from __future__ import annotations

import argparse
from typing import Final

from asdffs.cli.arguments import PATHS, WHERE, add_changing, add_missing_ok
from asdffs.cli.value_files import change_files, chosen_files, task_of
from asdffs.tree.paths import parse_path
from asdffs.workflows.value_changes import Kind, Rules, ValueChange

SUMMARY: Final = "remove values from the tree"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = f"""\
example:
  asdffs unset roman.meta.scratch data.asdf
  asdffs unset --missing-ok roman.meta.scratch *.asdf

The key and the comment on its line go with the value.

{PATHS}
{WHERE}"""
    parser.add_argument("path", metavar="PATH", help="the value to remove")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --where a directory")
    parser.add_argument(
        "-p", "--path", dest="paths", metavar="PATH", action="append", default=[], help="another value"
    )
    add_missing_ok(parser)
    add_changing(parser)


def run(arguments: argparse.Namespace) -> int:
    """Remove the values from each file; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    changes = [ValueChange(Kind.UNSET, parse_path(path)) for path in (arguments.path, *arguments.paths)]
    rules = Rules(shared=arguments.shared, missing_ok=arguments.missing_ok)
    return change_files(arguments, chosen_files(arguments), task_of(arguments, changes, rules))
