"""Requests and answers of FUSE as bytes, in both directions, from one table; without a kernel."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.requests import packed

from asdffs.mount import answers, protocol, session
from asdffs.mount.answering import TABLE
from asdffs.mount.protocol import (
    HEADER,
    REQUESTS,
    BatchForget,
    Header,
    Init,
    InitFlag,
    Layout,
    MalformedError,
    Opcode,
)

#: The sizes of the structures in linux/fuse.h.
SIZES = {
    Opcode.FORGET: 8,
    Opcode.GETATTR: 16,
    Opcode.SETATTR: 88,
    Opcode.MKDIR: 8,
    Opcode.RENAME: 8,
    Opcode.LINK: 8,
    Opcode.OPEN: 8,
    Opcode.READ: 40,
    Opcode.WRITE: 40,
    Opcode.RELEASE: 24,
    Opcode.FSYNC: 16,
    Opcode.SETXATTR: 8,
    Opcode.GETXATTR: 8,
    Opcode.LISTXATTR: 8,
    Opcode.FLUSH: 24,
    Opcode.INIT: 16,
    Opcode.OPENDIR: 8,
    Opcode.RELEASEDIR: 24,
    Opcode.FSYNCDIR: 16,
    Opcode.CREATE: 16,
    Opcode.INTERRUPT: 8,
    Opcode.BATCH_FORGET: 8,
    Opcode.FALLOCATE: 32,
    Opcode.READDIR: 40,
    Opcode.READDIRPLUS: 40,
    Opcode.RENAME2: 16,
}
ANSWER_SIZES = {"ANSWER": 16, "ENTRY": 40, "STATUS": 88, "ATTRIBUTES": 16, "OPENED": 16, "WRITTEN": 8, "SIZE": 8}
ANSWER_SIZES |= {"STATISTICS": 80, "LISTED": 24, "_INODE_NOTICE": 24}
NAMES = ["a", "tree.yaml", "ü" * 100, "\udcff", "x" * 4095]


def values(layout: Layout[Any], rng: random.Random) -> tuple[Any, ...]:
    """Any numbers, names and bytes that a structure may have."""
    sizes = {"I": 32, "H": 16, "Q": 64, "q": 63, "i": 31}
    numbers = [
        rng.getrandbits(sizes[kind])
        for count, kind in re.findall(r"(\d*)([a-zA-Z])", layout.numbers.format)
        if kind != "x"
        for _ in range(int(count or 1))
    ]
    names = [rng.choice(NAMES) for _ in range(layout.names)]
    return layout.kind(*numbers, *names, *([memoryview(rng.randbytes(rng.randrange(50)))] if layout.rest else []))


def layouts() -> Iterator[Layout[Any]]:
    yield HEADER
    yield from REQUESTS.values()


@pytest.mark.parametrize("layout", list(layouts()), ids=lambda layout: layout.kind.__name__)
def test_each_structure_is_the_same_after_a_way_to_bytes_and_back(layout: Layout[Any]) -> None:
    rng = random.Random(layout.kind.__name__)
    for _ in range(50):
        value = values(layout, rng)
        raw = packed(layout, value)
        assert layout.parse(memoryview(raw)) == value
        assert packed(layout, layout.parse(memoryview(raw))) == raw
        for size in range(len(raw) - (len(value[-1]) if layout.rest else 0)):
            with pytest.raises(MalformedError):
                layout.parse(memoryview(raw)[:size])


def test_sizes_are_those_of_the_kernel() -> None:
    assert {code: REQUESTS[code].numbers.size for code in SIZES} == SIZES
    assert {name: getattr(answers, name).size for name in ANSWER_SIZES} == ANSWER_SIZES
    assert session._INIT_ANSWER.size == 64
    assert HEADER.numbers.size == 40


def test_opcodes_and_flags_are_those_of_the_kernel() -> None:
    header = Path("/usr/include/linux/fuse.h")
    if not header.exists():
        pytest.skip("linux-libc-dev is not installed")
    text = header.read_text()
    told = {name: int(number) for name, number in re.findall(r"FUSE_(\w+)\s*= (\d+)", text)}
    assert {code.name: int(code) for code in Opcode} == {code.name: told[code.name] for code in Opcode}
    bits = {name: 1 << int(bit) for name, bit in re.findall(r"#define FUSE_(\w+)\s+\(1 << (\d+)\)", text)}
    assert {flag.name: int(flag) for flag in InitFlag} == {str(flag.name): bits[str(flag.name)] for flag in InitFlag}


def test_every_request_has_one_operation() -> None:
    assert set(TABLE) == set(REQUESTS) - {Opcode.INIT}


def test_a_known_request_byte_by_byte() -> None:
    raw = (
        bytes.fromhex("2f000000010000000700000000000000050000000000000001000000020000000300000000000000")
        + b"a.yaml\0"
    )
    assert HEADER.parse(memoryview(raw)) == Header(47, Opcode.LOOKUP, 7, 5, 1, 2, 3)
    assert REQUESTS[Opcode.LOOKUP].parse(memoryview(raw)[40:]) == ("a.yaml",)
    assert answers.answer(7, b"ab") == struct.pack("=IiQ", 18, 0, 7) + b"ab"
    assert answers.attributes_notice(5) == struct.pack("=IiQQqq", 40, 2, 0, 5, -1, 0)


def test_nodes_that_are_forgotten_together() -> None:
    nodes = struct.pack("=QQQQ", 5, 1, 6, 2)
    assert list(protocol.pairs(BatchForget(2, memoryview(nodes)))) == [(5, 1), (6, 2)]
    assert list(protocol.pairs(BatchForget(1, memoryview(nodes)))) == [(5, 1)]
    with pytest.raises(MalformedError):
        protocol.pairs(BatchForget(2, memoryview(nodes[:-1])))


NO_MORE = memoryview(b"")
OFFERED = int(InitFlag.ASYNC_READ | InitFlag.MAX_PAGES | InitFlag.INIT_EXT) | 1 << 16  # with WRITEBACK_CACHE


@pytest.mark.parametrize(("minor", "answered"), [(26, 26), (31, 31), (45, 45), (99, 45)])
def test_the_smaller_version_and_only_what_is_offered(minor: int, answered: int) -> None:
    found = session.negotiate(Init(7, minor, 131_072, OFFERED, NO_MORE), 1 << 20, 4096)
    assert found[:3] == (7, answered, 131_072)
    assert found.flags == InitFlag.ASYNC_READ | InitFlag.MAX_PAGES
    assert (found.most_written, found.most_pages) == (1 << 20, 256)
    assert session.negotiate(Init(7, minor, 0, 0, NO_MORE), 1 << 20, 4096).most_pages == 0


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("offered", [0, InitFlag.INIT_EXT])
def test_passthrough_is_used_only_if_it_is_wanted_and_offered(offered: int, *, wanted: bool) -> None:
    upper = memoryview(struct.pack("=I44x", 1 << 5 | 1 << 3))
    found = session.negotiate(Init(7, 45, 0, offered, upper), 1 << 20, 4096, passthrough=wanted)
    used = wanted and bool(offered)
    assert (found.flags, found.upper_flags, found.most_stacked) == (
        (InitFlag.INIT_EXT, 1 << 5, 1) if used else (0, 0, 0)
    )


@pytest.mark.parametrize("version", [(7, 25), (6, 99), (8, 0)])
def test_other_protocols_are_refused(version: tuple[int, int]) -> None:
    with pytest.raises(MalformedError, match=r"not 7\.26 or newer"):
        session.negotiate(Init(*version, 0, 0, NO_MORE), 1 << 20, 4096)
