"""Trees that are small and mean much: every command that reads values ends in a sentence, in little memory.

Each runs in a process that may have 500 MB of memory and a minute of the processor (ASDFFS_DEEP=1: ten seconds), and
has no traceback.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.mounts import LIMIT, environment_in
from support.samples import block_bytes

HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
ARRAY = "!core/ndarray-1.1.0 {source: 0, datatype: uint8, shape: [4]}"
SEXAGESIMAL = "1" + ":59" * 3000


def merges(count: int) -> str:
    keys = ", ".join(f"k{n}: {ARRAY if n % 100 == 0 else 1}" for n in range(count))
    return f"z: {{$ref: '#/m'}}\ndaf: {{version: [1, 0]}}\nm: &m {{{keys}}}\nl:\n" + "- {<<: *m}\n" * count


def merged_merges(depth: int) -> str:
    lines = ["m0: &m0 {" + ", ".join(f"k{n}: 1" for n in range(100)) + "}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 50)}], a{n}: 1}}" for n in range(1, depth)]
    return "z: {$ref: '#/m0'}\n" + "\n".join(lines) + "\n"


def references(depth: int) -> str:
    text = f"n:\n  end: {{$ref: '#/n'}}\n  a: {ARRAY}\n"
    names = ["end"] + [f"l{n}" for n in range(1, depth)]
    return text + "".join(
        f"  {name}: {{$ref: '#/n/{'/'.join([before] * 4)}'}}\n" for before, name in itertools.pairwise(names)
    )


def crossing_references(count: int) -> str:
    lists = "".join(f"- {{a: {ARRAY}, up: {{$ref: '#/l'}}, next: {{$ref: '#/l/{n + 1}'}}}}\n" for n in range(count))
    up = ", ".join(["{$ref: '#/l'}"] * count)
    return f"l:\n{lists}r: [{up}]\n"


def chain(key: str, last: int) -> str:
    links = "".join(f"- &x{n} [*x{n - 1}]\n" for n in range(1, 4000))
    return f"{key}:\n- &x0 [{last}]\n{links}top: *x3999\n"


def ladder(step: int) -> str:
    """Aliases whose pairs are as many as the product of their numbers."""
    lines = "".join(f"- &x{n} [*x{n - 1}, *x{max(0, n - step)}]\n" for n in range(1, 3000))
    return f"a:\n- &x0 [1]\n{lines}top: *x2999\n"


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
    "overlapping elements": f"a: {ARRAY.replace('uint8', '[ascii, 500000000]').replace('}', ', strides: [1]}')}\n",
}
OTHERS = {"deep aliases": chain("d", 2), "ladder": ladder(2)}
COMMANDS = (
    ("check", "A"),
    ("check", "--schema", "A"),
    ("diff", "--values", "A", "B"),
    ("info", "A"),
    ("daf", "check", "A"),
    ("explode", "A", "made"),
    ("repack", "A", "new.asdf"),
)


def _limit() -> None:
    seconds = 10 if os.environ.get("ASDFFS_DEEP") else 60
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (500 << 20, 500 << 20))


@pytest.mark.long
@pytest.mark.parametrize("name", TREES)
def test_every_command_ends_soon_and_in_a_sentence(name: str, tmp_path: Path) -> None:
    for letter, tree in (("A", TREES[name]), ("B", OTHERS.get(name, "v: 1\n"))):
        (tmp_path / letter).write_bytes(HEAD + tree.encode() + b"...\n" + block_bytes(b"data"))
    for words in COMMANDS:
        if words == ("check", "--schema", "A") and name != "references":
            continue  # the asdf library reads the others, and takes the time and the memory that it takes
        done = subprocess.run(
            [sys.executable, "-m", "asdffs", *words],
            cwd=tmp_path,
            env=environment_in(tmp_path),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            preexec_fn=_limit,
        )
        assert 0 <= done.returncode <= 9, (words, done.returncode, done.stderr[-2000:])
        assert "Traceback" not in done.stderr, (words, done.stderr[-2000:])
