"""``asdffs mount FILE MNT``: check, open, serve."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from asdffs.cli.places import clear, make, places_of, private_places, take_report
from asdffs.document.document import Document
from asdffs.document.opening import open_document, resolve
from asdffs.errors import AsdffsError, KeptEditsError, MountError, UnfinishedError
from asdffs.mount.binding import load_binding
from asdffs.mount.daemon import Places, run_in_background, serve
from asdffs.mount.options import MountOptions, parse_options
from asdffs.vfs.ending import keep_abandoned

logger = logging.getLogger(__name__)


def run(arguments: argparse.Namespace) -> int:
    """Mount; returns when the mount is ready, or with ``-f`` when it has ended.  Raises ``AsdffsError``."""
    options = parse_options(arguments.options)
    path = os.path.join(*resolve(arguments.file))
    mountpoint = _check_mountpoint(arguments.mountpoint)
    _check_device()
    options = _downgraded(options, path)
    wanted = arguments.binding or os.environ.get("ASDFFS_BINDING") or "auto"
    places = private_places() if options.read_only else places_of(path)

    def work(ready: Callable[[], None]) -> int:
        try:
            _serve(path, mountpoint, options, wanted, places, ready)
        finally:
            if options.read_only:
                clear(places)
        return 0

    if arguments.foreground:
        return work(lambda: print(f"mounted {path} at {mountpoint}", file=sys.stderr))
    return run_in_background(_reporting(work), lambda: _log_to(places.log))


def _serve(
    path: str, mountpoint: str, options: MountOptions, wanted: Any, places: Places, ready: Callable[[], None]
) -> None:
    binding = load_binding(wanted)
    # the spool belongs to whoever holds the lock: it is touched only after the file is open
    document = open_document(path, writable=not options.read_only, spool=places.spool)
    try:
        if not options.read_only:
            document.report.settled = False
            _tell_the_past(document, places)
        serve(document, mountpoint, options, binding, places, ready=ready)
    finally:
        if document.report.settled:
            clear(places)
        document.close()  # last: it gives the lock away, and with it the spool


def _tell_the_past(document: Document, places: Places) -> None:
    """What the last mount of this file had to say, and what a killed one left in its spool."""
    make(places)  # a daemon that was finishing may have removed them
    if document.report.recovery:
        logger.warning("%s: %s", document.path, document.report.recovery)
    kept, failures = take_report(places.report) or ([], [])
    for sentence in failures:
        logger.warning("%s: the last mount ended with: %s", document.path, sentence)
    keeper = keep_abandoned(document.path, places.spool, places.rejected, document.tree.text())
    if keeper.failures:
        raise UnfinishedError(f"of the last mount, {'; '.join(keeper.failures)}", path=document.path)
    for found in kept + keeper.kept:
        logger.warning("%s: kept from the last mount: %s", document.path, found)
    clear(places)
    make(places)


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
            print(f"asdffs: cannot be mounted for writing: {err}; make room, or mount with -o ro", file=sys.stderr)
            return ExitCode.UNFINISHED

    return wrapped


def _check_mountpoint(path: str) -> str:
    real = os.path.abspath(path)
    try:
        if os.listdir(real):
            raise MountError("the mount point is not empty; choose an empty directory", path=path)
    except NotADirectoryError as err:
        raise MountError("the mount point is not a directory", path=path) from err
    except FileNotFoundError as err:
        raise MountError(f"the mount point does not exist; create it with 'mkdir {path}'", path=path) from err
    except OSError as err:
        raise MountError(f"the mount point cannot be used: {err.strerror}", path=path) from err
    return real


def _check_device() -> None:
    device = "/dev/fuse"
    if not os.path.exists(device):
        raise MountError("does not exist; load the fuse module, or start the container with it", path=device)
    if not os.access(device, os.R_OK | os.W_OK):
        raise MountError("may not be opened by this user; run as root, or make it accessible", path=device)


def _downgraded(options: MountOptions, path: str) -> MountOptions:
    """Read-only where the file or its directory cannot be written, and say so."""
    folder = os.path.dirname(path)
    refusing = next((place for place in (path, folder) if not os.access(place, os.W_OK)), None)
    if options.read_only or refusing is None:
        return options
    logger.warning("%s: cannot be written; mounting read-only", refusing)
    return parse_options([",".join(_words(options)), "ro"])


def _words(options: MountOptions) -> list[str]:
    flags = [name for name in ("allow_other", "allow_root", "default_permissions") if getattr(options, name)]
    return flags + ([f"fsname={options.fsname}"] if options.fsname else [])


def _log_to(path: str) -> None:
    """The daemon has no terminal: its log goes to a file, anew for each mount."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    logging.basicConfig(
        filename=path, filemode="w", level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
