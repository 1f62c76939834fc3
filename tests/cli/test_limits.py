"""Limits on foreign bytes: each is hit with a file below 1 MB, and ends in a sentence and in little memory."""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support.arrays import tree_file
from support.commands import command
from support.mounts import ASDFFS, environment_in, run
from support.samples import block_bytes, put

from asdffs import limits

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
#: Runs a command, and writes the most memory that it had, in KiB, into a file.
MEASURED = """
import sys
from asdffs.cli.main import main
try:
    code = main(sys.argv[2:])
finally:
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    open(sys.argv[1], "w").write(peak)
sys.exit(code)
"""
#: Bytes of memory that a command may have, more than any of these should need.
PEAK = 512 << 20
ND = "!core/ndarray-1.0.0"
ARRAY = f"{ND} {{source: 0, datatype: uint8, byteorder: big, shape: [8]}}"
ELEMENT = f"{ND} {{source: 0, datatype: uint8, shape: [4]}}"
DATA = block_bytes(bytes(8))
TAG = "asdf://asdf-format.org/zarr/tags/zarr-1.0.0"


SEXAGESIMAL = "1" + ":59" * 3000


def merges(count: int) -> str:
    keys = ", ".join(f"k{n}: {ELEMENT if n % 100 == 0 else 1}" for n in range(count))
    return f"z: {{$ref: '#/m'}}\ndaf: {{version: [1, 0]}}\nm: &m {{{keys}}}\nl:\n" + "- {<<: *m}\n" * count


def merged_merges(depth: int) -> str:
    lines = ["m0: &m0 {" + ", ".join(f"k{n}: 1" for n in range(100)) + "}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 50)}], a{n}: 1}}" for n in range(1, depth)]
    return "z: {$ref: '#/m0'}\n" + "\n".join(lines) + "\n"


def references(depth: int) -> str:
    text = f"n:\n  end: {{$ref: '#/n'}}\n  a: {ELEMENT}\n"
    names = ["end"] + [f"l{n}" for n in range(1, depth)]
    return text + "".join(
        f"  {name}: {{$ref: '#/n/{'/'.join([before] * 4)}'}}\n" for before, name in itertools.pairwise(names)
    )


def crossing_references(count: int) -> str:
    lists = "".join(f"- {{a: {ELEMENT}, up: {{$ref: '#/l'}}, next: {{$ref: '#/l/{n + 1}'}}}}\n" for n in range(count))
    up = ", ".join(["{$ref: '#/l'}"] * count)
    return f"l:\n{lists}r: [{up}]\n"


def chain(key: str, last: int) -> str:
    links = "".join(f"- &x{n} [*x{n - 1}]\n" for n in range(1, 4000))
    return f"{key}:\n- &x0 [{last}]\n{links}top: *x3999\n"


def ladder(step: int) -> str:
    """Aliases whose pairs are as many as the product of their numbers."""
    lines = "".join(f"- &x{n} [*x{n - 1}, *x{max(0, n - step)}]\n" for n in range(1, 3000))
    return f"a:\n- &x0 [1]\n{lines}top: *x2999\n"


class Case(NamedTuple):
    """``hits``: the name of a limit.  ``says``: a part of what the command ``words`` prints."""

    hits: str
    content: Callable[[], bytes]
    words: tuple[str, ...]
    says: str
    code: int = 4


def overlapping(datatype: str, shape: str, strides: str) -> bytes:
    facts = f"source: 0, byteorder: little, datatype: {datatype}, shape: {shape}, strides: {strides}"
    return tree_file(f"a: {ND} {{{facts}}}\n", [block_bytes(bytes(900_000))])


def inline(datatype: str, data: str) -> bytes:
    return tree_file(f"a: {ND} {{data: {data}, datatype: {datatype}}}\n", [])


def unwritten() -> bytes:
    metadata = "zarr_format: 2, shape: [1000000, 1000000], chunks: [10000, 10000], dtype: '|u1'"
    text = f"a: !<{TAG}> {{.zarray: {{{metadata}}}, chunk_block_map: 0}}\n"
    return tree_file(text, [block_bytes(b"\xff" * 4 * 10_000)])


