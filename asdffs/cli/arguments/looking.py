"""The arguments of the commands that only read files.  Only ``check --repair`` changes one."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import SCHEMA, add_command, add_file, add_files, add_json, add_remote


def add_info(commands: Any) -> argparse.ArgumentParser:
    """``asdffs info``."""
    epilog = """\
example:
  asdffs info --json data.asdf | jq '.blocks[] | {index, data_size}'
  asdffs info --map data.asdf      draw the file layout to scale
  asdffs info --json *.asdf | jq -r '.[] | select(.truncated != "") | .file'

Sizes and offsets are in bytes.  The files may be mounted meanwhile.  "lz4 x6": the block has six pieces, and a read
decodes only those that it needs; without a number a block is decoded from its beginning.
"""
    parser = add_command(commands, "info", "list header, tree, padding, blocks, arrays and index", epilog)
    add_files(parser)
    parser.add_argument("--map", action="store_true", help="draw the file layout to scale")
    add_json(parser, "one JSON object, of several files an array")
    add_remote(parser)
    return parser


def add_show(commands: Any) -> argparse.ArgumentParser:
    """``asdffs show``."""
    epilog = """\
example:
  asdffs show l2.asdf                             the outline, with the shapes of arrays
  asdffs show l2.asdf roman.data                  statistics and a picture
  asdffs show l2.asdf 'roman.data[0, 100:200, ::2]' --stretch zscale
  asdffs show s3://bucket/l2.asdf roman/dq --png dq.png --cmap viridis

PATH is written as for asdffs get, or as in arrays/ of a mount.  The index behind it is that of numpy.  Of more than
two axes the first plane is shown.  Of a large array, only some rows and columns are read, as many as the picture has
pixels, and the statistics are about these; a larger --size reads more.  The first row is at the bottom.
"""
    parser = add_command(commands, "show", "statistics and a picture of an array", epilog)
    add_file(parser)
    parser.add_argument("path", metavar="PATH[SLICE]", nargs="?", help="array, and perhaps an index")
    parser.add_argument("--png", metavar="OUT", help="write the picture to OUT")
    parser.add_argument("--stretch", choices=("linear", "zscale", "asinh", "log"), default="linear", help="of grey")
    parser.add_argument("--cmap", metavar="NAME", default="gray", help="colour map, such as viridis (default: gray)")
    parser.add_argument("--size", metavar="N", type=int, default=1024, help="most pixels of a side (default: 1024)")
    kinds = ("auto", "half", "sixel", "kitty", "none")
    parser.add_argument("--picture", choices=kinds, default="auto", help="how the terminal draws (default: auto)")
    parser.add_argument("--force", action="store_true", help="replace OUT")
    add_json(parser)
    add_remote(parser)
    return parser


def add_view(commands: Any) -> argparse.ArgumentParser:
    """``asdffs view``."""
    epilog = """\
example:
  asdffs view l2.asdf                   opens the page in your browser
  asdffs view --no-browser --port 8080 l2.asdf     on another machine; then: ssh -L 8080:127.0.0.1:8080 HOST
  asdffs view --read-only s3://bucket/l2.asdf

The page shows the tree, the arrays as pictures and the file to scale; a save is checked and committed as in a mount.
It listens on loopback, and only the URL that is printed opens it.  The file is locked for other writers meanwhile.
"""
    parser = add_command(commands, "view", "look at a file, and edit its tree, in the browser", epilog)
    add_file(parser)
    parser.add_argument("--port", metavar="N", type=int, default=0, help="listen on this port (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the URL")
    parser.add_argument("--read-only", action="store_true", help="change nothing, and take no lock")
    add_remote(parser)
    return parser


def add_check(commands: Any) -> argparse.ArgumentParser:
    """``asdffs check``."""
    epilog = """\
example:
  asdffs check --json *.asdf | jq '.[] | select(.ok | not) | {file, error, findings}'

Checks layout, index, tree, arrays, checksums, and files that a crash left beside the file.  Exit code 0: no
findings, or only notes; 9: warnings; 4: errors.  Only --repair changes anything: it completes an interrupted
change and writes the block index, and says so first.
"""
    parser = add_command(commands, "check", "validate files", epilog)
    add_files(parser)
    parser.add_argument("--deep", action="store_true", help="also decode compressed blocks")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)
    parser.add_argument("--repair", action="store_true", help="make only lossless repairs")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no findings; the exit code tells")
    add_json(parser, "one JSON array, an object for each file")
    add_remote(parser)
    return parser


def add_diff(commands: Any) -> argparse.ArgumentParser:
    """``asdffs diff``."""
    epilog = """\
example:
  asdffs diff raw.asdf calibrated.asdf
  asdffs diff --values --json a.asdf b.asdf | jq '.values[].path'

--text compares the trees as text.  --values compares their meaning: types and array bytes count; order,
comments, quotes and block numbers do not.  --blocks compares the decoded content of blocks with equal numbers.
Without options: all three.  Exit codes as of diff(1): 0 equal, 1 different, 2 trouble.
"""
    parser = add_command(commands, "diff", "compare two ASDF files: tree and blocks", epilog)
    parser.add_argument("a", metavar="A", help="ASDF file")
    parser.add_argument("b", metavar="B", help="another ASDF file")
    parser.add_argument("--text", action="store_true", help="compare the trees as text")
    parser.add_argument("--values", action="store_true", help="compare the trees by value")
    parser.add_argument("--blocks", action="store_true", help="compare the blocks")
    add_json(parser)
    add_remote(parser)
    return parser
