"""The mirror of a file without a mount (``asdffs watch``): its exploded form, which is copied into the file again.

``mirror`` copies.  This module has the record of a watched directory: the signatures of its files and of the ASDF
file when both were equal.  It shows the next ``asdffs watch`` which of the two was changed meanwhile.  A record is
replaced atomically.  It is written before a file is copied into the ASDF file, and again afterwards, so that the next
watch recognizes an interrupted copy.  It is in the state directory of the ASDF file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from asdffs.storage.backend import Signature

#: The number of fields of a signature that are recorded: all but the permissions (``access``).
_FIELDS: Final = 5


class MirrorRecord(NamedTuple):
    """The record of one watched directory.

    ``directory``: its absolute path.  ``file``: the signature of the ASDF file, or None if it is not known.
    ``seen``: name -> signature of each file that was equal to the ASDF file.  ``carrying``: the name of the file that
    was about to be copied into the ASDF file, or empty.  ``trees``: digests of the tree before and after that copy.
    """

    directory: str
    file: Signature | None = None
    seen: Mapping[str, Signature] = MappingProxyType({})
    carrying: str = ""
    trees: tuple[str, ...] = ()

    def is_file(self, now: Signature) -> bool:
        """Return whether the ASDF file is unchanged.  chmod, links and another device number do not matter."""
        return self.file is not None and _content(now) == _content(self.file)

    def is_seen(self, name: str, now: Signature) -> bool:
        """Return whether a file of the directory is unchanged since it was equal to the ASDF file."""
        return name in self.seen and _content(now) == _content(self.seen[name])

    def is_interrupted(self, text: bytes, differing: Mapping[str, Signature]) -> bool:
        """Return whether the ASDF file, with the tree ``text``, changed only by an interrupted copy.

        ``differing``: the files of the directory that differ from the ASDF file.  Apart from the file that was being
        copied, each must have been saved since the record was written.  Otherwise another program may have changed
        the ASDF file.
        """
        return (
            bool(self.carrying)
            and digest_of(text) in self.trees
            and all(name == self.carrying or not self.is_seen(name, now) for name, now in differing.items())
        )

    def write(self, place: str) -> None:
        """Replace the record of the directory, in the directory ``place``.  Raises ``OSError``."""
        os.makedirs(place, mode=0o700, exist_ok=True)
        path = _path(place, self.directory)
        record = self._asdict() | {
            "file": self.file[:_FIELDS] if self.file is not None else None,
            "seen": {name: signature[:_FIELDS] for name, signature in self.seen.items()},
        }
        with open(f"{path}.new", "w") as file:
            json.dump(record, file)
        os.replace(f"{path}.new", path)


def read_record(place: str, directory: str) -> MirrorRecord:
    """Read the record of ``directory`` in ``place``; return an empty one if it is missing or damaged."""
    try:
        with open(_path(place, directory)) as file:
            record = json.load(file)
        seen = {name: Signature(*signature) for name, signature in record["seen"].items()}
        file_then = Signature(*record["file"]) if record["file"] else None
        return MirrorRecord(directory, file_then, seen, str(record["carrying"]), tuple(record["trees"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return MirrorRecord(directory)


def digest_of(text: bytes) -> str:
    """Return the digest of a tree, for ``MirrorRecord.trees``."""
    return hashlib.sha256(text).hexdigest()


def note_equal(place: str, directory: str, file: Signature, seen: Mapping[str, Signature]) -> None:
    """Record in ``place`` that the files of ``directory`` are equal to the ASDF file now.  Raises ``OSError``."""
    MirrorRecord(directory, file, seen).write(place)


def was_edited_in(places: Iterable[str], directory: str) -> Callable[[str, Signature], bool]:
    """Return what tells whether the file at a path changed since it was equal to the ASDF file.

    ``places``: where the records are.
    """
    found = (read_record(place, directory) for place in places)
    record = next((record for record in found if record.seen), MirrorRecord(directory))

    def was_edited(path: str, now: Signature) -> bool:
        name = os.path.basename(path)
        return name in record.seen and not record.is_seen(name, now)

    return was_edited


def _path(place: str, directory: str) -> str:
    return os.path.join(place, hashlib.sha256(os.fsencode(directory)).hexdigest()[:16] + ".json")


def _content(signature: Signature) -> tuple[int, int, int]:
    return signature.inode, signature.size, signature.mtime_ns
