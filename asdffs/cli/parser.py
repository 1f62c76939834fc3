"""Builds the parser of all commands, which prints ``--help``.

A command is a module that the registry finds: ``SUMMARY``, ``arguments(parser)`` and ``run(arguments)``.  It is
imported when it is run or asked for its help.  ``asdffs --help`` reads the summaries from the sources.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from asdffs import __version__, registry
from asdffs.cli.arguments import Parser, make_parser
from asdffs.errors import UsageError

_DESCRIPTION = "Work on an ASDF file as if it were a directory, in place and safe against crashes."
_EPILOG = """\
asdffs COMMAND --help: options and examples; asdffs --version: of asdffs and libfuse
  asdffs mount data.asdf /mnt/x      then edit /mnt/x/tree.yaml, read and write /mnt/x/blocks
exit codes: 0 done; 1 no such value, internal error; 2 wrong command line; 3 no such file;
  4 not an ASDF file or catalogue, or damaged; 5 in use, or the mount is busy; 6 cannot be mounted;
  7 an edit was rejected and kept; 8 could not be read or written; 9 check found only warnings
"""

#: The order of commands in the help; those of other packages come last.
_ORDER: Final = (
    *(
        "mount",
        "umount",
        "ls",
        "info",
        "show",
        "view",
        "check",
        "diff",
        "tree",
        "get",
        "grep",
        "index",
        "find",
        "refs",
    ),
    *("set", "unset", "rename", "undo", "edit", "block", "explode", "implode", "repack", "upgrade", "watch", "daf"),
    *("recover", "cache", "doctor"),
)
_SUMMARY: Final = re.compile(r"^SUMMARY(?:: Final)? = (\"(?:[^\"\\\n]|\\.)*\")$", re.MULTILINE)


def command_names() -> list[str]:
    """Return the names of all commands, as the help lists them."""
    found = registry.names("commands")
    return sorted(found, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def command_module(name: str) -> Any:
    """Import the module of a command.  Raises ``UsageError`` if it is of another package and cannot be loaded."""
    found = registry.find("commands", name)
    if found is None:
        raise UsageError(f"the command {name} cannot be loaded: {registry.trouble('commands', name)}")
    return found


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line; exit with 2 and the usage of the command if it is wrong."""
    first = words[0] if words else ""
    parser, commands = make_parsers([first] if first in registry.names("commands") else command_names(), first)
    arguments, others = parser.parse_known_args(words)
    if others:
        commands[arguments.command].error(f"unrecognized arguments: {' '.join(others)}")
    return arguments


def make_parsers(
    names: Sequence[str], wanted: str | None
) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of the command line with the commands ``names``, and the parser of each command.

    ``wanted``: the only command whose arguments are added, because its module is imported for them; None: all.
    """
    parser = make_parser(Parser, "asdffs", _DESCRIPTION, _EPILOG, add_help=False)
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--version", action=_Version, nargs=0, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(prog=parser.prog, dest="command", metavar="COMMAND", required=True)
    for name in names:
        summary = _summary(name)
        command = make_parser(commands.add_parser, name, summary, "", help=summary)
        if wanted in (name, None):
            command_module(name).arguments(command)
            command.add_argument("-v", "--verbose", action="store_true", help="say what happens")
    return parser, commands.choices


def _summary(name: str) -> str:
    """Return what a command does, in a few words, without importing the command if it is one of asdffs."""
    if name not in registry.own_names("commands"):
        return str(getattr(registry.find("commands", name), "SUMMARY", registry.trouble("commands", name)))
    with open(registry.source_of("commands", name), encoding="utf-8") as source:
        found = _SUMMARY.search(source.read())
    return str(ast.literal_eval(found[1])) if found else ""


class _Version(argparse.Action):
    """Looks for the binding, and only when it is asked to."""

    def __call__(self, parser: argparse.ArgumentParser, *_: str | Sequence[Any] | argparse.Namespace | None) -> None:
        """Print and exit."""
        from asdffs.cli.commands.mount import wanted_binding
        from asdffs.mount.binding import describe_binding

        print(f"asdffs {__version__} ({describe_binding(wanted_binding())})")
        parser.exit()
