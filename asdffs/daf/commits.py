"""When a mounted store is committed: soon after a change, all at once, and where that fails unit by unit."""

from __future__ import annotations

import time
from typing import Final, Protocol

from asdffs.daf.committing import Commit, Committed, Unit
from asdffs.daf.nodes import KeptEntryError
from asdffs.errors import AsdffsError, FailedFileError, LockedError, StaleFileError, TreeChangedError
from asdffs.scheduling import RankedLock

#: How long after a change the tree is committed, in seconds; at least as many times what the last commit took.
_SOON: Final = 0.25
_PATIENCE: Final = 4
#: How many units are committed one by one, at most, where all at once cannot be.
_MOST_ALONE: Final = 200
#: How often a commit is made again because the tree was changed, or is written otherwise than it is here.
_TRIES: Final = 5


class Committable(Committed, Protocol):
    """What is asked of the mounted store: ``LiveStore`` says what each means."""

    lock: RankedLock

    @property
    def is_stored(self) -> bool:
        """Whether the tree has all there is, and no more."""

    def refresh(self) -> None:
        """Take up what a commit that is not ours has changed."""

    def take_up(self) -> None:
        """Show what the tree has now."""


class Commits:
    """The commits of ``store``."""

    def __init__(self, store: Committable) -> None:
        self._store = store
        self._pending = False
        self._waking = False
        self._lasted = 0.0

    def wake(self) -> None:
        """Something is to be committed, soon."""
        self._pending = True
        if not self._waking:
            self._waking = True
            self._store.document.scheduler.later(max(_SOON, _PATIENCE * self._lasted), self._commit_soon)

    def _commit_soon(self) -> None:
        self._waking = False
        try:
            self.commit(final=False)
        except (AsdffsError, OSError) as err:
            self._store.document.report.refuse(err)

    def commit(self, *, final: bool, forced: bool = False) -> None:
        """Have the tree have what is whole; ``final``: everything, as files where it is no property.

        ``forced``: also when nobody has changed anything.

        Raises ``AsdffsError``, ``OSError``; what is loose stays so.
        """
        if not self._store.document.writable or not (
            self._pending or forced or (final and not self._store.is_stored)
        ):
            return
        self._store.refresh()
        with self._store.lock.entered():
            started = time.monotonic()
            self._pending = False
            try:
                self._commit(final=final)
            except (AsdffsError, OSError):
                self._pending = True
                raise
            finally:
                self._lasted = time.monotonic() - started

    def _commit(self, *, final: bool) -> None:
        """All at once; where that fails, one by one: what cannot be said, or has no room, holds up no other."""
        together = Commit(self._store, final=final)
        try:
            self._run(together, final=final)
        except (FailedFileError, StaleFileError, LockedError):
            raise
        except (AsdffsError, OSError):
            units = together.loose_units
            if len(units) < 2:
                raise
            self._commit_each(units if final else units[:_MOST_ALONE], final=final)
            if not self._store.is_stored:
                raise

    def _commit_each(self, units: list[Unit], *, final: bool) -> None:
        failure: AsdffsError | OSError | None = None
        for unit in units:
            only = frozenset([unit])
            try:
                self._run(Commit(self._store, final=final, only=only), final=final, only=only)
            except (AsdffsError, OSError) as err:
                failure = failure or err
        if failure is not None:
            raise failure

    def _run(self, commit: Commit, *, final: bool, only: frozenset[Unit] | None = None) -> None:
        for _ in range(_TRIES):
            try:
                commit.run()
                return
            except KeptEntryError:  # somebody has written a mapping otherwise than this package does
                commit = Commit(self._store, final=final, anew=True, only=only)
            except TreeChangedError:
                self._store.take_up()
                commit = Commit(self._store, final=final, only=only)
        commit.run()
