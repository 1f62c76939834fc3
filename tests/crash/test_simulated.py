"""Every change of the file, cut at every step, with unsynced writes kept, dropped and torn.

After recovery: the layout tiles, the tree is the old or the new one, every byte of a block
is old or new, other blocks are identical; recovery once more changes nothing.  What a reader without
the lock sees before recovery is what recovery makes.  ``./scripts/test --deep`` tries many more states.
"""

from __future__ import annotations

import hashlib
import os
import random
from dataclasses import dataclass, field
from unittest import mock

import pytest
from support.changes import CHANGES, NAME, Change, random_changes
from support.crashes import Event, disks, record
from support.memory import MemoryFolder
from support.plans import scan

from asdffs.codecs import seeking
from asdffs.document.blocks import committing
from asdffs.document.document import Document
from asdffs.document.opening import open_in_folder
from asdffs.format.block_scan import drive, scan_block_header
from asdffs.storage import journal

DEEP = bool(os.environ.get("ASDFFS_DEEP"))
#: What slots of a compressed block grow by: a block of the disk of the simulator.
GRAIN = 512
#: How many choices are tried where there are too many to try all.
MOST = 24 if DEEP else 6
#: How often the choices are made anew.
ROUNDS = 250 if DEEP else 8

#: Distinct images of the disk that were recovered and checked, by the tests of this module.
STATES: set[int] = set()
LEAST = 50_000 if DEEP else 6_000

Promised = dict[object, tuple[bytes, int]]
Contents = tuple[bytes, list[bytes], int]


def contents(folder: MemoryFolder, *, writable: bool = True) -> Contents:
    """Tree, blocks and size of the file; its layout tiles."""
    document = open_in_folder(folder, NAME, writable=writable)
    blocks = [whole_block(document, number) for number in range(len(document.blocks))]
    place = 0
    for region in document.layout.regions():
        assert region.span.start == place
        place = region.span.stop
    assert place == document.layout.size
    found = document.tree.text(), blocks, document.layout.size
    document.close()
    return found


def whole_block(document: Document, number: int) -> bytes:
    return document.blocks[number].read_at(0, document.blocks[number].size)


@dataclass
class Case:
    """A recorded change: before, the steps, and what the file holds before and after."""

    origin: MemoryFolder
    events: list[Event]
    old: Contents
    new: Contents
    between: list[Contents] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    recovered: set[bytes] = field(default_factory=set)

    @classmethod
    def of(cls, change: Change, *, trace: bool = False) -> Case:
        origin = MemoryFolder({NAME: change.start})
        folder = copied(origin)
        events = record(folder, lambda: change.run(folder), trace=trace)
        between = [event.details[0] for event in events if event.kind == "version"]
        case = cls(origin, events, contents(MemoryFolder({NAME: change.start})), contents(folder), between)
        assert bytes(folder.files[NAME].content) != change.start
        return case

    @property
    def versions(self) -> list[Contents]:
        """What the file held at some time, in order."""
        return [self.old, *self.between, self.new]

    def is_new(self, folder: MemoryFolder, promised: Promised) -> bool:
        """Whether this image of the disk has not been seen before, with these promises."""
        before = len(self.seen)
        self.seen.add(state_of(folder, promised))
        return len(self.seen) > before


def state_of(folder: MemoryFolder, promised: Promised) -> int:
    """A number for this image of the disk with these promises."""
    files = sorted(folder.files.items())
    state = tuple((name, bytes(file.content), tuple(file.pages)) for name, file in files)
    return hash((state, tuple(promised.items())))


def copied(folder: MemoryFolder) -> MemoryFolder:
    twin = MemoryFolder(features=folder.features)
    twin.files = {name: file.copy() for name, file in folder.files.items()}
    return twin


def check(folder: MemoryFolder, case: Case, promised: Promised) -> None:
    """What a crash left, as a reader sees it, and after recovery, twice; all that was ``promised`` is there."""
    shown = contents(folder, writable=False)
    text, blocks, size = contents(folder)
    assert shown == (text, blocks, size), "a reader without the lock sees what recovery makes"
    assert text in [version[0] for version in case.versions]
    assert len(blocks) in {len(version[1]) for version in case.versions}
    for number, now in enumerate(blocks):
        check_block([version[1][number] for version in case.versions if number < len(version[1])], now)
    check_promises(promised, case, text, blocks)
    assert not [name for name in folder.files if name != NAME], "no sidecar is left"
    again = bytes(folder.files[NAME].content)
    if again not in case.recovered:  # what follows is about these bytes alone, and few differ
        check_sums(folder, blocks)
        assert contents(folder)[0] == text
        assert bytes(folder.files[NAME].content) == again, "recovery is idempotent"
        assert not [name for name in folder.files if name != NAME], "no sidecar is left"
        case.recovered.add(again)


