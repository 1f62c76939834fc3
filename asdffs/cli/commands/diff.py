"""``asdffs diff A B``: compares two files.

The exit codes are those of diff, cmp, h5diff and fitsdiff.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any, Final

from asdffs.cli.arguments import add_json, add_remote
from asdffs.cli.printing import print_json, say, shown
from asdffs.cli.reading import open_to_read
from asdffs.document.report import Progress
from asdffs.storage.urls import shown_name
from asdffs.workflows.comparing import BlockDifference, Comparison, ValueDifference
from asdffs.workflows.comparing_elements import Tolerance

SUMMARY: Final = "compare two ASDF files: tree and blocks"
_SAME: Final = 0
_DIFFERENT: Final = 1
#: Of whatever goes wrong.
TROUBLE: Final = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs diff raw.asdf calibrated.asdf
  asdffs diff --values --json a.asdf b.asdf | jq '.values[].path'
  asdffs diff --rtol 1e-6 yesterday.asdf today.asdf

--text compares the trees as text.  --values compares their meaning: types and elements of arrays count; order,
comments, quotes and block numbers do not.  --blocks compares the decoded content of blocks with equal numbers.
Without options: all three.  --rtol and --atol compare by value, and numbers a and b are equal if |a - b| is at most
ATOL + RTOL * |b|.  Exit codes as of diff(1): 0 equal, 1 different, 2 trouble.
"""
    parser.add_argument("a", metavar="A", help="ASDF file")
    parser.add_argument("b", metavar="B", help="another ASDF file")
    parser.add_argument("--text", action="store_true", help="compare the trees as text")
    parser.add_argument("--values", action="store_true", help="compare the trees by value")
    parser.add_argument("--blocks", action="store_true", help="compare the blocks")
    parser.add_argument("--rtol", metavar="R", type=tolerance, help="relative difference that numbers may have")
    parser.add_argument("--atol", metavar="A", type=tolerance, help="absolute difference that numbers may have")
    add_json(parser)
    add_remote(parser)


def tolerance(text: str) -> float:
    """Return a tolerance.  Raises ``ValueError``."""
    number = float(text)
    if not 0 <= number < math.inf:
        raise ValueError(text)
    return number


def run(arguments: argparse.Namespace) -> int:
    """Compare what is asked for, or all.  Raises ``AsdffsError``, ``OSError``."""
    progress = Progress()
    with (
        closing(open_to_read(arguments.a, arguments)) as a,
        closing(open_to_read(arguments.b, arguments)) as b,
        shown(progress.facts, f"comparing {arguments.a} and {arguments.b}"),
    ):
        for document in (a, b):
            document.table.verify_index()
        allowed = Tolerance(arguments.rtol or 0.0, arguments.atol or 0.0)
        with closing(Comparison(a, b, progress, allowed)) as comparison:
            facts = _facts(arguments, comparison)
    same = not any(facts.values())
    if arguments.json:
        print_json({"a": shown_name(arguments.a), "b": shown_name(arguments.b), "same": same, **facts})
    else:
        for line in _lines(facts):
            say(line)
    return _SAME if same else _DIFFERENT


def _facts(arguments: argparse.Namespace, comparison: Comparison) -> dict[str, Any]:
    tolerant = arguments.rtol is not None or arguments.atol is not None
    every = not (arguments.text or arguments.values or arguments.blocks or tolerant)
    facts: dict[str, Any] = {}
    if every or arguments.text:
        facts["text"] = list(comparison.text())
    if every or arguments.values or tolerant:
        facts["values"] = [asdict(difference) for difference in comparison.values()]
    if every or arguments.blocks:
        facts["blocks"] = [asdict(difference) for difference in comparison.blocks()]
    return facts


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    yield from facts.get("text", ())
    yield from (_value_line(ValueDifference(**one)) for one in facts.get("values", ()))
    yield from (_block_line(BlockDifference(**one)) for one in facts.get("blocks", ()))


def _value_line(one: ValueDifference) -> str:
    if one.note:
        return f"value {one.path}: {one.note}"
    if one.a is None:
        return f"value {one.path}: only in the second, {one.b}"
    if one.b is None:
        return f"value {one.path}: only in the first, {one.a}"
    return f"value {one.path}: {one.a} -> {one.b}"


def _block_line(one: BlockDifference) -> str:
    if one.a_size is None or one.b_size is None:
        where, size = ("second", one.b_size) if one.a_size is None else ("first", one.a_size)
        return f"block {one.number}: only in the {where}, {size} bytes"
    sizes = f", {one.a_size} -> {one.b_size} bytes" if one.a_size != one.b_size else ""
    return f"block {one.number}: differs from byte {one.first} on{sizes}"
