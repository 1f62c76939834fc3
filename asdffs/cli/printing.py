"""Prints lines whose text may come from files, names and other programs, and progress bars.

A progress bar appears on a terminal for work that takes longer than a second.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, TextIO

from asdffs.printable import printable


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print each of ``lines`` as one line, to the standard output or ``file``; controls are escaped."""
    stream = file or sys.stdout
    terminal = stream.isatty()
    for line in lines:
        print(printable(line.removesuffix("\r"), terminal=terminal), file=stream)


def print_json(value: object) -> None:
    """Print ``value`` as JSON, for programs."""
    import json  # many commands print none

    print(json.dumps(value, indent=2))


def say_or_json(arguments: argparse.Namespace, facts: Any, *lines: str) -> None:
    """Print ``facts`` as JSON if ``--json`` was given, else ``lines``."""
    if arguments.json:
        print_json(facts)
    else:
        say(*lines)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = (), between: str = " ") -> Iterator[str]:
    """Yield ``rows`` of cells as lines in columns; those whose number is in ``right`` are aligned at the right.

    ``between``: what separates two columns.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield between.join(
            cell.rjust(width) if n in right else cell.ljust(width) for n, (cell, width) in cells
        ).rstrip()


class Rows:
    """A text file for ``csv``: the standard output.  On a terminal each row is one line, and controls are escaped."""

    def write(self, text: str) -> None:
        """Print one row."""
        if sys.stdout.isatty():
            say(text.removesuffix("\n"))
        else:
            sys.stdout.write(text)


class SafeFormatter(logging.Formatter):
    """Keeps a message on one line of the log; a traceback follows it, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """See ``logging.Formatter``."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  # as above
        """See ``logging.Formatter``."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))


class CommandFormatter(SafeFormatter):
    """Writes the messages of a command for its user.  A warning begins with that word, unlike the final error."""

    def __init__(self) -> None:
        super().__init__("asdffs: %(word)s%(message)s", validate=False)  # a check takes as long as an import

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """See ``logging.Formatter``."""
        record.word = "warning: " if record.levelno == logging.WARNING else ""
        return super().formatMessage(record)


def log_to_the_error_output(level: int) -> None:
    """Print what is logged from now on in this process, at ``level`` or above.  A process that works for it, too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CommandFormatter())
    logging.basicConfig(handlers=[handler], level=level)


def on_one_line(text: str) -> str:
    """Return ``text`` as a cell of a table with tabs: tabs and ends of lines are escaped."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


#: How long nothing is shown, and how often is looked after that, in seconds.
_QUIET: Final = 1.0
_TICK: Final = 0.2

#: What is under way: the facts of ``document.progress.Progress``.
Facts = Callable[[], list[dict[str, Any]]]


@contextlib.contextmanager
def shown(facts: Facts, what: str) -> Iterator[None]:
    """Show a progress bar of the operations in ``facts()`` while the body runs; ``what`` names the work.

    Only on a terminal: what a program reads, or a timer mails, does not depend on how long the work took.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(facts, what, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def counted(operation: str, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar of files; yield what is told how many are done, and of how many."""
    facts = {"operation": operation, "block": None, "done": 0, "total": 0}

    def note(done: int, total: int) -> None:
        facts.update(done=done, total=total)

    with shown(lambda: [facts], what):
        yield note


def _show(facts: Facts, what: str, over: threading.Event) -> None:
    if over.wait(_QUIET):
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(escape(printable(what, terminal=True)), total=None)
        while not over.wait(_TICK):
            running = facts()[-1:]
            for one in running:
                bars.update(
                    task, description=escape(printable(title(one))), completed=one["done"], total=one["total"] or None
                )


def title(one: dict[str, Any]) -> str:
    """Return the name of an operation."""
    return str(one["operation"]) if one["block"] is None else f"{one['operation']} of block {one['block']}"
