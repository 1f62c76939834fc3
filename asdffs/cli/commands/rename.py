"""``asdffs rename PATH KEY FILE...``: give a value of the tree another key."""

from __future__ import annotations

import argparse
from typing import Final

from asdffs.cli.arguments import PATHS, WHERE, add_changing, add_missing_ok
from asdffs.cli.value_files import change_files, chosen_files, task_of
from asdffs.errors import UsageError
from asdffs.tree.paths import parse_path
from asdffs.workflows.value_changes import Kind, Rules, ValueChange

SUMMARY: Final = "give a value of the tree another key"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = f"""\
example:
  asdffs rename roman.meta.exposure.tpye type data.asdf

{PATHS}
{WHERE}"""
    parser.add_argument("path", metavar="PATH", help="the value")
    parser.add_argument("key", metavar="KEY", help="its new key, in the same mapping")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --where a directory")
    add_missing_ok(parser)
    add_changing(parser)


def run(arguments: argparse.Namespace) -> int:
    """Rename the key in each file; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    path = parse_path(arguments.path)
    change = ValueChange(Kind.RENAME, path, key=_key(path, arguments.key))
    rules = Rules(shared=arguments.shared, missing_ok=arguments.missing_ok)
    return change_files(arguments, chosen_files(arguments), task_of(arguments, [change], rules))


def _key(path: tuple[str | int, ...], word: str) -> str:
    """Return the new key: ``word``, or the last key of a path with the same parent.  Raises ``UsageError``."""
    new = parse_path(word)
    if len(new) == 1 or (new and new[:-1] == path[:-1]):
        return str(new[-1])
    raise UsageError(f"{word!r} is in another mapping; a value only gets another key in its own mapping")
