"""A FUSE mount of another user that calls itself asdffs and is none.  As a program, by root:

    hostile_mount.py MNT HOW STATUS-FILE USER

HOW: which requests never get an answer, of getattr, opendir, open, fsyncdir; or ``none``.  A request may name what
comes behind a slash: ``getattr/.asdffs``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import threading

import mfusepy

NOSUID_NODEV = 2 | 4
FOLDERS = ("/", "/.asdffs")
STATUS = "/.asdffs/status.json"


class Hostile(mfusepy.Operations):
    use_ns = True

    def __init__(self, how: str, status: bytes) -> None:
        self.request, _, self.name = how.partition("/")
        self.status = status

    def _come(self, request: str, path: str) -> None:
        if request == self.request and self.name in path:
            threading.Event().wait()

    def getattr(self, path, fh=None):
        self._come("getattr", path)
        if path in FOLDERS:
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path == STATUS:
            return {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": len(self.status)}
        raise mfusepy.FuseOSError(errno.ENOENT)

    def opendir(self, path):
        self._come("opendir", path)
        return 0

    def readdir(self, path, fh):
        return [".", ".."]

    def open(self, path, flags):
        self._come("open", path)
        return 0

    def read(self, path, size, offset, fh):
        return self.status[offset : offset + size]

    def fsyncdir(self, path, datasync, fh):
        self._come("fsyncdir", path)
        return 0

    def init(self, path):
        print("ready", flush=True)


if __name__ == "__main__":
    with open(sys.argv[3], "rb") as file:
        content = file.read()
    user, device = int(sys.argv[4]), os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40755,user_id={user},group_id={user}".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"x\ty", os.fsencode(sys.argv[1]), b"fuse.asdffs", NOSUID_NODEV, options):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    mfusepy.FUSE(Hostile(sys.argv[2], content), f"/dev/fd/{device}", foreground=True)
