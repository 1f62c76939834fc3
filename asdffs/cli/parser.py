"""The command line of every command: what ``--help`` says.

Light on purpose: ``asdffs --help`` imports nothing of the floors below.  A command's module,
``asdffs/cli/NAME.py``, has ``run(arguments)`` and is imported when it is asked for.
Users: ``main``, and later the man page.
"""

from __future__ import annotations

import argparse
from typing import Any

from asdffs import __version__

_DESCRIPTION = "Mount an ASDF file as a directory: edit tree.yaml, read and write blocks/NNNN.bin, in place."
_EPILOG = """\
examples:
  asdffs mount data.asdf /mnt/x      then edit /mnt/x/tree.yaml with any editor
  asdffs umount /mnt/x               finish the file; says so if an edit was refused
  asdffs info data.asdf              header, tree, blocks, index
  asdffs check *.asdf                is everything as it should be?
  asdffs recover data.asdf           finish what a crash interrupted, without a mount

exit codes:
  0 done                             5 in use: mounted already, or the mount is busy
  1 internal error                   6 cannot be mounted: FUSE, mount point, rights
  2 command line not understood      7 some edits are not in the file; kept beside it
  3 no such file                     8 the file could not be finished or written
  4 not an ASDF file, or damaged     9 check found something that loses nothing
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _parser(argparse.ArgumentParser, "asdffs", _DESCRIPTION, _EPILOG)
    parser.add_argument("--version", action="version", version=f"asdffs {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in COMMANDS.values():
        add(commands).add_argument("-v", "--verbose", action="store_true", help="say what happens")
    return parser


def _add_mount(commands: Any) -> argparse.ArgumentParser:
    epilog = """\
example:
  asdffs mount data.asdf /mnt/x && vim /mnt/x/tree.yaml && asdffs umount /mnt/x

options for -o (comma-separated):
  ro, rw                  read-only, or for writing (the default)
  strict                  refuse a tree with arrays that do not fit their blocks
  pad=SIZE | pad=N%       room to leave after a tree that had to grow: 64K, or 20% of it
  growth=auto|clone|insert|copy|shift   how blocks are moved when something outgrows its room
  lease                   programs that open the file wait until the mount has finished it
  nojournal               write even where no journal can be kept beside the file
  uid=N gid=N umask=OCTAL show files as this user's and group's, without these permissions
  allow_other, allow_root, default_permissions, fsname=NAME   as for every FUSE mount
  verify                  look at a block's checksum before its first read; EIO when it is wrong
  checksum=keep|zero      changed blocks that had a checksum get a new one, or none (default: keep)
  spool=DIR               for scratch files and decoded blocks (default: the state directory)
  spool_max=SIZE          bytes that decoded blocks may take there (default: half of what is free)
  log=FILE | log=syslog   for the daemon's log (default: in the state directory; see status.json)

fstab:
  /data/a.asdf  /mnt/x  fuse.asdffs  ro,noauto,user  0  0
"""
    parser = _command(commands, "mount", "show an ASDF file as a directory", epilog)
    parser.add_argument("file", help="the ASDF file")
    parser.add_argument("mountpoint", metavar="MNT", help="an empty directory")
    parser.add_argument("-f", "--foreground", action="store_true", help="stay in the foreground until unmounted")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="OPT[,OPT...]", help="see below")
    parser.add_argument("--binding", choices=("auto", "mfusepy", "fusepy"), help="the FUSE binding to use")
    return parser


def _add_umount(commands: Any) -> argparse.ArgumentParser:
    epilog = """\
example:
  asdffs umount /mnt/x

Exit code 7 says that some edits are not in the file and where they were kept.
"""
    parser = _command(commands, "umount", "finish the file and take the mount away", epilog)
    parser.add_argument("mountpoint", metavar="MNT", help="where the file is mounted")
    return parser


def _add_info(commands: Any) -> argparse.ArgumentParser:
    epilog = """\
example:
  asdffs info --json data.asdf | jq '.blocks[] | {index, data_size}'

Sizes and offsets are in bytes.  A file that is mounted for writing may be looked at.
"""
    parser = _command(commands, "info", "describe an ASDF file: header, tree, padding, blocks, index", epilog)
    parser.add_argument("file", help="the ASDF file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _add_check(commands: Any) -> argparse.ArgumentParser:
    epilog = """\
example:
  asdffs check --json data.asdf | jq '.[].findings'

Looks at the layout, the index, the tree, its arrays, the checksums, and at what a crash has left
beside the file.  Exit code 0: nothing, or notes only; 9: warnings; 4: errors.  Nothing is changed
without --repair, which finishes an interrupted change and writes the block index, and says so first.
"""
    parser = _command(commands, "check", "look for everything that can be wrong with files", epilog)
    parser.add_argument("files", metavar="FILE", nargs="+", help="an ASDF file")
    parser.add_argument("--deep", action="store_true", help="decode compressed blocks as well")
    parser.add_argument("--repair", action="store_true", help="put right what loses nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON array, an object for each file")
    return parser


def _add_recover(commands: Any) -> argparse.ArgumentParser:
    epilog = """\
example:
  asdffs recover data.asdf

The next mount does the same by itself.  What a killed mount held that is not in the file (drafts,
scratch) is kept beside it.
"""
    parser = _command(commands, "recover", "finish what a crash interrupted, and say what it was", epilog)
    parser.add_argument("file", help="the ASDF file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _command(commands: Any, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    return _parser(commands.add_parser, name, text, epilog, help=text)


def _parser(make: Any, name: str, text: str, epilog: str, **options: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = make(
        name, description=text, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter, **options
    )
    return parser


#: Name of each command -> what adds its parser.
COMMANDS = {
    "mount": _add_mount,
    "umount": _add_umount,
    "info": _add_info,
    "check": _add_check,
    "recover": _add_recover,
}
