"""Raises the kernel's read-ahead of a mount, where that is allowed: fewer, larger requests."""

from __future__ import annotations

import logging
from typing import Final

from asdffs.storage.mount_table import topmost

logger = logging.getLogger(__name__)

#: In KiB.  More collapses with splice: a pipe takes 1 MiB, and the answer has a header.
_READ_AHEAD: Final = 896


def raise_read_ahead(mountpoint: str) -> None:
    """Only root may; others read at the kernel's default, which is slower and as correct."""
    mount = topmost(mountpoint)
    if mount is None:
        return
    try:
        with open(f"/sys/class/bdi/{mount.device}/read_ahead_kb", "w") as file:
            file.write(str(_READ_AHEAD))
    except OSError as err:
        logger.info("read-ahead stays at the kernel's default: %s", err.strerror)
