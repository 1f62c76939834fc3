"""Files that are wrong in ways nobody thought of: mutated bytes, and trees with merges, aliases and references.

``python -m support.fuzzed FIRST COUNT`` looks at COUNT of them in one process, with little memory, and prints the
numbers of those that end in anything but a sentence.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from asdffs.cli.main import main
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError
from asdffs.storage.backend import read_bytes
from asdffs.views.arrays import Arrays
from asdffs.views.base import ViewFile
from support.arrays import tree_file
from support.commands import no_surprise
from support.drafts import block_36, draft
from support.samples import block_bytes, odd_file, zlib_block

#: Processor time for one file, in seconds, after which it hangs; memory for all of the process beyond its start.
SECONDS = 2 if os.environ.get("ASDFFS_DEEP") else 60
MEMORY = 500 << 20
ARRAYS = """\
a: &a !core/ndarray-1.0.0 {source: 0, datatype: float32, byteorder: little, shape: [5, 5], mask: 7.0}
b: !core/ndarray-1.0.0 {source: 1, datatype: [ascii, 4], shape: [10], strides: [2]}
c: !core/ndarray-1.0.0 {source: -1, datatype: [{name: x, datatype: int16, byteorder: big}, [ucs4, 2]], shape: ['*']}
d: !core/ndarray-1.0.0 [[1, null], [3, 4]]
e: {<<: &m {x: 1, y: *a}, z: {$ref: '#/a'}}
f: !fits/fits-1.0.0 [{header: [[SIMPLE, true], ['', text]], data: *a}]
t: !table/table-1.0.0 {columns: [{name: q, data: *a}]}
daf: {version: [1, 0], scalars: {s: {type: Float64, value: 1.5}}}
"""
STARTS = (
    tree_file(ARRAYS, [block_bytes(bytes(range(100))), zlib_block(bytes(50)), block_bytes(bytes(70))]),
    odd_file(padding=b" " * 50),
    draft(b"a: !core/ndarray {source: 0, datatype: uint8, shape: [4]}\n", block_36(b"data")),
    draft(b"a: 1\n", block_36(b"---\n[zlib]\n...\n" + zlib.compress(bytes(500)), 500)),
)
WORDS = (
    b"*a",
    b"&a ",
    b"<<: ",
    b"{$ref: '#/a'}",
    b"!core/ndarray-1.0.0 ",
    b"[[[[",
    b"}",
    b"-1",
    b"99999999999",
    b"null",
    b"\xff",
)
NAMES = "abcdefgh"
#: What numbers in a text become.
NUMBERS = (b"0", b"-1", b"1", b"2147483648", b"9223372036854775807", b"18446744073709551616", b"1e999", b".nan", b"*")
LENGTHS = (0, 1, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_NUMBER = re.compile(rb"-?[0-9]+")


def mutated(rng: random.Random) -> bytes:
    """A mutant of one of ``STARTS``."""
    return mutated_of(rng, rng.choice(STARTS), WORDS)


def mutated_of(rng: random.Random, seed: bytes, words: Sequence[bytes]) -> bytes:
    """``seed`` with some bytes and numbers changed, pieces moved, doubled or cut, or ``words`` put in."""
    raw = bytearray(seed)
    for _ in range(rng.randint(1, 6)):
        if not raw:
            break
        rng.choice((*_CHANGES, lambda rng, raw, at: _put(raw, at, 0, rng.choice(words))))(
            rng, raw, rng.randrange(len(raw))
        )
    return bytes(raw)


def _put(raw: bytearray, at: int, length: int, piece: bytes) -> None:
    raw[at : at + length] = piece


def _swap(raw: bytearray, at: int, start: int, length: int) -> None:
    raw[at : at + length], raw[start : start + length] = raw[start : start + length], raw[at : at + length]


def _renumber(raw: bytearray, at: int, number: bytes) -> None:
    if found := _NUMBER.search(raw, at):
        raw[slice(*found.span())] = number


#: Ways to change ``raw`` at a place.
_CHANGES: tuple[Callable[[random.Random, bytearray, int], None], ...] = (
    lambda rng, raw, at: _put(raw, at, 1, rng.randbytes(1)),
    lambda rng, raw, at: _put(raw, at, 1, bytes([raw[at] ^ 1 << rng.randrange(8)])),
    lambda rng, raw, at: _put(raw, at, rng.randrange(1, 40), b""),
    lambda rng, raw, at: _put(raw, at, 0, raw[(start := rng.randrange(len(raw))) : start + rng.randrange(1, 200)]),
    lambda rng, raw, at: _put(raw, at, 8, rng.choice(LENGTHS).to_bytes(8, "big")),
    lambda rng, raw, at: _put(raw, at, 4, (rng.choice(LENGTHS) & 0xFFFFFFFF).to_bytes(4, "little")),
    lambda rng, raw, at: _swap(raw, at, rng.randrange(len(raw)), rng.randrange(1, 40)),
    lambda rng, raw, at: _renumber(raw, at, rng.choice(NUMBERS)),
    lambda rng, raw, at: _put(raw, max(at, min(100, len(raw) // 2)), len(raw), b""),
)


def tangled(rng: random.Random) -> bytes:
    """A tree of mappings that merge, alias and refer to each other."""
    lines = []
    known: list[str] = []
    for number in range(rng.randint(2, 60)):
        name = f"{rng.choice(NAMES)}{number}"
        parts = [f"k{n}: {_value(rng, known)}" for n in range(rng.randint(0, 8))]
        if known and rng.random() < 0.5:
            chosen = rng.choices(known, k=rng.randint(1, 20))
            parts.insert(0, f"<<: [{', '.join(f'*{one}' for one in chosen)}]")
        lines.append(f"{name}: &{name} {{{', '.join(parts)}}}\n")
        known.append(name)
    return tree_file("".join(lines), [block_bytes(bytes(100))])


def _value(rng: random.Random, known: list[str]) -> str:
    kind = rng.randrange(5)
    if kind == 0 or not known:
        return "!core/ndarray-1.0.0 {source: 0, datatype: uint8, shape: [4]}"
    if kind == 1:
        return f"*{rng.choice(known)}"
    if kind == 2:
        keys = "/".join(
            part for _ in range(rng.randint(1, 5)) for part in (rng.choice(known), f"k{rng.randrange(8)}")
        )
        return f"{{$ref: '#/{keys}'}}"
    if kind == 3:
        return f"[{', '.join(f'*{one}' for one in rng.choices(known, k=rng.randint(1, 30)))}]"
    return str(rng.randrange(100))


def look(path: Path, other: Path) -> None:
    """Have everything that reads files look at ``path``.  Raises whatever is not a sentence."""
    for words in (["check", "--deep"], ["info"], ["diff", "--values", str(other)], ["daf", "check"]):
        with no_surprise():
            code = main([*words, str(path)])
        if not 0 <= code <= 9:
            raise AssertionError(f"{words[0]} ended with {code}")
    with contextlib.suppress(AsdffsError, OSError):
        document = open_document(str(path), writable=False)
        try:
            for array in list(document.arrays.values())[:20]:
                with contextlib.suppress(AsdffsError, OSError):
                    if array.nbytes < 1 << 20:
                        array[...]
            _read(Arrays(document), 30)
        finally:
            document.close()


def _read(directory: object, most: int) -> None:
    for name in list(directory.names())[:most]:  # type: ignore[attr-defined]
        child = directory.child(name)  # type: ignore[attr-defined]
        if not isinstance(child, ViewFile):
            if most > 2:
                _read(child, most // 2)
            continue
        child.version(), child.attributes()
        with contextlib.suppress(AsdffsError, OSError):
            read_bytes(child.read(0, min(4096, child.size())))


def _on_time(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def run(first: int, count: int) -> list[str]:
    """What is wrong with the files ``first`` to ``first + count``."""
    found = []
    kinds: tuple[Callable[[random.Random], bytes], ...] = (mutated, mutated, tangled)
    signal.signal(signal.SIGPROF, _on_time)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        path, other = Path(folder) / "a.asdf", Path(folder) / "b.asdf"
        other.write_bytes(STARTS[0])
        for number in range(first, first + count):
            rng = random.Random(number)
            path.write_bytes(kinds[number % len(kinds)](rng))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    look(path, other)
            except BaseException:  # noqa: BLE001  # also what is no Exception is told, and the next one looked at
                found.append(f"{number}: {traceback.format_exc()[-1500:]}")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
    return found


def limit_memory() -> None:
    """Let this process have no more than ``MEMORY`` beyond what it has now."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))


if __name__ == "__main__":
    limit_memory()
    wrong = run(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(wrong))
    sys.exit(bool(wrong))
