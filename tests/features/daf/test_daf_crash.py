"""A mounted store commits; cut at every step, the file has one of the stores that it had, each file of it whole.

What was committed stays.  Blocks that are free are used again, those at the end go, and the tree moves them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from support.changes import NAME
from support.crashes import disks, record
from support.daf_clients import packed
from support.daf_live import Client, State
from support.memory import MemoryBackend, MemoryFolder

from asdffs.document.opening import Settings, open_in_folder
from asdffs.features.daf.splicing import new_store
from asdffs.features.daf.tree_files import read_store
from asdffs.format.layout import Padding

DEEP = bool(os.environ.get("ASDFFS_DEEP"))
SETTINGS = Settings(growth="insert", padding=Padding(minimum=512, alignment=512, reserve=512))


class Recorded(Client):
    """Remembers the store after each commit, and tells the simulator that it is to stay."""

    def __init__(self, folder: MemoryFolder, spool: Path) -> None:
        super().__init__(open_in_folder(folder, NAME, writable=True, settings=SETTINGS), spool)
        self.memory = folder
        self.states = [self.stored()]

    def commit(self, *, final: bool = False) -> None:
        super().commit(final=final)
        self.states.append(self.stored())
        self.memory.step("promise", "", "store", len(self.states) - 1, 0)


def work(client: Recorded) -> None:
    """Properties come, are overwritten, go, and come again."""
    client.write("axes/cell.txt", b"a\nb\nc\nd\n")
    client.mkdir("vectors/cell")
    client.dense("vectors/cell/x", "Float64", [1, 2, 3, 4])
    client.dense("vectors/cell/y", "Int16", [1, 2, 3, 4])
    client.commit()
    client.write("vectors/cell/long.txt", b"".join(b"%500d\n" % n for n in range(4)))
    client.write("vectors/cell/long.json", b'{"format":"dense","eltype":"String"}\n')
    client.write("notes", b"n" * 1500)
    client.commit()
    client.dense("vectors/cell/x", "Float64", [5, 6, 7, 8])  # into a new block; the old one is free
    client.commit()
    client.dense("vectors/cell/z", "Float64", [9, 10, 11, 12])  # into the free one
    client.unlink("vectors/cell/y.json")
    client.unlink("vectors/cell/y.data")
    client.commit()
    client.unlink("notes")
    client.commit()
    client.write("vectors/cell/half.data", b"123")


def start() -> bytes:
    folder = MemoryFolder({NAME: b""})
    store = folder.open(NAME, writable=True)
    assert isinstance(store, MemoryBackend)
    new_store((1, 0))(store)
    return bytes(folder.files[NAME].content)


def found_in(folder: MemoryFolder, *, writable: bool) -> State:
    document = open_in_folder(folder, NAME, writable=writable)
    tree = read_store(document)
    assert not tree.faults
    found = {path: tree.files.whole(path) for path in tree.files.contents}
    document.close()
    return found


@pytest.fixture
def recorded(tmp_path: Path):
    origin = MemoryFolder({NAME: start()})
    folder, clients = MemoryFolder(features=origin.features), []
    folder.files = {name: file.copy() for name, file in origin.files.items()}

    def run() -> None:
        clients.append(Recorded(folder, tmp_path))
        work(clients[0])
        clients[0].close()

    events = record(folder, run)
    return origin, events, clients[0].states


def test_cut_at_every_step(recorded) -> None:  # type: ignore[no-untyped-def]
    origin, events, states = recorded
    rng = random.Random("daf")
    seen: set[int] = set()
    shown: set[int] = set()
    for disk in disks(origin, events):
        for _ in range(60 if DEEP else 12):
            for crashed in disk.crashes(rng, 12 if DEEP else 6):
                key = hash(tuple((name, bytes(file.content)) for name, file in sorted(crashed.files.items())))
                if key in seen:
                    continue
                seen.add(key)
                before = found_in(crashed, writable=False)
                after = found_in(crashed, writable=True)
                least = disk.promised.get("store", (0, 0))[0]
                assert after in states[least:], "what was committed stays"
                assert before == after
                shown.add(states.index(after))
    assert len(seen) > 50
    assert len(shown) == len({str(sorted(state.items())) for state in states}), "every one is seen at some time"


def test_the_states_are_those_of_a_directory(recorded) -> None:  # type: ignore[no-untyped-def]
    _, _, states = recorded
    assert states[0] == {"daf.json": b'{"version":[1,0]}\n'}
    assert states[1]["vectors/cell/x.data"] == packed("Float64", [1, 2, 3, 4])
    assert states[3]["vectors/cell/x.data"] == packed("Float64", [5, 6, 7, 8])
    assert "vectors/cell/y.data" not in states[4]
    assert "notes" not in states[5]
    assert states[-1]["vectors/cell/half.data"] == b"123"
