"""What ``watch`` remembers of a directory that it watched: which files were carried, and what the ASDF file was then.

So that the next one knows which of the two was changed meanwhile.  A record is there whole or not at all; it is
written after what it tells has happened, so a crash between leaves an older one, and what it does not know of is
compared by its bytes.  User: ``cli/watch``.
"""

from __future__ import annotations

import json
import os
from dataclasses import astuple, dataclass, field

from asdffs.storage.store import Signature


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """``directory``: absolute; ``file``: the ASDF file, None if not known; ``seen``: files that were carried."""

    directory: str
    file: Signature | None = None
    seen: dict[str, Signature] = field(default_factory=dict)

    def is_file(self, now: Signature) -> bool:
        """Whether the ASDF file is as it was left; a chmod or a link, and another device number, do not matter."""
        return self.file is not None and _content(now) == _content(self.file)

    def is_seen(self, name: str, now: Signature) -> bool:
        """Whether a file of the directory is as it was carried."""
        return name in self.seen and _content(now) == _content(self.seen[name])

    def write(self, path: str) -> None:
        """Replace the record at ``path``.  Raises ``OSError``."""
        facts = {
            "directory": self.directory,
            "file": astuple(self.file) if self.file is not None else None,
            "seen": {name: astuple(signature) for name, signature in self.seen.items()},
        }
        with open(f"{path}.new", "w") as file:
            json.dump(facts, file)
        os.replace(f"{path}.new", path)


def read_record(path: str, directory: str) -> MirrorRecord:
    """The record at ``path``, if it is of ``directory``; else an empty one."""
    try:
        with open(path) as file:
            facts = json.load(file)
        if facts["directory"] != directory:
            return MirrorRecord(directory)
        seen = {name: Signature(*signature) for name, signature in facts["seen"].items()}
        return MirrorRecord(directory, Signature(*facts["file"]) if facts["file"] else None, seen)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return MirrorRecord(directory)


def _content(signature: Signature) -> tuple[int, int, int]:
    return signature.inode, signature.size, signature.mtime_ns
