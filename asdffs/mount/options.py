"""Mount options: what ``-o`` accepts and what of it libfuse is told.

A new option is one line of ``_FLAGS`` or ``_VALUES``; each array format has one of its own, ``NAME=on|off``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from asdffs import registry
from asdffs.errors import UsageError
from asdffs.format.padding import Padding, parse_padding, parse_size
from asdffs.storage.gap import AUTO, STRATEGIES
from asdffs.vfs.attributes import Shown

#: mount(8) and fstab pass these; they mean nothing here or are the kernel's.
_TOLERATED: Final = (
    *("dev", "nodev", "suid", "nosuid", "exec", "atime", "relatime", "strictatime", "lazytime", "nolazytime"),
    *("diratime", "nodiratime", "async", "auto", "noauto", "user", "nouser", "users", "_netdev", "defaults"),
    *("nofail", "group", "owner", "silent", "loud", "mand", "nomand", "nosymfollow"),
)
#: What libfuse gives to the kernel, which sees to it.
_KERNEL: Final = ("noexec", "noatime", "sync", "dirsync")
#: Of users and groups; the last one means none.
_LARGEST_ID: Final = (1 << 32) - 2
#: A part of a block that can only be decoded as a whole, and what lies around a reader, must fit.
_LEAST_SPOOL: Final = 16 << 20
#: How long the kernel keeps names, and attributes of what changes only through it, in seconds (libfuse 3):
#: what another program does to the file is to be seen within a second.
KEPT_SECONDS: Final = 0.8


@dataclass(frozen=True, slots=True)
class MountOptions:
    """Parsed options.

    ``fsname``: the source shown by mount(8), or None for the file; ``spool``: directory for
    scratch and decoded blocks, or None; ``log``: a file, ``syslog``, or None for the default; ``growth``: how
    blocks are moved; ``schema``: whether trees must fit their schemas; ``nonempty``: whether the mount point may have
    files; ``kernel``: flags for it; ``journal``: whether there is one; ``lease``: whether others' opens of the file
    wait; ``spool_max``: bytes that decoded blocks may take, or None; ``keep_checksums``: whether
    changed blocks get a new one; ``verify``: whether checksums are looked at before the first read.
    """

    read_only: bool = False
    allow_other: bool = False
    allow_root: bool = False
    default_permissions: bool = False
    strict: bool = False
    schema: bool = False
    nonempty: bool = False
    fsname: str | None = None
    spool: str | None = None
    log: str | None = None
    growth: str = AUTO
    journal: bool = True
    lease: bool = False
    spool_max: int | None = None
    keep_checksums: bool = True
    verify: bool = False
    kernel: tuple[str, ...] = ()
    padding: Padding = field(default_factory=Padding)
    shown: Shown = field(default_factory=Shown)


Setter = Callable[[MountOptions, str], MountOptions]


def parse_options(texts: list[str]) -> MountOptions:
    """Parse ``-o`` texts, each a comma-separated list.  Raises ``UsageError`` naming what is not known."""
    chosen = MountOptions()
    values = {name: ("on|off", _set_format(name)) for name in registry.names("formats")}
    values = _VALUES | {name: value for name, value in values.items() if name not in _VALUES}
    for word in (word for text in texts for word in text.split(",") if word):
        name, equals, value = word.partition("=")
        if word in _KERNEL:
            chosen = replace(chosen, kernel=(*chosen.kernel, word))
        elif name in _FLAGS and not equals:
            chosen = replace(chosen, **_FLAGS[name])
        elif name in values and value:
            chosen = values[name][1](chosen, value)
        elif name in _FLAGS or name in values:
            usage = name if name in _FLAGS else f"{name}={values[name][0]}"
            raise UsageError(f"the mount option is written '{usage}', not '{word}'")
        elif word not in _TOLERATED and not word.startswith(("x-", "comment=")):
            known = (*_FLAGS, *(f"{name}={usage}" for name, (usage, _) in values.items()))
            raise UsageError(f"unknown mount option '{word}'; known are {', '.join(known)}")
    return chosen


def _set_id(name: str) -> Setter:
    def set_it(options: MountOptions, value: str) -> MountOptions:
        if not value.isascii() or not value.isdigit() or int(value) > _LARGEST_ID:
            raise UsageError(f"{name}={value}: a {name} is a number, at most {_LARGEST_ID}")
        number: dict[str, Any] = {name: int(value)}
        return replace(options, shown=replace(options.shown, **number))

    return set_it


def _set_umask(options: MountOptions, value: str) -> MountOptions:
    if not re.fullmatch("[0-7]{1,4}", value):
        raise UsageError(f"umask={value}: a umask is an octal number such as 022")
    return replace(options, shown=replace(options.shown, umask=int(value, 8) & 0o777))


def _set_padding(options: MountOptions, value: str) -> MountOptions:
    padding = parse_padding(value, options.padding)
    if padding is None:
        raise UsageError(f"pad={value}: give bytes such as 64K, or a part of the tree such as 20% (at most 1000%)")
    return replace(options, padding=padding)


def _set_spool_max(options: MountOptions, value: str) -> MountOptions:
    size = parse_size(value)
    if size is None or size < _LEAST_SPOOL:
        raise UsageError(f"spool_max={value}: give bytes such as 20G, at least {_LEAST_SPOOL >> 20}M")
    return replace(options, spool_max=size)


def _set_checksum(options: MountOptions, value: str) -> MountOptions:
    if value not in ("keep", "zero"):
        raise UsageError(f"checksum={value}: choose keep or zero")
    return replace(options, keep_checksums=value == "keep")


def _set_format(name: str) -> Setter:
    """Show arrays in the format ``name``, or hide that."""

    def set_it(options: MountOptions, value: str) -> MountOptions:
        if value not in ("on", "off"):
            raise UsageError(f"{name}={value}: choose on or off")
        hidden = options.shown.views.hidden
        return _with_views(options, hidden=hidden - {name} if value == "on" else hidden | {name})

    return set_it


def _set_layout(options: MountOptions, value: str) -> MountOptions:
    if value not in registry.names("views"):
        raise UsageError(f"layout={value}: there is no such view; there are {', '.join(registry.names('views'))}")
    return _with_views(options, layout=value)


def _with_views(options: MountOptions, **changes: Any) -> MountOptions:
    shown = options.shown
    return replace(options, shown=replace(shown, views=shown.views._replace(**changes)))


def _set_growth(options: MountOptions, value: str) -> MountOptions:
    if value not in (AUTO, *STRATEGIES):
        raise UsageError(f"growth={value}: choose one of {', '.join((AUTO, *STRATEGIES))}")
    return replace(options, growth=value)


def _set_text(name: str) -> Setter:
    def set_it(options: MountOptions, value: str) -> MountOptions:
        chosen: dict[str, Any] = {name: value}
        return replace(options, **chosen)

    return set_it


_FLAGS: Final[dict[str, dict[str, Any]]] = {
    "ro": {"read_only": True},
    "rw": {"read_only": False},
    "allow_other": {"allow_other": True},
    "allow_root": {"allow_root": True},
    "default_permissions": {"default_permissions": True},
    "strict": {"strict": True},
    "schema": {"schema": True},
    "nonempty": {"nonempty": True},
    "nojournal": {"journal": False},
    "lease": {"lease": True},
    "verify": {"verify": True},
}
_VALUES: Final[dict[str, tuple[str, Setter]]] = {
    "fsname": ("NAME", _set_text("fsname")),
    "uid": ("N", _set_id("uid")),
    "gid": ("N", _set_id("gid")),
    "umask": ("OCTAL", _set_umask),
    "growth": ("|".join((AUTO, *STRATEGIES)), _set_growth),
    "pad": ("SIZE|PERCENT%", _set_padding),
    "spool": ("DIR", _set_text("spool")),
    "spool_max": ("SIZE", _set_spool_max),
    "layout": ("VIEW", _set_layout),
    "checksum": ("keep|zero", _set_checksum),
    "log": ("FILE|syslog", _set_text("log")),
}


def fuse_options(options: MountOptions, path: str, *, libfuse2: bool) -> dict[str, Any]:
    """Keyword arguments for the binding.

    libfuse 3: the kernel keeps names, and per answer the attributes of what is steady
    (``operations.getattr``); content until its mtime or size moves.  libfuse 2 has one choice for
    all files, so nothing but content is kept, and that until an open finds that mtime or size moved.
    """
    kept = 0 if libfuse2 else KEPT_SECONDS
    source = options.fsname or path
    chosen: dict[str, Any] = {
        "fsname": source.replace("\\", "\\\\").replace(",", "\\,"),
        "subtype": "asdffs",
        "attr_timeout": 0,
        "entry_timeout": kept,
        "negative_timeout": 0,
        "auto_cache": True,
        "use_ino": True,  # hard links have one number
        "ac_attr_timeout": 0,
        "ro": options.read_only,
        "allow_other": options.allow_other,
        "allow_root": options.allow_root,
        "default_permissions": options.default_permissions or options.allow_other or options.allow_root,
    }
    chosen |= dict.fromkeys(options.kernel, True)
    if libfuse2:
        chosen["big_writes"] = True  # else writes arrive in pieces of 4 KiB
        chosen["nonempty"] = options.nonempty  # libfuse 3 has no such check
    return chosen
