"""The command line: arguments that several commands have, and the parser of all commands, which prints ``--help``.

A command is a module that the registry finds: ``SUMMARY``, ``arguments(parser)`` and ``run(arguments)``.  It is
imported when it is run or asked for its help.  ``asdffs --help`` reads the summaries from the sources.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from asdffs import __version__, registry
from asdffs.errors import UsageError
from asdffs.format.layout import Padding
from asdffs.printable import printable

#: Columns for the names of commands, also where no option is longer.
_LEAST_COLUMN: Final = 12
#: Columns of a terminal that does not tell.
_USUAL_COLUMNS: Final = 80
SCHEMA: Final = "check the tree against the schemas of its tags (needs the asdf library)"

CATALOG: Final = "the catalogue (default: in $XDG_CACHE_HOME/asdffs)"
WHERE: Final = """--where selects files by a condition on their values (docs/conditions.md):
  'roman.meta.instrument.name == "WFI" and roman.meta.exposure.time > 100'
  'exists roman.meta.cal_step', 'meta.filter in ["F158", "F184"]', 'meta.title =~ "^Survey"', not, or, (...)
A comparison with a missing value, or with one of another type, is false; with != it is true.
"""
PATHS: Final = """\
A path is roman.meta.exposure.type, items[0].name, items[-1], "odd.key".x, or a JSON Pointer (/a/b/0).
"""


def add_command(commands: Any, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    """Return the parser of the command ``name``; ``text``: one sentence, ``epilog``: with an example."""
    return make_parser(commands.add_parser, name, text, epilog, help=text)


def make_parser(make: Any, name: str, text: str, epilog: str, **options: Any) -> argparse.ArgumentParser:
    """Return a parser whose epilog is shown as it is written."""
    parser: argparse.ArgumentParser = make(
        name, description=text, epilog=epilog, formatter_class=_Formatter, **options
    )
    return parser


class Parser(argparse.ArgumentParser):
    """A parser whose errors, which have the words of the user and names of files, are one line."""

    def error(self, message: str) -> NoReturn:
        """See ``argparse.ArgumentParser``."""
        super().error(printable(message))


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Shows the epilog as it is written, and commands and their help side by side."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 24) -> None:
        """Make a formatter.  argparse makes one for each argument, and would import ``shutil`` for it."""
        super().__init__(prog, indent_increment, max_help_position, width=_columns() - 2)

    def _format_action(self, action: argparse.Action) -> str:
        """Leave out the line ``COMMAND``, which the usage has already."""
        text = super()._format_action(action)
        return text.partition("\n")[2] if isinstance(action, argparse._SubParsersAction) else text

    def start_section(self, heading: str | None) -> None:
        """See ``argparse.HelpFormatter``."""
        super().start_section(heading)
        self._action_max_length = max(self._action_max_length, _LEAST_COLUMN)


def _columns() -> int:
    """Return the width of the terminal, in columns: COLUMNS, as a shell may set it, or what the system says."""
    with contextlib.suppress(ValueError):
        if (stated := int(os.environ.get("COLUMNS", ""))) > 0:
            return stated
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there is no output, or it is no terminal
        if (found := os.get_terminal_size(sys.__stdout__.fileno()).columns) > 0:  # type: ignore[union-attr]
            return found
    return _USUAL_COLUMNS


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the file that most commands are about."""
    parser.add_argument("file", metavar="FILE", help="ASDF file")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the files that a command takes one after the other."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file")


def add_outputs(parser: argparse.ArgumentParser, alone: str) -> None:
    """Add ``FILE [OUT]``, or ``FILE... DIRECTORY``; ``alone``: what FILE alone means."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help=f"FILE and the new file OUT, or FILE... and a directory; {alone}"
    )


def add_json(parser: argparse._ActionsContainer, what: str = "one JSON object") -> None:
    """Add the option ``--json``."""
    parser.add_argument("--json", action="store_true", help=f"print {what} (docs/cli.md)")


def add_remote(parser: argparse.ArgumentParser) -> None:
    """Add the options for files that are URLs."""
    group = parser.add_argument_group("remote files (https://, s3://, gs://, az://; docs/remote.md)")
    group.add_argument("--anonymous", action="store_true", help="send no credentials")
    group.add_argument("--endpoint", metavar="URL", help="of an object store that is not the provider's own")
    group.add_argument("--region", metavar="NAME", help="of a bucket")
    group.add_argument("--timeout", metavar="SECONDS", help="give up a read after so long (default: 60)")
    group.add_argument(
        "--follow",
        metavar="HOST[:PORT]",
        action="append",
        help="read what a local file refers to on this web server; may be repeated",
    )
    group.add_argument("--no-cache", action="store_true", help="keep nothing for later commands")
    group.add_argument(
        "--whole-max", metavar="SIZE", help="largest download if a server sends no parts (default: 1G)"
    )


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--force`` and ``--sync`` of a command that writes new files."""
    parser.add_argument("--force", action="store_true", help=f"replace {what}")
    parser.add_argument("--sync", action="store_true", help="fsync new files before returning")


