"""Keeps the memory of large buffers in the process, so that the next buffer need not get it from the system again.

Decoders free buffers of several MiB and ask for others of the same size.  By default, glibc gives such memory back to
the system at once.  The system clears every page before it hands it out again, which takes a large part of the time
of fast codecs.  For glibc only (mallopt(3), malloc_trim(3)); elsewhere, nothing happens.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

# malloc.h
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
#: The largest buffer that is kept, which is the most that glibc allows; and how much free memory is kept, in bytes.
_LARGEST: Final = 32 << 20
_FREE: Final = 64 << 20


class _Kept:
    """The C library, once the memory is kept."""

    library: Any = None


def keep_large_buffers() -> None:
    """Keep freed memory until ``release_memory``.  For a process of our own: it affects all libraries in it."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)
        library.mallopt(_TRIM_THRESHOLD, _FREE)
        library.mallopt(_ARENA_MAX, 1)  # malloc_trim does not free the ends of others, which threads would get
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        _Kept.library = library


def release_memory() -> None:
    """Give free memory back to the system, if the process keeps it.  Takes some milliseconds."""
    if _Kept.library is not None:
        with contextlib.suppress(AttributeError):
            _Kept.library.malloc_trim(0)
