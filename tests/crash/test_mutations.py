"""The crash suite can fail: it notices when any one sync or journal write is missing or too late.

A mutant is a recorded run from which the steps of one place in the source are left out, or in which
they come one step later.  Each must leave some crash that breaks a promise.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest
from crash.test_simulated import Case, check, copied, state_of
from support.changes import CHANGES, NAME, Promising, write_content
from support.crashes import Disk, Event, disks, record
from support.memory import MemoryFolder

from asdffs.document.opening import open_in_folder
from asdffs.errors import AsdffsError

pytestmark = pytest.mark.long

SYNCS = ("sync", "syncdir")
Mutation = Callable[[list[Event], tuple[str, ...]], list[Event]]


def without(events: list[Event], site: tuple[str, ...]) -> list[Event]:
    return [event for event in events if event.site != site]


def after_change(events: list[Event], site: tuple[str, ...]) -> list[Event]:
    """Each sync of the site after the next change that it is to come before."""
    return _moved(events, site, lambda sync, event: event.kind not in SYNCS and NAME in (sync.name, event.name))


def after_sync(events: list[Event], site: tuple[str, ...]) -> list[Event]:
    """Each sync of the site after the next sync of another file."""
    return _moved(events, site, lambda sync, event: event.kind in SYNCS and event.name != sync.name)


def at_the_end(events: list[Event], site: tuple[str, ...]) -> list[Event]:
    """Each sync of the site when all is done, before the journal is removed."""
    kept = without(events, site)
    end = next((n for n, event in enumerate(kept) if event.kind == "remove"), len(kept))
    kept[end:end] = [event for event in events if event.site == site and event.kind in SYNCS]
    return kept


def _moved(events: list[Event], site: tuple[str, ...], behind: Callable[[Event, Event], bool]) -> list[Event]:
    moved = list(events)
    for number in range(len(moved) - 1, -1, -1):
        if moved[number].site == site and moved[number].kind in SYNCS:
            target = next((n for n in range(number + 1, len(moved)) if behind(moved[number], moved[n])), None)
            if target is not None:
                moved.insert(target, moved.pop(number))
    return moved


#: By name; to come too late is found in one of three ways.
MUTATIONS: dict[str, tuple[Mutation, ...]] = {"without": (without,), "later": (after_change, after_sync, at_the_end)}


def is_protective(event: Event) -> bool:
    """A sync, or a write to the journal."""
    return event.kind in SYNCS or (event.kind == "write" and event.name != NAME)


def breaks(case: Case, events: list[Event], rng: random.Random, broken: set[int]) -> bool:
    """Whether some crash of this run breaks a promise.  ``broken``: those that did, by other mutants of the case."""
    for disk in disks(case.origin, events):
        for crashed in disk.crashes(rng, 8):
            state = state_of(crashed, disk.promised)
            if state not in broken and case.is_new(crashed, disk.promised):
                try:
                    check(crashed, case, disk.promised)
                except (AssertionError, AsdffsError, OSError):
                    broken.add(state)
            if state in broken:
                return True
    return False


def cases() -> Iterator[Case]:
    """Every change; and for some of its crashes, the recovery that follows."""
    for name, change in CHANGES.items():
        case = Case.of(change, trace=True)
        yield case
        rng = random.Random(name)
        for disk in disks(case.origin, list(case.events)):
            for crashed in rng.sample(found := list(disk.crashes(rng, 2)), min(2, len(found))):
                origin = copied(crashed)
                events = record(crashed, lambda c=crashed, n=name: recover(c, n), trace=True)
                if any(is_protective(event) for event in events):
                    yield Case(origin, [*promises(disk), *events], case.old, case.new, case.between)


def promises(disk: Disk) -> Iterator[Event]:
    """What was promised before the crash holds on."""
    for key, details in disk.promised.items():
        yield Event("promise", "", (key, *details))


def recover(folder: MemoryFolder, name: str) -> None:
    """The next open, and content right after it where no record is written for that."""
    document = open_in_folder(folder, NAME, writable=True)
    if name.startswith("content after growth"):
        write_content(Promising(folder, document))
    document.close()


@pytest.mark.skipif(not os.environ.get("ASDFFS_DEEP"), reason="tries each mutant: ./scripts/test --deep")
def test_every_mutant_is_found() -> None:
    """``found``: mutants that break; the others are listed with what they leave out."""
    found: set[tuple[str, tuple[str, ...]]] = set()
    tried: set[tuple[str, tuple[str, ...]]] = set()
    for case in cases():
        broken: set[int] = set()
        for site in {event.site for event in case.events if is_protective(event)}:
            for name, mutations in MUTATIONS.items():
                mutants = [mutant for change in mutations if (mutant := change(case.events, site)) != case.events]
                if (name, site) in found or not mutants:
                    continue
                tried.add((name, site))
                if any(breaks(case, mutant, random.Random(str(site)), broken) for mutant in mutants):
                    found.add((name, site))
    survivors = sorted(tried - found)
    print(len(found), "of", len(tried))
    assert not survivors, "\n".join(f"{name} {' < '.join(site)}" for name, site in survivors)
