"""``asdffs help [COMMAND]``: the manual page of a command."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from asdffs.cli.arguments import command_names, make_parsers
from asdffs.errors import UsageError

#: Other words for commands, as ``main`` takes them.
_ALIASES: Final = {"unmount": "umount"}
SUMMARY: Final = "show the manual page of a command"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs help repack             as 'man asdffs-repack' where that finds the pages of this installation

Without man, or in a pipe, it prints the help.
"""
    parser.add_argument("about", metavar="COMMAND", nargs="?", default="", help="the command (default: asdffs)")


def run(arguments: argparse.Namespace) -> int:
    """Show the manual page that this installation has of the command, or print the help.  Raises ``UsageError``."""
    name, names = _ALIASES.get(arguments.about, arguments.about), command_names()
    if name and name not in names:
        raise UsageError(f"there is no command {name!r}; 'asdffs help' lists them")
    page = os.path.join(sys.prefix, "share/man/man1", f"asdffs-{name}.1" if name else "asdffs.1")
    if sys.stdout.isatty() and os.path.exists(page):
        from shutil import which

        if program := which("man"):
            os.execv(program, ["man", "-l", page])
    parser, commands = make_parsers([name] if name else names, name)
    (commands[name] if name else parser).print_help()
    return 0
