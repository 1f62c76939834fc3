"""``asdffs umount MNT``: completes the file, unmounts, waits for the daemon.  ``-a``: all mounts."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from asdffs.cli.commands.recover import recover
from asdffs.cli.mounts import LONGEST as _LONGEST
from asdffs.cli.mounts import LiveMount, as_user, ask_mounts, is_status, live_mounts
from asdffs.cli.printing import Facts, say, shown
from asdffs.cli.results import ExitCode, for_each, sentence_of
from asdffs.cli.state_directory import take_report
from asdffs.cli.state_files import REPORT
from asdffs.document.report import raise_outcome
from asdffs.errors import AsdffsError, InUseError, MountError, UnfinishedError, UsageError
from asdffs.printable import as_word, as_words
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.lock import read_owner
from asdffs.storage.mount_table import Mount, pid_namespace, resolved, topmost
from asdffs.storage.sidecars import journal_name
from asdffs.storage.urls import is_remote, shown_url

SUMMARY: Final = "write pending changes and unmount"
logger = logging.getLogger(__name__)

_PATIENCE_MS = 1000
#: Seconds for which a mount may be busy because somebody just looks at it, such as 'asdffs ls', and how often to try.
_BUSY = 1.0
_LOOK = 0.02
#: Seconds after an unmount in which a daemon hears of it, unless the mount is seen elsewhere too.
_DEAF = 5
_REPORT_PATH = re.compile(rf"(/.*/asdffs/open/[^/]+)/{REPORT}", re.DOTALL)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs umount /mnt/x
  asdffs umount data.asdf   the same, wherever the file is mounted
  asdffs umount -a          all mounts of this user; for root, of everybody

Exit code 7: something could not be written into the file; it is kept, and the message says where.
'asdffs unmount' is the same.
"""
    parser.add_argument("mountpoints", metavar="MNT", nargs="*", help="mount point, or the file that is mounted")
    parser.add_argument("-a", "--all", action="store_true", help="unmount all")


def run(arguments: argparse.Namespace) -> int:
    """Finish, unmount and wait.  Raises ``AsdffsError``."""
    if arguments.all == bool(arguments.mountpoints):
        raise UsageError("give mount points, or -a for all mounts of yours")
    return _take_away_each(_all_mountpoints() if arguments.all else arguments.mountpoints)


def _all_mountpoints() -> list[str]:
    """Return the mounts of this user, for root all; the last first, because one may lie in another."""
    mine = os.geteuid()
    found = [one.mount for one in reversed(live_mounts()) if mine in (0, one.mount.owner)]
    return [mount.point for mount in sorted(found, key=lambda mount: mount.owner != mine)]


def _take_away_each(mountpoints: Sequence[str]) -> int:
    """Unmount each; one that cannot be unmounted holds up no other."""
    return for_each(((one, partial(_take_away, one)) for one in mountpoints), lambda _, code: code)


def _take_away(given: str) -> int:
    if not given:
        raise UsageError("the name of the mount point is empty")
    mountpoint = resolved(given)
    found = topmost(mountpoint)
    if found is None:  # not asked of a mount point, whose daemon may not answer
        mountpoint = _mountpoint_of(given)
        found = topmost(mountpoint)
    if found is None or found.kind != "fuse.asdffs":
        raise _not_mounted(given)
    if os.geteuid() == 0 and found.owner:  # root itself may not look into it
        return as_user(found, lambda: _take_away_each([given]))
    status = _status(found, given)
    if status is None:
        return _take_dead_away(found)
    with _watched(status, found.owner or 0) as process, _folder_of(status["report"]) as folder:
        with _status_of(mountpoint) as facts, shown(facts, f"finishing {status['file']}"):
            _finish(mountpoint)
        _unmount(mountpoint)
        _wait(process, status)
        if process is not None and status["report"]:
            return _tell(status["file"], folder)
    return ExitCode.OK


def _mountpoint_of(file: str) -> str:
    """Return where this user mounted the ASDF file ``file``, which may be a URL.  Raises ``MountError``."""
    real, mine = shown_url(file) if is_remote(file) else os.path.realpath(file), os.geteuid()
    points = [one.mount.point for one in live_mounts() if one.file == real and one.mount.owner == mine]
    if len(points) == 1:
        return points[0]
    if points:
        raise UsageError(f"is mounted in several places; give one of them: {as_words(*points)}", path=file)
    raise _not_mounted(file)


def _not_mounted(given: str) -> MountError:
    return MountError("no asdffs mount is there; 'asdffs ls' lists them", path=given)


