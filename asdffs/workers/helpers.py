"""Helper programs: a text that Python runs in a process of its own."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from asdffs.workers import lifeline


@contextlib.contextmanager
def helper(
    program: str, *words: str, flags: Sequence[str], kept: Sequence[int] = (), cwd: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the text ``program`` in a Python process of its own, and end that with the block.

    ``words``: its arguments.  ``flags``: for Python, such as ``-P``.  ``kept``: file descriptors that it gets under
    the same numbers.  Its standard input and output are unbuffered pipes, its standard error goes nowhere.  Raises
    ``OSError`` if it cannot be started.
    """
    read_end, write_end = map(out_of_the_way, os.pipe())
    begin = f"exec({text_of(lifeline)!r}); end_with({read_end}); exec({program!r})"
    command = [sys.executable, *flags, "-c", begin, *words]
    try:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=null, bufsize=0, cwd=cwd, pass_fds=(read_end, *kept)
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    with process:
        try:
            yield process
        finally:
            process.kill()
            os.close(write_end)


def out_of_the_way(fd: int) -> int:
    """Return ``fd``, moved if a program that has closed its standard files got one of their numbers for it.

    A helper program has other files at these numbers.  Raises ``OSError``.
    """
    if fd > 2:
        return fd
    import fcntl  # Windows has none, and starts no helper programs

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


@functools.cache
def text_of(module: ModuleType) -> str:
    """Return the source text of a module, to be run as a helper program."""
    loader: Any = module.__loader__
    return str(loader.get_source(module.__name__))