def filtered(*filters: dict[str, object], size: int = 200 << 20, count: int = 1) -> bytes:
    """Chunks of ``size`` bytes with filters, which are few bytes in the file."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    facts = {
        "shape": [count * size],
        "chunks": [size],
        "dtype": "|u1",
        "compressor": {"id": "zlib"},
        "filters": list(filters),
    }
    text = f"a: !<{TAG}> {{.zarray: {json.dumps(facts)}, chunk_block_map: {count}}}\n"
    table = b"".join(number.to_bytes(4, "little") for number in range(count))
    return tree_file(text, [*[block_bytes(packed)] * count, block_bytes(table)])


def merged_arrays(count: int) -> str:
    """As many merge keys of a mapping of as many arrays."""
    keys = ", ".join(f"k{n}: {ARRAY}" for n in range(count))
    return f"m: &m {{{keys}}}\nl:\n" + "- {<<: *m}\n" * count


def bomb(first: str, depth: int = 20) -> str:
    """Lines of the tree of which each stands for ten times as much as the one before."""
    lines = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, depth))
    return f"v: 1\na0: &a0 [{first}]\n{lines}"


CHAIN = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000))
TEXTS = f"a: &a {'x' * 500_000}\nb: [{', '.join(['*a'] * 10_000)}]\n"
BOMB = bomb("x, x")
INLINE = ["&a0 [1, 1]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20))]
CASES = {
    "texts that overlap": Case(
        "LOOK", lambda: overlapping("[ucs4, 200000]", "[300, 300]", "[4, 4]"), ("show", "F", "a"), "every", 0
    ),
    "one text of the picture": Case(
        "LOOK", lambda: overlapping("[ascii, 800000]", "[90000]", "[1]"), ("show", "F", "a", "--json"), "a", 0
    ),
    "inline texts": Case(
        "MEMORY", lambda: inline("[ascii, 500000000]", "[a, b]"), ("show", "F", "a"), "more than 256 MiB"
    ),
    "inline texts of different lengths": Case(
        "MEMORY",
        lambda: tree_file(f"a: {ND} [{'x' * 400_000}{', y' * 100_000}]\n", []),
        ("show", "F", "a"),
        "more than 256 MiB",
    ),
    "get of aliases": Case("ALIASED", lambda: tree_file(BOMB, []), ("get", "a19", "F"), "its aliases stand for"),
    "JSON of aliases": Case("ALIASED", lambda: tree_file(BOMB, []), ("get", "--json", ".", "F"), "its aliases"),
    "search in aliases": Case("ALIASED", lambda: tree_file(BOMB, []), ("grep", "[y]", "F"), "its aliases stand for"),
    "outline of aliases": Case("ALIASED", lambda: tree_file(BOMB, []), ("show", "F"), "its aliases stand for"),
    "levels of aliases": Case("ALIASED", lambda: tree_file(BOMB, []), ("tree", "--depth", "30", "F"), "its aliases"),
    "aliases of a text": Case("ALIASED", lambda: tree_file(TEXTS, []), ("get", "--json", "b", "F"), "its aliases"),
    "a chain of aliases": Case("ALIASED", lambda: tree_file(CHAIN, []), ("grep", "[y]", "F"), "deep"),
    "inline elements by aliases": Case(
        "ALIASED", lambda: tree_file(f"a: {ND} [{', '.join(INLINE)}]\n", []), ("show", "F", "a"), "its aliases stand"
    ),
    "filters of zarr": Case(
        "MEMORY",
        lambda: filtered({"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<c16"}, {"id": "packbits"}),
        ("show", "F", "a"),
        "a chunk before its filters",
    ),
    "filters that compute": Case(
        "MEMORY",
        lambda: filtered({"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "|u1"}),
        ("show", "F", "a"),
        "a chunk before its filters",
    ),
    "nesting": Case("DEPTH", lambda: tree_file(f"a: {'[' * 300}{']' * 300}\n", []), ("get", "a", "F"), "240 deep"),
    "merge keys": Case(
        "MERGED", lambda: tree_file(merged_arrays(800), [DATA]), ("explode", "F", "made"), "add more than 500,000"
    ),
    "aliases of array shapes": Case(
        "REPLAYED", lambda: tree_file(f"{BOMB}s: {ND} {{strides: *a19}}\n", []), ("explode", "F", "made"), "2,000,000"
    ),
    "references in rings": Case(
        "REFERENCES", lambda: tree_file(crossing_references(1500), []), ("explode", "F", "made"), "2,000,000 steps"
    ),
    "places of arrays": Case("PLACES", lambda: tree_file(bomb(ARRAY), [DATA]), ("refs", "F"), "20,000 places", 2),
    "values for a catalogue": Case(
        "INDEXED",
        lambda: tree_file("".join(f"k{n}: 1\n" for n in range(60_000)), []),
        ("find", "--catalog", "c.db", "--fresh", "k59999 == 1", "F"),
        "F",
        0,
    ),
    "a search by grep": Case(
        "SEARCH", lambda: tree_file(f"v: {'a' * 900_000}\n", []), ("grep", "(a|aa)*b", "F"), "takes more than 1 s"
    ),
    "a search by a condition": Case(
        "SEARCH",
        lambda: tree_file(f"v: {'a' * 9000}\n", []),
        ("get", "--where", "v =~ '(a|aa)*b'", "v", "F"),
        "than 1 s",
    ),
    "many filters": Case(
        "FILTERS", lambda: filtered(*[{"id": "shuffle"}] * 10_000, size=1 << 20), ("show", "F", "a"), "at most 16 are"
    ),
    "a chunk of zarr": Case("MEMORY", lambda: filtered(size=300 << 20), ("show", "F", "a"), "a chunk would take"),
    "a look at many chunks": Case(
        "MEMORY", lambda: filtered(size=64 << 20, count=12), ("show", "F", "a"), "768 MiB", 0
    ),
    "chunks that were never written": Case("MEMORY", unwritten, ("show", "F", "a"), "1000000 x 1000000", 0),
}


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


@pytest.mark.parametrize("name", CASES)
def test_a_limit_is_a_sentence_and_little_memory(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    content = case.content()
    assert len(content) < 1 << 20
    (tmp_path / "F").write_bytes(content)
    command = [sys.executable, "-c", MEASURED, "peak", *case.words]
    done = run(*command, cwd=tmp_path, env=environment_in(tmp_path), preexec_fn=limit)
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    assert done.returncode == case.code, done.stderr
    assert case.says in (done.stderr if case.code else done.stdout)
    peak = int((tmp_path / "peak").read_text()) << 10
    print(f"{case.hits:8} {name}: {peak >> 20} MiB: {done.stderr.strip()[-100:]}")
    assert peak < PEAK


def shown(value: float) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    sizes = {f"{value / (1 << shift):g} {unit}": value % (1 << shift) for shift, unit in ((20, "MiB"), (10, "KiB"))}
    return next((text for text, rest in sizes.items() if not rest), f"{value:,}")


def test_the_page_has_each_limit() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    stated = {name: shown(value) for name, value in vars(limits).items() if name.isupper()}
    assert {name: text.strip() for name, text in rows} == stated


def test_each_limit_is_hit_by_a_case() -> None:
    assert {case.hits for case in CASES.values()} == {name for name in vars(limits) if name.isupper()}


@pytest.mark.parametrize(
    ("memory", "code", "says"), [("4", 4, "ASDFFS_MEMORY=4G"), ("1K", 0, ""), ("much", 2, "give bytes such as 4G")]
)
def test_the_environment_states_the_memory(memory: str, code: int, says: str, tmp_path: Path) -> None:
    facts = "source: 0, byteorder: little, datatype: uint8, shape: [100], strides: [0]"
    (tmp_path / "F").write_bytes(tree_file(f"a: {ND} {{{facts}}}\n", [block_bytes(b"x")]))
    environment = {**environment_in(tmp_path), "ASDFFS_MEMORY": memory}
    done = command("show", tmp_path / "F", "a", environment=environment)
    assert done.code == code
    assert says in done.err


# -- trees that are small and mean much ------------------------------------------

TREES = {
    "merges": merges(3000),
    "merged merges": merged_merges(40),
    "references": references(20),
    "crossing references": crossing_references(400),
    "a chain of references": "".join(f"k{n}: {{$ref: '#/k{n + 1}'}}\n" for n in range(3000)) + "k3000: 1\n",
    "deep aliases": chain("c", 1),
    "ladder": ladder(1),
    "an integer of many digits": f"z: {SEXAGESIMAL}\n",
    "a key of many digits": f"r: {{$ref: '#/z'}}\nz: 1\n? {SEXAGESIMAL}\n: 2\n",
    "overlapping elements": f"a: {ELEMENT.replace('uint8', '[ascii, 500000000]').replace('}', ', strides: [1]}')}\n",
}
OTHERS = {"deep aliases": chain("d", 2), "ladder": ladder(2)}
READING = (
    ("check", "A"),
    ("check", "--schema", "A"),
    ("diff", "--values", "A", "B"),
    ("info", "A"),
    ("daf", "check", "A"),
    ("explode", "A", "made"),
    ("repack", "A", "new.asdf"),
)


@pytest.mark.long
@pytest.mark.parametrize("name", TREES)
def test_every_command_ends_soon_and_in_a_sentence(name: str, tmp_path: Path) -> None:
    """In 500 MB of memory and a minute of the processor (ASDFFS_DEEP=1: ten seconds)."""
    seconds = 10 if os.environ.get("ASDFFS_DEEP") else 60

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (500 << 20, 500 << 20))

    for letter, tree in (("A", TREES[name]), ("B", OTHERS.get(name, "v: 1\n"))):
        put(tmp_path, tree_file(tree, [block_bytes(b"data")], index="absent"), letter)
    for words in READING:
        if words == ("check", "--schema", "A") and name != "references":
            continue  # the asdf library reads the others, and takes the time and the memory that it takes
        done = run(*ASDFFS, *words, cwd=tmp_path, env=environment_in(tmp_path), preexec_fn=limit)
        assert 0 <= done.returncode <= 9, (words, done.returncode, done.stderr[-2000:])
        assert "Traceback" not in done.stderr, (words, done.stderr[-2000:])
