"""Serves one mount from start to end: what it shows (one file, or an archive), and the process that shows it.

After the unmount, it finishes the file while it still holds the file lock, and leaves a report.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import logging
import os
import queue
import resource
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from asdffs.allocator import COLLECTIONS, give_back, own_process
from asdffs.document import preloading
from asdffs.document.report import Outcome, raise_outcome
from asdffs.document.saves.history import Places
from asdffs.errors import MountError
from asdffs.mount.answering import Answerer
from asdffs.mount.counters import Counters
from asdffs.mount.dropper import PageDropper
from asdffs.mount.invalidate import Invalidator, Notifications
from asdffs.mount.libfuse import Libfuse, Mounted
from asdffs.mount.loop import Loop
from asdffs.mount.operations import Operations
from asdffs.mount.options import MountOptions, fuse_options
from asdffs.mount.session import Passthrough, Session
from asdffs.storage.mount_table import pid_namespace, topmost
from asdffs.storage.watch import Watch
from asdffs.vfs.areas import Areas
from asdffs.vfs.served_file import OpenedFile, ServedFile

if TYPE_CHECKING:
    from asdffs.mount.watchdog import Watchdog

logger = logging.getLogger(__name__)

_STDERR = 2
#: A mount imports the rest after so many seconds in which nobody used it.
_QUIET = 0.3
#: After so many such intervals it does not wait any longer.
_MOST_INTERVALS = 20
#: A mount is idle if it takes less than this part of the time of one processor.
_IDLE = 0.05
#: Modules of views that many mounts need later, and those that need their own text, which is not kept.
_LATER = ("asdffs.views.formats.base", "asdffs.workflows.exploding", "asdffs.features.fits.cards")
#: Suffix of the file that reserves disk space for the report, and its size in bytes.
_ROOM = ".room"
_REPORT_ROOM = 1 << 16
#: Read-ahead in KiB.  More makes splice fail: a pipe holds 1 MiB, and the answer has a header.
_READ_AHEAD = 896
#: The same if some bytes are only on a server: each one that the kernel reads ahead is fetched from there.
_DISTANT_READ_AHEAD = 192


#: Seconds within which a mount that works has told its counters.
_PATIENCE = 2.0
#: Delay before the next look, in seconds, if another program changed the file during a change of ours.
_AGAIN = 0.2


class MountContext(NamedTuple):
    """The parts of a mount that its content uses: its options, its loop, and its ways to notify the kernel.

    ``mountpoint``: absolute.  ``note``: process, mount point and libfuse, for other programs.  ``facts``: the same
    and more, for ``status.json``.  ``counters``: how often the mount did what.
    """

    mountpoint: str
    options: MountOptions
    loop: Loop
    notifications: Notifications
    dropper: PageDropper
    passthrough: Passthrough | None
    note: dict[str, Any]
    facts: dict[str, Any]
    counters: Counters


class Content(Protocol):
    """What a mount shows.  ``path``: of the file or directory.  ``places``: where its report goes.

    ``is_distant``: whether some of its bytes are only on a server.
    """

    path: str
    places: Places
    areas: Areas
    is_distant: bool

    def start(self) -> None:
        """Begin to look for changes by other programs: the mount is ready."""

    def stop(self) -> None:
        """End that: the mount is gone."""

    def counters(self) -> dict[str, Any]:
        """Return what the mount did, and what is open.  The caller holds the main lock."""

    def end(self) -> Outcome:
        """Finish all files, and keep unsaved work beside them."""


class FileContent:
    """One file, which the loop looks at when its directory changes.  ``opened`` stays open after ``end``."""

    def __init__(self, opened: OpenedFile, context: MountContext) -> None:
        self.path = opened.document.path
        self.places = opened.places
        remote = opened.document.requests()
        self.is_distant = remote is not None and not remote["whole"]
        opened.document.report.mount = lambda: {**context.facts, "counters": self.counters()}
        kernel = Invalidator(context.loop, context.notifications, context.mountpoint, context.dropper)
        self._served = ServedFile(opened, context.options.shown, kernel, context.note)
        self.areas = Areas(self._served.vfs)
        self._loop = context.loop
        self._counters = context.counters
        self._watch = Watch(self.path, lambda: context.loop.post(self._look))

    def start(self) -> None:
        """See ``Content``."""
        if not self._served.document.is_remote:
            self._watch.start()
        self._served.look_at_tree()

    def stop(self) -> None:
        """See ``Content``."""
        self._watch.stop()

    def counters(self) -> dict[str, Any]:
        """See ``Content``."""
        return self._counters.facts(self._loop, [self._served.document], len(self.areas.handles))

    def end(self) -> Outcome:
        """See ``Content``."""
        return self._served.end()

    def _look(self) -> None:
        """Look for changes by other programs, and tell the kernel.  The caller holds the main lock."""
        settled = self._served.vfs.foreign.look()
        self._served.vfs.tell_changes(wait=False)
        if not settled:  # a change of ours is under way: look again afterwards
            self._loop.later(_AGAIN, self._look)


def live_facts(content: Content, context: MountContext) -> dict[str, Any]:
    """Return what monitoring is told of a mount; any other thread than those of the loop may call it.

    If the loop does not get to it in time, there is only what nobody needs the main lock for.
    """
    told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    context.loop.post(lambda: told.put(content.counters()))
    try:
        counters = told.get(timeout=_PATIENCE)
    except queue.Empty:
        counters = {"oldest_request": context.loop.oldest}
    state = "serving" if len(counters) > 1 else "not answering"
    return {"file": content.path, "mountpoint": context.mountpoint, "state": state, "counters": counters}


# -- the process ----------------------------------------------------------------


def serve(
    content: Content,
    context: MountContext,
    libfuse: Libfuse,
    *,
    ready: Callable[[], None],
    leaving: Callable[[], None] = lambda: None,
) -> None:
    """Serve ``content`` until it is unmounted, then finish it.  The caller closes it.

    ``ready`` is called when programs can use the mount, ``leaving`` when they no longer can.  Raises ``MountError``
    if FUSE refuses the mount, and ``KeptEditsError`` or ``UnfinishedError`` if not all edits are in the file.
    """
    _prepare_process()
    outcome: list[Outcome] = []
    watchdogs: list[Watchdog] = []
    if content.places.report:
        _reserve_report(content.places.report)

    def started() -> None:
        _set_read_ahead(context.mountpoint, _DISTANT_READ_AHEAD if content.is_distant else _READ_AHEAD)
        ready()
        content.start()
        watchdogs.append(_watched(context))
        _preload()
        logger.info("%s is mounted at %s (libfuse %s)", content.path, context.mountpoint, libfuse.version)

    def ended() -> None:
        leaving()
        for watchdog in watchdogs:
            watchdog.stop()
        content.stop()
        context.notifications.stop()
        context.dropper.stop()
        outcome.append(content.end())

    loop, is_helper = context.loop, context.dropper.is_helper
    operations = Operations(content.areas, loop, is_helper, context.passthrough, context.counters)
    users = (0, os.getuid()) if context.options.allow_root else None
    mounted = libfuse.mount(context.mountpoint, fuse_options(context.options, content.path, libfuse2=libfuse.old))
    session = _begun(mounted, f"libfuse {libfuse.version}", passthrough=context.passthrough is not None)
    context.loop.post(started)
    try:
        context.loop.serve(session, lambda: Answerer(session, operations, context.loop.lock, users))
    finally:  # what was typed is kept even after a bug in the loop
        mounted.unmount()
        ended()
    _conclude(content, outcome[0], aborted=any(watchdog.aborted for watchdog in watchdogs))


def _begun(mounted: Mounted, library: str, *, passthrough: bool) -> Session:
    """Return the session of a mount, after the first request.  Raises ``MountError``; then it is unmounted."""
    session = Session(mounted.fd)
    try:
        session.begin(library, passthrough=passthrough)
    except MountError:
        mounted.unmount()
        raise
    return session


def _prepare_process() -> None:
    """Raise the limit of open files, and tell the garbage collector and the allocator what suits a daemon.

    SIGUSR1 prints what each thread is doing: the way to see why a mount does not answer.  Later it goes to the log.
    """
    faulthandler.register(signal.SIGUSR1, _STDERR)
    raise_descriptor_limit()
    gc.set_threshold(*COLLECTIONS)
    own_process()


def _preload() -> None:
    """Keep the code of asdffs, and import the rest when nobody uses the mount; after some seconds in any case."""

    def wait_and_load() -> None:
        code = preloading.keep()
        wait_until_idle()
        preloading.load(*_LATER, libraries=True)
        code.forget_imported()
        give_back()

    threading.Thread(target=wait_and_load, name="preloading", daemon=True).start()


def wait_until_idle(
    used: Callable[[], float] = time.process_time, sleep: Callable[[float], object] = time.sleep
) -> None:
    """Return when this process was idle for a while, or has been busy for long.

    ``used()``: the processor time of the process in seconds.  ``sleep(seconds)`` waits.
    """
    for _ in range(_MOST_INTERVALS):
        before = used()
        sleep(_QUIET)
        if used() - before < _IDLE * _QUIET:
            return


def context_of(mountpoint: str, options: MountOptions, places: Places, libfuse: Libfuse, loop: Loop) -> MountContext:
    """Return what content at ``mountpoint``, an absolute path, uses of its mount."""
    note: dict[str, Any] = {"pid": os.getpid(), "mountpoint": mountpoint, "libfuse": libfuse.version}
    more = {"namespace": pid_namespace(), "log": options.log or places.log, "report": places.report}
    parts = Notifications(loop.forget_attributes), PageDropper()
    passthrough = Passthrough(lambda: loop.device) if options.passthrough else None
    return MountContext(mountpoint, options, loop, *parts, passthrough, note, note | more, Counters())


def _watched(context: MountContext) -> Watchdog:
    """Start the watchdog of a mount that programs can use already."""
    from asdffs.mount.watchdog import Watchdog

    watchdog = Watchdog(context.loop, context.notifications, context.mountpoint)
    watchdog.start()
    return watchdog


def _conclude(content: Content, outcome: Outcome, *, aborted: bool) -> None:
    """Leave a report, and raise ``KeptEditsError`` or ``UnfinishedError`` if not all edits are in the files."""
    if aborted:
        outcome.failures.append("the mount was aborted, because it did not answer any more")
    logger.info("%s was unmounted and finished", content.path)
    if content.places.report:  # even if all went well: a missing report means that the daemon died
        _leave_report(content.places.report, {"file": content.path, **outcome._asdict()})
    raise_outcome(content.path, outcome)


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


def raise_descriptor_limit() -> None:
    """Raise the limit of open file descriptors to the hard limit, because each open file of a mount needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # the hard limit may be above what the kernel allows
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _set_read_ahead(mountpoint: str, kibibytes: int) -> None:
    """Set the read-ahead of the kernel.  Only root may; for others its default stays, which is only slower."""
    mount = topmost(mountpoint)
    if mount is None:
        return
    try:
        with open(f"/sys/class/bdi/{mount.device}/read_ahead_kb", "w") as file:
            file.write(str(kibibytes))
    except OSError as err:
        logger.info("read-ahead stays at the kernel's default: %s", err.strerror)
