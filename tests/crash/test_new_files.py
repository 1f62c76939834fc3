"""A file that gets its name when it is whole, cut at every step: the name leads to the old or the whole new one."""

from __future__ import annotations

import random

import pytest
from support.crashes import disks, record
from support.memory import MemoryFolder

from asdffs.errors import LockedError, NameExistsError
from asdffs.storage.backend import WriteBackend
from asdffs.storage.new_file import write_new, write_over

OLD, NEW = b"old" * 400, b"new" * 900
NAME = "f.asdf"


def fill(backend: WriteBackend) -> None:
    backend.write_at(1500, NEW[1500:])
    backend.write_at(0, NEW[:1500])


@pytest.mark.parametrize("over", [False, True])
def test_cut_at_every_step(over: bool) -> None:
    origin = {NAME: OLD} if over else {}
    folder = MemoryFolder(origin)

    def work() -> None:
        if over:
            write_over(folder, NAME, fill)
        else:
            write_new(folder, NAME, fill, durable=True, mode=0o644)

    events = record(folder, work)
    assert {name: bytes(file.content) for name, file in folder.files.items()} == {NAME: NEW}
    seen = set()
    for disk in disks(MemoryFolder(origin), events):
        for crashed in disk.crashes(random.Random(1), 24):
            found = bytes(crashed.files[NAME].content) if NAME in crashed.files else None
            assert found in ((OLD, NEW) if over else (None, NEW))
            seen.add(found)
            for file in crashed.files.values():
                file.holder = None
            write_over(crashed, NAME, fill) if found else write_new(crashed, NAME, fill, durable=True, mode=0o644)
            assert {name: bytes(file.content) for name, file in crashed.files.items()} == {NAME: NEW}
    assert len(seen) == 2


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_any_step_fails(kind: type[BaseException]) -> None:
    total = len(record(folder := MemoryFolder({NAME: OLD}), lambda f=folder: write_over(f, NAME, fill)))
    for stop in range(total):
        folder, count = MemoryFolder({NAME: OLD}), 0

        def step(event: str, name: str, *details: object, stop: int = stop) -> None:
            nonlocal count
            count += 1
            if count == stop + 1:
                raise kind("injected")

        folder.step = step
        with pytest.raises(kind, match="injected"):
            write_over(folder, NAME, fill)
        assert bytes(folder.files[NAME].content) in (OLD, NEW)
        assert list(folder.files) == [NAME] or stop == total - 1


def test_who_was_there_first() -> None:
    folder = MemoryFolder({NAME: OLD})
    with pytest.raises(NameExistsError, match="already exists"):
        write_new(folder, NAME, fill, durable=False, mode=0o644)
    backend = folder.open(NAME, writable=True)
    assert folder.lock(backend)
    with pytest.raises(LockedError, match="another asdffs"):
        write_over(folder, NAME, fill)
    assert {name: bytes(file.content) for name, file in folder.files.items()} == {NAME: OLD}
