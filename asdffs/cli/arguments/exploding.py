"""The arguments of the commands for the exploded form (section Exploded form): a tree, and a file for each block."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import add_command, add_file, add_json, add_output, add_remote


def add_explode(commands: Any) -> argparse.ArgumentParser:
    """``asdffs explode``."""
    epilog = """\
example:
  asdffs explode data.asdf parts      parts/data.asdf, parts/data0000.asdf, parts/data0001.asdf ...

The asdf library opens parts/data.asdf.  'asdffs implode' or 'asdftool implode' makes one file of it again.
On XFS and btrfs the files share their bytes with FILE, so this takes no time and no space.
"""
    parser = add_command(commands, "explode", "write the exploded form: a tree, and a file for each block", epilog)
    add_file(parser)
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help="where to write (default: here); created if missing"
    )
    add_output(parser, "an existing exploded form; drop bytes that belong to no block")
    add_json(parser)
    add_remote(parser)
    return parser


def add_implode(commands: Any) -> argparse.ArgumentParser:
    """``asdffs implode``."""
    epilog = """\
example:
  asdffs implode parts/data.asdf whole.asdf

Every file in DIR that an array's source names becomes a block; files elsewhere only with --follow.  A numbered
file between these becomes one too, even if no array uses it.  A block file that was edited after 'asdffs explode'
gets a new checksum; the other checksums are copied.  OUT appears only when it is complete.  Only who may read all
of the files may read it.
"""
    parser = add_command(commands, "implode", "join an exploded form into one file", epilog)
    parser.add_argument("file", metavar="DIR/STEM.asdf", help="file with the tree")
    parser.add_argument("out", metavar="OUT", help="new file")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    parser.add_argument("--follow", action="store_true", help="also take blocks of files outside DIR")
    add_output(parser, "OUT if it exists")
    add_json(parser)
    return parser


def add_watch(commands: Any) -> argparse.ArgumentParser:
    """``asdffs watch``."""
    epilog = """\
example:
  asdffs watch parts data.asdf &      then edit parts/data.asdf with any editor

For places without FUSE.  DIR is an exploded form of FILE; if it is empty or missing, it is written first.
Every save in DIR is written into FILE in place: a valid tree, and the bytes of blocks that differ.  A refused tree
is reported here and in DIR/.asdffs/error.  Changes of FILE by other programs are written into DIR.  Ctrl-C or
SIGTERM writes what is left and finishes FILE; the exit code is 7 if something was saved beside it.
"""
    parser = add_command(commands, "watch", "write saves in an exploded form into the file, without FUSE", epilog)
    parser.add_argument("directory", metavar="DIR", help="exploded form")
    parser.add_argument("file", metavar="FILE", help="ASDF file")
    parser.add_argument("--strict", action="store_true", help="refuse arrays that do not fit their blocks")
    parser.add_argument("--once", action="store_true", help="write the differences, then exit")
    parser.add_argument("--prefer", choices=("dir", "file"), help="which one wins if they differ at the start")
    return parser
