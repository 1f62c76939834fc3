"""Turns of the programs that use a document from several threads: one call at a time.

``in_turn`` marks the calls that programs make.  Who has the turn already, as the mount's loop and everything that a
command does, just goes on.  Before its call a program has what another program did to the file; a reader that was
overtaken by such a change reads again.  Users: ``blocks``, ``array``, ``array_index``, ``document``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from asdffs.errors import AsdffsError, StaleFileError

if TYPE_CHECKING:
    from asdffs.document.document import Document

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

#: How often a reader begins again because another program changes the file all the time.
_TRIES: Final = 100


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """``method`` of something with a ``_document``, called while nobody else changes or reads that.

    Raises ``ValueError`` when the document is closed.
    """

    @functools.wraps(method)
    def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        document: Document = self._document  # type: ignore[attr-defined]
        if document.relief.held:
            return method(self, *args, **kwargs)
        with document.relief.entered():
            document.check_open()
            try:
                return _steadily(document, lambda: method(self, *args, **kwargs))
            except AsdffsError as err:
                err.path = err.path or document.path
                raise

    return called


def _steadily(document: Document, call: Callable[[], R]) -> R:
    """What ``call`` returns of a file that was the same before and after; a writer has it for itself, by the lock."""
    for _ in range(1 if document.writable else _TRIES):
        document.follow()
        try:
            found = call()
        except (AsdffsError, OSError, KeyError, ValueError):
            if document.writable or not document.was_changed():
                raise
            continue
        if document.writable or not document.was_changed():
            return found
    raise StaleFileError("another program changes it all the time; try again later", path=document.path)
