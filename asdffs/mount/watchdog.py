"""Watches for requests that nobody answers.

A thread that answers a request and does not release the main lock holds up everybody.  If that lasts, the stacks of
all threads are logged.  If the thread sits in a call to /dev/fuse, it waits for the kernel, which waits for an answer
that nobody can give any more.  Then the mount is aborted: programs get an error, and the file is finished.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import sys
import threading
import time
import traceback
from typing import Final

from asdffs.mount.invalidate import Notifications
from asdffs.mount.loop import Loop
from asdffs.printable import as_word
from asdffs.storage.mount_table import topmost

logger = logging.getLogger(__name__)

#: A request that is older, in seconds, and does not wait for a disk or a computation, is held up.
_LIMIT: Final = 30.0
_MNT_FORCE: Final = 1


class Watchdog:
    """Looks at ``loop`` from a thread of its own.  ``limit``: in seconds.  ``aborted``: it aborted the mount."""

    def __init__(self, loop: Loop, notifications: Notifications, mountpoint: str, limit: float = _LIMIT) -> None:
        self._loop = loop
        self._notifications = notifications
        self._mountpoint = mountpoint
        self._limit = limit
        self._stopping = threading.Event()
        self._told = False
        self.aborted = False

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._work, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()

    def _work(self) -> None:
        while not self._stopping.wait(self._limit / 3):
            self.look()

    def look(self) -> None:
        """Log the stacks if something is held up, once until all is well again; abort if nothing else helps."""
        before = time.monotonic() - self._limit
        held = self._loop.held_up(before)
        if not held and not 0 < self._notifications.since < before:
            self._told = False
            return
        if not self._told:
            self._told = True
            logger.error("a request or a notification takes longer than %.0f s", self._limit)
            for line in stacks().splitlines():  # a message of the log is one line
                logger.error("%s", line)
        if not self.aborted and any(map(self._waits_for_kernel, held)):
            self._abort()

    def _waits_for_kernel(self, thread: int) -> bool:
        """Return whether a thread sits in a system call whose first argument is /dev/fuse (proc(5), "syscall")."""
        native = next((one.native_id for one in threading.enumerate() if one.ident == thread), None)
        try:
            with open(f"/proc/self/task/{native}/syscall") as file:
                words = file.read().split()
        except OSError:  # a kernel that does not tell
            return False
        return len(words) > 2 and int(words[1], 16) == self._loop.device

    def _abort(self) -> None:
        mount = topmost(self._mountpoint)
        if mount is None:
            return
        connection = mount.device.partition(":")[2]
        try:
            with open(f"/sys/fs/fuse/connections/{connection}/abort", "w") as file:
                file.write("1")
        except OSError as err:  # that file system is missing in many containers
            if not _abort_as_root(self._mountpoint):
                place = as_word(self._mountpoint)
                logger.error("the mount cannot be aborted (%s); end it with: sudo umount -f %s", err, place)
                return
        self.aborted = True
        logger.error("the mount was aborted, because nobody could answer requests any more")


def _abort_as_root(mountpoint: str) -> bool:
    """Return whether umount2(2) aborted the mount.  With MNT_FORCE it does so first, even if somebody uses it."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.umount2(os.fsencode(mountpoint), _MNT_FORCE) == 0 or ctypes.get_errno() == errno.EBUSY


def stacks() -> str:
    """Return what each thread of this process is doing."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
