"""The arguments of the commands that look up and change single values, in one file or in many."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import SCHEMA, add_command, add_json, add_remote

_WHERE = """--where selects files by a condition on their values (docs/conditions.md):
  'roman.meta.instrument.name == "WFI" and roman.meta.exposure.time > 100'
  'exists roman.meta.cal_step', 'meta.filter in ["F158", "F184"]', 'meta.title =~ "^Survey"', not, or, (...)
A comparison with a missing value, or with one of another type, is false; with != it is true.
"""
_PATHS = """A path is roman.meta.exposure.type, items[0].name, items[-1], "odd.key".x, or a JSON Pointer (/a/b/0).
"""


def add_get(commands: Any) -> argparse.ArgumentParser:
    """``asdffs get``."""
    epilog = f"""\
example:
  asdffs get roman.meta.exposure.type data.asdf
  asdffs get roman.meta.filename -p roman.meta.exposure.type *.asdf     a table
  asdffs get --json roman.meta data.asdf | jq .

Text is printed without quotes, and a mapping or sequence as YAML.  Several files give a table: one row for
each file, columns separated by tabs unless the output is a terminal.  Exit code 1: a value is missing.

{_PATHS}
{_WHERE}"""
    parser = add_command(commands, "get", "print values of the tree", epilog)
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
    _add_where(parser)
    add_remote(parser)
    return parser


def add_set(commands: Any) -> argparse.ArgumentParser:
    """``asdffs set``."""
    epilog = f"""\
example:
  asdffs set roman.meta.exposure.type=WFI_IMAGE data.asdf
  asdffs set meta.title='Survey, 2nd part' -p meta.version=2 -p 'meta.range:=[1, 2]' *.asdf
  asdffs set --dry-run --where 'meta.version < 2' meta.version=2 *.asdf
  asdffs set --where 'meta.version < 2' meta.version=2 /data/archive     by the catalogue of asdffs index
  asdffs set --record changes.jsonl meta.version=2 *.asdf; asdffs undo changes.jsonl

PATH=VALUE sets text where text is now.  Elsewhere it sets a number (-1.5e3, 0x1F, .inf, .nan), true, false, null or
an ISO date if VALUE is one, and text if not: 01235, 12:30:45, NO, or an empty VALUE.  A change of type is reported.
PATH:=VALUE reads VALUE as YAML 1.1: '[1, 2]', '{{a: 1}}', '"quoted"'; yes is true there, and 012 is 10.
Only the bytes of the value change.  Comments, order, quotes, tags and everything else stay.  A new key goes behind
its siblings.

{_PATHS}
{_WHERE}"""
    parser = add_command(commands, "set", "set values of the tree, and keep every other byte", epilog)
    parser.add_argument("change", metavar="PATH=VALUE", help="the value to set; PATH:=VALUE takes VALUE as YAML")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --where a directory")
    parser.add_argument(
        "-p", dest="changes", metavar="PATH=VALUE", action="append", default=[], help="another value to set"
    )
    parser.add_argument("--string", action="store_true", help="take each VALUE as text, whatever it looks like")
    parser.add_argument("--create", action="store_true", help="make missing mappings on the way")
    _add_changing(parser)
    return parser


def add_unset(commands: Any) -> argparse.ArgumentParser:
    """``asdffs unset``."""
    epilog = f"""\
example:
  asdffs unset roman.meta.scratch data.asdf
  asdffs unset --missing-ok roman.meta.scratch *.asdf

The key and the comment on its line go with the value.

{_PATHS}
{_WHERE}"""
    parser = add_command(commands, "unset", "remove values from the tree", epilog)
    parser.add_argument("path", metavar="PATH", help="the value to remove")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --where a directory")
    parser.add_argument(
        "-p", "--path", dest="paths", metavar="PATH", action="append", default=[], help="another value"
    )
    _add_missing_ok(parser)
    _add_changing(parser)
    return parser


def add_rename(commands: Any) -> argparse.ArgumentParser:
    """``asdffs rename``."""
    epilog = f"""\
example:
  asdffs rename roman.meta.exposure.tpye type data.asdf

{_PATHS}
{_WHERE}"""
    parser = add_command(commands, "rename", "give a value of the tree another key", epilog)
    parser.add_argument("path", metavar="PATH", help="the value")
    parser.add_argument("key", metavar="KEY", help="its new key, in the same mapping")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --where a directory")
    _add_missing_ok(parser)
    _add_changing(parser)
    return parser


def add_undo(commands: Any) -> argparse.ArgumentParser:
    """``asdffs undo``."""
    epilog = """\
example:
  asdffs set --record changes.jsonl meta.version=2 *.asdf
  asdffs undo changes.jsonl

A value that was changed again since then stays, and is named.
"""
    parser = add_command(commands, "undo", "take back what set, unset and rename recorded", epilog)
    parser.add_argument("record", metavar="RECORD", help="file that --record wrote")
    _add_how(parser)
    return parser


def add_tree(commands: Any) -> argparse.ArgumentParser:
    """``asdffs tree``."""
    epilog = f"""\
example:
  asdffs tree data.asdf                       the text; on a terminal an outline
  asdffs tree data.asdf roman.meta
  asdffs tree --json --depth 2 data.asdf

{_PATHS}"""
    parser = add_command(commands, "tree", "print the tree, or a part of it", epilog)
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
    return parser


def add_grep(commands: Any) -> argparse.ArgumentParser:
    """``asdffs grep``."""
    epilog = """\
example:
  asdffs grep WFI data.asdf
  asdffs grep -l '^2027-0[1-6]' *.asdf

Prints path and value where the pattern, a regular expression, is found in a key or in the text of a value.
Exit code 1: there is no match.
"""
    parser = add_command(commands, "grep", "find keys and values of the tree", epilog)
    parser.add_argument("pattern", metavar="PATTERN", help="regular expression")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="ignore the case of letters")
    parser.add_argument("-F", "--fixed-strings", action="store_true", help="take PATTERN as text")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-l", "--files-with-matches", action="store_true", help="print only the names of files")
    how.add_argument("-c", "--count", action="store_true", help="print only the number of matches of each file")
    add_json(how, "one JSON array, an object for each match")
    add_remote(parser)
    return parser


def _add_missing_ok(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--missing-ok", action="store_true", help="a file without the value is left as it is")


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", metavar="CONDITION", help="only files for which the condition holds")


def _add_changing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shared", action="store_true", help="change a value also if aliases share it")
    parser.add_argument("--record", metavar="RECORD", help="write what changes to a new file, for 'asdffs undo'")
    _add_where(parser)
    parser.add_argument("--catalog", metavar="FILE", help="of a directory; see 'asdffs index'")
    _add_how(parser)


def _add_how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing; print a unified diff")
    parser.add_argument("-j", "--jobs", metavar="N", type=int, default=1, help="processes at once (default: 1)")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)
    add_json(parser, "one JSON array, an object for each file")
