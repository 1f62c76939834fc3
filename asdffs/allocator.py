"""Memory of a process: thresholds of the garbage collector, and large buffers that are used again.

Decoders free buffers of several MiB and ask for others of the same size.  By default, glibc gives such memory back to
the system at once.  The system clears every page before it hands it out again, which takes a large part of the time
of fast codecs.  For glibc only (mallopt(3), malloc_trim(3)); elsewhere, nothing happens.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

#: Thresholds of the cyclic garbage collector (``gc.set_threshold``) for a process of our own.  It stops all threads,
#: for a second if there are millions of objects.  To read a tree makes many, and no cycles.  So young objects are
#: collected in small portions, and full collections are very rare.
COLLECTIONS: Final = (20_000, 5, 1_000)

# malloc.h
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
#: Buffers of fewer bytes than the first are kept when they are freed, as long as no more than the second are free.
#: While something is decoded, the first is the most that glibc allows.
_WHILE_DECODING: Final = (32 << 20, 64 << 20)
#: Afterwards.  glibc chooses such figures itself once a buffer of 4 MiB was freed, but no longer after mallopt(3).
_AFTERWARDS: Final = (4 << 20, 8 << 20)


class _Allocator:
    """The state of the process.

    ``library``: the C library, if the process is ours.  ``users``: how many are inside of ``reused_memory``.
    """

    library: Any = None
    users = 0


_lock: Final = threading.Lock()


def own_process() -> None:
    """Say that the process is ours, as a daemon is: what the allocator is told affects all libraries in it."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        library.mallopt(_ARENA_MAX, 1)  # malloc_trim does not free the ends of others, which threads would get
        _Allocator.library = library


def is_own() -> bool:
    """Return whether ``own_process`` was called; other programs set their libraries as they want them."""
    return _Allocator.library is not None


def give_back() -> None:
    """Give free memory back to the system, if the process is ours and nobody needs it for decoding soon."""
    with _lock:
        if not _Allocator.users and _Allocator.library is not None:
            _Allocator.library.malloc_trim(0)


@contextlib.contextmanager
def reused_memory() -> Iterator[None]:
    """Keep freed memory inside the block, if the process is ours.  Several threads may do so at the same time.

    The last of them gives the memory back to the system, which takes up to some milliseconds.
    """
    _change_users(1)
    try:
        yield
    finally:
        _change_users(-1)


def _change_users(change: int) -> None:
    """Count who is inside of ``reused_memory``; tell the C library when the first comes and when the last goes."""
    with _lock:
        before, _Allocator.users = _Allocator.users, _Allocator.users + change
        library = _Allocator.library
        if library is None or (before and _Allocator.users):
            return
        largest, free = _WHILE_DECODING if _Allocator.users else _AFTERWARDS
        library.mallopt(_MMAP_THRESHOLD, largest)
        library.mallopt(_TRIM_THRESHOLD, free)
        if not _Allocator.users:
            library.malloc_trim(0)