def check_block(versions: list[bytes], now: bytes) -> None:
    """Each byte is one that was written there, or was there before, or zero where the block has grown."""
    assert min(map(len, versions)) <= len(now) <= max(map(len, versions))
    if now in versions:
        return
    assert any(version != versions[0] for version in versions)
    for place, byte in enumerate(now):
        seen = {version[place] for version in versions if place < len(version)}
        assert byte in seen or (byte == 0 and place >= len(versions[0]))


def check_promises(promised: Promised, case: Case, text: bytes, blocks: list[bytes]) -> None:
    """What was durable stays, unless it is already what comes later."""
    for key, (content, since) in promised.items():
        later = case.versions[since:]
        if key == "tree":
            assert text in [content, *(version[0] for version in later)]
            continue
        if isinstance(key, tuple):
            key, draft = key
            if text != draft:
                continue
        if key >= len(blocks):
            assert any(len(version[1]) <= key for version in later), "it was removed"
            continue
        now, rest = blocks[key], [version[1][key] for version in later if key < len(version[1])]
        assert len(now) >= min(map(len, [content, *rest]))
        if now in (content, *rest):
            continue
        for place, byte in enumerate(now):
            cut = any(len(found) <= place for found in rest)  # and grown again: zeros until that is written
            assert byte in {found[place] for found in [content, *rest] if place < len(found)} or (byte == 0 and cut)


def check_sums(folder: MemoryFolder, blocks: list[bytes]) -> None:
    """A checksum is right or zero: a crash never leaves a wrong one."""
    whole = bytes(folder.files[NAME].content)
    layout = scan(whole)
    for offset, block in zip(layout.offsets, blocks, strict=True):
        header = drive(scan_block_header(offset, layout.rules), lambda at, length: whole[at : at + length])
        stored = whole[offset + header.full_size :][: header.used_size] if header.compressed else block
        assert header.checksum in (bytes(16), hashlib.md5(stored).digest())


@pytest.fixture(autouse=True)
def small_pieces():
    """Small blocks have several slots, too."""
    with (
        mock.patch.object(seeking, "_LEAST", 512),
        mock.patch.object(committing, "_GRAIN", GRAIN),
    ):
        yield


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CHANGES)
def test_cut_at_every_step(name: str) -> None:
    case = Case.of(CHANGES[name])
    rng = random.Random(name)
    for disk in disks(case.origin, case.events):
        for crashed in (found for _ in range(ROUNDS) for found in disk.crashes(rng, MOST)):
            if case.is_new(crashed, disk.promised):
                check(crashed, case, disk.promised)
    STATES.update(case.seen)
    assert len(case.seen) >= 6, "an append to a stream has no journal"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CHANGES)
def test_cut_inside_recovery(name: str) -> None:
    case = Case.of(CHANGES[name])
    rng = random.Random(name)
    for disk in disks(case.origin, case.events):
        crashes = list(disk.crashes(rng, 2))
        for crashed in rng.sample(crashes, min(len(crashes), 60 if DEEP else 4)):
            check_recovery(crashed, case, disk.promised, rng)
    STATES.update(case.seen)
    assert case.seen


def check_recovery(crashed: MemoryFolder, case: Case, promised: Promised, rng: random.Random) -> None:
    """Cut recovery itself at every step."""
    origin = copied(crashed)
    events = record(crashed, lambda: open_in_folder(crashed, NAME, writable=True).close())
    for disk in disks(origin, events):
        crashes = list(disk.crashes(rng, 2))
        for again in rng.sample(crashes, min(len(crashes), 40 if DEEP else 5)):
            if case.is_new(again, promised):
                check(again, case, promised)


@pytest.mark.parametrize("seed", range(300 if DEEP else 10))
def test_random_edits(seed: int) -> None:
    """Several changes one after the other, each in turn by another strategy; some with records written in pieces."""
    with mock.patch.object(journal, "_SHORT", 8 if seed % 2 else journal._SHORT):
        case = Case.of(random_changes(seed))
    rng = random.Random(seed)
    for disk in disks(case.origin, case.events):
        for crashed in disk.crashes(rng, 12 if DEEP else 3):
            if case.is_new(crashed, disk.promised):
                check(crashed, case, disk.promised)
    STATES.update(case.seen)


def test_enough_states_were_checked(request: pytest.FixtureRequest) -> None:
    """Runs after the others; only when none of them was left out."""
    print(f"{len(STATES)} distinct states")
    chosen = sum(item.module is request.module for item in request.session.items)
    assert chosen < 2 * len(CHANGES) or len(STATES) > LEAST
