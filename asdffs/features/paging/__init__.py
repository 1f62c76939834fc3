"""Gives programs memory in which a compressed block is decoded piece by piece, when they touch it.

``mapped(lazy=True)`` of an array uses it.  When a program touches a page that is not there yet, the kernel stops it
and tells the *pager* (userfaultfd(2), Linux 6.6).  The pager decodes the piece of the block with that page, puts it
into the memory of the program, and the program goes on.  The pager is a process of its own: a thread would need
Python's global lock, which the stopped thread may hold.  ``userfault`` has the system calls, ``pager`` the program.

| what happens                                  | a program that touches a missing page             |
|-----------------------------------------------|---------------------------------------------------|
| the piece is damaged, or the file was changed | gets SIGBUS; the reason is on standard error      |
| the pager is killed                           | waits for another one, which its parent starts    |
| twenty pagers in turn are killed              | gets SIGBUS                                       |
| the pager and its parent are killed           | waits until a signal ends it                      |
| the program is a fork of the one that asked   | gets SIGSEGV: the memory is not in a fork         |
| the touch is by a system call, as write(2)    | gets EFAULT                                       |
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import sys
import weakref
from array import array
from typing import TYPE_CHECKING, Final

from asdffs.errors import NotSupportedError
from asdffs.workers.helpers import helper, out_of_the_way

if TYPE_CHECKING:
    from asdffs.document.arrays.finding import Location
    from asdffs.features.paging.userfault import Userfault

#: MAP_NORESERVE, for which older Pythons have no name.
_NO_RESERVE: Final = 0x4000


def paged(location: Location) -> memoryview:
    """Return the decoded content of the block with the elements at ``location``, as memory that a pager fills.

    ``location`` has the pieces of the block, and is in a file on this machine.  Raises ``NotSupportedError`` if the
    system does not allow it or the pager does not start, ``OSError``.
    """
    if sys.platform != "linux":
        raise _refused("only Linux can do that")
    from asdffs.features.paging.userfault import Userfault, address_of

    size = location.pieces[-1].stop
    try:
        fault = Userfault()
    except OSError as err:
        raise _refused(f"userfaultfd: {err.strerror}") from err
    with contextlib.ExitStack() as stack:
        stack.callback(fault.close)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        memory = mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, flags=flags)
        memory.madvise(mmap.MADV_DONTFORK)  # a fork would see zeros
        fault.watch(address_of(memory), len(memory))
        _start_pager(stack, fault, address_of(memory), location)
        weakref.finalize(
            memory, _Stop(stack.pop_all())
        ).atexit = False  # the pager ends with this process, not before
    return memoryview(memory).toreadonly()[:size]


def _refused(why: str) -> NotSupportedError:
    return NotSupportedError(f"memory cannot be filled when it is touched ({why}); use mapped()")


def _start_pager(stack: contextlib.ExitStack, fault: Userfault, address: int, location: Location) -> None:
    """Start the pager, which ends with ``stack``, and wait until it is ready: before, a touch would wait for ever."""
    errors = _standard_error()
    try:
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__}.pager import main; main()"
        process = stack.enter_context(helper(program, flags=[], kept=[fault.fd, errors]))
    finally:
        os.close(errors)
    job = {
        "fault": fault.fd,
        "address": address,
        "file": location.path,
        "version": dict(location.version),
        "codec": location.compression,
        "pieces": len(location.pieces),
        "errors": errors,
    }
    table = array("q", (number for piece in location.pieces for number in piece))
    assert process.stdin is not None
    assert process.stdout is not None
    ready = b""
    with contextlib.suppress(BrokenPipeError):  # it ended already
        with open(process.stdin.fileno(), "wb", closefd=False) as pipe:
            pipe.write(json.dumps(job).encode() + b"\n" + table.tobytes())
        ready = process.stdout.read(1)
    if not ready:
        raise _refused("the process that decodes did not start")


def _standard_error() -> int:
    """Return a descriptor for what the pager has to say; a program may have closed its own."""
    try:
        return os.dup(2)
    except OSError:
        return out_of_the_way(os.open(os.devnull, os.O_WRONLY))


class _Stop:
    """Ends the pager, but not from a fork of the process that started it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._owner = os.getpid()

    def __call__(self) -> None:
        if os.getpid() == self._owner:
            self._stack.close()
