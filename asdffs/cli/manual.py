"""Man pages, from the parser: ``asdffs.1`` and one for each command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from asdffs import __version__
from asdffs.cli.command_line import Argument, Command, describe

_ESCAPED: Final = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti", "`": "\\(ga"}


def pages() -> dict[str, str]:
    """File name of each page -> its text, in the macros of man(7)."""
    top, commands = describe()
    names = [f"asdffs-{command.name}" for command in commands]
    found = {"asdffs.1": "\n".join(_page("asdffs", top, names, _table(commands))) + "\n"}
    for name, command in zip(names, commands, strict=True):
        found[f"{name}.1"] = "\n".join(_page(name, command, ["asdffs"], ())) + "\n"
    return found


def _page(name: str, command: Command, related: list[str], table: tuple[str, ...]) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "asdffs {__version__}" "asdffs"'
    yield from (".SH NAME", f"{_escaped(name)} \\- {_escaped(command.text)}")
    yield from (".SH SYNOPSIS", ".nf", _escaped(command.usage), ".fi")
    yield from (".SH DESCRIPTION", _escaped(_sentence(command.text)))
    if table:
        yield from (".SH COMMANDS", *table)
    yield from (".SH OPTIONS", *_options(command.arguments))
    yield from _epilog(command.epilog)
    if command.name:
        for action in command.actions:
            yield from _action(action)
    if command.name:
        yield from (".SH EXIT STATUS", "See", f".BR {_escaped('asdffs')} (1).")
    yield ".SH SEE ALSO"
    for number, other in enumerate(related):
        yield f".BR {_escaped(other)} (1){',' if number + 1 < len(related) else ''}"


def _action(action: Command) -> Iterator[str]:
    """A command of a command."""
    yield from (f".SH {_escaped(action.name.upper())}", _escaped(_sentence(action.text)))
    yield from (".PP", ".nf", _escaped(action.usage), ".fi", *_options(action.arguments))


def _table(commands: tuple[Command, ...]) -> tuple[str, ...]:
    lines: list[str] = []
    for command in commands:
        lines += (".TP", f".B {_escaped(command.name)}", _escaped(_sentence(command.text)))
    return tuple(lines)


def _options(arguments: tuple[Argument, ...]) -> Iterator[str]:
    for argument in arguments:
        value = f" \\fI{_escaped(argument.value)}\\fR" if argument.value else ""
        flags = ", ".join(f"\\fB{_escaped(flag)}\\fR{value}" for flag in argument.flags)
        yield from (".TP", flags or value.strip(), _escaped(_sentence(argument.text)))


def _epilog(text: str) -> Iterator[str]:
    """Convert an epilog: lines that end with a colon are headings, indented lines are shown verbatim."""
    heading, open_section = "NOTES", False
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if re.fullmatch(r"\S.*:", lines[0]):
            heading, open_section = lines.pop(0).rstrip(":").upper(), False
        if not open_section:
            yield f".SH {_escaped(heading.replace('EXIT CODES', 'EXIT STATUS'))}"
            open_section = True
        else:
            yield ".PP"
        verbatim = any(line.startswith("  ") for line in lines)
        yield from (".nf", *map(_line, lines), ".fi") if verbatim else map(_line, lines)
        heading, open_section = "NOTES", heading == "NOTES"


def _line(text: str) -> str:
    """A line of text; a dot at its beginning would be a macro."""
    escaped = _escaped(text)
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)
