"""A model of several programs that write one block through all its views: each byte is what its owner wrote last.

Every program owns stripes of the block, a few bytes wide, so that each page has bytes of all of them.  It writes
only these, by write(2) and through mmaps, of whichever view, and it knows what they must be: POSIX orders what one
program does.  It uses two values, so that a byte often is what it was before.  Run as a program, this is one of them:

    page_writers.py SEED NUMBER COUNT SECONDS FIRST_VALUE VIEW:START:HOW... > what it wrote

VIEW is a file, START where the block's first byte lies in it.  HOW: ``write`` or ``map``.  A page that one program
maps and another one writes by write(2), through the same view, is not part of the model: the kernel itself may lose
the write(2) there (docs/semantics.md, Views beside each other).  Offsets in bytes of the block.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Bytes of a stripe: three pages have some of each program's.
STRIPE = 61
#: What all programs write: bytes 0 to SIZE of the block.  Its last page is shared with what lies behind it.
SIZE = 11_000
FIRST = 120
#: The errno of mmap(2) where a view may only be written by write(2) (docs/semantics.md, Views beside each other).
REFUSED = errno.ENODEV


def stripes_of(number: int, count: int) -> Iterator[tuple[int, int]]:
    """Start and end of the stripes of program ``number`` of ``count``."""
    for start in range(FIRST + number * STRIPE, SIZE - STRIPE, count * STRIPE):
        yield start, start + STRIPE


@dataclass
class View:
    """A file that shows the block from its byte ``start`` on, as this program has it open."""

    path: str
    start: int
    how: str
    descriptor: int = -1
    map: mmap.mmap | None = None
    unsent: set[int] = field(default_factory=set)

    def open(self) -> int:
        if self.descriptor < 0:
            self.descriptor = os.open(self.path, os.O_RDWR)
        return self.descriptor

    def mapped(self) -> mmap.mmap | None:
        """A mapping; None where that is refused."""
        if self.map is None:
            try:
                self.map = mmap.mmap(self.open(), 0)
            except OSError as err:
                if err.errno != REFUSED:
                    raise
                self.close()
        return self.map

    def send(self) -> None:
        """msync(2), where something was stored since the last."""
        if self.map is not None and self.unsent:
            self.map.flush()
        self.unsent.clear()

    def close(self) -> None:
        self.send()
        if self.map is not None:
            self.map.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.map, self.descriptor = None, -1


class Program:
    """One program."""

    def __init__(self, seed: int, number: int, count: int, first: int, views: list[View]) -> None:
        self.rng = random.Random(f"{seed}/{number}")
        self.stripes = list(stripes_of(number, count))
        self.views = views
        self.written = [view for view in views if view.how == "write"]
        self.maps = [view for view in views if view.how == "map"]
        self.model = {at: first for start, end in self.stripes for at in range(start, end)}
        self.done: list[str] = []
        self.count = 0
        self.refused = 0

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        steps = (self.write, self.write, self.backend, self.backend, self.check, self.check, self.close)
        while time.monotonic() < end:
            self.rng.choice(steps)()
            self.count += 1
        for view in self.views:
            view.close()

    def _place(self) -> tuple[int, bytes]:
        start, end = self.rng.choice(self.stripes)
        start = self.rng.randrange(start, end)
        length = min(end - start, self.rng.choice([1, 1, 2, 17, STRIPE]))
        return start, bytes(self.rng.choices([1, 2], k=length))

    def write(self) -> None:
        """write(2), through a descriptor that stays open or one of its own."""
        view, (start, raw) = self.rng.choice(self.written), self._place()
        self._note(f"write {view.path} {start}+{len(raw)}")
        if self.rng.random() < 0.5:
            descriptor = os.open(view.path, os.O_RDWR)
            self._write(descriptor, raw, view.start + start)
            os.close(descriptor)
        else:
            self._write(view.open(), raw, view.start + start)
        for place, byte in enumerate(raw, start):
            self.model[place] = byte
            for other in self.views:
                other.unsent.discard(place)

    @staticmethod
    def _write(descriptor: int, raw: bytes, offset: int) -> None:
        done = os.pwrite(descriptor, raw, offset)
        assert done == len(raw), f"write(2) wrote {done} of {len(raw)} bytes"

    def backend(self) -> None:
        """Through an mmap; what was stored in that of another view there before is sent first."""
        view, (start, raw) = self.rng.choice(self.maps), self._place()
        places = range(start, start + len(raw))
        for other in self.views:
            if other is not view and not other.unsent.isdisjoint(places):
                other.send()
        found = view.mapped()
        if found is None:
            self.refused += 1
            return
        self._note(f"store {view.path} {start}+{len(raw)}")
        found[view.start + start : view.start + start + len(raw)] = raw
        self.model.update(zip(places, raw, strict=True))
        view.unsent.update(places)
        if self.rng.random() < 0.6:
            view.send()
            self.done[-1] += " msync"

    def check(self) -> None:
        """Read own stripes through a view; what another mapping was not asked to send need not be there."""
        view = self.rng.choice(self.views)
        start, end = self.rng.choice(self.stripes)
        unsent = set().union(*(other.unsent for other in self.views if other is not view))
        fresh = self.rng.random() < 0.5
        descriptor = os.open(view.path, os.O_RDONLY) if fresh else view.open()
        raw = os.pread(descriptor, end - start, view.start + start)
        if fresh:
            os.close(descriptor)
        assert len(raw) == end - start, f"{view.path}: read(2) read {len(raw)} of {end - start} bytes"
        for place, byte in enumerate(raw, start):
            if byte != self.model[place] and place not in unsent:
                self.fail(f"{view.path} has {byte} at {place}, not {self.model[place]}", place)

    def close(self) -> None:
        """One view; others go on."""
        if self.rng.random() < 0.2:
            self.rng.choice(self.views).close()

    def _note(self, step: str) -> None:
        self.done.append(f"{time.monotonic():.4f} {step}")
        del self.done[:-400]

    def fail(self, reason: str, place: int) -> None:
        history = [step for step in self.done if _covers(step, place)]
        raise AssertionError("\n".join([f"at {time.monotonic():.4f}: {reason}", *history[-8:]]))


def _covers(step: str, place: int) -> bool:
    start, length = next(word for word in step.split() if "+" in word).split("+")
    return int(start) <= place < int(start) + int(length)


def main(arguments: list[str]) -> int:
    seed, number, count, seconds, first = arguments[:5]
    views = [View(path, int(start), how) for path, start, how in (word.rsplit(":", 2) for word in arguments[5:])]
    program = Program(int(seed), int(number), int(count), int(first), views)
    try:
        program.run(float(seconds))
    except (AssertionError, OSError) as err:
        print(f"program {number}: {type(err).__name__}: {err}", file=sys.stderr)
        return 1
    runs = itertools.groupby(sorted(program.model.items()), lambda item: item[1])
    print("\n".join(f"{place} {byte}" for byte, places in runs for place, _ in places))
    print(f"{program.count} steps, {program.refused} mappings refused", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
