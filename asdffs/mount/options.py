"""The options of a mount, which ``cli/mount_options`` parses, and those of them for libfuse."""

from __future__ import annotations

from typing import Literal, NamedTuple

from asdffs.document.state import Settings
from asdffs.storage.urls import RemoteOptions
from asdffs.vfs.attributes import Shown

Explode = Literal["always", "named", "never"]


class MountOptions(NamedTuple):
    """The options of a mount.

    ``nonempty``: whether the mount point may contain files.  ``fsname``: the source that mount(8) shows, or None for
    the file.  ``spool``: directory for scratch and decoded blocks, or None.  ``log``: a file, ``syslog``, or None for
    the default.  ``kernel``: flags for the kernel.  ``open_max``: of an archive, how many files stay open; None: as
    many as a share of the memory takes.  ``idle``: seconds after which an unused file of an archive is finished and
    closed.  ``explode``: of an archive, whether directories such as ``a.asdf.d`` are listed (``always``), only found
    by name (``named``), or not shown (``never``).  ``passthrough``: whether the kernel reads whole files itself.
    ``metrics``: host and port at which counters are served, or None.  ``settings``: of each document.
    """

    read_only: bool = False
    allow_other: bool = False
    allow_root: bool = False
    default_permissions: bool = False
    nonempty: bool = False
    fsname: str | None = None
    spool: str | None = None
    log: str | None = None
    kernel: tuple[str, ...] = ()
    shown: Shown = Shown()
    open_max: int | None = None
    idle: float = 5.0
    explode: Explode = "named"
    passthrough: bool = False
    metrics: tuple[str, int] | None = None
    settings: Settings = Settings(remote=RemoteOptions())


def fuse_options(options: MountOptions, path: str, *, libfuse2: bool) -> list[str]:
    """Return the options with which libfuse mounts.

    ``allow_root`` is asdffs' own check (``answering``): the kernel lets all users in, and we refuse the others.
    """
    source = options.fsname or path
    shared = options.allow_other or options.allow_root
    flags = {
        "ro": options.read_only,
        "allow_other": shared,
        "default_permissions": options.default_permissions or shared,
        "nonempty": options.nonempty and libfuse2,  # libfuse 3 does not check this
    }
    named = ["fsname=" + source.replace("\\", "\\\\").replace(",", "\\,"), "subtype=asdffs"]
    return [*named, *(name for name, wanted in flags.items() if wanted), *options.kernel]
