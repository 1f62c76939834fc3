"""Arrays of asdf-zarr: chunks in blocks are put together, whatever the chunk shape, compressor, filters and order."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrays import tree_file
from support.mounts import asdffs, environment_in, mounted
from support.samples import block_bytes
from support.zarr_files import TAG, Zarr, zarr_file, zarr_parts

import asdffs as library
from asdffs.document.arrays import chunks
from asdffs.document.arrays.index import find_unshown
from asdffs.document.outlines import ElementCache
from asdffs.errors import AsdffsError, InvalidArrayError

COMPRESSORS: list[dict[str, Any] | None] = [
    None,
    {"id": "zlib", "level": 1},
    {"id": "gzip", "level": 1},
    {"id": "bz2", "level": 1},
    {"id": "lzma"},
    {"id": "lz4"},
    {"id": "zstd", "level": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": 0},
]
BLOSC = COMPRESSORS[-2]
VALUES = np.arange(7 * 10 * 5, dtype="<f4").reshape(7, 10, 5)
ABOUT = Zarr((3, 4, 5), compressor=BLOSC)


def stored(path: Path, array: np.ndarray[Any, Any], about: Zarr) -> library.Document:
    path.write_bytes(zarr_file(array, about))
    return library.open(path)


@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_each_compressor(tmp_path: Path, compressor: dict[str, Any] | None, order: str) -> None:
    with stored(tmp_path / "z.asdf", VALUES, Zarr((3, 4, 5), order, compressor)) as document:
        assert np.array_equal(document.arrays["z"], VALUES)
        assert document.arrays["z"].dtype == VALUES.dtype


@pytest.mark.parametrize(
    "config",
    [
        {"id": "delta", "dtype": "<i4"},
        {"id": "fixedscaleoffset", "scale": 1, "offset": 3, "dtype": "<i4", "astype": "<i2"},
        {"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<i4"},
        {"id": "shuffle", "elementsize": 4},
        {"id": "crc32"},
        {"id": "fletcher32"},
    ],
)
@pytest.mark.parametrize("compressor", [None, BLOSC])
def test_each_filter(tmp_path: Path, config: dict[str, Any], compressor: dict[str, Any] | None) -> None:
    values = np.arange(60, dtype="<i4").reshape(6, 10)
    with stored(tmp_path / "z.asdf", values, Zarr((4, 3), compressor=compressor, filters=[config])) as document:
        assert np.array_equal(document.arrays["z"], values)


def test_bits_are_unpacked(tmp_path: Path) -> None:
    values = np.arange(60).reshape(6, 10) % 3 == 0
    with stored(tmp_path / "z.asdf", values, Zarr((4, 3), filters=[{"id": "packbits"}])) as document:
        assert np.array_equal(document.arrays["z"], values)


@pytest.mark.parametrize(
    ("dtype", "fill", "expected"),
    [
        ("<f4", None, 0),
        ("<f4", 9.5, 9.5),
        (">f8", "NaN", np.nan),
        ("<f8", "-Infinity", -np.inf),
        ("<i8", -3, -3),
        ("|b1", True, True),
        ("|S3", "YWJj", b"abc"),
        ("<U2", "ab", "ab"),
        ("<c8", [1.0, "NaN"], complex(1, np.nan)),
        ("<M8[s]", 0, np.datetime64(0, "s")),
    ],
)
def test_chunks_that_were_never_written_have_the_fill_value(
    tmp_path: Path, dtype: str, fill: Any, expected: Any
) -> None:
    values = np.zeros((4, 4), dtype)
    with stored(tmp_path / "z.asdf", values, Zarr((2, 4), fill=fill, missing=((1, 0),))) as document:
        found = np.asarray(document.arrays["z"])
    assert found[:2].tobytes() == values[:2].tobytes()
    np.testing.assert_array_equal(found[2:], np.full((2, 4), expected, dtype))


def test_records_and_arrays_without_axes(tmp_path: Path) -> None:
    records = np.array([(1, 2.5), (3, 4.5), (5, 6.5)], [("a", "<i4"), ("b", ">f8")])
    with stored(tmp_path / "r.asdf", records, Zarr((2,), compressor=BLOSC)) as document:
        assert np.array_equal(document.arrays["z"], records)
    with stored(tmp_path / "s.asdf", np.array(7, "<i4"), Zarr(())) as document:
        assert document.arrays["z"][()] == 7


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Zarr]:
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, 10)) for _ in shape)
    counts = [-(-length // step) for length, step in zip(shape, chunks, strict=True)]
    every = list(itertools.product(*map(range, counts)))
    missing = tuple(draw(st.lists(st.sampled_from(every), unique=True, max_size=2))) if every else ()
    dtype = draw(st.sampled_from(["<i2", ">i4", "<f8", "|u1"]))
    compressor = draw(st.sampled_from([None, BLOSC, {"id": "zlib", "level": 1}]))
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    for where in missing:
        values[tuple(slice(i * step, (i + 1) * step) for i, step in zip(where, chunks, strict=True))] = 3
    return values, Zarr(chunks, draw(st.sampled_from("CF")), compressor, None, 3, missing)


@settings(max_examples=150 if os.environ.get("ASDFFS_DEEP") else 60, deadline=None)
@given(case=arrays(), data=st.data())
def test_any_range_and_any_index(tmp_path_factory: pytest.TempPathFactory, case: Any, data: st.DataObject) -> None:
    values, about = case
    with stored(tmp_path_factory.mktemp("zarr") / "z.asdf", values, about) as document:
        array = document.arrays["z"]
        elements, raw = array.elements(), values.tobytes()
        for _ in range(5):
            offset, length = data.draw(st.integers(0, len(raw) + 2)), data.draw(st.integers(0, len(raw) + 2))
            with document.scheduler.entered():
                assert elements.read(offset, length) == raw[offset : offset + length]
            keys = data.draw(st.lists(_keys(), max_size=values.ndim))
            try:
                expected = values[tuple(keys)]
            except IndexError:
                with pytest.raises(IndexError):
                    array[tuple(keys)]
                continue
            found = array[tuple(keys)]
            assert (np.shape(found), np.array_equal(found, expected)) == (np.shape(expected), True)
            assert type(found) is type(expected)


def _keys() -> Any:
    numbers = st.none() | st.integers(-10, 10)
    slices = st.builds(slice, numbers, numbers, st.sampled_from([None, 1, 2, -1, -3]))
    return slices | st.integers(-3, 3) | st.just(...) | st.none()


def test_a_row_decodes_only_its_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stored(tmp_path / "z.asdf", VALUES, ABOUT) as document:
        array, decoded, decode = document.arrays["z"], list[int](), chunks.decode_chunk

        def counted(*of: Any) -> bytes:
            decoded.append(1)
            return decode(*of)

        monkeypatch.setattr("asdffs.document.arrays.chunks.decode_chunk", counted)
        assert np.array_equal(array[0, 5], VALUES[0, 5])
        assert len(decoded) == 1
        assert np.array_equal(array[1], VALUES[1])
        assert len(decoded) == 3  # one of them was kept
        assert np.array_equal(array, VALUES)
        assert len(decoded) == 9


def test_the_room_is_bounded() -> None:
    room = ElementCache(100)
    for key in "abc":
        room.put(key, np.zeros(40, "u1"))
    assert [room.get(key) is not None for key in "abc"] == [False, True, True]
    room.put("d", np.zeros(1000, "u1"))
    assert [room.get(key) is not None for key in "abcd"] == [False, False, False, True]
    room.put("d", np.zeros(1, "u1"))
    room.put("e", np.zeros(99, "u1"))
    assert [room.get(key) is not None for key in "de"] == [True, True]


class Evil:
    def __reduce__(self) -> Any:
        return print, ("a filter ran code of the file",)


BOMB = b"\0" * (1 << 20)


def hostile() -> list[tuple[str, Any, str]]:
    """Name; what replaces metadata and content of a file with one chunk of 8 bytes; words of the refusal."""
    import bz2
    import lzma
    import zlib

    import numcodecs

    def block(config: dict[str, Any], raw: bytes) -> Any:
        return {"compressor": config}, raw

    return [
        ("pickle", ({"filters": [{"id": "pickle"}]}, pickle.dumps(Evil())), "filter 'pickle'"),
        ("unknown", ({"compressor": {"id": "nothing"}}, b"x"), "compressor is 'nothing'"),
        ("zlib", block({"id": "zlib"}, zlib.compress(BOMB)), "at most 8"),
        ("bz2", block({"id": "bz2"}, bz2.compress(BOMB)), "at most 8"),
        ("lzma", block({"id": "lzma"}, lzma.compress(BOMB)), "at most 8"),
        ("lz4", block({"id": "lz4"}, struct.pack("<I", 1 << 31) + b"x"), "at most 8"),
        ("blosc", block({"id": "blosc"}, numcodecs.Blosc().encode(BOMB[: 1 << 17])), "at most 8"),
        ("zstd", block({"id": "zstd"}, numcodecs.Zstd().encode(BOMB)), "at most 8"),
        ("garbage", block({"id": "zlib"}, b"garbage"), "cannot be decoded"),
        ("cut", block({"id": "zlib"}, zlib.compress(b"12345678")[:-6]), "a chunk has"),
        ("short", ({}, b"1234567"), "a chunk has 7 bytes; the tree says 8"),
        ("no checksum", ({"filters": [{"id": "fletcher32"}]}, b"123"), "cannot be decoded"),
        ("large", ({}, b"1" * 8000), "block 0 has 8000 bytes, and a chunk has 8"),
        ("objects", ({"dtype": "|O"}, b"12345678"), "no elements of a fixed size"),
        ("no dtype", ({"dtype": "nonsense"}, b"12345678"), "dtype nonsense is not known"),
        ("fields in a text", ({"dtype": "<i4,,"}, b"12345678"), "dtype <i4,, is not known"),
        ("fill", ({"fill_value": "many"}, b"12345678"), "does not fit its dtype"),
        ("huge chunk", ({"chunks": [1 << 27]}, b"12345678"), "a chunk would take 512 MiB"),
    ]


@pytest.mark.parametrize(("changes", "words"), [case[1:] for case in hostile()], ids=[case[0] for case in hostile()])
def test_hostile_chunks_are_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: Any, words: str
) -> None:
    metadata = {"chunks": [2], "compressor": None, "dtype": "<i4", "fill_value": 0, "filters": None, "order": "C"}
    metadata |= {"shape": [2], "zarr_format": 2, **changes[0]}
    body = f"z: !<{TAG}> {{.zarray: {json.dumps(metadata)}, chunk_block_map: 1}}\n"
    path = tmp_path / "z.asdf"
    path.write_bytes(tree_file(body, [block_bytes(changes[1]), block_bytes(struct.pack("<i", 0))]))
    with library.open(path) as document, pytest.raises(AsdffsError, match=words):
        document.arrays["z"][...]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('zarr_format": 2', 'zarr_format": 3', "asdffs reads version 2"),
        ('"shape": [2]', '"shape": [-2]', "its shape is missing"),
        ('"shape": [2]', '"shape": [2, 2]', "2 axes, and its chunks have 1"),
        ('"shape": [2]', '"shape": [4611686018427387904]', "its shape is missing"),
        ('"chunks": [2]', '"chunks": [0]', "its chunks is missing"),
        ('"order": "C"', '"order": "Z"', "its order is 'Z'"),
        ('"compressor": null', '"compressor": 7', "have no id"),
        ("chunk_block_map: 1", "store: {path: /etc}", "outside of this file"),
    ],
)
def test_wrong_descriptions_are_not_shown(tmp_path: Path, old: str, new: str, words: str) -> None:
    raw = zarr_file(np.arange(2, dtype="<i4"), Zarr((2,)))
    assert old.encode() in raw
    path = tmp_path / "z.asdf"
    path.write_bytes(raw.replace(old.encode(), new.encode()))
    with library.open(path) as document:
        assert list(document.arrays) == []
        assert [words in one.reason for one in find_unshown(document)] == [True]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (struct.pack("<i", 5), "leads to block 5, which the file does not have"),
        (struct.pack("<i", -2), "leads to block -2"),
        (b"", "has 0 bytes; 4 are needed"),
        (struct.pack("<2i", 0, 0), "has 8 bytes; 4 are needed"),
    ],
)
def test_wrong_tables(tmp_path: Path, table: bytes, words: str) -> None:
    text, blocks = zarr_parts(np.arange(2, dtype="<i4"), Zarr((2,)))
    path = tmp_path / "z.asdf"
    path.write_bytes(tree_file(f"z: {text}\n", [block_bytes(blocks[0]), block_bytes(table)]))
    with library.open(path) as document, pytest.raises(InvalidArrayError, match=words):
        document.arrays["z"][...]


def test_a_missing_library_is_named_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "is_installed", lambda library: library != "blosc")
    with stored(tmp_path / "z.asdf", VALUES, ABOUT) as document:
        with pytest.raises(InvalidArrayError, match="need blosc, which is not installed"):
            document.arrays["z"][...]
        (unshown,) = find_unshown(document)
        reason = "its chunks need blosc, which is not installed: pip install 'asdffs[zarr]'"
        assert (unshown.shape, unshown.reason) == ((7, 10, 5), reason)


@pytest.mark.mount
def test_in_a_mount(tmp_path: Path) -> None:
    path = tmp_path / "z.asdf"
    text, blocks = zarr_parts(VALUES, Zarr((3, 4, 5)))
    path.write_bytes(tree_file(f"a:\n  z: {text}\n", list(map(block_bytes, blocks))))
    with mounted(path) as mount:
        shown = mount.point / "arrays/a/z.npy"
        assert np.array_equal(np.load(shown), VALUES)
        assert np.array_equal(np.load(shown, mmap_mode="r")[::3, 2], VALUES[::3, 2])
        assert json.loads((mount.point / ".asdffs/arrays.json").read_text()) == []
        with pytest.raises(PermissionError), shown.open("r+b") as file:
            file.write(b"x")
        before = shown.stat().st_mtime_ns
        with mount.block(0).open("r+b") as file:  # a chunk that is written is read anew
            file.write(struct.pack("<f", 77))
        assert np.load(shown)[0, 0, 0] == 77
        assert shown.stat().st_mtime_ns > before
    assert asdffs("check", path, environment=environment_in(tmp_path)).returncode == 0


def test_check_tells_of_wrong_chunks(tmp_path: Path) -> None:
    text, blocks = zarr_parts(np.arange(2, dtype="<i4"), Zarr((2,), fill="many"))
    path = tmp_path / "z.asdf"
    path.write_bytes(tree_file(f"z: {text}\n", list(map(block_bytes, blocks))))
    done = asdffs("check", path, environment=environment_in(tmp_path))
    assert (done.returncode, "z: its fill_value 'many' does not fit its dtype" in done.stdout) == (4, True)
