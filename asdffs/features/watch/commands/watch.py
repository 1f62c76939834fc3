"""``asdffs watch DIR FILE``: copies what is saved in an exploded form into the ASDF file, without FUSE.

The main thread does the work; watches and signals only wake it.  A file is copied when its writer has closed it or
renamed it into place.  If the system does not report that (maps, other systems, full queues), it is copied when two
looks, a second apart, find it unchanged.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from asdffs.cli.commands.explode import make_directory
from asdffs.cli.logs import silence
from asdffs.cli.printing import say
from asdffs.cli.results import sentence_of
from asdffs.cli.state_directory import StateDirectory
from asdffs.cli.writing import opened_to_write
from asdffs.document.document import Document
from asdffs.document.opening import Settings
from asdffs.document.report import raise_outcome
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.history import History
from asdffs.document.saves.keeping import keep_beside
from asdffs.document.scanning import resolve
from asdffs.errors import AsdffsError, MissingFileError, StaleFileError, UsageError
from asdffs.features.watch import MirrorRecord, digest_of, read_record
from asdffs.features.watch.mirror import Mirror
from asdffs.storage.backend import Signature
from asdffs.storage.new_file import mode_of_copy
from asdffs.storage.watch import DirectoryWatch, Watch
from asdffs.workflows.exploded_files import explode, numbered
from asdffs.workflows.exploded_names import stem_of

SUMMARY: Final = "write saves in an exploded form into the file, without FUSE"
logger = logging.getLogger(__name__)

#: Seconds between two looks at all files.
_LOOK: Final = 1.0
_CHOOSE: Final = "use --prefer dir or --prefer file"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs watch parts data.asdf &      then edit parts/data.asdf with any editor

For places without FUSE.  DIR is an exploded form of FILE; if it is empty or missing, it is written first.
Every save in DIR is written into FILE in place: a valid tree, and the bytes of blocks that differ.  A refused tree
is reported here and in DIR/.asdffs/error.  Changes of FILE by other programs are written into DIR; if both were
changed, watch ends.  Ctrl-C or SIGTERM writes what is left and finishes FILE.  The exit code is 7 if something that
was saved is not in FILE.
"""
    parser.add_argument("directory", metavar="DIR", help="exploded form")
    parser.add_argument("file", metavar="FILE", help="ASDF file")
    parser.add_argument("--strict", action="store_true", help="refuse arrays that do not fit their blocks")
    parser.add_argument("--once", action="store_true", help="write the differences, then exit")
    parser.add_argument("--prefer", choices=("dir", "file"), help="which one wins if they differ at the start")


def run(arguments: argparse.Namespace) -> int:
    """Watch until a signal comes.  Raises ``AsdffsError``, ``OSError``."""
    silence("asdffs.document.report")
    path = os.path.join(*resolve(arguments.file))
    directory = os.path.realpath(arguments.directory)
    if directory == os.path.dirname(path):
        raise UsageError("the file itself lies in it; watch another directory", path=arguments.directory)
    with opened_to_write(path, "watch", Settings(strict=arguments.strict), typing=True) as (document, state):
        make_directory(arguments.directory)
        _Watching(document, state, directory).run(arguments)
    return 0


class _News:
    """Passes on to the main thread, through a pipe, what watches and signals report.

    A signal handler must not wait for a lock, because it may have interrupted the main thread, which has the lock.
    """

    def __init__(self) -> None:
        self.ending = False
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self._out, self._in = os.pipe()
        for fd in (self._out, self._in):
            os.set_blocking(fd, False)

    def note(self, name: str) -> None:
        """Note that something happened to the file ``name``."""
        with self._lock:
            self._names.add(name)
        self.wake()

    def wake(self) -> None:
        """Make the main thread look."""
        with contextlib.suppress(BlockingIOError):  # it is full: it will look
            os.write(self._in, b"!")

    def end(self, *_: Any) -> None:
        """End the watch, because a signal came."""
        self.ending = True
        self.wake()

    def take(self) -> tuple[set[str], bool]:
        """Wait for news, a second at most; return the names, and whether there were none."""
        came = bool(select.select([self._out], [], [], _LOOK)[0])
        if came:
            os.read(self._out, 1 << 16)
        with self._lock:
            names, self._names = self._names, set()
        return names, not came


