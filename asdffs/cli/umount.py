"""``asdffs umount MNT``: finish the file, unmount, wait for the daemon, tell the result."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from asdffs.cli.bars import Facts, shown
from asdffs.cli.places import take_report
from asdffs.document.report import raise_report
from asdffs.errors import InUseError, MountError, UnfinishedError

logger = logging.getLogger(__name__)

_PATIENCE_MS = 1000


def run(arguments: argparse.Namespace) -> int:
    """Finish, unmount and wait.  Raises ``AsdffsError``."""
    mountpoint = os.path.realpath(arguments.mountpoint)
    status = _status(mountpoint, arguments.mountpoint)
    with _watched(int(status["pid"])) as process:
        with _status_of(mountpoint) as facts, shown(facts, f"finishing {status['file']}"):
            _finish(mountpoint)
        _unmount(mountpoint)
        _wait(process, str(status["file"]))
    if process is not None and status["report"]:
        _tell(str(status["file"]), str(status["report"]))
    return 0


def _tell(path: str, report: str) -> None:
    found = take_report(report)
    if found is None:
        raise UnfinishedError("the daemon ended before the file was finished; mount it again to recover", path=path)
    raise_report(path, *found)


def _status(mountpoint: str, shown: str) -> dict[str, Any]:
    try:
        with open(os.path.join(mountpoint, ".asdffs", "status.json")) as file:
            status: dict[str, Any] = json.load(file)
    except OSError as err:
        raise MountError("no asdffs mount is there; 'mount -t fuse.asdffs' lists them", path=shown) from err
    return status


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[int | None]:
    """A descriptor that tells when the daemon is gone; None when it lives in another PID namespace."""
    try:
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
    """What tells the operations under way: from an open directory, because the root is locked while it is synced."""
    folder = os.open(os.path.join(mountpoint, ".asdffs"), os.O_RDONLY | os.O_DIRECTORY)

    def facts() -> list[dict[str, Any]]:
        try:
            with open(os.open("status.json", os.O_RDONLY, dir_fd=folder)) as file:
                running: list[dict[str, Any]] = json.load(file)["progress"]
        except (OSError, ValueError):
            return []
        return running

    try:
        yield facts
    finally:
        os.close(folder)


def _finish(mountpoint: str) -> None:
    """fsync of the root; what it refuses is told by the report after the unmount."""
    folder = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as err:
        logger.info("finishing: %s", err.strerror)
    finally:
        os.close(folder)


def _unmount(mountpoint: str) -> None:
    helpers = ["umount"] if os.geteuid() == 0 else ["fusermount3", "fusermount"]
    helper = next((name for name in helpers if shutil.which(name)), None)
    if helper is None:
        raise MountError("fusermount3 is missing; install it, for example with 'apt install fuse3'", path=mountpoint)
    command = [helper, mountpoint] if helper == "umount" else [helper, "-u", mountpoint]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InUseError(f"the file is finished, but not unmounted: {done.stderr.strip()}", path=mountpoint)


def _wait(process: int | None, path: str) -> None:
    if process is None:
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    if not poll.poll(_PATIENCE_MS):
        print(f"asdffs: waiting for the daemon to finish {path}", file=sys.stderr)
        poll.poll()
