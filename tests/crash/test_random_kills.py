"""kill -9 at random moments of a stream of mixed edits: nothing that a call had returned for is lost.

Each kill is followed by a plain ``asdf.open`` with checksums validated, before recovery (the file must
open, or the journal must hold what is missing: counted) and after it (it must open, always).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.contents import contents
from support.mounts import asdffs, environment_in, mounted
from support.samples import DATA, MASK, block_bytes, odd_file, opened

pytestmark = pytest.mark.mount

KILLS = 200 if os.environ.get("ASDFFS_DEEP") else 8


@dataclass
class Model:
    """What calls have returned for, and what the one in work may leave."""

    value: int = 1
    blocks: list[bytearray] = field(default_factory=list)
    next_value: int | None = None
    next_block: tuple[int, int, bytes] | None = None

    def check(self, value: int, blocks: list[bytes]) -> None:
        assert value in (self.value, self.next_value)
        for number, (now, known) in enumerate(zip(blocks, self.blocks, strict=True)):
            new = bytearray(known)
            if self.next_block is not None and self.next_block[0] == number:
                _, offset, payload = self.next_block
                new.extend(bytes(max(0, offset + len(payload) - len(new))))
                new[offset : offset + len(payload)] = payload
            assert len(known) <= len(now) <= len(new)
            assert now == known or all(n in (new[place], *known[place : place + 1]) for place, n in enumerate(now))


def edit(point: Path, model: Model, rng: random.Random) -> None:
    """One edit; the model knows before it what may come, after it what is there."""
    if rng.random() < 0.5:
        tree = point / "tree.yaml"
        text = tree.read_bytes()
        start = text.index(b"value: ")
        stop = text.index(b"data: ")
        model.next_value = model.value + 1
        room = b"".join(b"long%d: %s\n" % (n, b"y" * 500) for n in range(rng.choice((0, 0, 1, 30))))
        tree.write_bytes(text[:start] + b"value: %d\n" % model.next_value + room + text[stop:])
        model.value, model.next_value = model.next_value, None
        return
    number = rng.randrange(2)
    known = model.blocks[number]
    offset = rng.choice((len(known), rng.randrange(len(known))))
    payload = bytes([rng.randrange(256)]) * rng.choice((10, 3000, 200_000))
    model.next_block = number, offset, payload
    with open(point / "blocks" / f"{number:04d}.bin", "r+b", buffering=0) as file:
        done = 0
        while done < len(payload):
            done += os.pwrite(file.fileno(), payload[done:], offset + done)
    known.extend(bytes(max(0, offset + len(payload) - len(known))))
    known[offset : offset + len(payload)] = payload
    model.next_block = None


def opens(path: Path) -> bool:
    """Whether the asdf library reads all of it, checksums validated."""
    try:
        with opened(path) as found:
            return isinstance(found["value"], int)
    except Exception:  # noqa: BLE001 - whatever the library raises: it does not open
        return False


def value_and_blocks(path: Path) -> tuple[int, list[bytes]]:
    text, blocks = contents(path)
    return int(text.split(b"value: ")[1].split(b"\n")[0]), blocks


@pytest.mark.sampled(2)
@pytest.mark.parametrize("renamed", [False, True])
def test_killed_at_random(tmp_path: Path, renamed: bool) -> None:
    """``renamed``: the file has another name, and another file its old one, when it is recovered."""
    path, point, environment = tmp_path / "data.asdf", tmp_path / "mnt", environment_in(tmp_path)
    path.write_bytes(odd_file(blocks=[block_bytes(DATA * 50), block_bytes(MASK * 70), block_bytes(b"last")]))
    rng = random.Random(20260)
    model = Model(blocks=[bytearray(DATA * 50), bytearray(MASK * 70), bytearray(b"last")])
    unreadable = edits = 0
    for number in range(KILLS):
        with mounted(path, at=point, environment=environment, code=6) as mount:
            timer = threading.Timer(rng.uniform(0.0, 0.05), os.kill, (mount.pid, signal.SIGKILL))
            for _ in range(rng.randrange(1, 8)):
                edit(point, model, rng)
                edits += 1
            timer.start()
            with contextlib.suppress(OSError):
                while True:
                    edit(point, model, rng)
                    edits += 1
            timer.join()
            mount.kill()
        unreadable += not opens(path)
        seen = value_and_blocks(path)
        if renamed:
            old, path = path, tmp_path / f"data-{number}.asdf"
            old.rename(path)
            old.write_bytes(odd_file())
            assert asdffs("recover", old, environment=environment).returncode == 0
            assert (old.read_bytes(), list(tmp_path.glob(f"{old.name}.*"))) == (odd_file(), [])
        done = asdffs("recover", path, environment=environment)
        assert done.returncode in (0, 7), done.stderr
        assert opens(path), "after recovery it opens, always"
        shown = value_and_blocks(path)
        assert shown == seen, "what a reader saw before"
        model.check(*shown)
        model.value, model.next_value, model.next_block = shown[0], None, None
        model.blocks = [bytearray(block) for block in shown[1]]
        for kept in tmp_path.glob(f"{path.name}.*"):
            kept.unlink()
    print(f"{KILLS} kills in {edits} edits; before recovery {unreadable} did not open, after it 0")
    assert edits >= KILLS
