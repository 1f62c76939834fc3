"""The walks of the overview are taken: each step that it names is called, in this order."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.paths import NoKernel
from support.requests import Client, received, request
from support.web_server import WebServer

import asdffs
from asdffs.cli.main import main
from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.history import Places
from asdffs.mount.answers import OPENED
from asdffs.mount.loop import Loop
from asdffs.mount.protocol import Opcode, Open, Write
from asdffs.vfs.areas import Areas
from asdffs.vfs.vfs import Vfs

OVERVIEW = Path(__file__).parents[2] / "docs/design/overview.md"
PACKAGE = str(Path(asdffs.__file__).parent)
#: How each walk begins in the overview.
WALKS = {
    "write": "**A write to a block**",
    "mounted write": "**A write(2)",
    "growing save": "**A save that outgrows its room**",
    "set": "**`asdffs set`**",
    "last row": "**The last row of a compressed block**",
    "remote": "**Opening a remote file**",
    "find": "**`asdffs find`**",
}


def steps_of(start: str) -> list[str]:
    """The steps that the overview names: module and qualified name."""
    text = OVERVIEW.read_text()
    (paragraph,) = (part for part in text.split("\n\n") if part.startswith(start))
    return re.findall(r"`([a-z_/]+:[\w.]+)`", paragraph)


def calls_of(action: Callable[[], object]) -> list[str]:
    """All calls of functions of asdffs."""
    found: list[str] = []

    def note(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(PACKAGE):
            module = code.co_filename[len(PACKAGE) + 1 :].removesuffix(".py").removesuffix("/__init__")
            found.append(f"{module}:{code.co_qualname}")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tree = {"a": np.arange(1000), "packed": np.arange(200_000).reshape(1000, 200), "meta": {"n": 1}}
    file = asdf.AsdfFile(tree)
    file.set_array_compression(tree["packed"], "lz4")
    file.write_to(tmp_path / "a.asdf")
    return tmp_path / "a.asdf"


def write(path: Path) -> list[str]:
    with asdffs.open(path, "r+") as document:
        return calls_of(lambda: document.blocks[0].write_at(16, b"12345678"))


def write_mounted(path: Path) -> list[str]:
    loop, found = Loop(), list[str]()
    with open_document(str(path), writable=True, settings=Settings(scheduler=loop)) as document:
        spool = path.parent / "spool"
        spool.mkdir()
        vfs = Vfs(document, Places(spool=str(spool), rejected=str(spool)), kernel=NoKernel())
        areas = Areas(vfs)
        client = Client(areas, loop, path.parent / "queue")
        node = client.node("/blocks/0000.bin")
        (handle, *_) = OPENED.unpack(client.ask(Opcode.OPEN, node, Open(os.O_RDWR, 0)))
        for payload in (b"first", b"other"):
            asked = received(request(Opcode.WRITE, node, Write(handle, 0, 5, 0, memoryview(payload))))
            found = calls_of(lambda asked=asked: client.answerer.answer(asked))
        client.end()
    return found


def grow(path: Path) -> list[str]:
    with asdffs.open(path, "r+") as document:
        larger = document.tree_text.replace("meta:", f"more: {'x' * 20_000}\nmeta:").encode()
        return calls_of(lambda: document.commit_tree(larger))


def set_value(path: Path) -> list[str]:
    return calls_of(lambda: main(["set", "meta.n=5", str(path)]))


def last_row(path: Path) -> list[str]:
    with asdffs.open(path, "r+") as document:
        array = document.arrays["packed"]

        def change() -> None:
            array[999] = 1
            document.commit()

        return calls_of(change)


def open_remote(path: Path) -> list[str]:
    with WebServer().running() as server:
        url = server.put("/a.asdf", path.read_bytes())
        return calls_of(lambda: open_document(url, writable=False).close())


def find(path: Path) -> list[str]:
    assert main(["index", str(path)]) == 0
    return calls_of(lambda: main(["find", "meta.n == 1", str(path)]))


TAKEN = dict(zip(WALKS, (write, write_mounted, grow, set_value, last_row, open_remote, find), strict=True))


@pytest.mark.parametrize("walk", WALKS)
def test_each_step_is_called_in_this_order(path: Path, walk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(path.parent / "cache"))
    steps, called = steps_of(WALKS[walk]), calls_of_walk(path, walk)
    assert len(steps) > 4
    place = 0
    for step in steps:
        assert step in called[place:], f"{step} is not called, or too early"
        place = called.index(step, place)


def calls_of_walk(path: Path, walk: str) -> list[str]:
    return TAKEN[walk](path)
