"""Decides when a mounted store is committed: soon after a change, first as a whole, then unit by unit if that fails.

The caller holds the main lock.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

from asdffs.errors import AsdffsError, FailedFileError, LockedError, StaleFileError, TreeChangedError
from asdffs.features.daf.committing import Commit, Committed, Unit
from asdffs.features.daf.nodes import KeptEntryError
from asdffs.scheduling import RankedLock

#: Delay in seconds between a change and the commit, and the least delay as a multiple of the last commit's duration.
_SOON: Final = 0.25
_PATIENCE: Final = 4
#: The most units that are committed one by one after a commit of all of them failed.
_MOST_ALONE: Final = 200
#: How often a commit is repeated because the tree changed, or because a mapping is in a form that must be rewritten.
_TRIES: Final = 5


class Committable(Committed, Protocol):
    """The part of the mounted store that ``Commits`` needs; see ``LiveStore``."""

    lock: RankedLock

    @property
    def is_stored(self) -> bool:
        """Whether the tree has exactly the files and directories of the mount."""

    def refresh(self) -> None:
        """Load the tree again if another commit changed it."""

    def take_up(self) -> None:
        """Load the tree, and show its files."""


class Commits:
    """Schedules and runs the commits of ``store``."""

    def __init__(self, store: Committable) -> None:
        self._store = store
        self._pending = False
        self._waking = False
        self._lasted = 0.0

    def wake(self) -> None:
        """Schedule a commit, unless one is scheduled already."""
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
        """Commit whole properties to the tree.

        ``final``: commit everything; files that are not part of a whole property are kept as files.
        ``forced``: commit even if nothing is known to have changed.

        Raises ``AsdffsError``, ``OSError``; loose files stay loose then.
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
        """Commit all units at once; on failure, one by one, so that a bad unit does not block the others."""
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
            except KeptEntryError:  # a mapping is in a style that cannot be changed in place, such as flow style
                commit = Commit(self._store, final=final, anew=True, only=only)
            except TreeChangedError:
                self._store.take_up()
                commit = Commit(self._store, final=final, only=only)
        commit.run()
