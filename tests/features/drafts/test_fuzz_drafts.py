"""Mutants of every file of the drafts: no traceback, no hang, no memory beyond reason.

Each run reads a mutated file in full (tree, check, blocks, arrays), edits some, and upgrades some.  The whole of it,
20,000 runs: ``./scripts/test --deep``, or ASDFFS_DEEP=1.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.drafts import SAMPLES, name_of, opened

from asdffs.dialects.asdf_1 import PLUGIN as ASDF_1
from asdffs.document.document import Document
from asdffs.errors import AsdffsError
from asdffs.features.drafts.upgraded_text import HistoryEntries, upgraded_text
from asdffs.workflows.checking import check_document

RUNS = 20_000 // len(SAMPLES) + 1 if os.environ.get("ASDFFS_DEEP") else 100
#: Calls of functions in a run, and bytes for all of them: far more than any needs.
MOST_CALLS = 1_000_000
MOST = 1 << 30
TOKENS = [
    *(b"\xd3BLK", b"\x89BLK", b"...\n", b"---\n", b"!core/ndarray", b"[zlib]", b"tile", b"quantize", b"shape"),
    *(bytes(8), b"\xff" * 8, b"[", b"{", b"&a ", b"*a ", b"<<: ", b"-1", b"99999999999999999999", b"$ref: ", b"\r\n"),
]


def mutated(whole: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut, doubled, or put in; more often where headers and chunks are."""
    found = bytearray(whole)
    magic = whole.find(b"BLK")
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        near = magic > 0 and rng.random() < 0.5
        place = magic + rng.randrange(160) if near else rng.randrange(len(found) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            found[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            found[place : place + 1] = bytes([found[place] ^ (1 << rng.randrange(8))]) if place < len(found) else b""
        elif kind == 2:
            del found[place : place + rng.choice((1, 4, 30, 1000))]
        elif kind == 3:
            found[place:place] = rng.choice(TOKENS)
        elif kind == 4:
            found[place : place + 8] = rng.choice(TOKENS)
        else:
            found[place:place] = found[place : place + rng.choice((4, 50, 300))]
    return bytes(found)


def read(document: Document) -> None:
    """All that a mount can be asked."""
    for block in document.blocks:
        with contextlib.suppress(AsdffsError):
            block.facts()
            for place in range(0, min(block.size, 8 << 20), 1 << 20):
                block.read_at(place, 1 << 20)
    for name in document.arrays:
        with contextlib.suppress(AsdffsError, KeyError):
            array = document.arrays[name]
            if array.nbytes < 8 << 20:
                array[...]


def edit(document: Document) -> None:
    """Some of what a mount can be told."""
    text = document.tree.text()
    changes: list[Callable[[], object]] = [
        lambda: document.commit_tree(text.replace(b"\n...", b"\nnew: " + b"x" * 300 + b"\n...")),
        lambda: document.blocks[0].write_at(0, b"new"),
        lambda: document.blocks[0].set_compression("zlib"),
        document.finish,
    ]
    for change in changes:
        with contextlib.suppress(AsdffsError, IndexError):
            change()


def upgrade(document: Document) -> None:
    with contextlib.suppress(AsdffsError):
        when = "2026-01-01 00:00:00"
        upgraded_text(
            document.tree.text(),
            document.dialect,
            ASDF_1,
            len(document.blocks),
            HistoryEntries(["fuzzed"], when, "1.2"),
        )


def run(whole: bytes, rng: random.Random) -> None:
    try:
        _, document = opened(whole)
    except AsdffsError:
        return
    try:
        with contextlib.suppress(AsdffsError):
            list(check_document(document, deep=True))
        read(document)
        if document.dialect.upgradable:
            upgrade(document)
        if rng.random() < 0.3:
            edit(document)
    finally:
        document.close()


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions ``work`` calls; end it after ``MOST_CALLS``."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1
        if count > MOST_CALLS:
            raise AssertionError(f"more than {MOST_CALLS} calls")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_mutants(path: Path) -> None:
    whole, most = path.read_bytes(), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(RUNS):
        rng = random.Random(f"{path.stem} {number}")
        mutant = mutated(whole, rng)
        try:
            most = max(most, calls_of(lambda mutant=mutant, rng=rng: run(mutant, rng)))
        except BaseException:
            print(f"run {number} of {path.name}: {mutant!r}")
            raise
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{RUNS} runs, at most {most} calls, {after >> 10} MiB")
    assert (after - before) << 10 < MOST
