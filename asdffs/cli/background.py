"""Runs a mount in a daemon, which prints every reason not to mount before its parent returns."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection

from asdffs.mount.session import SIGNALS

logger = logging.getLogger(__name__)

_READY = b"ready"
_STANDARD = (0, 1, 2)


def run_in_background(
    work: Callable[[Callable[[], None]], int],
    log: Callable[[], None],
    hang_up: Callable[[], None],
    *,
    keep: Collection[int],
) -> int:
    """Run ``work(ready)`` in a daemon; return 0 when it calls ``ready``, else its exit status.

    ``log`` is called in the daemon when it is ready, and must redirect the log away from the terminal.  ``hang_up``
    is called in a thread at each SIGHUP, which has no other effect on a daemon that is ready.  ``keep``:
    file descriptors that the daemon needs.  It closes all others, which it inherited: they would keep another mount
    busy or a pipe open.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _close_all_but({*_STANDARD, writer, *keep})
        _become_daemon(work, lambda: _say_ready(log, hang_up, writer))
    os.close(writer)
    with open(reader, "rb") as pipe:
        if pipe.read() == _READY:
            return 0
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _close_all_but(keep: Collection[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):  # the file descriptor of listdir itself is closed already
                os.close(int(name))


def _become_daemon(work: Callable[[Callable[[], None]], int], ready: Callable[[], None]) -> None:
    """Turn this process into a daemon, run ``work`` and exit.  Never returns."""
    status = 1
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])  # as in all threads that are started: one waits for it
    try:
        os.setsid()
        status = work(ready)
    except Exception:  # the process ends here, so this is the last chance to log the reason
        logger.exception("internal error; please report it")
    finally:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(status)


def _wait_for_hangups(hang_up: Callable[[], None]) -> None:
    """Call ``hang_up`` at each SIGHUP, which all threads block."""
    while True:
        signal.sigwait([signal.SIGHUP])
        try:
            hang_up()
        except OSError as err:
            logger.warning("SIGHUP: %s", err)


def _say_ready(log: Callable[[], None], hang_up: Callable[[], None], writer: int) -> None:
    log()
    threading.Thread(target=_wait_for_hangups, args=(hang_up,), name="hangups", daemon=True).start()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in _STANDARD:
        os.dup2(null, standard)
    os.close(null)
    os.chdir("/")
    os.write(writer, _READY)
    os.close(writer)


def notify(*lines: str) -> None:
    """Send ``lines``, such as ``READY=1``."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    import socket  # only systemd wants it

    if address.startswith("@"):  # in the abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.send("\n".join(lines).encode("utf-8", "surrogateescape"))
    except OSError as err:
        logger.warning("systemd could not be told %s: %s", lines[0], err.strerror or err)
