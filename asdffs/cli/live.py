"""The mounts that are there now, and what each says of itself.  Users: ``ls``, ``umount``.

A daemon that does not answer must not hold these up: each is asked in a thread of its own.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from asdffs.storage.mount_table import Mount, mounts

#: How long an answer may take, in seconds.
_PATIENCE: Final = 2.0
_FOREIGN: Final = "not a mount of asdffs, though it says so"
_STATES: Final = {errno.ENOTCONN: "dead", errno.EACCES: "not allowed to look", errno.EPERM: "not allowed to look"}


@dataclass(slots=True)
class LiveMount:
    """One.  ``state``: ``serving``, or why nothing is known; ``status``: its status.json."""

    mount: Mount
    state: str = "not answering"
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The ASDF file; as mount(8) shows it where it cannot be asked."""
        return str(self.status.get("file", self.mount.source))

    def ask(self) -> None:
        """Read its status, as far as that is what a mount of asdffs would say."""
        try:
            with open(os.path.join(self.mount.point, ".asdffs", "status.json")) as file:
                status = json.load(file)
        except OSError as err:
            self.state = _STATES.get(err.errno or 0, err.strerror or "not readable")
        except ValueError:
            self.state = _FOREIGN
        else:
            self.state = "serving" if _is_status(status) else _FOREIGN
            self.status = status if self.state == "serving" else {}


def _is_status(status: Any) -> bool:
    """Any program may mount something that calls itself asdffs."""
    if not isinstance(status, dict) or not all(isinstance(status.get(key), str) for key in ("file", "report", "log")):
        return False
    return isinstance(status.get("pid"), int) and isinstance(status.get("progress"), list)


def live_mounts() -> list[LiveMount]:
    """All of them, in the order in which they were mounted; each was asked."""
    return asked([LiveMount(mount) for mount in _asdffs_mounts()])


def asked(found: list[LiveMount]) -> list[LiveMount]:
    """These, each asked, all within the time that one may take."""
    threads = [threading.Thread(target=one.ask, daemon=True) for one in found]
    for thread in threads:
        thread.start()
    end = time.monotonic() + _PATIENCE
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    return found


def _asdffs_mounts() -> Iterator[Mount]:
    """What is mounted over is not to be seen, and not listed."""
    top = {mount.point: mount for mount in mounts()}
    return (mount for mount in top.values() if mount.kind == "fuse.asdffs")
