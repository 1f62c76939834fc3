"""``asdffs mount FILE MNT``: checks the arguments, opens the file, serves the mount."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from asdffs import interrupts, registry
from asdffs.cli.arguments import add_remote
from asdffs.cli.background import notify, run_in_background
from asdffs.cli.logs import SYSLOG, check_log, log_to, reopen_logs
from asdffs.cli.mount_options import parse_options
from asdffs.cli.printing import say
from asdffs.cli.process import wanted_libfuse
from asdffs.cli.reading import remote_of
from asdffs.cli.results import ExitCode, exit_code_of, sentence_of
from asdffs.cli.state_directory import StateDirectory
from asdffs.cli.state_files import remove_unused_states, state_home
from asdffs.cli.writing import OpenedFile, open_for_mount
from asdffs.document.scanning import resolve
from asdffs.errors import (
    AsdffsError,
    CutBlockError,
    KeptEditsError,
    LockedError,
    MountError,
    Remedy,
    UnfinishedError,
    UsageError,
    reason_of,
)
from asdffs.mount.daemon import FileContent, context_of, live_facts, serve
from asdffs.mount.libfuse import VERSIONS, Libfuse, load_libfuse
from asdffs.mount.loop import Loop
from asdffs.mount.options import MountOptions
from asdffs.printable import as_word
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.mount_table import OWN, filesystem_of, resolved, topmost
from asdffs.storage.urls import is_remote, shown_name, shown_url

SUMMARY: Final = "show FILE as a directory"

_EPILOG: Final = """\
example:
  asdffs mount data.asdf /mnt/x && vim /mnt/x/tree.yaml && asdffs umount /mnt/x
  asdffs mount archive /mnt/x && vim /mnt/x/night1/data.asdf.d/tree.yaml

options for -o (comma-separated), basic:
  ro, rw                  mount read-only, or for writing (default)
  uid=N gid=N umask=OCTAL show files as owned by this user and group, without these permissions
  allow_other, allow_root let other users, or root, see the mount
  default_permissions     let the kernel check the permissions of files
  nonempty, fsname=NAME   as for every FUSE mount
  layout=daf              show the FilesDaf store of the file as the root; same as --layout daf
  fits=on|off, npy=on|off show arrays as .fits and .npy files, or not (default: on)
  metrics=[HOST:]PORT     serve counters for Prometheus there; without HOST only to this machine
  log=syslog | log=FILE   where the daemon logs (default: in the state directory; see status.json)

safety:
  strict                  refuse a tree with arrays that do not fit their blocks
  schema                  refuse a tree that violates the schemas of its tags (needs the asdf library)
  verify                  check a block's checksum before its first read; a wrong one is EIO
  checksum=keep|zero      renew the checksums of changed blocks, or set them to none (default: keep)
  nojournal               write without a crash journal (unsafe)
  undo=SIZE               keep the old bytes of changed blocks for 'asdffs undo', at most SIZE

tuning:
  pad=SIZE | pad=N%       room to leave after a tree that had to grow: 64K, or 20% of it
  growth=auto|clone|insert|copy   how to move blocks when something outgrows its room
  spool=DIR               where to keep scratch files and decoded blocks (default: state directory)
  spool_max=SIZE          most bytes of decoded blocks there (default: half of the free space)

archives, if FILE is a directory (docs/catalog.md):
  explode=always|named|never   list directories such as a.asdf.d, only find them by name, or show none
                          (default: named)
  open_max=N              how many files stay open (default: as many as take 128 MiB of memory)
  idle=SECONDS            finish and close a file that nothing used for so long (default: 5)
  passthrough             let the kernel read whole files itself: as fast as the disk (root, Linux 6.9)

remote files (docs/remote.md), read-only:
  anonymous, endpoint=URL, region=NAME   as --anonymous and so on
  timeout=SECONDS         give up a read after so long (default: 60)
  follow=HOST[:PORT]      as --follow; may be repeated
  nocache, cache_max=SIZE keep nothing for later mounts; most bytes of the cache (default: 10G)
  whole_max=SIZE          largest download if a server sends no parts of files (default: 1G)

fstab:
  /data/a.asdf  /mnt/x  fuse.asdffs  ro,noauto,user  0  0

