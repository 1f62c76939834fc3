"""Mutants of files, trees, texts, stored blocks and chunks, and what reads them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import random
import re
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from asdffs.arrays.outline import read_outline
from asdffs.arrays.scalars import read_scalars
from asdffs.arrays.validation import check_text
from asdffs.codecs.base import Codec, Readable
from asdffs.codecs.seeking import seeker_of
from asdffs.dialects.asdf_1 import PLUGIN as ASDF_1
from asdffs.document.document import Document
from asdffs.document.opening import open_document, open_in_folder
from asdffs.document.scanning import find_embedded, scan, window_of
from asdffs.errors import AsdffsError, MissingFileError
from asdffs.features.datasets.references import changed_files
from asdffs.features.drafts.codecs.chain import PLUGIN as CHAINS
from asdffs.format.block_index import find_index_start, parse_block_index
from asdffs.format.block_scan import drive, scan_block_header
from asdffs.format.plan import Move, Plan, Write
from asdffs.storage.backend import PhysicalExtent, read_bytes
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.journal import Journal
from asdffs.storage.record import make_insertion, make_record
from asdffs.storage.sidecars import journal_name
from asdffs.tree.comparing import MISSING, Mark
from asdffs.tree.conditions import holds, parse_condition
from asdffs.tree.locating import locate
from asdffs.tree.lookups import Values, for_json, plain
from asdffs.tree.paths import parse_path
from asdffs.tree.tape import Tape
from asdffs.views.arrays import Arrays
from asdffs.views.base import ViewFile
from asdffs.workflows.checking import check_document
from support.codecs import ALL
from support.commands import command
from support.drafts import SAMPLES
from support.fits_files import FORMS, with_blocks, write_fits
from support.fuzzed import (
    FOLDER,
    JSON,
    NUMBERS,
    READ,
    STARTS,
    WORDS,
    Reader,
    mutated_of,
    tangled,
    words_in,
)  # fmt: skip
from support.memory import MemoryFolder
from support.samples import write_sample
from support.zarr_files import Zarr, zarr_file

# -- files ----------------------------------------------------------------------


def _files() -> list[bytes]:
    """Small files: by hand, by the asdf library, and of the drafts."""
    path = Path(FOLDER.name) / "seed.asdf"
    found = [*STARTS, *(sample.read_bytes() for sample in SAMPLES if sample.stat().st_size < 4000)]
    for compression in ("zlib", "bzp2", "lz4"):
        write_sample(path, all_array_compression=compression)
        found.append(path.read_bytes())
    return [*found, with_blocks()]


def _file_with(*words: bytes) -> Callable[[random.Random, bytes], bytes]:
    """Return what changes the tree of a file, the header of a block, or anything."""

    def mutant(rng: random.Random, seed: bytes) -> bytes:
        start, stop = 0, len(seed)
        kind, blocks = rng.randrange(3), [found.start() for found in re.finditer(rb"BLK", seed)]
        if kind == 0 and b"\n..." in seed:
            stop = seed.index(b"\n...") + 5
        elif kind == 1 and blocks:
            start = rng.choice(blocks)
            stop = start + 80
        return seed[:start] + mutated_of(rng, seed[start:stop], words) + seed[stop:]

    return mutant


def _read_format(raw: bytes, number: int) -> None:
    backend = MemoryFolder({"a": raw}).open("a", writable=False)
    start = find_index_start(raw[-4096:])
    if start is not None:
        parse_block_index(raw[-4096:][start:])
    layout, dialect = scan(backend, trusting=number % 2 == 0)
    for offset in layout.offsets[:50]:
        drive(scan_block_header(offset, dialect.rules), backend.read_at)


def _read_document(raw: bytes, number: int) -> None:
    with closing(open_in_folder(MemoryFolder({"a": raw}), "a", writable=False)) as document:
        list(check_document(document, deep=True))
        _read_arrays(document)


def _read_arrays(document: Document) -> None:
    for array in itertools.islice(document.arrays.values(), 20):
        with contextlib.suppress(AsdffsError, OSError):
            if array.nbytes < READ:
                array[...]


def _file_or_tangle(rng: random.Random, seed: bytes) -> bytes:
    return tangled(rng) if rng.random() < 0.33 else mutated_of(rng, seed, WORDS)


def _look(raw: bytes, number: int) -> None:
    """Have commands and views look at a file."""
    path, other = Path(FOLDER.name) / "a.asdf", Path(FOLDER.name) / "b.asdf"
    path.write_bytes(raw)
    other.write_bytes(STARTS[0])
    for words in (("check", "--deep"), ("info",), ("diff", "--values", other), ("daf", "check")):
        done = command(*words, path, environment={**os.environ, "XDG_STATE_HOME": FOLDER.name})
        assert 0 <= done.code <= 9, f"{words[0]} ended with {done.code}"
    with closing(open_document(str(path), writable=False)) as document:
        _read_arrays(document)
        _read_views(Arrays(document), 30)


def _read_views(directory: Any, most: int) -> None:
    for name in list(directory.names())[:most]:
        child = directory.child(name)
        if not isinstance(child, ViewFile):
            if most > 2:
                _read_views(child, most // 2)
            continue
        child.version(), child.attributes()
        with contextlib.suppress(AsdffsError, OSError):
            read_bytes(child.read(0, min(4096, child.size())))


_OLD = STARTS[1] + bytes(5000)


def _old() -> FileFolder:
    """Return a directory with the file that has journals: always the same, as they state its inode."""
    path = Path(FOLDER.name) / "journals"
    path.mkdir(exist_ok=True)
    (path / "a").write_bytes(_OLD)
    return FileFolder(str(path))


def _journals() -> list[bytes]:
    """Journals of an overwriting and of an insertion that are to be finished, each without its owner's note."""
    found = []
    for inserted in (False, True):
        folder = _old()
        with closing(folder.open("a", writable=True)) as backend, closing(Journal.open(folder, "a")) as journal:
            plan = Plan(len(_OLD), len(_OLD) + 50, (Write(1500, b"hello"), Write(3000, b"x" * 300)), steady=3000)
            moving = plan._replace(move=Move(3000, 3050, len(_OLD) - 3000))
            extents = [PhysicalExtent(0, 1 << 20, len(_OLD))]
            journal.write(make_insertion(backend, moving, 0, extents) if inserted else make_record(backend, plan))
            found.append(Path(folder.path(journal_name("a"))).read_bytes()[4096:])
    return found


