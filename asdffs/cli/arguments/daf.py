"""The arguments of ``asdffs daf`` and its subcommands, which work on FilesDaf stores."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import add_command, add_json, add_output


def add_daf(commands: Any) -> argparse.ArgumentParser:
    """``asdffs daf``."""
    epilog = """\
example:
  asdffs daf pack cells.daf cells.asdf        make one file of the directory
  asdffs mount --layout daf cells.asdf m      show the directory, to read and write
  asdffs daf unpack cells.asdf copy.daf       write the directory again, byte for byte

A FilesDaf store holds annotated matrices as a directory of raw files.  docs/daf.md says more.
"""
    parser = add_command(commands, "daf", "pack, unpack and check FilesDaf stores", epilog)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for add in (_add_pack, _add_unpack, _add_check, _add_init):
        add(actions)
    return parser


def _add_pack(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf pack cells.daf cells.asdf && asdffs daf check cells.asdf

Numbers become blocks, everything else goes into the tree; files that are not FilesDaf's are kept as files.  If a
property is incomplete, nothing is written (exit code 4) unless --keep is given.
"""
    parser = add_command(actions, "pack", "pack a store into one ASDF file", epilog)
    parser.add_argument("file", metavar="STORE", help="directory of the store")
    parser.add_argument("out", metavar="OUT", help="new file")
    parser.add_argument("--keep", action="store_true", help="keep the files of incomplete properties as they are")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    add_output(parser, "OUT if it exists")
    add_json(parser)


def _add_unpack(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf unpack cells.asdf cells.daf

STORE appears only when it is complete.
"""
    parser = add_command(actions, "unpack", "write the store of an ASDF file as a directory", epilog)
    parser.add_argument("file", metavar="FILE", help="ASDF file")
    parser.add_argument("out", metavar="STORE", help="new directory")
    parser.add_argument("--force", action="store_true", help="leave out values that cannot be files")
    parser.add_argument("--sync", action="store_true", help="fsync new files before returning")
    add_json(parser)


def _add_check(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf check cells.daf && asdffs daf check cells.asdf

Checks every file: versions, sizes, indices, duplicate entries.  Exit code 4 if anything is wrong.
"""
    parser = add_command(actions, "check", "validate a store, file by file", epilog)
    parser.add_argument("file", metavar="STORE|FILE", help="a directory, or an ASDF file with a store")
    add_json(parser)


def _add_init(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf init new.asdf && asdffs mount --layout daf new.asdf m

If the file exists, an empty store is added to its tree.
"""
    parser = add_command(actions, "init", "create an empty store", epilog)
    parser.add_argument("file", metavar="OUT", help="ASDF file")
    parser.add_argument("--format", choices=("1.0", "1.1"), default="1.1", help="FilesDaf version (default: 1.1)")
    add_json(parser)