systemd: docs/howto.md, and the unit asdffs@.service
"""
logger = logging.getLogger(__name__)

_HELPERS = ("fusermount3", "fusermount")
#: Where libfuse looks before PATH.
_HELPER_PLACES = tuple(f"{folder}/{name}" for folder in ("/usr/bin", "/bin") for name in _HELPERS)
#: Why nothing is mounted inside an asdffs mount, and on one.
_INSIDE = "the mount point lies inside another asdffs mount; choose a directory outside"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="the ASDF file, its URL, a directory of files, or an image")
    parser.add_argument("mountpoint", metavar="MNT", help="an empty directory to mount on")
    parser.add_argument("-f", "--foreground", action="store_true", help="stay in the foreground until unmounted")
    parser.add_argument("-d", "--debug", action="store_true", help="stay in the foreground and log everything")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors")
    parser.add_argument("-s", dest="single", action="store_true", help="ignored; accepted for other programs' sake")
    parser.add_argument("--layout", metavar="VIEW", help="show this view as the root: daf")
    parser.add_argument("--systemd", action="store_true", help="stay in the foreground and notify systemd when ready")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="OPT[,OPT...]", help="see below")
    parser.add_argument("--libfuse", choices=VERSIONS, help="the version of libfuse that mounts")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Mount; return when the mount is ready, or with ``-f`` when it has ended.  Raises ``AsdffsError``."""
    if arguments.quiet or arguments.debug:
        logging.getLogger().setLevel(logging.DEBUG if arguments.debug else logging.ERROR)
    if _is_mounted_image(arguments):
        return 0
    options = _stated_options(arguments)
    path = _path_of(arguments.file)
    mountpoint = _check_mountpoint(arguments.mountpoint, nonempty=options.nonempty)
    _check_outside(mountpoint, path, options)
    if options.log is not None:
        check_log(options.log)
    _check_device()
    _check_helper()
    archive = os.path.isdir(path)
    options = options if archive else downgraded(options, path, arguments.options)
    claim = _claim(mountpoint, arguments.mountpoint)
    state = StateDirectory(options.spool, private=options.read_only)
    waiting = _Waiting(path, mountpoint, options, arguments.libfuse or wanted_libfuse(), state, archive)

    def work(ready: Callable[[], None]) -> int:
        with interrupts.critical():  # while it serves, signals end the mount
            _serve(waiting, lambda: _give_up(claim, ready))
        return 0

    if arguments.foreground or arguments.debug or arguments.systemd:
        if options.log is not None:
            log_to(options.log, keep=True, also=True)
        return work(lambda: _say_mounted(f"mounted {shown_name(path)} at {mountpoint}", quiet=arguments.quiet))

    def log() -> None:
        log_to(options.log or state.places.log, keep=options.log is not None)

    try:
        return run_in_background(_reporting(work), log, reopen_logs, keep=(claim,))
    finally:
        os.close(claim)  # the daemon has its own; if it was refused, the next mount may begin at once


def _stated_options(arguments: argparse.Namespace) -> MountOptions:
    """Return the options of the mount.  Raises ``UsageError``, ``MissingFileError`` if a library is not installed."""
    options = parse_options([*arguments.options, *([f"layout={arguments.layout}"] if arguments.layout else [])])
    if options.settings.schema:
        from asdffs.document.schema import check_available

        check_available()
    log = options.log if options.log in (None, SYSLOG) else os.path.abspath(options.log)
    settings = options.settings._replace(remote=remote_of(arguments, options.settings.remote))
    return options._replace(log=log, settings=settings)


def _is_mounted_image(arguments: argparse.Namespace) -> bool:
    """Mount an image of ``asdffs export``, and return whether the file is one.  Raises as ``erofs.mount``."""
    erofs = registry.feature("erofs")
    if erofs is None or not erofs.is_image(arguments.file):
        return False
    say(erofs.mount(arguments.file, arguments.mountpoint, arguments.options))
    return True


class _Waiting(NamedTuple):
    """What is to be mounted, where and how."""

    path: str
    mountpoint: str
    options: MountOptions
    libfuse: str
    state: StateDirectory
    archive: bool


