"""The arguments of the commands that change a file in place."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import (
    SCHEMA,
    add_command,
    add_file,
    add_files,
    add_json,
    add_output,
    add_outputs,
    add_remote,
)


def add_recover(commands: Any) -> argparse.ArgumentParser:
    """``asdffs recover``."""
    epilog = """\
example:
  asdffs recover data.asdf

The next mount does the same.  Edits that a killed mount had not written yet (drafts, scratch files) are
saved beside the file.
"""
    parser = add_command(
        commands, "recover", "complete interrupted changes; save unsaved edits beside the file", epilog
    )
    add_file(parser)
    add_json(parser)
    return parser


def add_edit(commands: Any) -> argparse.ArgumentParser:
    """``asdffs edit``."""
    epilog = """\
example:
  EDITOR=nano asdffs edit data.asdf
  VISUAL="sed -i s/Ada/Grace/" asdffs edit data.asdf      the same edit in a script; $VISUAL goes first

The editor is $VISUAL, else $EDITOR, else sensible-editor, nano or vi.  An editor with a window needs its
option to wait: 'code --wait'.  When it ends, the text is checked and committed.  If the text is refused, you
can go on editing; otherwise it is saved beside the file and the exit code is 7.  An editor that ends with an
error (':cq' in vim) changes nothing.
"""
    parser = add_command(commands, "edit", "edit the tree in $EDITOR, without a mount", epilog)
    add_files(parser)
    parser.add_argument("--strict", action="store_true", help="refuse arrays that do not fit their blocks")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)
    return parser


def add_block(commands: Any) -> argparse.ArgumentParser:
    """``asdffs block``."""
    epilog = """\
example:
  asdffs block data.asdf 0 > data.bin                      write the decoded content
  asdffs block data.asdf 0 --replace new.bin               replace it, atomically
  instrument | asdffs block data.asdf 1 --append -         '-' is the standard input
  asdffs block data.asdf new --replace more.bin            a new block; its number is printed
  asdffs block data.asdf 1 --compression lz4

The number after the last one also means a new block.  The tree is not changed.
"""
    parser = add_command(commands, "block", "read or change one block, without a mount", epilog)
    add_file(parser)
    parser.add_argument("number", metavar="N", help="block number, from 0, or 'new'")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--replace", metavar="FROM", help="replace the content by the file FROM")
    what.add_argument("--append", metavar="FROM", help="append the file FROM")
    what.add_argument("--remove", action="store_true", help="remove the last block, if no array uses it")
    what.add_argument(
        "--range",
        metavar="START:END",
        help="print the bytes from START to END, exclusive; either may be left out",
    )
    what.add_argument("--stored", action="store_true", help="print the stored bytes without decoding them")
    parser.add_argument(
        "--compression",
        metavar="NAME",
        help="recompress: none, zlib, bzp2, lz4, or zstd, blsc, lz4f, which other readers may not know",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace or remove it even if arrays, or objects of unknown tags, need it",
    )
    add_remote(parser)
    return parser


def add_repack(commands: Any) -> argparse.ArgumentParser:
    """``asdffs repack``."""
    epilog = """\
example:
  asdffs repack data.asdf                                  drop slack, write an index
  asdffs repack --compression lz4 data.asdf small.asdf
  asdffs repack --compression lz4 night/*.asdf small/     into a directory
  asdffs repack --padding 64K --align 4096 data.asdf       room for the tree; blocks at page starts
  asdffs repack --drop-unreferenced data.asdf              print what is dropped, renumber the sources
  asdffs repack --profile cloud data.asdf cloud.asdf       for files that are read from S3 or https

Without OUT, FILE is replaced atomically.  The tree keeps its comments.  Streamed blocks, and blocks whose
compression is unknown, are copied as stored.  Objects of some extensions (asdf-zarr, unknown tags) may use
blocks in their own way; then --drop-unreferenced is refused, and --force insists.  --force also drops bytes that
belong to no block.

--profile cloud puts small blocks first, stores integers as lz4 in pieces of whole rows and floats plain, each at
the start of a page (docs/cloud.md).
"""
    parser = add_command(commands, "repack", "rewrite a file: compression, padding, alignment, index", epilog)
    add_outputs(parser, "alone, FILE is replaced")
    parser.add_argument(
        "--compression", metavar="NAME", default="keep", help="compress all blocks like this (default: keep each)"
    )
    parser.add_argument("--profile", choices=["cloud"], help="the layout for files that are read over a network")
    parser.add_argument("--piece-size", metavar="SIZE", help="content of a piece of lz4 (default: 4M; of cloud: 1M)")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    parser.add_argument("--align", metavar="SIZE", help="start the content of blocks at multiples of SIZE")
    parser.add_argument("--drop-unreferenced", action="store_true", help="drop blocks that no array uses")
    add_output(parser, "OUT if it exists; drop blocks that only unknown objects may use")
    add_json(parser, "one JSON object, of several files an array")
    add_remote(parser)
    return parser


def add_upgrade(commands: Any) -> argparse.ArgumentParser:
    """``asdffs upgrade``."""
    epilog = """\
example:
  asdffs upgrade --check old.asdf          show the changes of tree and blocks
  asdffs upgrade old.asdf new.asdf
  asdffs upgrade archive/*.asdf new/

For files of the drafts of 2014 and 2015 ('#ASDF 0.1.0', '%ASDF 0.1.0'), which no other library opens.  The
tree keeps its comments.  References to other files are not changed: upgrade those files into the same
directory.  The history of the new tree records how blocks were encoded, and the time ($SOURCE_DATE_EPOCH if set).
"""
    parser = add_command(commands, "upgrade", "convert a file of the drafts (0.1.0) to ASDF 1.6.0", epilog)
    add_outputs(parser, "with --check, only files")
    parser.add_argument("--check", action="store_true", help="only show the changes")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    add_output(parser, "OUT if it exists")
    add_json(parser, "one JSON object, of several files an array")
    return parser
