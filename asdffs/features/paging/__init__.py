"""Memory that is decoded when it is touched: an ndarray on a compressed block, without the pieces that nobody uses.

``mapped(lazy=True)`` of an array uses it.  The kernel (userfaultfd(2), Linux 6.6) stops a program that touches a page
that is not there, and tells the *pager*: a process of its own, because a thread would wait for the lock of the
interpreter, which the stopped thread may hold.  The pager decodes the piece of the block with that page, and puts it
there.  ``userfault`` has the system calls, ``pager`` is the program.

| what happens                                   | the program that touches a missing page         |
|------------------------------------------------|--------------------------------------------------|
| the piece is damaged, or the file was changed  | gets SIGBUS; the reason is on standard error      |
| the pager is killed                            | waits for a new one, which its parent starts      |
| both are killed                                | waits until a signal ends it                      |
| it is a fork of the program                    | gets SIGSEGV: the memory is not in a fork         |
| it is a system call, such as write(2)          | gets EFAULT                                       |
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
from asdffs.features.paging import pager
from asdffs.features.paging.userfault import Userfault, address_of

if TYPE_CHECKING:
    from asdffs.document.arrays.finding import Location

#: Flags of the memory; that of MAP_NORESERVE has no name in older Pythons.
_FLAGS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000


def paged(location: Location) -> memoryview:
    """Return the decoded content of the block with the elements at ``location``, as memory that a pager fills.

    ``location`` has the pieces of the block, and is in a file on this machine.  Raises ``NotSupportedError`` if the
    kernel does not allow it, ``OSError``.
    """
    size = location.pieces[-1].stop
    memory = mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, flags=_FLAGS)
    memory.madvise(mmap.MADV_DONTFORK)  # a fork would see zeros
    try:
        fault = Userfault()
    except OSError as err:
        sentence = f"memory cannot be filled when it is touched (userfaultfd: {err.strerror}); use mapped()"
        raise NotSupportedError(sentence) from err
    fault.watch(address_of(memory), len(memory))
    stop = _start_pager(fault, address_of(memory), location)
    weakref.finalize(memory, stop).atexit = False  # the pager ends with this process, and not before
    return memoryview(memory).toreadonly()[:size]


def _start_pager(fault: Userfault, address: int, location: Location) -> _Stop:
    from asdffs.workers.helpers import helper

    errors = os.dup(2)
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
    stack = contextlib.ExitStack()
    stack.callback(fault.close)
    program = f"import sys; sys.path[:] = {sys.path!r}; from {pager.__name__} import main; main()"
    process = stack.enter_context(helper(program, flags=[], kept=[fault.fd, errors]))
    os.close(errors)
    assert process.stdin is not None
    process.stdin.write(json.dumps(job).encode() + b"\n" + table.tobytes())
    return _Stop(stack)


class _Stop:
    """Ends the pager, but not from a fork of the process that started it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._owner = os.getpid()

    def __call__(self) -> None:
        if os.getpid() == self._owner:
            self._stack.close()
