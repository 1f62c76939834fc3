"""What a command may be given instead of an ASDF file: each is written at a path, and each command is run on it.

``python -m support.odd_files`` (with PYTHONPATH=tests) prints what every command says about every one of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.commands import Done, command
from support.drafts import block_36, draft
from support.mounts import environment_in
from support.samples import BAD_UTF8_FILE, ODD_FILES, block_bytes, header_bytes, odd_file

GOOD = odd_file()
HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
ARRAY = "!core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: big, shape: [4]}"
DEEP = 50_000
BOMB = "value: 1\na0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 30)
)
#: Where one part of a file ends and the next begins.
BOUNDARIES = {
    "the header line": GOOD.index(b"\n") + 1,
    "the comments": GOOD.index(b"%YAML"),
    "half of the tree": GOOD.index(b"value: 1"),
    "the last line of the tree": GOOD.index(b"...\n") + 2,
    "the tree": GOOD.index(b"...\n") + 4,
    "the magic of a block": GOOD.index(b"\xd3BLK") + 4,
    "half of a block header": GOOD.index(b"\xd3BLK") + 20,
    "a block header": GOOD.index(b"\xd3BLK") + 54,
    "half of a block": GOOD.index(b"\xd3BLK") + 100,
    "a block": GOOD.rindex(b"\xd3BLK"),
    "the last block": GOOD.index(b"#ASDF BLOCK INDEX"),
    "half of the index": len(GOOD) - 9,
}


def tree(text: str) -> bytes:
    """A file with this tree and one block."""
    return HEAD + text.encode() + b"...\n" + block_bytes(b"data")


def sized(**sizes: int) -> bytes:
    """A file whose block has these sizes in its header."""
    return tree(f"value: 1\ndata: {ARRAY}\n").partition(b"\xd3BLK")[0] + header_bytes(b"data", **sizes) + b"data"


def used(size: int) -> bytes:
    """A file whose block says that it uses ``size`` bytes."""
    raw = bytearray(sized())
    raw[-4 - 48 + 16 : -4 - 48 + 24] = struct.pack(">Q", size)
    return bytes(raw)


def fits(*units: tuple[dict[str, object], bytes]) -> bytes:
    """A FITS file with extensions of these cards and contents."""
    whole = b""
    for cards, content in (({"SIMPLE": "T", "BITPIX": 8, "NAXIS": 0}, b""), *units):
        raw = "".join(
            [*(f"{name:<8}= {value!s:>20}".ljust(80) for name, value in cards.items()), "END".ljust(80)]
        ).encode()
        whole += raw.ljust(-(-len(raw) // 2880) * 2880) + content + bytes(-len(content) % 2880)
    return whole


def table_of(size: int, name: str = "ASDF") -> dict[str, object]:
    """The cards of a table with one column and one row, of ``size`` bytes."""
    sizes = {"BITPIX": 8, "NAXIS": 2, "NAXIS1": size, "NAXIS2": 1, "PCOUNT": 0, "GCOUNT": 1}
    return {"XTENSION": "'BINTABLE'", **sizes, "TFIELDS": 1, "TFORM1": f"'{size}B'", "EXTNAME": f"'{name}'"}


def table(**cards: object) -> bytes:
    """A FITS file with ``GOOD`` in a table, and these cards instead of the right ones."""
    return fits((table_of(len(GOOD)) | cards, GOOD))


CONTENTS = {
    **{f"cut after {name}": GOOD[:end] for name, end in BOUNDARIES.items()},
    "good": GOOD,
    "empty": b"",
    "one byte": b"#",
    "NULs": bytes(5000),
    "text": b"hello\n",
    "a long line": b"#ASDF 1.0.0" + b" " * 100_000,
    "an unknown version": GOOD.replace(b"#ASDF 1.0.0", b"#ASDF 9.0.0"),
    "a version without an end": b"#ASDF " + b"9" * 5000 + b".0.0\n" + GOOD[12:],
    "a data size of 2^63": sized(data_size=1 << 63),
    "an allocated size of 2^63": sized(allocated=1 << 63),
    "a used size of 2^64 - 1": used((1 << 64) - 1),
    "a zlib block of 2^64 - 1": sized(data_size=(1 << 64) - 1, compression=b"zlib"),
    "an unknown compression": sized(compression=b"\x1b]0;"),
    "a damaged zlib block": sized(data_size=100, compression=b"zlib"),
    "a header of 0 bytes": tree("value: 1\n").replace(struct.pack(">4sH", b"\xd3BLK", 48), b"\xd3BLK\0\0"),
    "a shape of 2^63": tree(f"value: 1\ndata: {ARRAY.replace('[4]', f'[{1 << 63}]')}\n"),
    "a source of 10^20": tree(f"value: 1\ndata: {ARRAY.replace('source: 0', f'source: {10**20}')}\n"),
    "a source without a block": tree(f"value: 1\ndata: {ARRAY.replace('source: 0', 'source: no-block.asdf')}\n"),
    "a source that is missing": tree(f"value: 1\ndata: {ARRAY.replace('source: 0', 'source: missing.asdf')}\n"),
    "a source that is itself": tree(f"value: 1\ndata: {ARRAY.replace('source: 0', 'source: x.asdf')}\n"),
    "a source that is a FIFO": tree(f"value: 1\ndata: {ARRAY.replace('source: 0', 'source: fifo')}\n"),
    "references that go round": tree("value: 1\na: {$ref: '#/b'}\nb: {$ref: '#/a'}\nc: {$ref: 'fifo#/a'}\n"),
    "deep flow": tree("value: 1\ndeep: " + "[" * DEEP + "]" * DEEP + "\n"),
    "deep mappings": tree("value: 1\ndeep: " + "{a: " * DEEP + "1" + "}" * DEEP + "\n"),
    "keys that are no texts": tree("value: 1\n? [1, 2]\n: 1\n1.5: 2\n~: 3\ntrue: 4\n? {a: 1}\n: 5\n"),
    "an array with a sequence as a key": tree("value: 1\ndata: !core/ndarray-1.1.0 {[x]: 1, source: 0}\n"),
    "a bomb in an array": tree(f"{BOMB}data: {ARRAY[:-1]}, extra: *a8}}\n"),
    "a key twice": tree("value: 1\nvalue: 2\n"),
    "surrogates": tree('value: 1\n"\\ud800": "a\\0b"\n'),
    "an alias of itself": tree("value: 1\nloop: &loop [*loop]\n"),
    "a bomb of aliases": tree(BOMB),
    "an unknown alias": tree("value: *nothing\n"),
    "odd scalars": tree("value: 1\na: 9999-99-99\nb: 0x\nc: 1:99:99\nd: !!int x\ne: !!float x\nf: !!binary '*'\n"),
    "many digits": tree("value: " + "9" * 5000 + "\n"),
    "a sequence": tree("- 1\n- 2\n"),
    "a scalar": tree("--- 1\n"),
    "not YAML": tree("value: [1\n"),
    "two documents": tree("value: 1\n---\nvalue: 2\n"),
    "not UTF-8": BAD_UTF8_FILE,
    "UTF-16": "#ASDF 1.0.0\n%YAML 1.1\n---\nvalue: 1\n...\n".encode("utf-16"),
    "controls": tree('value: "\\e]0;pwned\\a"\n"\\e]0;k\\a\\nx.asdf: nothing wrong": 1\n'),
    "deep JSON": b'{"refs": {"zarr.json": ' + b"[" * DEEP + b"]" * DEEP + b"}}",
    "odd JSON": b'{"refs": {"zarr.json": "{\\"attributes\\": {\\"asdffs_files\\": [{\\"url\\": 1}]}}"}}',
    "a record of odd names": b'{"file": "a\\u0000b", "edits": []}\n{"file": 1, "edits": [1]}\n',
    "a draft": draft(b"value: 1\n", block_36(b"plain")),
    "FITS that is cut": b"SIMPLE  =                    T".ljust(80),
    "FITS without ASDF": fits(({"XTENSION": "'IMAGE   '", "BITPIX": 8, "NAXIS": 0}, b"")),
    "ASDF in FITS": table(),
    "FITS with NAXIS1 of 10^18": table(NAXIS1=10**18),
    "FITS with negative sizes": table(NAXIS1=-5, PCOUNT=-(10**18)),
    "FITS with TFIELDS of 10^18": table(TFIELDS=10**18),
    "FITS with a heap of 10^18": table(THEAP=10**18, PCOUNT=10**18),
    "FITS with cards of text": table(NAXIS="'a'", PCOUNT="'b'"),
    **{f"layout: {name}": raw for name, raw in ODD_FILES.items() if "index" in name or name == "streamed"},
}


def _no_permission(path: Path) -> None:
    path.write_bytes(GOOD)
    path.chmod(0)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{os.open(path.parent, os.O_PATH)}/{path.name}")


def _content(raw: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(raw)


#: Name -> what makes it at a path.
ODD: dict[str, Callable[[Path], object]] = {
    **{name: _content(raw) for name, raw in CONTENTS.items()},
    "nothing": lambda path: None,
    "no permission": _no_permission,
    "a FIFO": os.mkfifo,
    "a socket": _socket,
    "a directory": lambda path: path.mkdir(),
    "a dangling link": lambda path: path.symlink_to("missing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a FIFO": lambda path: path.symlink_to("fifo"),
    "below a file": lambda path: None,
}
#: The file gets another name than ``x.asdf``.
NAMES = {
    "a quote in the name": "it's.asdf",
    "a newline in the name": "a\nasdffs: x.asdf: forged\n.asdf",
    "controls in the name": "\x1b]0;pwned\x07\u202e.asdf",
    "a name that is not UTF-8": "\udcff.asdf",
    "a name like an option": "./--force.asdf",
    "a name like a URL": "./s3:/x.asdf",
}
#: What each command is run with.  X: the odd file; G: a good one; N: a new name; D: an empty directory.
_WORDS = """info X; info --map X; info --json X G; check X; check --deep --json X G; check --repair X; diff X G;
diff G X; diff --values X X; tree X; tree --outline X; tree --json X; tree --yaml --depth 2 X;
get value X; get value X G; get . --json X G; get value --where value==1 X G; grep a X;
grep --json . X G; index --catalog N X; index --catalog N D; find --fresh --catalog N value==1 D;
refs X; refs X G; refs -o N X; refs --check X; set value=2 X G; set value=2 --where value==1 X;
set -n value=2 X; set --jobs 2 value=2 X G; unset value X; rename value other X; undo X; edit X;
block X 0; block X 0 --stored; block X 0 --compression zlib; explode X D; implode X N; repack X;
repack --drop-unreferenced X; repack --compression zlib X N; upgrade --check X; upgrade X N;
watch --once D X; daf check X; daf unpack X N; daf pack X N; recover X; show X; show X data;
show X value; umount X; export --erofs N X; export --erofs N G X; export --check X
"""
COMMANDS = tuple(tuple(words.split()) for words in _WORDS.split(";"))


class Row(NamedTuple):
    """What a command did about an odd file."""

    command: tuple[str, ...]
    odd: str
    path: str
    done: Done

    @property
    def sentence(self) -> str:
        """The first line that tells of an error, or of the file."""
        lines = [*self.done.err.splitlines(), *self.done.out.splitlines(), ""]
        return lines[0]


def run(words: tuple[str, ...], odd: str, folder: Path) -> Row:
    """Make the odd file in ``folder``, and run a command there."""
    names = {"X": NAMES.get(odd, "x.asdf"), "G": "good.asdf", "N": "new", "D": "directory"}
    path = folder / names["X"]
    if odd == "below a file":
        path = folder / "good.asdf/x.asdf"
    (folder / "directory").mkdir()
    (folder / "good.asdf").write_bytes(GOOD)
    (folder / "no-block.asdf").write_bytes(odd_file(blocks=[]))
    os.mkfifo(folder / "fifo")
    path.parent.mkdir(exist_ok=True) if odd in NAMES else None
    ODD.get(odd, _content(GOOD))(path)
    if words[0] in ("index", "find") and "D" in words and odd != "below a file":
        shutil.move(path, folder / "directory/x.asdf") if os.path.lexists(path) else None
    given = os.path.join(folder, names["X"]) if odd != "below a file" else str(path)
    places = {"X": given, **{letter: str(folder / name) for letter, name in names.items() if letter != "X"}}
    environment = {**environment_in(folder), "VISUAL": "true", "XDG_CACHE_HOME": str(folder / "cache")}
    with obeying_modes(), contextlib.chdir(folder):
        return Row(words, odd, given, command(*(places.get(word, word) for word in words), environment=environment))


@contextlib.contextmanager
def obeying_modes() -> Iterator[None]:
    """Let root, too, open only what the modes of files allow (capabilities(7): without those that override them)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    before = sets[0]
    sets[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.capset(header, sets)
    try:
        yield
    finally:
        sets[0] = before
        libc.capset(header, sets)


def main() -> None:
    """Print the table."""
    for odd in (*ODD, *NAMES):
        for words in COMMANDS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    row = run(words, odd, Path(folder))
                    code, said = str(row.done.code), row.sentence.replace(folder, "").removeprefix("asdffs: ")
                except Exception as err:  # noqa: BLE001  # it is a row of the table
                    code, said = "!", f"{type(err).__name__}: {err}".splitlines()[0]
                print("\t".join((" ".join(words), odd, code, re.sub(r"\s+", " ", said)[:100])), flush=True)


if __name__ == "__main__":
    sys.exit(main())
