"""The mirror of a file without a mount (``asdffs watch``): its exploded form, which is copied into the file again.

``mirroring`` copies, ``mirrored_tree`` is the file of the tree, ``mirror_record`` remembers which states were equal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from asdffs.storage.backend import Signature


def note_equal(place: str, directory: str, file: Signature, seen: Mapping[str, Signature]) -> None:
    """Record in ``place`` that the files of ``directory`` are equal to the ASDF file now.  Raises ``OSError``."""
    from asdffs.features.watch.mirror_record import MirrorRecord

    MirrorRecord(directory, file, seen).write(place)


def was_edited_in(places: Iterable[str], directory: str) -> Callable[[str, Signature], bool]:
    """Return what tells whether the file at a path changed since it was equal to the ASDF file.

    ``places``: where the records are.
    """
    from asdffs.features.watch.mirror_record import find_record

    record = find_record(places, directory)
    return lambda path, now: record.was_edited(os.path.basename(path), now)
