"""Copies bytes between files without reading them: shared where the file system can, else by the kernel.

Sharing (reflinks, on XFS, btrfs, bcachefs) needs bytes that lie at the same place of a file-system block in both
files; what is left over at both ends is copied.  Guarantee: the bytes are there; nothing is durable before a sync.
Any thread, one at a time for each target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from asdffs.storage.backend import Backend, Folder

#: Bytes that the kernel copies at a time, so that progress is seen.
_SHARED_AT_ONCE: Final = 64 << 20
#: Fewer file-system blocks than this are copied: to share them is not worth the room it takes to align them.
_WORTH: Final = 16


class Stretch(NamedTuple):
    """``length`` bytes from ``offset`` of ``backend``."""

    backend: Backend
    offset: int
    length: int


def misplaced(stretch: Stretch, target: Backend, to: int) -> int:
    """By how many bytes later than ``to`` it should begin in ``target`` to be shared; 0 where it is too small."""
    unit = target.unit()
    return (stretch.offset - to) % unit if stretch.length >= _WORTH * unit else 0


def probe_name(name: str) -> str:
    """A name beside the temporary file ``name`` that goes with it when a crash has left both."""
    return f"{name.removesuffix('.tmp')}-probe.tmp"


def transfer(folder: Folder, stretch: Stretch, target: Backend, to: int, step: Callable[[int], object]) -> None:
    """Have the bytes of ``stretch`` at ``to`` of ``target``, a file of ``folder``; ``step(bytes)`` is told.

    Raises ``OSError``.
    """
    shared = _share(folder, stretch, target, to)
    for start, stop in ((0, shared.start), (shared.stop, stretch.length)):
        for place in range(start, stop, _SHARED_AT_ONCE):
            length = min(_SHARED_AT_ONCE, stop - place)
            folder.copy_range(stretch.backend, stretch.offset + place, target, to + place, length)
            step(length)
    step(len(shared))


def _share(folder: Folder, stretch: Stretch, target: Backend, to: int) -> range:
    """Share what can be shared; which bytes of ``stretch`` that is."""
    unit = target.unit()
    start = -stretch.offset % unit
    stop = start + (stretch.length - start) // unit * unit
    none = range(0)
    if (stretch.offset - to) % unit or stop <= start:
        return none
    try:
        folder.clone_range(stretch.backend, stretch.offset + start, target, to + start, stop - start)
    except OSError:  # it is copied instead
        return none
    return range(start, stop)