def add_missing_ok(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--missing-ok``."""
    parser.add_argument("--missing-ok", action="store_true", help="a file without the value is left as it is")


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--where``."""
    parser.add_argument("--where", metavar="CONDITION", help="only files for which the condition holds")


def add_changing(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that changes values."""
    parser.add_argument("--shared", action="store_true", help="change a value also if aliases share it")
    parser.add_argument("--record", metavar="RECORD", help="write what changes to a new file, for 'asdffs undo'")
    add_where(parser)
    parser.add_argument("--catalog", metavar="FILE", help="of a directory; see 'asdffs index'")
    add_how(parser)


def add_how(parser: argparse.ArgumentParser) -> None:
    """Add the options of how a command changes values."""
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing; print a unified diff")
    parser.add_argument("-j", "--jobs", metavar="N", type=int, default=1, help="processes at once (default: 1)")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)
    add_json(parser, "one JSON array, an object for each file")


_DESCRIPTION = "Work on an ASDF file as if it were a directory, in place and safe against crashes."
_EPILOG = """\
asdffs COMMAND --help: options and examples; asdffs --version: of asdffs and libfuse
  asdffs mount data.asdf /mnt/x      then edit /mnt/x/tree.yaml, read and write /mnt/x/blocks
exit codes: 0 done; 1 not found; 2 usage; 3 no file; 4 damaged; 5 in use; 6 no mount; 7 edit kept; 8 i/o; 9 warnings
"""

#: The order of commands in the help; those of other packages come last.
_ORDER: Final = (
    *("mount", "umount", "ls", "info", "show", "view", "check", "diff", "tree", "get", "grep", "index", "find"),
    *("refs", "export", "set", "unset", "rename", "undo", "edit", "block", "explode", "implode", "repack", "upgrade"),
    *("watch", "daf", "recover", "cache", "doctor", "help"),
)
_SUMMARY: Final = re.compile(r"^SUMMARY(?:: Final)? = (\"(?:[^\"\\\n]|\\.)*\")$", re.MULTILINE)


def command_names() -> list[str]:
    """Return the names of all commands, as the help lists them."""
    found = registry.names("commands")
    return sorted(found, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def command_module(name: str) -> Any:
    """Import the module of a command.  Raises ``UsageError`` if it is of another package and cannot be loaded."""
    found = registry.find("commands", name)
    if found is not None and not all(hasattr(found, part) for part in ("SUMMARY", "arguments", "run")):
        registry.note_trouble("commands", name, "it lacks SUMMARY, arguments or run")
        found = None
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
        own = name == wanted and name in registry.own_names("commands")
        summary = str(command_module(name).SUMMARY) if own else _summary(name)
        command = make_parser(commands.add_parser, name, summary, "", help=summary)
        if wanted in (name, None):
            module = command_module(name)
            registry.answer("commands", name, functools.partial(module.arguments, command), None)
            command.add_argument("-v", "--verbose", action="store_true", help="say what happens")
    return parser, commands.choices


def _summary(name: str) -> str:
    """Return what a command does, in a few words, without importing the command if it is one of asdffs."""
    if name not in registry.own_names("commands"):
        shown = str(getattr(registry.find("commands", name), "SUMMARY", registry.trouble("commands", name)))
        return shown.replace("%", "%%")  # argparse fills these in
    try:
        with open(registry.source_of("commands", name), encoding="utf-8") as source:
            found = _SUMMARY.search(source.read())
    except FileNotFoundError:  # only compiled modules are installed
        return str(command_module(name).SUMMARY)
    if found is None:
        return ""
    import ast  # only the help of all commands needs it

    return str(ast.literal_eval(found[1]))


class _Version(argparse.Action):
    """The option ``--version``, which looks for libfuse only when it is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: str | Sequence[Any] | argparse.Namespace | None) -> None:
        """Print the versions of asdffs and libfuse, and exit."""
        from asdffs.cli.process import wanted_libfuse
        from asdffs.mount.libfuse import describe_libfuse

        print(f"asdffs {__version__} ({describe_libfuse(wanted_libfuse())})")
        parser.exit()


def add_padding(parser: argparse.ArgumentParser) -> None:
    """Add ``--padding``."""
    text = f"room after the tree: 64K, or 20%% of it (default: {Padding().percent}%%)"
    parser.add_argument("--padding", metavar="SIZE", help=text)
