"""Says what work on a file may raise, beside the errors of asdffs: the one place that catches all of it.

Somebody else wrote the bytes of a file.  Codecs, SQLite, YAML, numpy and other libraries raise classes of their own
about them.  So commands and worker processes do their work on each file in ``attempt``: an error is then the result
for this file, and the work on other files goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from asdffs.errors import AsdffsError, DamagedFileError, Remedy, StorageError

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Names of classes (with their module, if it has one), the error of asdffs, and the start of its sentence.
#: By name, because most commands import none of these modules.
_KINDS: Final = (
    ({"MemoryError"}, StorageError, "needs more memory than there is"),
    ({"RecursionError"}, DamagedFileError, "is nested too deep"),
    ({"sqlite3.Error"}, StorageError, "the catalogue cannot be used"),
    (
        {"ValueError", "ArithmeticError", "EOFError", "zlib.error", "struct.error", "_lzma.LZMAError"}
        | {"yaml.error.YAMLError"},
        DamagedFileError,
        "has content that cannot be read",
    ),
)
#: What each error may have done is known, so their text says nothing more.
_TOLD: Final = frozenset({"MemoryError", "RecursionError"})
_LONGEST: Final = 300


class Failure(NamedTuple):
    """The result of work that failed.  ``error`` may not name the file yet."""

    error: AsdffsError | OSError


def attempt(work: Callable[[], T]) -> T | Failure:
    """Return what ``work`` returns, or its error.

    ``BrokenPipeError`` is raised: the reader of the output went away, which is about no file.
    """
    try:
        return work()
    except BrokenPipeError:
        raise
    except (AsdffsError, OSError) as err:
        _forget_frames(err)
        return Failure(err)
    except Exception as err:  # the one place: the caller tells it, and goes on
        logger.info("an unexpected error:", exc_info=True)
        _forget_frames(err)
        return Failure(_translated(err))


def _forget_frames(err: BaseException | None) -> None:
    """Let the result of the caller keep no frame alive: a cursor in one would lock a catalogue."""
    while err is not None:
        err.__traceback__ = None
        err = err.__cause__ or err.__context__


def _translated(err: Exception) -> AsdffsError:
    """Return an unexpected error as one of asdffs, whose sentence has its kind."""
    kinds = {_name(kind) for kind in type(err).__mro__}
    text = str(err)[:_LONGEST]
    told = "" if type(err).__name__ in _TOLD else f" ({type(err).__name__}{': ' if text else ''}{text})"
    for names, error, sentence in _KINDS:
        if kinds & names:
            return error(sentence + told)
    return AsdffsError(f"an internal error{told}", remedy=Remedy.REPORT)


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
