"""Keeps the memory of the daemon small: what glibc keeps of freed memory for each thread."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

#: ``M_ARENA_MAX`` of malloc.h, and the most arenas.  By default there are eight for each processor.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def limit_arenas() -> None:
    """Let all threads share two arenas.  Call it before threads are started.

    Each decoder has new threads, which allocate parts of several MiB.  With an arena for each of them, 100 MiB of
    freed memory may stay with the process.  Other libraries than glibc have no arenas.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)
