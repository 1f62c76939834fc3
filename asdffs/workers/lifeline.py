"""Ends a process when the one that started it ends, however that ends.

A *lifeline* is a pipe.  Only the starting process has its write end, so it is closed when that process ends.  The
started process has the read end, and asks the kernel to send it SIGKILL at that moment.  This needs no thread, so it
also ends a process that computes in C and never gives up the GIL.

This module imports almost nothing: its text is also run by helper programs (``workers``).
"""

import os

_SIGKILL = 9  # the module ``signal`` takes longer to import than the rest of a helper program


def end_with(lifeline: int) -> None:
    """Have the kernel end this process when the write end of the pipe ``lifeline``, which stays empty, is closed."""
    import fcntl  # Windows has none, and starts no helper programs

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, _SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    try:
        os.read(lifeline, 1)
    except BlockingIOError:
        return
    os._exit(1)  # it was closed already
