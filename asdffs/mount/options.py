"""Mount options: what ``-o`` accepts and what of it libfuse is told.

Users: ``cli/mount`` (parsing), ``daemon`` (use).  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asdffs.errors import UsageError

_FLAGS = ("allow_other", "allow_root", "default_permissions")
#: mount(8) and fstab pass these; they mean nothing here or are the kernel's.
_TOLERATED = frozenset({"rw", "dev", "nodev", "suid", "nosuid", "exec", "noexec", "atime", "noatime", "relatime"})


@dataclass(frozen=True, slots=True)
class MountOptions:
    """Parsed options.  ``fsname``: the source shown by mount(8), or None for the file."""

    read_only: bool = False
    allow_other: bool = False
    allow_root: bool = False
    default_permissions: bool = False
    fsname: str | None = None


def parse_options(texts: list[str]) -> MountOptions:
    """Parse ``-o`` texts, each a comma-separated list.  Raises ``UsageError`` naming an unknown option."""
    chosen: dict[str, Any] = {}
    for word in (word for text in texts for word in text.split(",") if word):
        name, equals, value = word.partition("=")
        if name == "ro" and not equals:
            chosen["read_only"] = True
        elif name in _FLAGS and not equals:
            chosen[name] = True
        elif name == "fsname" and value:
            chosen["fsname"] = value
        elif word not in _TOLERATED:
            known = ", ".join(("ro", "rw", *_FLAGS, "fsname=NAME"))
            raise UsageError(f"unknown mount option '{word}'; known are {known}")
    return MountOptions(**chosen)


def fuse_options(options: MountOptions, path: str, *, libfuse2: bool) -> dict[str, Any]:
    """Keyword arguments for the binding.

    Attributes and names are not cached by the kernel (timeouts 0): what the mount changes by
    itself is seen at once.  The price is one request per stat.
    """
    source = options.fsname or path
    chosen: dict[str, Any] = {
        "fsname": source.replace("\\", "\\\\").replace(",", "\\,"),
        "subtype": "asdffs",
        "attr_timeout": 0,
        "entry_timeout": 0,
        "negative_timeout": 0,
        "ro": options.read_only,
        "allow_other": options.allow_other,
        "allow_root": options.allow_root,
        "default_permissions": options.default_permissions or options.allow_other or options.allow_root,
    }
    if libfuse2:
        chosen["big_writes"] = True  # else writes arrive in pieces of 4 KiB
    return chosen
