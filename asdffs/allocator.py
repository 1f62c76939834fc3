"""Keeps the memory of large buffers in the process, so that the next buffer need not get it from the system again.

Decoders free buffers of several MiB and ask for others of the same size.  By default, glibc gives such memory back to
the system at once.  The system clears every page before it hands it out again, which takes a large part of the time
of fast codecs.  For glibc only (mallopt(3), malloc_trim(3)); elsewhere, nothing happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

# malloc.h
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
#: The largest buffer that is kept, which is the most that glibc allows; and how much free memory is kept, in bytes.
_LARGEST: Final = 32 << 20
_FREE: Final = 64 << 20


class _Allocator:
    """That of the process.  ``library``: the C library, if the process is ours."""

    library: Any = None


def own_process() -> None:
    """Allow this module to tell the allocator of the process anything: it affects all libraries in the process."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        library.mallopt(_ARENA_MAX, 1)  # malloc_trim does not free the ends of others, which threads would get
        _Allocator.library = library


@contextlib.contextmanager
def reused_memory() -> Iterator[None]:
    """Keep freed memory inside the block, if the process is ours.  To give it back takes up to some milliseconds."""
    library = _Allocator.library
    if library is not None:
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)
        library.mallopt(_TRIM_THRESHOLD, _FREE)
    try:
        yield
    finally:
        if library is not None:
            library.malloc_trim(0)
