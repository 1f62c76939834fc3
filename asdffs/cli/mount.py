"""``asdffs mount FILE MNT``: check, open, serve."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from asdffs.cli.logs import check_log, log_to
from asdffs.cli.past import tell_the_past
from asdffs.cli.places import (
    clear,
    places_of,
    private_places,
    state_home,
)
from asdffs.document.contents import Care
from asdffs.document.opening import Settings, open_document, resolve
from asdffs.document.places import Places
from asdffs.errors import AsdffsError, KeptEditsError, MountError, UnfinishedError
from asdffs.mount.binding import load_binding
from asdffs.mount.daemon import run_in_background, serve
from asdffs.mount.mounts import filesystem_of
from asdffs.mount.options import MountOptions, parse_options
from asdffs.mount.relief import Loop

logger = logging.getLogger(__name__)

_HELPERS = ("fusermount3", "fusermount")
#: Where libfuse looks before PATH.
_HELPER_PLACES = tuple(f"{folder}/{name}" for folder in ("/usr/bin", "/bin") for name in _HELPERS)
#: Why nothing is mounted inside an asdffs mount, and on one.
_NESTED = {
    False: "the mount point lies inside another asdffs mount; choose a directory outside",
    True: "the mount point is a mount already; unmount it first",
}


def run(arguments: argparse.Namespace) -> int:
    """Mount; returns when the mount is ready, or with ``-f`` when it has ended.  Raises ``AsdffsError``."""
    options = parse_options(arguments.options)
    path = os.path.join(*resolve(arguments.file))
    mountpoint = _check_mountpoint(arguments.mountpoint)
    _check_outside(mountpoint, path, options)
    if options.log is not None:
        check_log(options.log)
    _check_device()
    _check_helper()
    options = _downgraded(options, path)
    wanted = arguments.binding or wanted_binding()
    places = private_places(options.spool) if options.read_only else places_of(path, options.spool)

    def work(ready: Callable[[], None]) -> int:
        try:
            _serve(path, mountpoint, options, wanted, places, ready)
        finally:
            if options.read_only:
                clear(places)
        return 0

    if arguments.foreground:
        return work(lambda: print(f"mounted {path} at {mountpoint}", file=sys.stderr))
    log, keep = options.log or places.log, options.log is not None
    return run_in_background(_reporting(work), lambda: log_to(log, keep=keep))


def wanted_binding() -> Any:
    """The FUSE binding that the environment asks for."""
    return os.environ.get("ASDFFS_BINDING") or "auto"


def _serve(
    path: str, mountpoint: str, options: MountOptions, wanted: Any, places: Places, ready: Callable[[], None]
) -> None:
    binding = load_binding(wanted)
    loop = Loop()
    settings = Settings(
        spool=places.spool,
        relief=loop,
        padding=options.padding,
        spool_max=options.spool_max,
        care=Care(keep=options.keep_checksums, verify=options.verify),
        strict=options.strict,
        growth=options.growth,
        journal=options.journal,
    )
    # the spool belongs to whoever holds the lock: it is touched only after the file is open
    document = open_document(path, writable=not options.read_only, settings=settings)
    try:
        if not options.read_only:
            document.report.settled = False
            for sentence in tell_the_past(document, places):
                logger.warning("%s: %s", document.path, sentence)
        serve(document, mountpoint, options, binding, places, loop, ready=ready)
    finally:
        if document.report.settled:
            clear(places)
        document.close()  # last: it gives the lock away, and with it the spool


def _reporting(work: Callable[[Callable[[], None]], int]) -> Callable[[Callable[[], None]], int]:
    """Errors are printed by the daemon as long as it has the terminal, then logged."""
    from asdffs.cli.exit_codes import ExitCode, exit_code_of

    def wrapped(ready: Callable[[], None]) -> int:
        try:
            return work(ready)
        except (KeptEditsError, UnfinishedError) as err:
            logger.error("%s", err)
            return exit_code_of(err)
        except AsdffsError as err:
            print(f"asdffs: {err}", file=sys.stderr)
            return exit_code_of(err)
        except OSError as err:
            print(
                f"asdffs: cannot be mounted for writing: {err}; make room, or mount with -o ro or -o nojournal",
                file=sys.stderr,
            )
            return ExitCode.UNFINISHED

    return wrapped


def _check_mountpoint(path: str) -> str:
    real = os.path.realpath(path)
    try:
        found = os.listdir(real)
        kind = filesystem_of(real)
        if kind == "fuse.asdffs":
            raise MountError(_NESTED[os.path.ismount(real)], path=path)
        if found:
            raise MountError("the mount point is not empty; choose an empty directory", path=path)
    except NotADirectoryError as err:
        raise MountError("the mount point is not a directory", path=path) from err
    except FileNotFoundError as err:
        raise MountError(f"the mount point does not exist; create it with 'mkdir {path}'", path=path) from err
    except OSError as err:
        raise MountError(f"the mount point cannot be used: {err.strerror}", path=path) from err
    return real


def _check_outside(mountpoint: str, path: str, options: MountOptions) -> None:
    """The daemon must not touch its own mount: it would wait for itself, for good."""
    for place in (path, options.spool, options.log, state_home()):
        if place is not None and os.path.commonpath([os.path.realpath(place), mountpoint]) == mountpoint:
            raise MountError("lies inside the mount point; choose another place for one of them", path=place)


def _check_helper() -> None:
    """Only root mounts without a helper; libfuse would say so in its own words, and late."""
    if os.geteuid() == 0 or any(shutil.which(name) for name in _HELPERS) or any(map(os.path.exists, _HELPER_PLACES)):
        return
    raise MountError("is missing, and mounting without being root needs it; 'apt install fuse3'", path=_HELPERS[0])


def _check_device() -> None:
    device = "/dev/fuse"
    if not os.path.exists(device):
        raise MountError("does not exist; load the fuse module, or start the container with it", path=device)
    if not os.access(device, os.R_OK | os.W_OK):
        raise MountError("may not be opened by this user; run as root, or make it accessible", path=device)


def _downgraded(options: MountOptions, path: str) -> MountOptions:
    """Read-only where the file, or the directory that is to hold its journal, cannot be written; and say so."""
    needed = {path: ""}
    if options.journal:
        needed[os.path.dirname(path)] = " (the journal goes there; '-o nojournal' does without)"
    refusing = next((place for place in needed if not os.access(place, os.W_OK)), None)
    if options.read_only or refusing is None:
        return options
    logger.warning("%s: cannot be written%s; mounting read-only", refusing, needed[refusing])
    return replace(options, read_only=True)
