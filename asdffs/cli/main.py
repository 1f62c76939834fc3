"""``asdffs``: parses the command line, runs one command, turns errors into exit codes."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from typing import Any

from asdffs import registry
from asdffs.allocator import COLLECTIONS
from asdffs.cli.arguments import command_module, parse_arguments
from asdffs.cli.printing import log_to_the_error_output
from asdffs.cli.process import (
    EndedError,
    die_of,
    forget_output,
    open_standard_streams,
    protect_children,
    raise_at_signals,
)
from asdffs.cli.results import failed
from asdffs.cli.secrets import stated_words
from asdffs.errors import AsdffsError
from asdffs.failures import Failure, attempt
from asdffs.scheduling import check_ranks

_MOUNT_WORDS = 2


def main(argv: list[str] | None = None) -> int:
    """Run the command in ``argv`` (default: of the process), and return the exit code.

    A signal that ends it is passed on.
    """
    if argv is None:
        protect_children()
        raise_at_signals()
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells count
    except EndedError as err:
        die_of(err.number)


def _main(argv: list[str] | None) -> int:
    open_standard_streams()
    try:
        words = stated_words(sys.argv[1:] if argv is None else argv)
    except AsdffsError as err:
        return failed(None, err)
    try:
        arguments = _parsed(_with_command(words), alone=argv is None)
    except AsdffsError as err:
        return failed(None, err)
    log_to_the_error_output(logging.INFO if arguments.verbose else logging.WARNING)
    if os.environ.get("ASDFFS_CHECK_LOCKS"):
        check_ranks()
    command = command_module(arguments.command)
    try:
        done = attempt(lambda: _run(command, arguments))
    except BrokenPipeError:
        forget_output()
        return 141  # 128 + SIGPIPE, as shells count
    if isinstance(done, Failure):
        code = failed(_subject(arguments), done.error)
        return int(getattr(command, "TROUBLE", code))
    return done


def _subject(arguments: argparse.Namespace) -> str | None:
    """Return what a command is about, if its errors may not say so."""
    if hasattr(arguments, "a"):
        return f"{arguments.a} and {arguments.b}"
    return getattr(arguments, "file", None) or getattr(arguments, "record", None)


def _parsed(words: list[str], *, alone: bool) -> argparse.Namespace:
    """Return the arguments; this imports the command.  ``alone``: the process runs only this command.

    What is imported then lives until the process ends.  So the garbage collector is told to ignore it: to look at it
    costs time now and at the end, and in a daemon it would copy the memory shared with the parent.
    """
    if not alone:
        return parse_arguments(words)
    gc.disable()  # ``__main__`` has done so as well, to import this module
    try:
        return parse_arguments(words)
    finally:
        gc.freeze()
        gc.set_threshold(*COLLECTIONS)
        gc.enable()


def _run(command: Any, arguments: argparse.Namespace) -> int:
    code = int(command.run(arguments))
    sys.stdout.flush()
    return code


def _with_command(argv: list[str]) -> list[str]:
    """Return the words with the name of the command: ``unmount`` is ``umount``."""
    if argv[:1] == ["unmount"]:
        return ["umount", *argv[1:]]
    return _with_mount(argv)


def _with_mount(argv: list[str]) -> list[str]:
    """Add ``mount`` to ``FILE MNT -o OPTIONS``, as mount(8) and fstab call asdffs."""
    first = argv[0] if argv else "-"
    if first.startswith("-") or first in registry.names("commands") or len(argv) < _MOUNT_WORDS:
        return argv
    return ["mount", *argv] if "/" in first or os.path.exists(first) else argv
