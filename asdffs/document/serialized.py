"""Runs the calls of a program's threads on one document one at a time.

``serialized`` decorates the calls of the Python API.  A thread that already holds the main lock, as in a mount or a
command, just continues.  Before each call, the file is read again if another program changed it.  A read during which
this happened is repeated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, StaleFileError

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

#: How often a read is tried while another program changes the file all the time.
_TRIES: Final = 100


def serialized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a method of an object with a ``_file``: only one thread at a time uses that file.

    The method also raises ``ValueError`` if the file is closed or was opened by another process, and
    ``StaleFileError`` if another program changed the file.  Errors get the path of the file if they have none.
    """

    @functools.wraps(method)
    def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        file: FileState = self._file  # type: ignore[attr-defined]
        if file.scheduler.held:
            return method(self, *args, **kwargs)
        with file.scheduler.entered():
            file.check_open()
            try:
                return _steadily(file, lambda: method(self, *args, **kwargs))
            except AsdffsError as err:
                err.path = err.path or file.path
                raise

    return called


def _steadily(file: FileState, call: Callable[[], R]) -> R:
    """Return ``call()``, and repeat it if another program changed the file during a read.

    A document that is open for writing has the lock of the file, so its call is not repeated.  Raises
    ``StaleFileError`` if the file never stays the same during a call.
    """
    for _ in range(1 if file.writable else _TRIES):
        file.follow()
        try:
            found = call()
        except (AsdffsError, OSError, KeyError, ValueError):
            if file.writable or not file.was_changed():
                raise
            continue
        if file.writable or not file.was_changed():
            return found
    raise StaleFileError("another program changes it all the time; try again later", path=file.path)