def _journal(rng: random.Random, seed: bytes) -> bytes:
    """Return a journal that is wrong, mostly with the right checksum."""
    raw = mutated_of(rng, seed[20:], (bytes(8), b"\xff" * 8))
    return (
        rng.choice([seed[:20], b"ASDFFSJ3" + len(raw).to_bytes(8, "big") + zlib.crc32(raw).to_bytes(4, "big")]) + raw
    )


def _read_journal(raw: bytes, number: int) -> None:
    folder = _old()
    Path(folder.path(journal_name("a"))).write_bytes(bytes(4096) + raw)
    with closing(open_in_folder(folder, "a", writable=number % 2 == 0)) as document:
        document.tree.text()


def _embedded() -> list[bytes]:
    found = []
    for form, tree in itertools.product(FORMS[::3], ((), (with_blocks(),))):
        path = Path(FOLDER.name) / "seed.fits"
        path.unlink(missing_ok=True)
        write_fits(path, form, *tree)
        found.append(path.read_bytes())
    return found


def _read_fits(raw: bytes, number: int) -> None:
    backend = MemoryFolder({"a": raw}).open("a", writable=False)
    scan(window_of(backend, find_embedded(backend)))
    with closing(open_in_folder(MemoryFolder({"a": raw}), "a", writable=False)) as document:
        _read_arrays(document)