@contextlib.contextmanager
def _folder_of(report: str) -> Iterator[int | None]:
    """Open the directory of a report, which gets another path when the file is closed; None if that is not known."""
    match = _REPORT_PATH.fullmatch(report)
    try:
        folder = os.open(match[1] if match else "", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        os.close(folder)


def _tell(path: str, folder: int | None) -> ExitCode:
    """Print what the report in ``folder`` says; without one recover the file.  Raises as ``raise_outcome``."""
    if folder is None:  # any program may mount something that calls itself asdffs
        raise UnfinishedError("the mount names a report that is none of asdffs's; its result is not known", path=path)
    found = take_report(REPORT, folder=folder, file=path)
    if found is None:
        say(f"asdffs: {path}: the daemon ended before the file was finished", file=sys.stderr)
        return _recover(path)
    say(*(f"asdffs: {path}: {note}" for note in found.notes), file=sys.stderr)
    raise_outcome(path, found)
    return ExitCode.OK


def _take_dead_away(found: Mount) -> int:
    """Unmount a mount whose daemon is gone, and recover its file if the mount table names it."""
    _run_helper(found.point, lazily=True)
    say(f"asdffs: {found.point}: its daemon was gone; unmounted", file=sys.stderr)
    if os.path.isdir(found.source):
        return _recover_below(found.source)
    if not os.path.isfile(found.source):
        raise UnfinishedError(
            "the file of this mount is not known; 'asdffs recover FILE' completes it", path=found.point
        )
    return _recover(found.source)


def _recover_below(directory: str) -> ExitCode:
    """Recover the files of an archive that were open: those with a journal."""
    worst = ExitCode.OK
    for folder, _, names in os.walk(directory):
        for path in (os.path.join(folder, name) for name in names if journal_name(name) in names):
            try:
                worst = max(worst, _recover(path))
            except (AsdffsError, OSError) as err:
                say(f"asdffs: {path}: cannot be recovered: {sentence_of(err)}", file=sys.stderr)
                worst = ExitCode.UNFINISHED
    return worst


def _recover(path: str) -> ExitCode:
    past = recover(path)
    for sentence in past.sentences or ["nothing to recover"]:
        say(f"asdffs: {path}: {sentence}", file=sys.stderr)
    return ExitCode.EDITS_KEPT if past.kept else ExitCode.OK


def _status(found: Mount, given: str) -> dict[str, Any] | None:
    """Return what the mount says of itself; None when its daemon is gone."""
    (one,) = ask_mounts([LiveMount(found)])
    if one.state == "dead":
        return None
    if one.state != "serving":
        raise MountError(f"the mount cannot be asked to finish its file: {one.state}", path=given)
    return one.status


@contextlib.contextmanager
def _watched(status: dict[str, Any], owner: int) -> Iterator[int | None]:
    """Return a descriptor that becomes readable when the daemon of user ``owner`` ends.

    None if the daemon is in another PID namespace, or belongs to another user.
    """
    pid = status["pid"]
    try:
        if os.stat(f"/proc/{pid}").st_uid != owner:
            raise ProcessLookupError
        if status.get("namespace", pid_namespace()) != pid_namespace():
            raise ProcessLookupError
        process = os.pidfd_open(pid)
    except OSError:
        logger.warning("the daemon (process %d) cannot be watched; its result is not known", pid)
        yield None
        return
    try:
        yield process
    finally:
        os.close(process)


@contextlib.contextmanager
def _status_of(mountpoint: str) -> Iterator[Facts]:
    """Yield a function that returns the operations under way.  The root is locked while it is synced."""
    folder = os.open(os.path.join(mountpoint, ".asdffs"), os.O_RDONLY | os.O_DIRECTORY)

    def facts() -> list[dict[str, Any]]:
        try:
            with open(os.open("status.json", os.O_RDONLY, dir_fd=folder)) as file:
                found = json.loads(file.read(_LONGEST))
        except (OSError, ValueError, RecursionError):
            return []
        return found["progress"] if is_status(found) else []

    try:
        yield facts
    finally:
        os.close(folder)


def _finish(mountpoint: str) -> None:
    """Sync the root; the report tells after the unmount what that refuses."""
    folder = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as err:
        logger.info("finishing: %s", err.strerror)
    finally:
        os.close(folder)


def _unmount(mountpoint: str) -> None:
    until = time.monotonic() + _BUSY
    while True:
        done = _run_helper(mountpoint)
        left = topmost(mountpoint)
        if done.returncode == 0 or left is None or left.kind != "fuse.asdffs":  # another umount was quicker
            return
        if time.monotonic() > until:
            users = f"to see who uses it, run: fuser -vm {as_word(mountpoint)}"
            sentence = f"the file is finished, but not unmounted: {done.stderr.strip().rstrip('.')}; {users}"
            raise InUseError(sentence, path=mountpoint)
        time.sleep(_LOOK)


def _run_helper(mountpoint: str, *, lazily: bool = False) -> subprocess.CompletedProcess[str]:
    """Unmount by the system's program; ``lazily``: also a mount that is in use.

    Raises ``MountError`` if the system has no such program.
    """
    helpers = ["umount"] if os.geteuid() == 0 else ["fusermount3", "fusermount"]
    helper = next((name for name in helpers if shutil.which(name)), None)
    if helper is None:
        raise MountError("fusermount3 is missing; install it, for example with 'apt install fuse3'", path=mountpoint)
    options = ["-l"] * lazily if helper == "umount" else ["-u", *["-z"] * lazily]
    return subprocess.run([helper, *options, mountpoint], capture_output=True, text=True, check=False)


def _wait(process: int | None, status: dict[str, Any]) -> None:
    """Wait until the daemon is gone.  Raises ``InUseError`` if it goes on, because the mount is seen elsewhere."""
    if process is None:
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    waited = 0
    while not poll.poll(_PATIENCE_MS):
        waited += 1
        if waited == 1:
            say(f"asdffs: waiting for the daemon to finish {status['file']}", file=sys.stderr)
        if waited >= _DEAF and _is_serving(status):
            raise InUseError(
                "unmounted here, and finished as it is now; but it is also seen at another place, by a bind mount or "
                "in another namespace, and served there",
                path=status["file"],
            )


def _is_serving(status: dict[str, Any]) -> bool:
    """Return whether the daemon, as its note beside the file says, does not know of the unmount."""
    if not status.get("writable"):
        return True  # it has nothing to finish
    folder, name = os.path.split(status["file"])
    note = read_owner(FileFolder(folder), name)
    return note.get("state") == "serving" and note.get("pid") == status["pid"]
