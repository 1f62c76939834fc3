"""The command about FilesDaf stores, which has commands of its own."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import add_command, add_json, add_output


def add_daf(commands: Any) -> argparse.ArgumentParser:
    """``asdffs daf``."""
    epilog = """\
example:
  asdffs daf pack cells.daf cells.asdf        one file of the directory cells.daf
  asdffs mount --layout daf cells.asdf m      the directory again, to read and to write
  asdffs daf unpack cells.asdf copy.daf       the directory again, byte for byte

A FilesDaf store holds annotated matrices as a directory of raw files.  docs/daf.md says what it is in an ASDF file.
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

Numbers become blocks, everything else is in the tree; what FilesDaf does not know is kept as files.  A store in which
a property is not whole is refused (exit code 4), and nothing is written, unless --keep is given.
"""
    parser = add_command(actions, "pack", "make one ASDF file of a store", epilog)
    parser.add_argument("file", metavar="STORE", help="the directory of the store")
    parser.add_argument("out", metavar="OUT", help="the new file")
    parser.add_argument("--keep", action="store_true", help="keep files of properties that are not whole as they are")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    add_output(parser, "OUT if it is there")
    add_json(parser)


def _add_unpack(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf unpack cells.asdf cells.daf

STORE gets its name when all of it is there.
"""
    parser = add_command(actions, "unpack", "write the store of an ASDF file as a directory", epilog)
    parser.add_argument("file", metavar="FILE", help="the ASDF file")
    parser.add_argument("out", metavar="STORE", help="the new directory")
    parser.add_argument("--force", action="store_true", help="leave out what the tree has and no file can be")
    parser.add_argument("--sync", action="store_true", help="return when new files are on the disk, not only written")
    add_json(parser)


def _add_check(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf check cells.daf && asdffs daf check cells.asdf

Every file is looked at: versions, sizes, indices, entries that are there twice.  Exit code 4 when anything is wrong.
"""
    parser = add_command(actions, "check", "say what is wrong with a store, file by file", epilog)
    parser.add_argument("file", metavar="STORE|FILE", help="a directory, or an ASDF file that carries a store")
    add_json(parser)


def _add_init(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf init new.asdf && asdffs mount --layout daf new.asdf m

An ASDF file that is there gets an empty store beside what its tree has.
"""
    parser = add_command(actions, "init", "make an empty store", epilog)
    parser.add_argument("file", metavar="OUT", help="the ASDF file")
    parser.add_argument("--format", choices=("1.0", "1.1"), default="1.1", help="version of FilesDaf (default: 1.1)")
    add_json(parser)
