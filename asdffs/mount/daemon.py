"""Serves one mount from start to end, in the foreground or as a daemon.

For a daemon, the child process opens the document and prints every reason not to mount.  The parent returns when the
child is ready or has exited.  After the unmount, the daemon finishes the file while it still holds the file lock, and
leaves a report.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any

from asdffs.document.document import Document
from asdffs.document.report import raise_outcome
from asdffs.document.saves.places import Places
from asdffs.errors import AsdffsError, MountError
from asdffs.mount.binding import Binding
from asdffs.mount.direct import Direct
from asdffs.mount.invalidate import Invalidator
from asdffs.mount.loop import Loop
from asdffs.mount.operations import Operations
from asdffs.mount.options import MountOptions, fuse_options
from asdffs.mount.read_ahead import raise_read_ahead
from asdffs.mount.request_queue import SIGNALS
from asdffs.mount.session import Session
from asdffs.storage.lease import Lease
from asdffs.storage.mount_table import pid_namespace
from asdffs.storage.watch import Watch
from asdffs.vfs.vfs import Vfs

logger = logging.getLogger(__name__)

_READY = b"ready"
_STANDARD = (0, 1, 2)
#: Thresholds of the cyclic garbage collector (``gc.set_threshold``).  It stops all threads, for a second if there are
#: millions of objects.  So young objects are collected in small portions, and full collections are very rare.
_COLLECTIONS = (20_000, 5, 1_000)
#: Suffix of the file that reserves disk space for the report, and its size in bytes.
_ROOM = ".room"
_REPORT_ROOM = 1 << 16
#: A tree with more bytes than this is checked after the mount is ready, beside the first requests.
_LARGE_TREE = 1 << 20
#: How long another program's open waits for the file to be finished, in seconds.
_LEASE_PATIENCE = 1.0
#: Delay before the next look, in seconds, if another program changed the file during a change of ours.
_AGAIN = 0.2


def serve(
    document: Document,
    mountpoint: str,
    options: MountOptions,
    binding: Binding,
    places: Places,
    loop: Loop,
    *,
    ready: Callable[[], None],
    leaving: Callable[[], None] = lambda: None,
    released: Callable[[], None] = lambda: None,
) -> None:
    """Serve ``document`` until it is unmounted, then finish it.  The caller closes it.

    ``loop`` must be the scheduler of ``document``.  ``ready`` is called when programs can use the mount, ``leaving``
    when they no longer can, and ``released`` when all edits are in the file or beside it.  Raises ``MountError`` if
    FUSE refuses the mount, and ``KeptEditsError`` or ``UnfinishedError`` if not all edits are in the file.
    """
    raise_descriptor_limit()
    gc.set_threshold(*_COLLECTIONS)
    invalidator = Invalidator(loop, mountpoint)
    vfs = Vfs(document, places, options.shown, dropper=invalidator.drop)
    if places.report:
        _reserve_report(places.report)
    note: dict[str, Any] = {"pid": os.getpid(), "mountpoint": mountpoint, "binding": binding.name}
    more = {"namespace": pid_namespace(), "log": options.log or places.log, "report": places.report}
    document.report.note_mount(note | more)
    document.note_owner({**note, "state": "serving"})

    def started() -> None:
        raise_read_ahead(mountpoint)
        ready()
        others.start()
        if large:
            _look_at_tree(document)
        logger.info("%s is mounted at %s (%s)", document.path, mountpoint, binding.name)

    def ended() -> None:
        leaving()
        others.stop()
        invalidator.stop()
        with contextlib.suppress(OSError):  # the note only informs other programs; ending must go on without it
            document.note_owner({**note, "state": "finishing"})
        if vfs.end():
            released()

    large = document.tree.size > _LARGE_TREE
    if not large:
        document.check_tree()
    operations = Operations(vfs, loop, invalidator, ready=started, ended=ended)
    others = _OtherWriters(vfs, loop, lambda: operations.tell_changes(wait=False), lease=options.lease)

    def served(session: Session) -> None:
        loop.serve(session, lambda: Direct(session.fd, operations))

    try:
        binding.run(operations, mountpoint, served, **fuse_options(options, document.path, libfuse2=binding.libfuse2))
    except RuntimeError as err:
        raise MountError(f"FUSE refused the mount (status {err}); see the message above", path=mountpoint) from err
    _conclude(document, places)


def _look_at_tree(document: Document) -> None:
    """Check the tree; warnings go into the report.  A disk error here does not end the mount."""
    try:
        document.check_tree()
    except OSError as err:
        logger.warning("the tree could not be checked: %s", err.strerror)


class _OtherWriters:
    """Watches for other programs that change the file.

    The loop looks at the file when its directory changes, and calls ``changed`` after each look.  With ``lease``,
    opens by other programs wait until the file is finished.
    """

    def __init__(self, vfs: Vfs, loop: Loop, changed: Callable[[], None], *, lease: bool) -> None:
        self._vfs = vfs
        self._loop = loop
        self._watch = Watch(vfs.document.path, lambda: loop.post(self._look))
        self._changed = changed
        self._lease = Lease(vfs.document.descriptor, self._finish_soon, loop.post) if lease else None

    def start(self) -> None:
        """Start to watch.  Call it once the mount is ready."""
        if not self._vfs.document.is_remote:
            self._watch.start()
        if self._lease is not None:
            self._lease.start()

    def stop(self) -> None:
        """Stop to watch.  Call it when the mount is gone."""
        self._watch.stop()
        if self._lease is not None:
            self._lease.stop()

    def _look(self) -> None:
        """Look for changes by other programs.  The caller holds the main lock."""
        settled = self._vfs.foreign.look()
        self._changed()
        if not settled:  # a change of ours is under way: look again afterwards
            again = threading.Timer(_AGAIN, self._loop.post, (self._look,))
            again.daemon = True
            again.start()

    def _finish_soon(self) -> None:
        """Let the loop finish the file, and wait for it.  Runs in another thread; another program's open waits."""
        done = threading.Event()

        def finish() -> None:
            try:
                self._vfs.document.finish()
            except (AsdffsError, OSError) as err:
                self._vfs.document.report.refuse(err)
            finally:
                done.set()

        self._loop.post(finish)
        done.wait(_LEASE_PATIENCE)


