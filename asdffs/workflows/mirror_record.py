"""The record of an exploded form: the files as last written, and the ASDF file at that time.

So that the next watch knows which of the two was changed meanwhile.  A record is there whole or not at all.  It is
written before something is carried, and again after, so that a carry that was interrupted is known as one.  One for
each directory, in the state directory of the ASDF file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from asdffs.storage.backend import Signature

#: How many fields of a signature are kept: all but who may use the file.
_FACTS: Final = 5


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """``directory``: absolute; ``file``: the ASDF file, None if not known; ``seen``: files that were carried.

    ``carrying``: the file that was about to be, or empty; ``trees``: digests of the tree before and after that.
    """

    directory: str
    file: Signature | None = None
    seen: dict[str, Signature] = field(default_factory=dict)
    carrying: str = ""
    trees: tuple[str, ...] = ()

    def is_file(self, now: Signature) -> bool:
        """Whether the ASDF file is as it was left; a chmod or a link, and another device number, do not matter."""
        return self.file is not None and _content(now) == _content(self.file)

    def is_seen(self, name: str, now: Signature) -> bool:
        """Whether a file of the directory is as it was carried."""
        return name in self.seen and _content(now) == _content(self.seen[name])

    def is_interrupted(self, text: bytes, differing: Mapping[str, Signature]) -> bool:
        """Whether the ASDF file, whose tree is ``text``, is not as it was left because a carry was interrupted.

        ``differing``: files that are not what it has; of each that was not being carried the record must know that it
        was saved since: else another program may have changed the ASDF file.
        """
        return (
            bool(self.carrying)
            and digest_of(text) in self.trees
            and all(name == self.carrying or not self.is_seen(name, now) for name, now in differing.items())
        )

    def write(self, place: str) -> None:
        """Replace the record of the directory, in ``place``.  Raises ``OSError``."""
        os.makedirs(place, mode=0o700, exist_ok=True)
        path = _path(place, self.directory)
        facts = {
            "directory": self.directory,
            "file": list(self.file[:_FACTS]) if self.file is not None else None,
            "seen": {name: list(signature[:_FACTS]) for name, signature in self.seen.items()},
            "carrying": self.carrying,
            "trees": self.trees,
        }
        with open(f"{path}.new", "w") as file:
            json.dump(facts, file)
        os.replace(f"{path}.new", path)


def read_record(place: str, directory: str) -> MirrorRecord:
    """The record of ``directory`` in ``place``; an empty one where there is none."""
    try:
        with open(_path(place, directory)) as file:
            facts = json.load(file)
        seen = {name: Signature(*signature) for name, signature in facts["seen"].items()}
        file_then = Signature(*facts["file"]) if facts["file"] else None
        return MirrorRecord(directory, file_then, seen, str(facts["carrying"]), tuple(facts["trees"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return MirrorRecord(directory)


def digest_of(text: bytes) -> str:
    """What tells one tree from another."""
    return hashlib.sha256(text).hexdigest()


def _path(place: str, directory: str) -> str:
    return os.path.join(place, hashlib.sha256(os.fsencode(directory)).hexdigest()[:16] + ".json")


def _content(signature: Signature) -> tuple[int, int, int]:
    return signature.inode, signature.size, signature.mtime_ns
