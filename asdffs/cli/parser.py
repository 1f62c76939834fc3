"""Builds the parser of all commands, which prints ``--help``.

``asdffs --help`` imports no floor below this one, so that it starts fast.  The arguments of a command are in
``cli/arguments``.  Its module, ``asdffs/cli/NAME.py``, has ``run(arguments)`` and is imported when the command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from asdffs import __version__
from asdffs.cli.arguments.archive import add_find, add_index, add_refs
from asdffs.cli.arguments.base import Parser, make_parser
from asdffs.cli.arguments.daf import add_daf
from asdffs.cli.arguments.editing import add_block, add_edit, add_recover, add_repack, add_upgrade
from asdffs.cli.arguments.exploding import add_explode, add_implode, add_watch
from asdffs.cli.arguments.looking import add_check, add_diff, add_info, add_show, add_view
from asdffs.cli.arguments.mounting import add_cache, add_doctor, add_ls, add_mount, add_umount
from asdffs.cli.arguments.values import add_get, add_grep, add_rename, add_set, add_tree, add_undo, add_unset

_DESCRIPTION = "Work on an ASDF file as if it were a directory, in place and safe against crashes."
_EPILOG = """\
asdffs COMMAND --help: options and examples; asdffs --version: of asdffs and libfuse
  asdffs mount data.asdf /mnt/x      then edit /mnt/x/tree.yaml, read and write /mnt/x/blocks
exit codes: 0 done; 1 no such value, internal error; 2 wrong command line; 3 no such file;
  4 not an ASDF file or catalogue, or damaged; 5 in use, or the mount is busy; 6 cannot be mounted;
  7 an edit was rejected and kept; 8 could not be read or written; 9 check found only warnings
"""

#: Name of each command -> what adds its parser.
COMMANDS: Final[dict[str, Callable[[Any], argparse.ArgumentParser]]] = {
    "mount": add_mount,
    "umount": add_umount,
    "ls": add_ls,
    "info": add_info,
    "show": add_show,
    "view": add_view,
    "check": add_check,
    "diff": add_diff,
    "tree": add_tree,
    "get": add_get,
    "grep": add_grep,
    "index": add_index,
    "find": add_find,
    "refs": add_refs,
    "set": add_set,
    "unset": add_unset,
    "rename": add_rename,
    "undo": add_undo,
    "edit": add_edit,
    "block": add_block,
    "explode": add_explode,
    "implode": add_implode,
    "repack": add_repack,
    "upgrade": add_upgrade,
    "watch": add_watch,
    "daf": add_daf,
    "recover": add_recover,
    "cache": add_cache,
    "doctor": add_doctor,
}


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line; exit with 2 and the usage of the command if it is wrong."""
    parser, commands = _parsers(words[0] if words else None)
    arguments, others = parser.parse_known_args(words)
    if others:
        commands[arguments.command].error(f"unrecognized arguments: {' '.join(others)}")
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    return _parsers(None)[0]


def _parsers(command: str | None) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of all commands, or of ``command`` alone, which is made sooner; and that of each command."""
    parser = make_parser(Parser, "asdffs", _DESCRIPTION, _EPILOG, add_help=False)
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--version", action=_Version, nargs=0, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(prog=parser.prog, dest="command", metavar="COMMAND", required=True)
    for name in [command] if command in COMMANDS else COMMANDS:
        COMMANDS[name](commands).add_argument("-v", "--verbose", action="store_true", help="say what happens")
    return parser, commands.choices


class _Version(argparse.Action):
    """Looks for the binding, and only when it is asked to."""

    def __call__(self, parser: argparse.ArgumentParser, *_: str | Sequence[Any] | argparse.Namespace | None) -> None:
        """Print and exit."""
        from asdffs.cli.commands.mount import wanted_binding
        from asdffs.mount.binding import describe_binding

        print(f"asdffs {__version__} ({describe_binding(wanted_binding())})")
        parser.exit()
