"""The report of a mount to its user: running operations, the last error, warnings, rejected drafts, recovery.

Each document has one.  ``document`` and ``vfs`` write it, ``views/status`` shows it, and ``mount`` and
``cli/commands/umount`` raise its outcome as an error at the end.  The caller holds the main lock; steps of an
operation may be reported from any thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from asdffs import interrupts
from asdffs.errors import CutBlockError, KeptEditsError, UnfinishedError

logger = logging.getLogger(__name__)

#: Seconds after which an operation is first logged, and the interval of further log lines.
_FIRST: Final = 1.0
_AGAIN: Final = 5.0


class Operation:
    """A running operation: ``done`` of ``total`` bytes.

    ``block``: the number of its block, or None if it concerns the whole file.  ``started``: the time of its start;
    ``told``: seconds from there to the last log line, or 0.
    """

    def __init__(self, name: str, total: int, block: int | None = None) -> None:
        self.name = name
        self.total = total
        self.block = block
        self.done = 0
        self.started = time.monotonic()
        self.told = 0.0

    def step(self, count: int) -> None:
        """Add ``count`` bytes to those done.  Raises the noted signal that ends a command (``interrupts.check``)."""
        interrupts.check()
        self.done += count
        elapsed = time.monotonic() - self.started
        if elapsed > (self.told + _AGAIN if self.told else _FIRST):
            self.told = elapsed
            logger.info("%s: %d of %d bytes", self.title, self.done, self.total)

    @property
    def title(self) -> str:
        """The name of the operation, with its block."""
        return self.name if self.block is None else f"{self.name} of block {self.block}"

    def facts(self) -> dict[str, Any]:
        """Return the operation as a dict for ``status.json``."""
        return {"operation": self.name, "block": self.block, "done": self.done, "total": self.total}


class Progress:
    """The running operations of one document."""

    def __init__(self) -> None:
        self._running: list[Operation] = []

    @contextlib.contextmanager
    def over(self, name: str, total: int, block: int | None = None) -> Iterator[Callable[[int], None]]:
        """Count an operation on ``total`` bytes as running inside the block.

        Call the value of the ``with`` statement with the number of bytes after each step.
        """
        operation = Operation(name, total, block)
        self._running.append(operation)
        try:
            yield operation.step
        finally:
            self._running.remove(operation)
            if operation.told:
                logger.info("%s: ended after %.1f s", operation.title, time.monotonic() - operation.started)

    def facts(self) -> list[dict[str, Any]]:
        """Return the running operations as dicts for ``status.json``."""
        return [operation.facts() for operation in self._running]


#: The largest number of paths, or directories, that a message names.
_NAMED: Final = 3


class Outcome(NamedTuple):
    """The outcome of a mount.

    ``kept``: paths of drafts, blocks and files that are beside the ASDF file instead of in it.  ``failures``:
    sentences about content that could not be finished or kept.  ``superseded``: paths of refused drafts that a later
    save corrected; they are kept nevertheless.  ``cut``: sentences about arrays whose blocks were made too small;
    with the option ``strict`` they are in ``violations`` instead.
    """

    kept: list[str]
    failures: list[str]
    superseded: list[str]
    cut: list[str]
    violations: list[str]

    @property
    def notes(self) -> list[str]:
        """Sentences about refused drafts that were corrected later, and about blocks that were made too small."""
        where = told_places(self.superseded)
        kept = f"a save that was refused, and corrected later, is kept: {where}" if where else ""
        return [note for note in (kept, _told_cut(self.cut)) if note]


class Report:
    """Messages for the directory ``.asdffs/`` and for the command that unmounts.

    ``path``: of the ASDF file.  ``tell(error)`` returns the text of an error as users read it.

    Messages: ``error`` is that of the last refusal, empty after a successful save; ``warnings``, those about the
    committed tree, once it is ``checked``; ``recovery``, what recovery did; ``draft``, the state of the draft;
    ``failures``, what could not be finished.

    Absolute paths: ``conflict``, of copies kept beside the file because another program changed it; ``rejected``, of
    refused drafts, in the spool; ``history``, of trees that were committed, the oldest first; ``kept``, of copies
    kept beside the file at the end.  Parts of ``rejected``: ``correctable``, those that a later save corrects;
    ``corrected``, those that a later save replaced.  ``superseded``: where the corrected drafts were kept.

    ``cut``: those of ``warnings`` that came when a block was made smaller.  ``strict``: these are errors at the end.

    ``unkept``: blocks without a conflict copy so far.  ``mount()``: facts about the serving process.  ``progress``:
    the running operations.
    """

    def __init__(
        self,
        path: str = "",
        tell: Callable[[Exception], str] = str,
        *,
        recovery: str = "",
        strict: bool = False,
    ) -> None:
        self.path = path
        self.tell = tell
        self.error = ""
        self.warnings: tuple[str, ...] = ()
        self.checked = False
        self.cut: tuple[str, ...] = ()
        self.strict = strict
        self.recovery = recovery
        self.draft = "clean"
        self.conflict: list[str] = []
        self.rejected: list[str] = []
        self.history: list[str] = []
        self.kept: list[str] = []
        self.correctable: set[str] = set()
        self.corrected: set[str] = set()
        self.superseded: list[str] = []
        self.unkept: list[int] = []
        self.failures: list[str] = []
        self.mount: Callable[[], dict[str, Any]] = dict
        self.progress = Progress()

    def note_saved(self, corrected: Iterable[str]) -> None:
        """Note that a save succeeded, and clear the last refusal.  ``corrected``: refused drafts that it corrects."""
        self.error = ""
        self.corrected.update(corrected)

    def note_warnings(self, warnings: tuple[str, ...]) -> None:
        """Note the warnings about the committed tree."""
        self.warnings = warnings
        self.checked = True
        self.cut = tuple(one for one in self.cut if one in warnings)

    def note_cut(self, others: Container[str]) -> None:
        """Note that a block was made smaller, and that the warnings except for ``others`` are its consequence."""
        self.cut = tuple(one for one in self.warnings if one in self.cut or one not in others)

    def note_kept(self, kept: list[str], failures: list[str], superseded: Sequence[str] = ()) -> None:
        """Note files that were kept beside the ASDF file, and sentences about failures to do so."""
        self.kept += kept
        self.failures += failures
        self.superseded += superseded

    def check_cut(self) -> None:
        """Raise ``CutBlockError`` if a block was made too small for its arrays and ``strict`` is set."""
        if self.strict and self.cut:
            raise CutBlockError(_told_cut([*self.cut]))

    @property
    def outcome(self) -> Outcome:
        """The outcome of the mount so far."""
        cut = [*self.cut]
        return Outcome(self.kept, self.failures, self.superseded, *(([], cut) if self.strict else (cut, [])))

    def refuse(self, error: Exception) -> None:
        """Remember why something was refused, and log it, once however far ``error`` is raised."""
        self.error = self.tell(error)
        if not vars(error).setdefault("logged", False):
            vars(error)["logged"] = True
            logger.warning("%s: refused: %s", self.path, self.error)

    def fail(self, error: Exception) -> None:
        """Note that the file could not be finished, and why."""
        self.failures.append(self.tell(error))


#: Bytes of the counters in ``status.json``, whatever their numbers are.
_COUNTERS: Final = 2048


def status_text(facts: dict[str, Any]) -> bytes:
    """Return ``facts`` as the text of ``status.json``.

    Its size does not depend on the ``counters`` in it: if it did, tar(1) and rsync(1) would say that the file changed
    while they read it.
    """
    import json  # commands have no use for it

    counters = json.dumps(facts["counters"]) if "counters" in facts else "{}"
    steady = json.dumps({key: value for key, value in facts.items() if key != "counters"}, indent=2)
    begin = steady.removesuffix("\n}")
    return f'{begin},\n  "counters": {counters.ljust(_COUNTERS)}\n}}\n'.encode()


def raise_outcome(path: str, outcome: Outcome) -> None:
    """Raise ``UnfinishedError`` or ``KeptEditsError`` if not everything is in the file.

    Otherwise raise ``CutBlockError`` if a block was made too small for its arrays although that is an error.
    """
    failures, where, cut = "; ".join(outcome.failures), told_places(outcome.kept), _told_cut(outcome.violations)
    more = f"; {cut}" if cut else ""
    if failures and not where:
        raise UnfinishedError(f"the file could not be finished: {failures}{more}", path=path)
    if failures:
        raise KeptEditsError(f"some edits are not in the file: {failures}; kept: {where}{more}", path=path)
    if where:
        raise KeptEditsError(f"{_counted(outcome.kept)} {where}{more}", path=path)
    if cut:
        raise CutBlockError(cut, path=path)


def _told_cut(sentences: list[str]) -> str:
    """Return what to tell about arrays whose blocks were made too small; empty without any."""
    if not sentences:
        return ""
    more = f"; and {len(sentences) - _NAMED} more" if len(sentences) > _NAMED else ""
    return f"a block was made smaller, and an array no longer fits: {'; '.join(sentences[:_NAMED])}{more}"


def _counted(kept: list[str]) -> str:
    """Return how many edits or files are not in the ASDF file, and the words before the place where they are."""
    count = len(kept)
    if all(".rejected-" in os.path.basename(path) for path in kept):
        return (
            "1 edit was rejected; your text is in"
            if count == 1
            else f"{count} edits were rejected; your texts are in"
        )
    return f"{count} file{'s' * (count > 1)} {'is' if count == 1 else 'are'} not in the ASDF file; kept in"


def told_places(paths: Sequence[str]) -> str:
    """Return the places of files for a message: each path if they are few, else their number in each directory."""
    if len(paths) <= _NAMED:
        return ", ".join(paths)
    counts = Counter(map(os.path.dirname, paths))
    if len(counts) > _NAMED:  # a whole tree of directories
        counts = Counter({os.path.commonpath(paths): len(paths)})
    return ", ".join(f"{count} file{'s' * (count > 1)} in {folder}" for folder, count in counts.items())
