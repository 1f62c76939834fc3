"""Lets the kernel read files itself that a mount shows as they are on the disk (``-o passthrough``, Linux 6.9, root).

The kernel gets the file descriptor of such a file, and gives a number for it.  While a file is open, all its opens
must have this number, or none may have one: the first decides.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import struct
from collections import Counter
from collections.abc import Callable
from typing import Final

#: FUSE_DEV_IOC_BACKING_OPEN and FUSE_DEV_IOC_BACKING_CLOSE of linux/fuse.h: _IOW(229, 1 and 2, of 16 and 4 bytes).
_OPEN: Final = 1 << 30 | 16 << 16 | 229 << 8 | 1
_CLOSE: Final = 1 << 30 | 4 << 16 | 229 << 8 | 2


class Passthrough:
    """The files of one mount that the kernel reads itself.

    ``device()``: the file descriptor of /dev/fuse.  ``facts``: for ``status.json``, with the reason if it is refused.
    """

    def __init__(self, device: Callable[[], int]) -> None:
        self.facts = {"passthrough": "on"}
        self._device = device
        self._opens: Counter[int] = Counter()
        self._given: dict[int, int] = {}

    def opened(self, inode: int, file: int) -> int:
        """Return the kernel's number of the file that the node ``inode`` shows; 0: the kernel asks for each read."""
        if not self._opens[inode]:
            self._given[inode] = self._give(file)
        self._opens[inode] += 1
        return self._given[inode]

    def closed(self, inode: int) -> None:
        """Record that one of these opens ended."""
        self._opens[inode] -= 1
        if self._opens[inode]:
            return
        del self._opens[inode]
        if number := self._given.pop(inode):
            with contextlib.suppress(OSError):  # the mount is gone, and with it the number
                fcntl.ioctl(self._device(), _CLOSE, struct.pack("=I", number))

    def _give(self, file: int) -> int:
        try:
            number: int = fcntl.ioctl(self._device(), _OPEN, bytearray(struct.pack("=iIQ", file, 0, 0)))
        except OSError as err:  # not root, an older kernel, or a file system that is stacked on others
            self.facts["passthrough"] = f"off: {err.strerror}"
            return 0
        self.facts["passthrough"] = "on"
        return number