def _card(rng: random.Random, seed: bytes) -> bytes:
    """Change the value of cards, mostly; bytes anywhere else."""
    raw = bytearray(seed)
    cards = [found.start() for found in re.finditer(rb"(?:[A-Z0-9]{2,8} *= |END {77})", seed)]
    if rng.random() < 0.3:
        return mutated_of(rng, seed, (b"TFIELDS =", b"NAXIS   =", b"THEAP   =", b"END     ", *NUMBERS))
    for at in rng.choices(cards, k=rng.randint(1, 4)):
        value = rng.choice([*NUMBERS, b"T", b"'ASDF    '", b"'1PB(99)'", b"''", b"", b"\xff", b"999999999999999999"])
        raw[at + 10 : at + 80] = value.rjust(20).ljust(70) if rng.random() < 0.8 else rng.choice([b"", bytes(70)])
    return bytes(raw)


# -- trees ----------------------------------------------------------------------


def _texts() -> list[bytes]:
    return [raw[: raw.index(b"\n...") + 5] for raw in STARTS[:2]] + [
        one for n in range(40) if len(one := tangled(random.Random(n))) < 3000
    ]


_PLACES = ("e.y", "a", "b.shape", "t.columns[0].data", "f[0].header[1]")


def _read_tree(raw: bytes, number: int) -> None:
    text = raw[: raw.find(b"\n...\n") + 5] or raw
    turn = number % 5
    if turn == 0:
        root = Values(text).root()
        for_json(root), plain(root)
    elif turn == 1:
        read_scalars(text, ASDF_1)
    elif turn == 2:
        read_outline(text, ASDF_1)
    elif turn == 3:
        check_text(text, ASDF_1, had_tree=True, before=text)
    else:
        locate(Tape(text), parse_path(_PLACES[number % 25 // 5]))


def _words() -> list[bytes]:
    return [
        b"exists a.b or not (daf.version[0] == 1.5e3 and value > -2)",
        b"a.\"odd key\"[3].b =~ '^(a+)+$' or b in [1, 'two', null]",
        b'time >= "2001-12-14T21:59:43.10Z" and "x y".z[-1] != null and a == true',
        b"/a/b~1c/~0/0",
    ]


_SIGNS = (b"(", b"not ", b"[", b"'", b"a{99}", b"(a*)*", b"~", b"\xff")
_ASKED = (1, -1 << 70, 1.5, math.nan, "a" * 16 + "!", True, None, Mark.FULL, Mark.UNKNOWN, MISSING, "2001-01-01")


def _read_words(raw: bytes, number: int) -> None:
    text = raw.decode(errors="surrogateescape")
    with contextlib.suppress(AsdffsError):
        parse_path(text)
    held = parse_condition(text)
    holds(held, lambda path: _ASKED[number % len(_ASKED)])
    held.holds_each(lambda path: list(_ASKED))


# -- codecs ---------------------------------------------------------------------


@functools.cache
def _codecs() -> list[Codec]:
    return [*(codec for codec in ALL.values() if codec.available()), CHAINS]


_CHUNKS = (
    b"---\n[[tile, {shape: [2, 3], original_shape: [5, 7], item_size: 4}], zlib]\n...\n" + zlib.compress(bytes(216)),
    b"---\n[[tile, {shape: [2, 3], original_shape: [5, 7], item_size: 4}]]\n...\n" + bytes(216),
    b"---\n[zlib, zlib]\n...\n" + zlib.compress(zlib.compress(bytes(8072))),
)


def _encoded() -> list[bytes]:
    """Stored bytes behind the number of their codec."""
    content = bytes(range(256)) * 12 + bytes(5000)
    found = [bytes([n]) + b"".join(codec.encode(Readable.of(content))) for n, codec in enumerate(_codecs()[:-1])]
    drafts = [sample.read_bytes().partition(b"\xd3BLK")[2] for sample in SAMPLES]
    chunks = [*_CHUNKS, *(raw[raw.find(b"---") :][:4000] for raw in drafts if b"\n...\n" in raw[:300])]
    return [*found, *(bytes([len(_codecs()) - 1]) + chunk for chunk in chunks)]


def _decode(raw: bytes, number: int) -> None:
    codec, stored = _codecs()[raw[:1][0] % len(_codecs())] if raw else CHAINS, Readable.of(raw[1:])
    size = 140 if codec is CHAINS and number % 3 else 8072 if number % 7 else 1 << 20
    if number % 2:
        seeker = seeker_of(codec, stored, size)
        pieces = seeker.decode_from(seeker.start_before(size // 2))
    else:
        codec.memory(stored)
        pieces = codec.decode(stored, size)
    done = 0
    while done <= size and (piece := next(pieces, None)) is not None:
        done += len(piece)


# -- arrays of zarr -------------------------------------------------------------

_COMPRESSORS: tuple[Any, ...] = (
    None,
    {"id": "zlib", "level": 1},
    {"id": "gzip", "level": 1},
    {"id": "bz2", "level": 1},
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    {"id": "lz4", "acceleration": 1},
    {"id": "zstd", "level": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
)
_FILTERS: tuple[Any, ...] = (
    None,
    [{"id": "delta", "dtype": "<i4", "astype": "<i2"}, {"id": "shuffle", "elementsize": 4}],
    [{"id": "fixedscaleoffset", "scale": 10, "offset": 5, "dtype": "<i4", "astype": "<i8"}, {"id": "crc32"}],
    [{"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<i4"}, {"id": "adler32"}, {"id": "fletcher32"}],
)
_REFERENCES = json.dumps(
    {
        "version": 1,
        "refs": {
            ".zgroup": '{"zarr_format": 2}',
            ".zattrs": json.dumps({"asdffs_files": [{"url": "file:///nowhere", "identity": "1", "x": [1]}]}),
            "a/0": ["file:///nowhere", 10, 20],
        },
    }
).encode()


def _zarrs() -> list[bytes]:
    array = np.arange(60, dtype="<i4").reshape(6, 10)
    ways = itertools.product(_COMPRESSORS, _FILTERS)
    return [
        *(zarr_file(array, Zarr((4, 5), "CF"[n % 2], one, two, 7)) for n, (one, two) in enumerate(ways)),
        *([_REFERENCES] * 4),
    ]


def _no_file(path: str) -> Document:
    raise MissingFileError("is not there", path=path)


def _read_zarr(raw: bytes, number: int) -> None:
    if raw.startswith(b"{"):
        list(itertools.islice(changed_files(raw, _no_file), 50))
        return
    with closing(open_in_folder(MemoryFolder({"a": raw}), "a", writable=False)) as document:
        array = document.arrays["z"] if "z" in document.arrays else next(iter(document.arrays.values()), None)
        if array is not None and array.nbytes < READ:
            array[...]


READERS = {
    "commands": Reader(lambda: list(STARTS), _look, _file_or_tangle),
    "format": Reader(_files, _read_format, _file_with(*WORDS, b"\xd3BLK", b"#ASDF BLOCK INDEX\n", b"...\n")),
    "document": Reader(_files, _read_document, _file_with(*WORDS, b"\xd3BLK", b"...\n")),
    "journal": Reader(_journals, _read_journal, _journal),
    "tree": Reader(_texts, _read_tree, words_in(*WORDS)),
    "words": Reader(_words, _read_words, words_in(*_SIGNS, *NUMBERS)),
    "codecs": Reader(_encoded, _decode, words_in(bytes(8), b"zlib", b"[", b"\xff\xff\xff\xff")),
    "fits": Reader(_embedded, _read_fits, _card),
    "zarr": Reader(_zarrs, _read_zarr, _file_with(*JSON, b'{"id": "delta"}', b"<i8", b"|O", b"<f2")),
}