class _Watching:
    """One directory and one file."""

    def __init__(self, document: Document, state: StateDirectory, directory: str) -> None:
        self._document = document
        self._state = state
        places = self._places = state.places
        drafts = Drafts(document, places.rejected, History(places.history, document.report.history))
        self._mirror = Mirror(directory, stem_of(document.path), document, drafts, self._announce)
        self._error = os.path.join(directory, ".asdffs", "error")
        self._news = _News()
        self._since: dict[str, tuple[Signature, float]] = {}
        self._failure = ""
        self._told = "?"

    def run(self, arguments: argparse.Namespace) -> None:
        """Make both equal, watch, and finish the file.  Raises as ``run``."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._news.end)
        self._begin(arguments.prefer)
        try:
            if not arguments.once:
                say(f"watching {self._mirror.folder.path(self._mirror.main)}")
                sys.stdout.flush()
                self._serve()
            self._end()
        except FileNotFoundError as err:
            if os.path.isdir(self._mirror.folder.directory):
                raise
            self._document.finish()
            sentence = "was removed or renamed while it was watched; what was carried before is in the file"
            raise MissingFileError(sentence, path=self._mirror.folder.directory) from err

    # -- the start --------------------------------------------------------

    def _begin(self, prefer: str | None) -> None:
        """Make the directory and the file equal.  Raises ``UsageError`` when it is not known which is right."""
        mirror = self._mirror
        names = mirror.folder.names()
        if mirror.main not in names and not numbered(names, mirror.stem):
            self._explode(names)
            return
        record = read_record(self._places.mirrors, mirror.folder.directory)
        now = mirror.signatures()
        is_file = record.is_file(self._document.signature)
        differing = {n: now[n] for n in now if not (is_file and record.is_seen(n, now[n])) and mirror.differs(n)}
        newer = self._newer(record, differing)
        if not prefer and not newer:
            sentence = (
                f"differs from {self._document.path} in {_some(differing)}, and it is not known which is right; "
            )
            more = "or explode the file into an empty directory"
            raise UsageError(f"{sentence}{_CHOOSE}, {more}", path=mirror.folder.directory)
        if (prefer or newer) == "dir":
            if newer != "dir":
                mirror.keep_of_file(list(differing))
            mirror.seen = {name: found for name, found in now.items() if name not in differing}
            self._carry(list(differing))
            mirror.complete()
        else:
            if newer != "file":
                mirror.keep_of_directory(list(differing))
            mirror.refresh(now)
        self._remember()

    def _explode(self, names: list[str]) -> None:
        """Write the exploded form into a directory that has none."""
        mirror, document = self._mirror, self._document
        others = [name for name in names if name.endswith(".asdf")]
        if others:
            sentence = f"holds other ASDF files ({others[0]}), and not the exploded form of {mirror.main}; "
            raise UsageError(f"{sentence}give an empty directory", path=mirror.folder.directory)
        mode = mode_of_copy([document.path], mirror.folder.directory)
        explode(document, mirror.folder, mirror.stem, mode=mode)
        mirror.seen = mirror.signatures()
        self._remember()

    def _newer(self, record: MirrorRecord, differing: dict[str, Signature]) -> str:
        """Return which one was changed since the last watch: ``dir`` or ``file``; empty if that is not known."""
        if record.is_file(self._document.signature):
            return "dir"
        if all(record.is_seen(name, now) for name, now in differing.items()):
            return "file"
        return "dir" if record.is_interrupted(self._document.tree.text(), differing) else ""

    # -- while it runs ----------------------------------------------------

    def _serve(self) -> None:
        watches = [
            DirectoryWatch(self._mirror.folder.directory, self._news.note),
            Watch(self._document.path, self._news.wake),
        ]
        for watch in watches:
            watch.start()
        try:
            while not self._news.ending and not self._mirror.conflict:
                self._turn(*self._news.take())
        finally:
            for watch in watches:
                watch.stop()
            for watch in watches:
                watch.join()

    def _turn(self, closed: set[str], idle: bool) -> None:  # noqa: FBT001 - as ``take`` gives them
        """Write complete files that were ``closed`` or stay unchanged into the ASDF file; finish it when ``idle``."""
        if self._look():
            if ready := self._ready(closed):
                self._carry(ready)
                self._remember()
            elif idle and self._document.pending:
                self._document.finish()
                self._remember()
        self._tell()

    def _ready(self, closed: set[str]) -> list[str]:
        """Return the files that their writers closed, and those that have not changed for a while.

        A closed file may have other bytes and the same times, if a program stored into a map of it.
        """
        mirror, clock = self._mirror, time.monotonic()
        waiting = mirror.waiting()
        for name, found in waiting.items():
            if name not in self._since or self._since[name][0] != found:
                self._since[name] = found, clock
        released = [name for name in waiting if clock - self._since[name][1] >= _LOOK]
        whole = [name for name in mirror.signatures() if name in closed and mirror.is_whole(name)]
        return [*released, *whole]

    def _look(self) -> bool:
        """Return whether files can be copied now: the directory has the changes that others made to the ASDF file.

        Raises ``StaleFileError`` if the ASDF file is gone.
        """
        path = self._document.path
        try:
            if self._mirror.look():
                logger.warning("%s was changed by another program; the directory has it", path)
                self._remember()
        except StaleFileError:
            raise
        except (AsdffsError, OSError) as err:  # it is being written, or the directory cannot be; look again
            if not os.path.isdir(self._mirror.folder.directory):
                raise
            self._failure = f"{path}: what another program did to it is not in the directory yet: {sentence_of(err)}"
            return False
        conflict = self._mirror.conflict
        self._failure = (
            f"another program changed it, and {_some(conflict)} was saved meanwhile; {_CHOOSE}" if conflict else ""
        )
        return not conflict

    def _carry(self, names: list[str], *, last: bool = False) -> None:
        for name in self._mirror.carry(names, last=last):
            logger.info("%s was carried", self._mirror.folder.path(name))

    def _troubles(self) -> list[str]:
        return [*([self._failure] if self._failure else ()), *self._mirror.trouble.values()]

    def _tell(self) -> None:
        """Write what could not be carried into ``.asdffs/error``."""
        text = "".join(f"{sentence}\n" for sentence in self._troubles())
        if text == self._told or (not text and not os.path.exists(self._error)):
            return
        try:
            os.makedirs(os.path.dirname(self._error), exist_ok=True)
            with open(self._error, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            self._told = text
        except OSError as err:  # it was logged, and is told at the end
            logger.info("%s: %s", self._error, err.strerror)

    def _remember(self, carrying: str = "", trees: tuple[str, ...] = ()) -> None:
        mirror = self._mirror
        seen = {name: found for name, found in mirror.seen.items() if name not in mirror.trouble}
        record = MirrorRecord(
            mirror.folder.directory, self._document.contents.transaction.known, seen, carrying, trees
        )
        record.write(self._places.mirrors)

    def _announce(self, name: str, text: bytes) -> None:
        """Record that ``name`` is about to be carried: a kill must not look like another program's change."""
        before = digest_of(self._document.tree.text())
        self._remember(name, (before, digest_of(text) if text else before))

    # -- the end ----------------------------------------------------------

    def _end(self) -> None:
        """Carry what is left, finish the file, and tell.  Raises as ``raise_outcome``."""
        mirror, document = self._mirror, self._document
        if self._look():
            self._carry([*mirror.waiting(), *mirror.trouble], last=True)
        if not self._failure:
            document.finish()
            document.check_shrunk()
            self._look()
        self._tell()
        if keep_beside(document, list, list, list, self._places.spool):
            self._state.release()
        if not mirror.behind:
            self._remember()
        outcome = document.report.outcome
        say(*(f"asdffs: {document.path}: {note}" for note in outcome.notes), file=sys.stderr)
        kept = [*outcome.kept, *map(mirror.folder.path, mirror.conflict)]
        raise_outcome(document.path, outcome._replace(kept=kept, failures=[*outcome.failures, *self._troubles()]))


def _some(names: Iterable[str]) -> str:
    """Return the first names for a message."""
    first = list(names)
    return ", ".join(first[:3]) + (" ..." if len(first) > 3 else "")
