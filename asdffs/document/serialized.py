"""WorkerThreads of the programs that use a document from several threads: one call at a time.

``serialized`` marks the calls that programs make.  Who
holds the main lock already, as the mount's loop and everything that a
command does, just goes on.  Before its call a program has what another program did to the file; a reader that was
overtaken by such a change reads again.
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

#: How often a reader begins again because another program changes the file all the time.
_TRIES: Final = 100


def serialized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """``method`` of something with a ``_file``, called while nobody else changes or reads that.

    Raises ``ValueError`` when the file is closed.
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
    """What ``call`` returns of a file that was the same before and after; a writer has it for itself, by the lock."""
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