def _path_of(given: str) -> str:
    """Return the absolute path of what to mount, or its URL.  Raises as ``resolve``, ``UsageError``."""
    if is_remote(given):
        return given
    if not os.path.isdir(given):
        return os.path.join(*resolve(given))
    return os.path.realpath(given)


def _claim(mountpoint: str, given: str) -> int:
    """Open the mount point, and keep other mounts of ours from it until it is one.  Raises ``MountError``."""
    claim = _locked(mountpoint, MountError("another asdffs is mounting there just now", path=given))
    if filesystem_of(mountpoint) == OWN:  # it was quicker, after we had looked
        os.close(claim)
        raise _mounted_already(given)
    return claim


def _give_up(claim: int, ready: Callable[[], None]) -> None:
    """Close ``claim``, which is of the directory below the mount, and would keep that busy."""
    fcntl.flock(claim, fcntl.LOCK_UN)
    os.close(claim)
    ready()


def _say_mounted(sentence: str, *, quiet: bool) -> None:
    notify("READY=1", f"STATUS={sentence}")
    if not quiet:
        say(sentence, file=sys.stderr)


def _serve(waiting: _Waiting, ready: Callable[[], None]) -> None:
    """Mount what is waiting, and serve it until it is unmounted."""
    libfuse, loop = load_libfuse(waiting.libfuse), Loop()
    opened = _opened_archive if waiting.archive else _opened_file
    try:
        with opened(waiting, libfuse, loop) as (content, context):
            leaving = f"STATUS=finishing {shown_name(waiting.path)}"
            with _metrics(content, context):
                serve(content, context, libfuse, ready=ready, leaving=lambda: notify("STOPPING=1", leaving))
    finally:
        remove_unused_states()


@contextlib.contextmanager
def _metrics(content: Any, context: Any) -> Iterator[None]:
    """Serve metrics while the body runs, if they are wanted.  Raises ``MountError``, ``NotSupportedError``."""
    if context.options.metrics is None:
        yield
        return
    metrics = registry.needed_feature("metrics")
    with metrics.served(*context.options.metrics, lambda: live_facts(content, context)) as address:
        context.facts["metrics"] = address
        yield


@contextlib.contextmanager
def _opened_file(waiting: _Waiting, libfuse: Libfuse, loop: Loop) -> Iterator[tuple[Any, Any]]:
    """Open a file, and close it after it was served."""
    opened = open_for_mount(waiting.path, waiting.options, loop, waiting.state)
    try:
        opened.recover_edits()
        interrupts.check()
        context = context_of(waiting.mountpoint, waiting.options, opened.places, libfuse, loop)
        yield FileContent(opened, context), context
    finally:
        opened.close()


@contextlib.contextmanager
def _opened_archive(waiting: _Waiting, libfuse: Libfuse, loop: Loop) -> Iterator[tuple[Any, Any]]:
    """Lock a directory against other writing mounts, and give it free after it was served.

    Raises ``LockedError``.
    """
    path, options, state = waiting.path, waiting.options, waiting.state

    def open_file(folder: FileFolder, name: str) -> OpenedFile:
        file = folder.path(name)
        return open_for_mount(file, downgraded(options, file, []), loop, folder=folder)

    with contextlib.ExitStack() as stack:
        if not options.read_only:
            sentence = "another asdffs has mounted this directory for writing"
            lock = _locked(path, LockedError(sentence, path=path, remedy=Remedy.UMOUNT))
            stack.callback(os.close, lock)
        try:
            if not options.read_only:
                state.claim(path, lambda: lock)
            state.begin()
            context = context_of(waiting.mountpoint, options, state.places, libfuse, loop)
            archive = registry.needed_feature("archive")
            yield archive.archive_content(path, state.places, open_file, context), context
        finally:
            state.release()  # each file has its own
            state.close()


