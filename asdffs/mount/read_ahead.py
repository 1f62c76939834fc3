"""Raises the kernel's read-ahead of a mount if allowed, for fewer and larger requests."""

from __future__ import annotations

import logging
from typing import Final

from asdffs.storage.mount_table import topmost

logger = logging.getLogger(__name__)

#: Read-ahead in KiB.  More makes splice fail: a pipe holds 1 MiB, and the answer has a header.
_READ_AHEAD: Final = 896


def raise_read_ahead(mountpoint: str) -> None:
    """Raise the read-ahead.  Only root may do this; for others, the kernel's default stays, which is only slower."""
    mount = topmost(mountpoint)
    if mount is None:
        return
    try:
        with open(f"/sys/class/bdi/{mount.device}/read_ahead_kb", "w") as file:
            file.write(str(_READ_AHEAD))
    except OSError as err:
        logger.info("read-ahead stays at the kernel's default: %s", err.strerror)
