"""``asdffs set PATH=VALUE FILE...``: set values of the tree."""

from __future__ import annotations

import argparse
import os
from typing import Final

from asdffs.cli.arguments import PATHS, WHERE, add_changing
from asdffs.cli.value_files import change_files, chosen_files, task_of
from asdffs.errors import UsageError
from asdffs.printable import as_word
from asdffs.storage.urls import is_remote
from asdffs.tree.paths import split_assignment
from asdffs.tree.snippets import BLANKS, is_yaml, parse_value, text_value, typed_value
from asdffs.workflows.value_changes import Kind, Rules, ValueChange

SUMMARY: Final = "set values of the tree, and keep every other byte"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = f"""\
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
its siblings.  FILE may be s3://BUCKET/KEY (docs/remote.md).

{PATHS}
{WHERE}"""
    parser.add_argument("change", metavar="PATH=VALUE", help="the value to set; PATH:=VALUE takes VALUE as YAML")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --where a directory")
    parser.add_argument(
        "-p", dest="changes", metavar="PATH=VALUE", action="append", default=[], help="another value to set"
    )
    parser.add_argument("--string", action="store_true", help="take each VALUE as text, whatever it looks like")
    parser.add_argument("--create", action="store_true", help="make missing mappings on the way")
    add_changing(parser)


def run(arguments: argparse.Namespace) -> int:
    """Set the values in each file; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    for word in arguments.files:
        if "=" in word and not os.path.lexists(word) and not is_remote(word):
            raise UsageError(f"{word} is not a file; another value is set by -p {as_word(word)}")
    changes = [_change(word, string=arguments.string) for word in (arguments.change, *arguments.changes)]
    rules = Rules(create=arguments.create, shared=arguments.shared)
    return change_files(arguments, chosen_files(arguments), task_of(arguments, changes, rules))


def _change(word: str, *, string: bool) -> ValueChange:
    """Return the change that PATH=VALUE or PATH:=VALUE asks for.  Raises ``UsageError``."""
    path, value, yaml = split_assignment(word)
    if yaml and string:
        raise UsageError(f"{word}: --string takes VALUE as text, and ':=' as YAML; write one of the two")
    if yaml and not value.strip(BLANKS):
        raise UsageError(f"{word}: the value is empty; write null, or \"''\" for empty text")
    if yaml:
        return ValueChange(Kind.SET, path, parse_value(value))
    if is_yaml(value) and not string:
        other = as_word(f"{word[: -len(value) - 1]}:={value}")
        raise UsageError(f"{word}: a VALUE that begins with {value[0]} is YAML: write {other}, or --string for text")
    return ValueChange(Kind.SET, path, text_value(value) if string else typed_value(value))