def _conclude(document: Document, places: Places) -> None:
    """Leave a report, and raise ``KeptEditsError`` or ``UnfinishedError`` if not all edits are in the file."""
    outcome = document.report.outcome
    logger.info("%s was unmounted and finished; kept beside it: %d", document.path, len(outcome.kept))
    for note in outcome.notes:
        logger.warning("%s: %s", document.path, note)
    if places.report:  # even if all went well: a missing report means that the daemon died
        _leave_report(places.report, {"file": document.path, **outcome._asdict()})
    raise_outcome(document.path, outcome)


def _reserve_report(report: str) -> None:
    """Reserve disk space for the report, because it matters most when the disk is full."""
    with contextlib.suppress(OSError, AttributeError), open(report + _ROOM, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, _REPORT_ROOM)


def _leave_report(report: str, facts: dict[str, Any]) -> None:
    """Write the report into the reserved file, and rename that to ``report``.  Raises ``OSError``."""
    text = json.dumps(facts).encode()
    fd = os.open(report + _ROOM, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(text)
        file.truncate()
    os.replace(report + _ROOM, report)


def run_in_background(
    work: Callable[[Callable[[], None]], int], log: Callable[[], None], *, keep: Collection[int]
) -> int:
    """Run ``work(ready)`` in a daemon; return 0 when it calls ``ready``, else its exit status.

    ``log`` is called in the daemon when it is ready, and must redirect the log away from the terminal.  ``keep``:
    file descriptors that the daemon needs.  It closes all others, which it inherited: they would keep another mount
    busy or a pipe open.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _close_all_but({*_STANDARD, writer, *keep})
        _become_daemon(work, log, writer)
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


def raise_descriptor_limit() -> None:
    """Raise the limit of open file descriptors to the hard limit, because each open file of a mount needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # the hard limit may be above what the kernel allows
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _become_daemon(work: Callable[[Callable[[], None]], int], log: Callable[[], None], writer: int) -> None:
    """Turn this process into a daemon, run ``work`` and exit.  Never returns."""
    status = 1
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.setsid()
        status = work(lambda: _say_ready(log, writer))
    except Exception:  # the process ends here, so this is the last chance to log the reason
        logger.exception("internal error; please report it")
    finally:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(status)


def _say_ready(log: Callable[[], None], writer: int) -> None:
    log()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in _STANDARD:
        os.dup2(null, standard)
    os.close(null)
    os.chdir("/")
    os.write(writer, _READY)
    os.close(writer)
