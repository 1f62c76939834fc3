"""The commands about the exploded form (section Exploded form): a tree, and a file for each block."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import add_command, add_file, add_json, add_output


def add_explode(commands: Any) -> argparse.ArgumentParser:
    """``asdffs explode``."""
    epilog = """\
example:
  asdffs explode data.asdf parts      parts/data.asdf, parts/data0000.asdf, parts/data0001.asdf ...

The asdf library opens parts/data.asdf, and 'asdffs implode' or 'asdftool implode' makes one file of it.
Bytes are shared where the file system can (XFS, btrfs), so that it takes no time and no room.
"""
    parser = add_command(commands, "explode", "write the exploded form: a tree, and a file for each block", epilog)
    add_file(parser)
    parser.add_argument("directory", metavar="DIR", nargs="?", default=".", help="where to (default: here); created")
    add_output(parser, "an exploded form that is there; drop bytes of no block")
    add_json(parser)
    return parser


def add_implode(commands: Any) -> argparse.ArgumentParser:
    """``asdffs implode``."""
    epilog = """\
example:
  asdffs implode parts/data.asdf whole.asdf

Every file on this machine that an array's source leads to becomes a block; so does a file of a number that
is in between and that no array refers to.  OUT gets its name when it is whole.
"""
    parser = add_command(commands, "implode", "make one file of an exploded form", epilog)
    parser.add_argument("file", metavar="DIR/STEM.asdf", help="the file with the tree")
    parser.add_argument("out", metavar="OUT", help="the new file")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    add_output(parser, "OUT if it is there")
    add_json(parser)
    return parser


def add_watch(commands: Any) -> argparse.ArgumentParser:
    """``asdffs watch``."""
    epilog = """\
example:
  asdffs watch parts data.asdf &      then edit parts/data.asdf with any editor

For places without FUSE.  DIR is an exploded form of FILE as 'asdffs explode' writes it; where it is empty, or not
there, it is written.  Whatever is saved there is carried into FILE, in place: the tree when it is valid, blocks
where bytes differ.  A refused tree is told here, and in DIR/.asdffs/error; what another program does to FILE
is carried into DIR.  Ctrl-C, or a SIGTERM, carries what is left and finishes FILE; exit code 7 when something
is kept beside it.
"""
    parser = add_command(commands, "watch", "carry what is saved into an exploded form back, without FUSE", epilog)
    parser.add_argument("directory", metavar="DIR", help="the exploded form")
    parser.add_argument("file", metavar="FILE", help="the ASDF file")
    parser.add_argument("--strict", action="store_true", help="refuse arrays that do not fit their blocks")
    parser.add_argument("--once", action="store_true", help="carry what differs now, and end")
    parser.add_argument(
        "--prefer", choices=("dir", "file"), help="when they differ at the start: which of the two is right"
    )
    return parser
