"""The commands that look at files and change nothing, or only with ``--repair``."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import SCHEMA, add_command, add_file, add_json


def add_info(commands: Any) -> argparse.ArgumentParser:
    """``asdffs info``."""
    epilog = """\
example:
  asdffs info --json data.asdf | jq '.blocks[] | {index, data_size}'
  asdffs info --map data.asdf      a picture of the file, drawn to scale

Sizes and offsets are in bytes.  A file that is mounted for writing may be looked at.
"""
    parser = add_command(commands, "info", "describe an ASDF file: header, tree, padding, blocks, index", epilog)
    add_file(parser)
    parser.add_argument("--map", action="store_true", help="draw what lies where instead")
    add_json(parser)
    return parser


def add_check(commands: Any) -> argparse.ArgumentParser:
    """``asdffs check``."""
    epilog = """\
example:
  asdffs check --json data.asdf | jq '.[].findings'

Looks at the layout, the index, the tree, its arrays, the checksums, and at what a crash has left
beside the file.  Exit code 0: nothing, or notes only; 9: warnings; 4: errors.  Nothing is changed
without --repair, which finishes an interrupted change and writes the block index, and says so first.
"""
    parser = add_command(commands, "check", "look for everything that can be wrong with files", epilog)
    parser.add_argument("files", metavar="FILE", nargs="+", help="an ASDF file")
    parser.add_argument("--deep", action="store_true", help="decode compressed blocks as well")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)
    parser.add_argument("--repair", action="store_true", help="put right what loses nothing")
    add_json(parser, "one JSON array, an object for each file")
    return parser


def add_diff(commands: Any) -> argparse.ArgumentParser:
    """``asdffs diff``."""
    epilog = """\
example:
  asdffs diff raw.asdf calibrated.asdf
  asdffs diff --values --json a.asdf b.asdf | jq '.values[].path'

--text compares the trees as text; --values as what they mean: order, comments, quotes and the numbers
of blocks do not matter, types and the bytes of arrays do; --blocks compares what blocks decode to, by
their numbers.  Without any of these: all three.  Exit codes as of diff(1): 0 the same, 1 different, 2 trouble.
"""
    parser = add_command(commands, "diff", "compare two ASDF files: tree and blocks", epilog)
    parser.add_argument("a", metavar="A", help="an ASDF file")
    parser.add_argument("b", metavar="B", help="another one")
    parser.add_argument("--text", action="store_true", help="compare the trees as text")
    parser.add_argument("--values", action="store_true", help="compare the trees by value")
    parser.add_argument("--blocks", action="store_true", help="compare the blocks")
    add_json(parser)
    return parser
