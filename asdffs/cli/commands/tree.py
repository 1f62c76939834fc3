"""``asdffs tree FILE [PATH]``: print the tree, or a part of it."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from asdffs.cli.arguments import PATHS, add_json, add_remote
from asdffs.cli.printing import print_json, say
from asdffs.cli.reading import remote_of
from asdffs.cli.trees import as_yaml, print_outline
from asdffs.document.scanning import read_text
from asdffs.errors import MissingValueError, UsageError
from asdffs.tree.lookups import Values, cut, for_json, plain
from asdffs.tree.paths import Path, parse_path
from asdffs.tree.values import ValueNode

SUMMARY: Final = "print the tree, or a part of it"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = f"""\
example:
  asdffs tree data.asdf                       the text; on a terminal an outline
  asdffs tree data.asdf roman.meta
  asdffs tree --json --depth 2 data.asdf

{PATHS}"""
    parser.add_argument("file", metavar="FILE", help="ASDF file")
    parser.add_argument("path", metavar="PATH", nargs="?", default=".", help="print only this value")
    how = parser.add_mutually_exclusive_group()
    add_json(how, "JSON, without tags")
    how.add_argument("--yaml", action="store_true", help="print YAML without tags and comments")
    how.add_argument("--outline", action="store_true", help="print one line for each value, with array shapes")
    parser.add_argument(
        "--depth",
        metavar="N",
        type=int,
        help="only this many levels; below stands how much there is, such as {4 keys}",
    )
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the tree; return 0.  Raises ``AsdffsError``, ``OSError``."""
    if arguments.depth is not None and arguments.depth < 1:
        raise UsageError(f"--depth {arguments.depth}: give a number of levels from 1 on")
    path = parse_path(arguments.path)
    text = read_text(arguments.file, remote_of(arguments))
    outlined = arguments.outline or (sys.stdout.isatty() and not (arguments.json or arguments.yaml))
    if not (outlined or arguments.json or arguments.yaml or arguments.depth):
        _print_text(text, path)
        return 0
    node = _found(text, path)
    if arguments.depth is not None:
        node = cut(node, arguments.depth)
    if arguments.json:
        print_json(for_json(node))
    elif outlined:
        print_outline(node)
    else:
        say(*as_yaml(plain(node), block=True).split("\n"))
    return 0


def _found(text: bytes, path: Path) -> ValueNode:
    """Return the value at ``path``.  Raises ``MissingValueError``."""
    found = Values(text).find(path)
    if found is None:
        raise MissingValueError(Values(text).missing(path))
    return found


def _print_text(text: bytes, path: Path) -> None:
    """Print the whole text with header and comments, or the value as it is written."""
    if not path:
        say(*text.decode(errors="surrogateescape").splitlines())
        return
    written = Values(text).written(path)
    if written is None:
        raise MissingValueError(Values(text).missing(path))
    say(*written.splitlines())
