"""Calls userfaultfd(2): the kernel tells the owner of a descriptor when a program touches a missing page.

Every user may do this with UFFD_USER_MODE_ONLY; a system call on such a page then fails with EFAULT.  Linux 6.6 can
*poison* a page, so that whoever touches it gets SIGBUS.  The descriptor works in every process that has it; addresses
are those of the process that made it.  It does not block, because poll(2) demands that.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import sys
from typing import Any, Final

from asdffs.workers.helpers import out_of_the_way

#: The number of the system call by machine.  Others have other numbers of ioctls, too.
_NUMBERS: Final = {"x86_64": 323, "s390x": 355, **dict.fromkeys(("aarch64", "riscv64", "loongarch64"), 282)}
# linux/userfaultfd.h
_USER_MODE_ONLY: Final = 1
_API: Final = 0xAA
_FEATURE_POISON: Final = 1 << 14
_MODE_MISSING: Final = 1
_MESSAGE: Final = 32
_ADDRESS: Final = struct.Struct("=16xQ")


def _request(number: int, size: int, *, reads: bool = False) -> int:
    """Return the number of an ioctl with an argument of ``size`` bytes (asm-generic/ioctl.h)."""
    return ((2 if reads else 3) << 30) | (size << 16) | (_API << 8) | number


_UFFDIO_API: Final = _request(0x3F, 24)
_UFFDIO_REGISTER: Final = _request(0x00, 32)
_UFFDIO_WAKE: Final = _request(0x02, 16, reads=True)
_UFFDIO_COPY: Final = _request(0x03, 40)
_UFFDIO_POISON: Final = _request(0x08, 32)


class Userfault:
    """The descriptor ``fd``.  Without an argument, a new one; else one that another process made.

    Raises ``OSError`` if the kernel has none, or does not allow it, as in most containers of Docker.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = _open() if fd is None else fd

    def close(self) -> None:
        """Close the descriptor.  If no other process has it, missing pages are zeros from now on."""
        os.close(self.fd)

    def watch(self, address: int, length: int) -> None:
        """Be told of missing pages in ``length`` bytes of the memory of this process.  Raises ``OSError``."""
        fcntl.ioctl(self.fd, _UFFDIO_REGISTER, bytearray(struct.pack("=4Q", address, length, _MODE_MISSING, 0)))

    def read(self) -> list[int]:
        """Return the addresses of missing pages that programs touched.  Raises ``OSError``."""
        try:
            told = os.read(self.fd, _MESSAGE * 16)
        except BlockingIOError:  # another process has answered
            return []
        return [_ADDRESS.unpack_from(told, at)[0] for at in range(0, len(told), _MESSAGE)]

    def copy(self, address: int, content: bytes) -> None:
        """Put whole pages of ``content`` at ``address``, and wake who waits for them; pages that are there stay.

        Raises ``OSError``: ``ESRCH`` or ``ENOENT`` if the memory is gone.
        """
        source, done = ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0, 0
        while done < len(content):
            request = bytearray(struct.pack("=4Qq", address + done, source + done, len(content) - done, 0, 0))
            try:
                fcntl.ioctl(self.fd, _UFFDIO_COPY, request)
            except OSError as err:
                if err.errno not in (errno.EEXIST, errno.EAGAIN):
                    raise
            copied = max(0, struct.unpack_from("=q", request, 32)[0])
            done += copied or mmap.PAGESIZE  # this page is there already
        self._wake(address, len(content))

    def poison(self, address: int, length: int) -> None:
        """Have whoever touches missing pages there get SIGBUS; pages that are there stay.  Raises ``OSError``."""
        for place in range(address, address + length, mmap.PAGESIZE):
            try:
                fcntl.ioctl(self.fd, _UFFDIO_POISON, bytearray(struct.pack("=3Qq", place, mmap.PAGESIZE, 0, 0)))
            except OSError as err:
                if err.errno != errno.EEXIST:
                    raise
        self._wake(address, length)

    def _wake(self, address: int, length: int) -> None:
        fcntl.ioctl(self.fd, _UFFDIO_WAKE, bytearray(struct.pack("=2Q", address, length)))


def _open() -> int:
    number = _NUMBERS.get(platform.machine())
    if number is None or sys.maxsize < 1 << 32:
        raise OSError(errno.ENOSYS, "not known on this machine")
    call: Any = ctypes.CDLL(None, use_errno=True).syscall
    fd: int = call(number, os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        fcntl.ioctl(fd, _UFFDIO_API, bytearray(struct.pack("=3Q", _API, _FEATURE_POISON, 0)))
    except OSError as err:
        os.close(fd)
        raise OSError(errno.ENOSYS, "Linux 6.6 is needed") from err
    return out_of_the_way(fd)


def address_of(memory: mmap.mmap) -> int:
    """Return where ``memory`` is in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
