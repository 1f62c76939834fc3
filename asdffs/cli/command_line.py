"""Describes the command line as data, for man pages and completions.

Only private attributes of argparse have these data, and only this module reads them.  It is quick to import.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from asdffs.cli.parser import build_parser


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or an argument without ``flags``.  ``value``: what follows a flag, or empty; ``choices``: of it."""

    flags: tuple[str, ...]
    value: str
    text: str
    choices: tuple[str, ...] = ()

    @property
    def is_path(self) -> bool:
        """Whether a file or directory may be meant."""
        return bool(self.value) and not self.choices and self.value not in ("N", "NAME", "SIZE", "OPT[,OPT...]")


@dataclass(frozen=True, slots=True)
class Command:
    """``asdffs NAME``, or ``asdffs`` itself without a name.

    ``actions``: the names of its subcommands.  Their arguments are part of ``arguments``.
    """

    name: str
    text: str
    usage: str
    epilog: str
    arguments: tuple[Argument, ...]
    actions: tuple[Command, ...] = ()


def describe() -> tuple[Command, tuple[Command, ...]]:
    """``asdffs`` itself, and its commands in order."""
    parser = build_parser()
    top = _command("", parser)
    return top, top.actions


def _command(name: str, parser: argparse.ArgumentParser) -> Command:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    arguments: dict[tuple[str, ...], Argument] = {}
    actions: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions += [_command(f"{name} {inner}".strip(), choice) for inner, choice in action.choices.items()]
        else:
            argument = _argument(action)
            arguments[argument.flags or (argument.value,)] = argument
    return Command(
        name, parser.description or "", usage, parser.epilog or "", tuple(arguments.values()), tuple(actions)
    )


def _argument(action: argparse.Action) -> Argument:
    takes = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    choices = tuple(map(str, action.choices or ()))
    value = ",".join(choices) if choices else metavar
    text = (action.help or "").replace("%%", "%")
    return Argument(tuple(action.option_strings), value if takes else "", text, choices)