def _locked(directory: str, refusal: AsdffsError) -> int:
    """Open a directory and lock it.  Raises ``refusal`` if another process has locked it."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(lock)
        raise refusal from err
    return lock


def _reporting(work: Callable[[Callable[[], None]], int]) -> Callable[[Callable[[], None]], int]:
    """Return ``work`` with errors that are printed as long as the daemon has the terminal, then logged."""

    def wrapped(ready: Callable[[], None]) -> int:
        try:
            return work(ready)
        except (CutBlockError, KeptEditsError, UnfinishedError) as err:
            logger.error("%s", sentence_of(err))
            return exit_code_of(err)
        except AsdffsError as err:
            say(f"asdffs: {sentence_of(err)}", file=sys.stderr)
            return exit_code_of(err)
        except OSError as err:
            advice = "make room, or mount with -o ro or -o nojournal"
            say(f"asdffs: cannot be mounted for writing: {reason_of(err)}; {advice}", file=sys.stderr)
            return ExitCode.UNFINISHED

    return wrapped


def _mounted_already(path: str) -> MountError:
    return MountError(f"already mounted; run: asdffs umount {as_word(path)}", path=path)


def _check_mountpoint(path: str, *, nonempty: bool) -> str:
    if not path:
        raise UsageError("the name of the mount point is empty")
    real = resolved(path)
    there = topmost(real)
    if there is not None and there.kind == OWN:
        raise _mounted_already(path)
    try:
        found = os.listdir(real)
        kind = filesystem_of(real)
        if kind == OWN:
            raise _mounted_already(path) if os.path.ismount(real) else MountError(_INSIDE, path=path)
        if found and not nonempty:
            raise MountError("the mount point is not empty; choose an empty directory", path=path)
    except NotADirectoryError as err:
        raise MountError("the mount point is not a directory", path=path) from err
    except FileNotFoundError as err:
        raise MountError(f"the mount point does not exist; run: mkdir -p {as_word(path)}", path=path) from err
    except OSError as err:
        raise MountError(f"the mount point cannot be used: {err.strerror}", path=path) from err
    return real


def _check_outside(mountpoint: str, path: str, options: MountOptions) -> None:
    """Refuse places in the mount: the daemon must not touch its own mount, where it would wait for itself.

    Nor may it write into another one of asdffs, whose daemon may be about to do the same with this one.
    """
    written = (options.spool, options.log if options.log != SYSLOG else None, state_home(), tempfile.gettempdir())
    for place in (None if is_remote(path) else path, *written):
        if place is not None and os.path.commonpath([os.path.realpath(place), mountpoint]) == mountpoint:
            raise MountError("lies inside the mount point; choose another place for one of them", path=place)
    for place in written:
        if place is not None and filesystem_of(os.path.realpath(place)) == OWN:
            raise MountError("lies inside another asdffs mount; choose a place outside", path=place)
    if os.path.isdir(path) and os.path.commonpath([path, mountpoint]) == path:
        raise MountError("the mount point lies inside the directory; choose one outside", path=mountpoint)


def _check_helper() -> None:
    """Check that there is a helper: only root mounts without; libfuse would say so in its own words, and late."""
    if os.geteuid() == 0 or any(map(os.path.exists, _HELPER_PLACES)):
        return
    from shutil import which

    if any(map(which, _HELPERS)):
        return
    raise MountError("is missing, and mounting without being root needs it; 'apt install fuse3'", path=_HELPERS[0])


def _check_device() -> None:
    device = "/dev/fuse"
    if not os.path.exists(device):
        raise MountError("does not exist; load the fuse module, or start the container with it", path=device)
    if not os.access(device, os.R_OK | os.W_OK):
        raise MountError("may not be opened by this user; run as root, or make it accessible", path=device)


def downgraded(options: MountOptions, path: str, given: list[str]) -> MountOptions:
    """Return read-only options, and say so, if the file or the directory for its journal cannot be written."""
    if is_remote(path):
        if any("rw" in text.split(",") for text in given):
            logger.warning("%s: remote files cannot be written; mounting read-only", shown_url(path))
        return options._replace(read_only=True)
    needed = {path: ""}
    if options.settings.journal:
        needed[os.path.dirname(path)] = " (the journal goes there; '-o nojournal' does without)"
    refusing = next((place for place in needed if not os.access(place, os.W_OK)), None)
    if options.read_only or refusing is None:
        return options
    logger.warning("%s: cannot be written%s; mounting read-only", refusing, needed[refusing])
    return options._replace(read_only=True)
