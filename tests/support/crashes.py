"""A crash simulator: what a disk may hold when the power goes at any step.

A run of asdffs on a ``MemoryFolder`` is recorded as steps.  A crash after any prefix of
them leaves: all that was synced; of the writes that were not, any subset, each whole or torn
at 512-byte sectors; of the changes of size and of names, any prefix (file systems journal
those in order).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from asdffs.storage.memory_store import MemoryFile, MemoryFolder

SECTOR = 512
Step = tuple[str, str, tuple[object, ...]]


class Crash(BaseException):
    """The power goes."""


def record(folder: MemoryFolder, work: Callable[[], object], *, stop: int | None = None) -> list[Step]:
    """Run ``work`` and return its steps; with ``stop``, crash before step number ``stop``."""
    steps: list[Step] = []

    def step(kind: str, name: str, *details: object) -> None:
        if stop is not None and len(steps) >= stop:
            raise Crash
        steps.append((kind, name, details))

    folder.step = step
    try:
        work()
    except Crash:
        pass
    finally:
        folder.step = lambda kind, name, *details: None
    return steps


@dataclass
class Disk:
    """What is durable, and what is on its way.  Files by inode, names to inodes."""

    files: dict[int, bytearray]
    names: dict[str, int]
    live: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[int, int, bytes]] = field(default_factory=list)
    meta: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)

    @classmethod
    def of(cls, folder: MemoryFolder) -> Disk:
        names = {name: file.inode for name, file in folder.files.items()}
        return cls({file.inode: bytearray(file.content) for file in folder.files.values()}, names, dict(names))

    def take(self, step: Step) -> None:
        kind, name, details = step
        if kind == "write":
            self.writes.append((self.live[name], *details))
        elif kind == "truncate":
            # everything written before is ordered against a change of size only by a sync
            self.meta.append(("truncate", (self.live[name], *details)))
        elif kind == "create":
            self.live[name] = details[0]
            self.files[details[0]] = bytearray()
            self.meta.append(("name", (name, details[0])))
        elif kind == "replace":
            inode = self.live.pop(details[0])
            self.live[name] = inode
            self.meta.append(("rename", (name, details[0], inode)))
        elif kind == "remove":
            self.live.pop(name)
            self.meta.append(("unname", (name,)))
        elif kind == "sync":
            self.sync(self.live[name])
        elif kind == "syncdir":
            for entry in self.meta:
                self.apply_meta(entry)
            self.meta = []
        else:
            raise AssertionError(kind)

    def sync(self, inode: int) -> None:
        """All writes of one file; its size; and, as journalling file systems do, nothing of the names."""
        for entry in [e for e in self.meta if e[0] == "truncate" and e[1][0] == inode]:
            self.apply_meta(entry)
            self.meta.remove(entry)
        for write in [w for w in self.writes if w[0] == inode]:
            self.apply_write(*write)
            self.writes.remove(write)

    def apply_write(self, inode: int, offset: int, payload: bytes) -> None:
        content = self.files[inode]
        content.extend(bytes(max(0, offset + len(payload) - len(content))))
        content[offset : offset + len(payload)] = payload

    def apply_meta(self, entry: tuple[str, tuple[object, ...]]) -> None:
        kind, details = entry
        if kind == "truncate":
            inode, size = details
            content = self.files[inode]
            del content[size:]
            content.extend(bytes(size - len(content)))
        elif kind == "name":
            self.names[details[0]] = details[1]
        elif kind == "rename":
            self.names.pop(details[1], None)
            self.names[details[0]] = details[2]
        else:
            self.names.pop(details[0], None)

    def copy(self) -> Disk:
        files = {inode: bytearray(content) for inode, content in self.files.items()}
        return Disk(files, dict(self.names), dict(self.live), list(self.writes), list(self.meta))

    def crashes(self, rng: random.Random, most: int) -> Iterator[MemoryFolder]:
        """Folders that a crash now may leave; exhaustively where they are few."""
        subsets = list(itertools.product((0, 1, 2), repeat=len(self.writes))) if len(self.writes) < 4 else None
        if subsets is None:
            subsets = [tuple(rng.choice((0, 1, 2)) for _ in self.writes) for _ in range(most)]
        for fates in subsets:
            for kept in {0, len(self.meta), rng.randint(0, len(self.meta))}:
                yield self._crash(rng, fates, kept)

    def _crash(self, rng: random.Random, fates: tuple[int, ...], kept: int) -> MemoryFolder:
        disk = self.copy()
        for entry in self.meta[:kept]:
            disk.apply_meta(entry)
        for fate, (inode, offset, payload) in zip(fates, self.writes, strict=True):
            if fate == 1:
                disk.apply_write(inode, offset, payload)
            elif fate == 2:
                for piece in torn(rng, offset, payload):
                    disk.apply_write(inode, *piece)
        folder = MemoryFolder()
        folder.files = {name: MemoryFile(bytes(disk.files[inode]), inode) for name, inode in disk.names.items()}
        return folder


def torn(rng: random.Random, offset: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
    """Some of the sectors of a write."""
    start = 0
    while start < len(payload):
        stop = min(len(payload), start + SECTOR - (offset + start) % SECTOR)
        if rng.random() < 0.5:
            yield offset + start, payload[start:stop]
        start = stop


def disks(folder: MemoryFolder, steps: list[Step]) -> Iterator[tuple[int, Disk]]:
    """The disk before the first step and after each."""
    disk = Disk.of(folder)
    yield 0, disk
    for number, step in enumerate(steps, 1):
        disk = disk.copy()
        disk.take(step)
        yield number, disk
