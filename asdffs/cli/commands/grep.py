"""``asdffs grep PATTERN FILE...``: find keys and values of the tree."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from asdffs.cli.arguments import add_json, add_remote
from asdffs.cli.printing import print_json, say
from asdffs.cli.reading import remote_of
from asdffs.cli.results import ExitCode, for_each
from asdffs.errors import InvalidTreeError
from asdffs.tree.paths import format_path
from asdffs.tree.patterns import TOO_SLOW, Pattern
from asdffs.workflows.ahead import looks_at_texts

SUMMARY: Final = "find keys and values of the tree"


class Match(NamedTuple):
    """A scalar, or a value whose key matches: its path, as JSON has it, and on one line."""

    path: str
    value: object
    shown: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs grep WFI data.asdf
  asdffs grep -l '^2027-0[1-6]' *.asdf

Prints path and value where the pattern, a regular expression, is found in a key or in the text of a value.
Exit code 1: there is no match.  A file that cannot have a match is not parsed, so a mistake in its tree is not told.
"""
    parser.add_argument("pattern", metavar="PATTERN", help="regular expression")
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="ignore the case of letters")
    parser.add_argument("-F", "--fixed-strings", action="store_true", help="take PATTERN as text")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-l", "--files-with-matches", action="store_true", help="print only the names of files")
    how.add_argument("-c", "--count", action="store_true", help="print only the number of matches of each file")
    add_json(how, "one JSON array, an object for each match")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the matches; return 0, 1 without any, or the code of a file that could not be read."""
    text = re.escape(arguments.pattern) if arguments.fixed_strings else arguments.pattern
    pattern = Pattern(text, re.IGNORECASE if arguments.ignore_case else 0)
    found: list[dict[str, object]] = []

    def take(file: str, matches: list[Match]) -> int:
        found.extend({"file": file, "path": match.path, "value": match.value} for match in matches)
        _print(arguments, file, matches)
        return 0

    work = looks_at_texts(arguments.files, remote_of(arguments), lambda text: list(_matches(text, pattern)))
    code = for_each(work, take)
    if arguments.json:
        print_json(found)
    return code or (0 if found else int(ExitCode.NOT_FOUND))


def _matches(text: bytes, pattern: Pattern) -> Iterator[Match]:
    """Yield each scalar that matches, and each value whose key does.  Text without a match is not parsed."""
    if not pattern.may_be_in(text):
        return
    from asdffs.tree.lookups import Values, for_json, short, walk  # late: it takes longer than a hundred files

    for path, node in walk(Values(text).root()):
        is_scalar = not isinstance(node.value, (dict, list))
        texts = [*(step for step in path[-1:] if isinstance(step, str)), *([node.text] if is_scalar else [])]
        found = [pattern.search(one) for one in texts]
        if None in found:
            raise InvalidTreeError(f"{format_path(path)}: {TOO_SLOW}")
        if True in found:
            yield Match(format_path(path), for_json(node), short(node))


def _print(arguments: argparse.Namespace, file: str, matches: list[Match]) -> None:
    several = len(arguments.files) > 1
    if arguments.json:
        return
    if arguments.files_with_matches:
        say(*([file] if matches else []))
    elif arguments.count:
        say(f"{file}:{len(matches)}" if several else str(len(matches)))
    else:
        lead = f"{file}: " if several else ""
        say(*(f"{lead}{match.path}: {match.shown}" for match in matches))
