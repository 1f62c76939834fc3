"""Scripts in a mount namespace of their own, where they may put other devices and directories over the system's.

A new namespace has a copy of every mount.  A mount of another test that is unmounted meanwhile is still seen here, so
its daemon goes on, and its ``umount`` says so.  So the script begins by dropping the mounts that are not its own.
Users: the tests of services, of streams, of manners, of bad inputs.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from support.mounts import environment_in, run

#: findmnt writes a space of a name as \x20, and printf turns it back.
_DROP = (
    'findmnt -rno TARGET -t fuse.asdffs | while read -r point; do point=$(printf %b "$point"); '
    'case "$point" in {kept}/*) ;; *) umount -l "$point";; esac; done\n'
)


def in_own_namespace(
    script: str, folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``script`` there by bash, in ``folder``; it sees the mounts below ``folder`` and no others."""
    prelude = _DROP.format(kept=shlex.quote(str(folder)))
    arguments = ("unshare", "-m", "--propagation", "private", "bash", "-c", prelude + script)
    return run(*arguments, env=environment or environment_in(folder), cwd=folder)
