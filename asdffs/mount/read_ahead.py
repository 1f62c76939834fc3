"""Raises the kernel's read-ahead of a mount, where that is allowed: fewer, larger requests.

User: ``daemon``, once per mount, right after the kernel has been answered.
"""

from __future__ import annotations

import logging
import re
from typing import Final

logger = logging.getLogger(__name__)

#: In KiB.  More collapses with splice: a pipe takes 1 MiB, and the answer has a header.
_READ_AHEAD: Final = 896
_ESCAPE = re.compile(r"\\([0-7]{3})")


def raise_read_ahead(mountpoint: str) -> None:
    """Only root may; others read at the kernel's default, which is slower and as correct."""
    device = _device_of(mountpoint)
    if device is None:
        return
    try:
        with open(f"/sys/class/bdi/{device}/read_ahead_kb", "w") as file:
            file.write(str(_READ_AHEAD))
    except OSError as err:
        logger.info("read-ahead stays at the kernel's default: %s", err.strerror)


def _device_of(mountpoint: str) -> str | None:
    """``MAJOR:MINOR`` of the topmost mount there (proc(5), mountinfo); asking the mount itself would wait for us."""
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split()
            if _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]) == mountpoint:
                found = fields[2]
    return found
