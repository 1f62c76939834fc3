"""The commands that change a file in place."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import SCHEMA, add_command, add_file, add_json, add_output


def add_recover(commands: Any) -> argparse.ArgumentParser:
    """``asdffs recover``."""
    epilog = """\
example:
  asdffs recover data.asdf

The next mount does the same by itself.  What a killed mount held that is not in the file (drafts,
scratch) is kept beside it.
"""
    parser = add_command(commands, "recover", "finish what a crash interrupted, and say what it was", epilog)
    add_file(parser)
    add_json(parser)
    return parser


def add_edit(commands: Any) -> argparse.ArgumentParser:
    """``asdffs edit``."""
    epilog = """\
example:
  EDITOR=nano asdffs edit data.asdf
  EDITOR="sed -i s/Ada/Grace/" asdffs edit data.asdf      the same edit in a script

The editor is $VISUAL, else $EDITOR, else the first of sensible-editor, nano and vi; give one that opens
a window its option to wait, as in 'code --wait'.  What was saved is checked when it ends, and committed as
the mount does.  When it is refused you can go on editing; else exit code 7, and your text is kept beside the
file.  An editor that ends with an error (':cq' in vim) commits nothing.
"""
    parser = add_command(commands, "edit", "edit the tree with $VISUAL or $EDITOR, without a mount", epilog)
    add_file(parser)
    parser.add_argument("--strict", action="store_true", help="refuse arrays that do not fit their blocks")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)
    return parser


def add_block(commands: Any) -> argparse.ArgumentParser:
    """``asdffs block``."""
    epilog = """\
example:
  asdffs block data.asdf 0 > data.bin                      what it decodes to
  asdffs block data.asdf 0 --replace new.bin               all of it or nothing, and durably
  instrument | asdffs block data.asdf 1 --append -         '-' is the standard input
  asdffs block data.asdf new --replace more.bin            a new block; its number is printed
  asdffs block data.asdf 1 --compression zstd

The block that is one more than the last is a new one too.  Nothing in the tree is changed.
"""
    parser = add_command(commands, "block", "read, replace, append to or add a block, without a mount", epilog)
    add_file(parser)
    parser.add_argument("number", metavar="N", help="number of the block, from 0, or 'new'")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--replace", metavar="FROM", help="have the bytes of FROM in the block")
    what.add_argument("--append", metavar="FROM", help="add the bytes of FROM at its end")
    what.add_argument("--remove", action="store_true", help="remove it: the last one, when no array refers to it")
    what.add_argument("--stored", action="store_true", help="print it as it is stored, compressed or not")
    parser.add_argument("--compression", metavar="NAME", help="store it in NAME: none, zlib, bzp2, lz4, zstd ...")
    parser.add_argument("--force", action="store_true", help="--remove it though unknown objects may use it")
    return parser


def add_repack(commands: Any) -> argparse.ArgumentParser:
    """``asdffs repack``."""
    epilog = """\
example:
  asdffs repack data.asdf                                  without slack, with an index
  asdffs repack --compression zstd data.asdf small.asdf
  asdffs repack --padding 64K --align 4096 data.asdf       room for the tree; blocks where maps begin
  asdffs repack --drop-unreferenced data.asdf              print what is dropped, renumber the sources

Without OUT the file is replaced when the new one is whole and on the disk; until then it is what it was.
Comments and all else of the tree stay.  A streamed block, and one whose compression is not known, stay as
they are stored.  Where objects of extensions may refer to blocks in their own way (asdf-zarr, or tags that asdffs
does not know), --drop-unreferenced is refused; --force insists, and also drops bytes that belong to no block.
"""
    parser = add_command(commands, "repack", "write a file anew: compression, padding, alignment, index", epilog)
    add_file(parser)
    parser.add_argument("out", metavar="OUT", nargs="?", help="the new file (default: replace FILE)")
    parser.add_argument("--compression", metavar="NAME", default="keep", help="of all blocks (default: keep each)")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    parser.add_argument("--align", metavar="SIZE", help="have contents of blocks begin at multiples of SIZE")
    parser.add_argument("--drop-unreferenced", action="store_true", help="leave out blocks that no array refers to")
    add_output(parser, "OUT if it is there; drop what only unknown objects may use")
    add_json(parser)
    return parser


def add_upgrade(commands: Any) -> argparse.ArgumentParser:
    """``asdffs upgrade``."""
    epilog = """\
example:
  asdffs upgrade --check old.asdf          what would change: the tree as a diff, and how blocks are stored
  asdffs upgrade old.asdf new.asdf
  for f in archive/*.asdf; do asdffs upgrade "$f" new/"$(basename "$f")"; done

For files of the drafts of 2014 and 2015 ('#ASDF 0.1.0', '%%ASDF 0.1.0'), which no other library opens.  Comments
and all else of the tree stay.  Sources and references to other files stay as they are written: upgrade these
files into the same directory.  How blocks were encoded is noted in the history of the new tree, with the time,
or $SOURCE_DATE_EPOCH where that is set.
"""
    parser = add_command(commands, "upgrade", "bring a file of the drafts (0.1.0) to ASDF 1.6.0", epilog)
    add_file(parser)
    parser.add_argument("out", metavar="OUT", nargs="?", help="the new file; not needed with --check")
    parser.add_argument("--check", action="store_true", help="only show what would change")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    add_output(parser, "OUT if it is there")
    add_json(parser)
    return parser
