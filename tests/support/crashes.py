"""A crash simulator: what a disk may hold when the power goes at any step.

A run of asdffs on a ``MemoryFolder`` is recorded as steps.  A crash after any prefix of
them leaves: all that was synced; of the writes that were not, any subset, each whole or torn
at 512-byte sectors; of the changes of size, of extents and of names, any prefix (file systems
journal those in order).  An insert or collapse range is as many such changes as it moves extents.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from support.memory import MemoryFile, MemoryFolder, MemoryStep

SECTOR = 512


@dataclass(frozen=True)
class Event:
    """One step of a run: what, on which name, and where in asdffs it comes from (``trace``)."""

    kind: str
    name: str
    details: tuple[object, ...]
    site: tuple[str, ...] = ()


class Crash(BaseException):
    """The power goes."""


def record(
    folder: MemoryFolder, work: Callable[[], object], *, stop: int | None = None, trace: bool = False
) -> list[Event]:
    """Run ``work`` and return its steps; with ``stop``, crash before step number ``stop``."""
    events: list[Event] = []

    def step(kind: str, name: str, *details: object) -> None:
        if stop is not None and len(events) >= stop:
            raise Crash
        events.append(Event(kind, name, details, _site() if trace else ()))

    folder.step = step
    try:
        work()
    except Crash:
        pass
    finally:
        folder.step = lambda kind, name, *details: None
    return events


def _site() -> tuple[str, ...]:
    """The lines of asdffs that lead to a step, innermost first; stores and the way down to them left out."""
    frame, found = sys._getframe(2), []
    while frame is not None:
        path = frame.f_code.co_filename
        if "/asdffs/" in path and "/memory_" not in path and len(found) < 3:
            found.append(f"{path.rpartition('/asdffs/')[2]}:{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(found)


Entry = tuple[str, tuple[object, ...]]


@dataclass
class Disk:
    """What is durable, and what is on its way, in order.  Files by inode, names to inodes.

    ``promised``: what a caller was told to be durable; each promise replaces the one of the same key.
    """

    files: dict[int, MemoryFile]
    names: dict[str, int]
    live: dict[str, int] = field(default_factory=dict)
    pending: list[Entry] = field(default_factory=list)
    promised: dict[object, tuple[object, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: MemoryFolder) -> Disk:
        names = {name: file.inode for name, file in folder.files.items()}
        return cls({file.inode: file.copy() for file in folder.files.values()}, names, dict(names))

    def take(self, event: Event) -> None:
        kind, name, details = event.kind, event.name, event.details
        if kind == "promise":
            self.promised[details[0]] = details[1:]
        elif kind == "version":
            return
        elif kind in ("write", "truncate", "allocate"):
            self.pending.append((kind, (self.live[name], *details)))
        elif kind in ("insert", "collapse"):
            inode = self.live[name]
            now = self.seen(inode)
            steps = now.insertion(*details) if kind == "insert" else now.collapsing(*details)
            self.pending += [("step", (inode, step)) for step in list(steps)]
        elif kind == "create":
            self.live[name] = details[0]
            self.files[details[0]] = MemoryFile(inode=details[0])
            self.pending.append(("name", (name, details[0])))
        elif kind == "replace":
            inode = self.live.pop(details[0])
            self.live[name] = inode
            self.pending.append(("rename", (name, details[0], inode)))
        elif kind == "remove":
            self.live.pop(name)
            self.pending.append(("unname", (name,)))
        elif kind == "sync":
            self.flush(lambda entry: entry[0] in _OF_FILES and entry[1][0] == self.live[name])
        elif kind == "syncdir":
            self.flush(lambda entry: entry[0] not in _OF_FILES)
        else:
            raise AssertionError(kind)

    def flush(self, chosen: Callable[[Entry], bool]) -> None:
        for entry in self.pending:
            if chosen(entry):
                self.apply(entry)
        self.pending = [entry for entry in self.pending if not chosen(entry)]

    def seen(self, inode: int) -> MemoryFile:
        """The file as programs see it."""
        disk = self.copy()
        disk.flush(lambda entry: entry[0] in _OF_FILES and entry[1][0] == inode)
        return disk.files[inode]

    def apply(self, entry: Entry) -> None:
        kind, details = entry
        if kind in _OF_FILES:
            self._apply_to_file(kind, self.files[details[0]], *details[1:])
        elif kind == "name":
            self.names[details[0]] = details[1]
        elif kind == "rename":
            self.names.pop(details[1], None)
            self.names[details[0]] = details[2]
        else:
            self.names.pop(details[0], None)

    def _apply_to_file(self, kind: str, file: MemoryFile, *details: object) -> None:
        if kind == "write":
            file.write(*details)
        elif kind == "truncate":
            file.resize(*details)
        elif kind == "allocate":
            file.allocate(*details)
        else:
            (step,) = details
            assert isinstance(step, MemoryStep)
            file.take(step)

    def copy(self) -> Disk:
        files = {inode: file.copy() for inode, file in self.files.items()}
        return Disk(files, dict(self.names), dict(self.live), list(self.pending), dict(self.promised))

    def crashes(self, rng: random.Random, most: int) -> Iterator[MemoryFolder]:
        """Folders that a crash now may leave; exhaustively where they are few."""
        writes = [number for number, entry in enumerate(self.pending) if entry[0] == "write"]
        others = [number for number, entry in enumerate(self.pending) if entry[0] != "write"]
        fates = list(itertools.product((0, 1, 2), repeat=len(writes))) if len(writes) < 4 else None
        if fates is None:
            fates = [tuple(rng.choice((0, 1, 2)) for _ in writes) for _ in range(most)]
        cuts = range(len(others) + 1) if len(others) < most else rng.sample(range(len(others) + 1), most)
        for chosen in (fate for fate in fates for _ in range(1 + 2 * (2 in fate))):
            for cut in cuts if len(fates) < most else {0, len(others), rng.randint(0, len(others))}:
                yield self._crash(rng, dict(zip(writes, chosen, strict=True)), set(others[:cut]))

    def _crash(self, rng: random.Random, fates: dict[int, int], kept: set[int]) -> MemoryFolder:
        disk = self.copy()
        for number, entry in enumerate(self.pending):
            if number in kept or fates.get(number) == 1:
                disk.apply(entry)
            elif fates.get(number) == 2:
                inode, offset, payload = entry[1]
                for piece in torn(rng, offset, payload):
                    disk.apply(("write", (inode, *piece)))
        folder = MemoryFolder()
        folder.files = {name: disk.files[inode] for name, inode in disk.names.items() if name}
        return folder


_OF_FILES = frozenset({"write", "truncate", "allocate", "step"})


def torn(rng: random.Random, offset: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
    """Some of the sectors of a write."""
    start = 0
    while start < len(payload):
        stop = min(len(payload), start + SECTOR - (offset + start) % SECTOR)
        if rng.random() < 0.5:
            yield offset + start, payload[start:stop]
        start = stop


def disks(folder: MemoryFolder, events: list[Event]) -> Iterator[Disk]:
    """The disk before the first step and after each."""
    disk = Disk.of(folder)
    yield disk
    for event in events:
        disk = disk.copy()
        disk.take(event)
        yield disk
