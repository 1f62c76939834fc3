"""``asdffs.open``: what programs do with a document, beside numpy and the asdf library as witnesses."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import asdf
import numpy as np
import pytest
from support.arrays import tree_file
from support.mounts import LIMIT

import asdffs
from asdffs.codecs.base import Readable
from asdffs.document.block import Block
from asdffs.errors import (
    InUseError,
    InvalidArrayError,
    InvalidTreeError,
    LockedError,
    MissingFileError,
    NotPermittedError,
    ReadOnlyError,
    StaleFileError,
    TreeChangedError,
)

CUBE = np.arange(5 * 6 * 7, dtype=">i4").reshape(5, 6, 7)
COLUMNS = np.asfortranarray(np.arange(12.0).reshape(3, 4))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    records = np.array([(1, 2.5, b"ab"), (2, 3.5, b"cd")], [("n", "<i2"), ("x", "<f8"), ("s", "S2")])
    tree = {
        "observer": "Ada",
        "cube": CUBE,
        "part": CUBE[1:4, ::2, 1:6:2],
        "columns": COLUMNS,
        "deep": {"list": [np.float32([1, 2, 3]), np.zeros((0, 3))], "odd/name": np.uint8([[1, 2], [3, 4]])},
        "records": records,
        "number": np.array(7.5),
    }
    found = tmp_path / "data.asdf"
    with asdf.config_context() as config:
        config.default_array_save_base = True  # ``part`` is a strided view of ``cube``'s block
        asdf.AsdfFile(tree).write_to(found)
    return found


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    found = tmp_path / "packed.asdf"
    asdf.AsdfFile({"cube": CUBE}).write_to(found, all_array_compression="zlib")
    return found


def by_asdf(path: Path, key: str = "cube") -> np.ndarray:
    with asdf.open(path, validate_checksums=True, memmap=False) as opened:
        return np.array(opened[key])


SELECTIONS = [
    np.s_[...],
    np.s_[:],
    np.s_[()],
    np.s_[2],
    np.s_[-1, 3],
    np.s_[1, 2, 3],
    np.s_[1, 2, 3, ...],
    np.s_[np.int64(1), :, 3],
    np.s_[::2, 1:5:3, ::-1],
    np.s_[::-1],
    np.s_[4:1],
    np.s_[..., 2],
    np.s_[1:3, ..., 4:],
    np.s_[None, 1],
    np.s_[:, None, 2:4],
    np.s_[[0, 3]],
    np.s_[1, :, [0, 2]],
    np.s_[CUBE > 100],
    np.s_[np.array([True, False, True, False, True])],
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(SELECTIONS)))
@pytest.mark.parametrize("kind", ["cube", "part", "packed"])
def test_a_selection_is_numpys(path: Path, packed: Path, kind: str, number: int) -> None:
    selection = SELECTIONS[number]
    whole = CUBE[1:4, ::2, 1:6:2] if kind == "part" else CUBE
    with asdffs.open(packed if kind == "packed" else path) as document:
        array = document.arrays["part" if kind == "part" else "cube"]
        try:
            expected = whole[selection]
        except IndexError:
            with pytest.raises(IndexError):
                array[selection]
            return
        found = array[selection]
        assert type(found) is type(expected)
        assert np.array_equal(found, expected)
        assert found.dtype == expected.dtype
        assert not isinstance(found, np.ndarray) or found.flags.writeable, "it is the caller's own"


def test_random_selections_and_assignments(path: Path, packed: Path) -> None:
    chance = random.Random(5)

    def key(length: int) -> int | slice:
        if chance.random() < 0.4:
            return chance.randrange(-length, length)
        ends = [chance.choice([None, chance.randrange(-length - 2, length + 3)]) for _ in range(2)]
        return slice(*ends, chance.choice([None, 1, 2, 3, -1, -2]))

    for name in (path, packed):
        model = CUBE.copy()
        with asdffs.open(name, "r+") as document:
            array = document.arrays["cube"]
            for _ in range(200):
                selection = tuple(key(length) for length in CUBE.shape[: chance.randrange(4)])
                assert np.array_equal(array[selection], model[selection]), selection
                value = chance.randrange(-(1 << 31), 1 << 31)
                wanted = np.arange(model[selection].size).reshape(model[selection].shape) + value % 1000
                array[selection] = model[selection] = chance.choice([value, wanted])
                assert np.array_equal(array[...], model), selection
        assert np.array_equal(by_asdf(name), model)


def test_every_kind_of_array(path: Path) -> None:
    with asdffs.open(path) as document, asdf.open(path) as opened:
        arrays = document.arrays
        deep = ["deep/list/0", "deep/list/1", "deep/odd%2Fname"]
        assert sorted(arrays) == ["columns", "cube", *deep, "number", "part", "records"]
        assert len(arrays) == 8
        assert "deep/list/0" in arrays
        assert "deep/list" not in arrays
        assert "deep/list/2" not in arrays
        assert arrays["columns"].mapped().flags.f_contiguous
        for name, array in arrays.items():
            found = opened.tree
            for part in name.split("/"):
                found = found[int(part)] if part.isdigit() else found[part.replace("%2F", "/")]
            assert np.array_equal(np.asarray(array), found)
            assert np.array_equal(array.mapped(), found)
            assert (array.shape, array.dtype, array.ndim) == (found.shape, found.dtype, found.ndim)
            assert (array.size, array.nbytes) == (found.size, found.size * found.dtype.itemsize)
        assert arrays["number"][()] == 7.5
        assert [len(row) for row in arrays["columns"]] == [4, 4, 4]
        assert np.asarray(arrays["cube"], dtype="f8").dtype == "f8"
        assert float(np.asarray(arrays["columns"]).sum()) == COLUMNS.sum()
        with pytest.raises(TypeError, match="without axes"):
            len(arrays["number"])
        with pytest.raises(ValueError, match="mapped"):
            np.asarray(arrays["cube"], copy=False) if np.__version__ >= "2" else arrays["cube"].__array__(copy=False)
        with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
            arrays["cube"][5]
        assert repr(arrays["cube"]) == f"<array (5, 6, 7) >i4 of {path}>"
        assert repr(document.blocks[0]) == f"<block 0 of {path}>"


def test_masks_and_inline(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(
        b"#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
        b"a: !core/ndarray-1.0.0 {data: [[1, 2], [3, -1]], mask: -1}\nb: &b !core/ndarray-1.0.0 [1.5]\nc: *b\n"
        b"bad: !core/ndarray-1.0.0 {source: 3, datatype: int8, shape: [2]}\n...\n"
    )
    with asdffs.open(path) as document:
        assert document.arrays["a/mask"][...].tolist() == [[False, False], [False, True]]
        assert document.arrays["c"][0] == 1.5
        assert document.arrays["a"][:, 1].tolist() == [2, -1]
        assert not document.arrays["a"].writable
        with pytest.raises(InvalidArrayError, match="line 8: its source is 3, and the file has 0 blocks"):
            document.arrays["bad"][...]
        assert "its source is 3" in repr(document.arrays["bad"])


def test_an_edit_and_a_commit(path: Path) -> None:
    before = path.stat().st_size
    with asdffs.open(path, "r+") as document:
        assert isinstance(document, asdffs.Document)
        array = document.arrays["cube"]
        document.tree_text = document.tree_text.replace("Ada", "Grace\n# with a comment")
        assert "Grace" in document.tree_text
        assert b"Ada" in path.read_bytes(), "not before the commit"
        document.commit()
        assert b"Grace\n# with a comment" in path.read_bytes()
        array[0, 0] = 99
        array[1] += 1
    expected = CUBE.copy()
    expected[0, 0] = 99
    expected[1] += 1
    assert np.array_equal(by_asdf(path), expected)
    assert path.stat().st_size - before <= 8192
    assert [name.name for name in path.parent.iterdir() if name.name.startswith(".")] == []


def test_a_wrong_text_changes_nothing_and_is_still_there(path: Path) -> None:
    before = path.read_bytes()
    with asdffs.open(path, "r+") as document:
        document.tree_text = document.tree_text.replace("observer: Ada", "observer: [Ada")
        with pytest.raises(InvalidTreeError, match="line"):
            document.commit()
        assert "[Ada" in document.tree_text
        assert path.read_bytes() == before
        document.tree_text = document.tree_text.replace("[Ada", "[Ada]")
    assert b"observer: [Ada]" in path.read_bytes()


def test_an_exception_drops_the_text_and_completes_the_blocks(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), asdffs.open(path, "r+") as document:  # noqa: PT012
        document.arrays["cube"][0, 0, 0] = 5
        document.tree_text = document.tree_text.replace("Ada", "Grace")
        raise ZeroDivisionError
    assert b"Ada" in path.read_bytes()
    assert by_asdf(path)[0, 0, 0] == 5


def test_blocks(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        blocks = document.blocks
        block = blocks[0]
        assert (block.number, block.size, block.compression) == (0, CUBE.nbytes, "none")
        assert block.read_at(4, 8) == CUBE.tobytes()[4:12]
        assert bytes(block.buffer()) == CUBE.tobytes()
        assert [found.number for found in blocks[-2:]] == [len(blocks) - 2, len(blocks) - 1]
        with pytest.raises(IndexError):
            blocks[99]
        block.write_at(0, b"\0\0\0\7")
        block.set_compression("zlib")
        assert block.compression == "zlib"
        assert block.facts()["data_size"] == CUBE.nbytes
        assert block.read_at(0, 4) == b"\0\0\0\7"
        block.replace(CUBE[::-1].tobytes())
        new = blocks.add(b"appended" * 100)
        assert new.number == len(blocks) - 1
        new.truncate(8)
        assert new.read_at(0, 100) == b"appended"
        new.remove()
        with pytest.raises(InUseError, match="only the last block"):
            block.remove()
    assert np.array_equal(by_asdf(path), CUBE[::-1])


def test_an_array_that_has_no_place_of_its_own_is_not_assigned_to(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        assert not document.arrays["part"].writable
        with pytest.raises(NotPermittedError, match="no single place"):
            document.arrays["part"][0] = 1
        with pytest.raises(IndexError, match="only integers, slices"):
            document.arrays["cube"][[1, 2]] = 1
        with pytest.raises(ValueError, match="broadcast"):
            document.arrays["cube"][0] = [1, 2]
        array, unseen = document.arrays["cube"], document.arrays["cube"]
        assert array.shape == CUBE.shape
        document.tree_text = document.tree_text.replace("cube:", "renamed:")
        document.commit()
        for gone in (array, unseen):
            with pytest.raises(InvalidArrayError, match="no such array any more"):
                gone[0] = 1
        assert document.arrays["renamed"][0, 0, 1] == 1
    with asdffs.open(path) as document:
        assert not document.arrays["renamed"].writable
        with pytest.raises(ReadOnlyError):
            document.arrays["renamed"][0] = 1
    assert np.array_equal(by_asdf(path, "renamed"), CUBE)


def test_maps_are_live_and_keep_blocks_where_they_are(path: Path, packed: Path) -> None:
    with asdffs.open(path, "r+") as document:
        view = document.arrays["cube"].mapped()
        assert not view.flags.writeable
        document.arrays["cube"][0, 0, 0] = 77
        assert view[0, 0, 0] == 77
        part = view[1, 2]
        del view
        longer = document.tree_text.replace("observer: Ada", "observer: " + "Ada" * 5000)
        document.tree_text = longer
        for work in (
            document.commit,
            lambda: document.blocks[0].set_compression("zlib"),
            lambda: document.blocks[0].truncate(4),
            lambda: document.blocks[0].replace(b""),
        ):
            with pytest.raises(InUseError, match=r"block 0: .*mapped.*delete all references"):
                work()
        assert np.array_equal(part, CUBE[1, 2])
        del part
        gc.collect()
        document.commit()
        with document.blocks[0].buffer() as buffer:
            assert buffer[:4] == b"\0\0\0\x4d"
        document.blocks[0].set_compression("zlib")
    with asdffs.open(packed) as document:
        assert np.array_equal(document.arrays["cube"].mapped(), CUBE)
        assert bytes(document.blocks[0].buffer()) == CUBE.tobytes()


def test_another_programs_change_is_followed(path: Path) -> None:
    with asdffs.open(path) as reader:
        array = reader.arrays["cube"]
        assert array[0, 0, 1] == 1
        with asdffs.open(path, "r+") as writer:
            writer.tree_text = writer.tree_text.replace("observer: Ada", "observer: " + "Ada" * 5000)
            writer.commit()
            writer.arrays["cube"][0, 0, 1] = 1000
            assert array[0, 0, 1] == 1000
            assert "AdaAda" in reader.tree_text
        asdf.AsdfFile({"cube": CUBE[:, :2] * 2}).write_to(path)
        assert array.shape == (5, 2, 7)
        assert np.array_equal(array[...], CUBE[:, :2] * 2)
        path.unlink()
        assert array[1, 1, 1] == CUBE[1, 1, 1] * 2, "as long as it is open"


def test_nothing_is_written_over_another_programs_change(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        text = document.tree_text
        raw = path.read_bytes().replace(b"Ada", b"Eve")
        path.write_bytes(raw)
        document.tree_text = text.replace("Ada", "Grace")
        with pytest.raises(StaleFileError, match="read tree_text again"):
            document.commit()
        document.tree_text = document.tree_text.replace("Eve", "Eva")
    assert path.read_bytes().count(b"Eva") == 1
    with pytest.raises(StaleFileError), asdffs.open(path, "r+") as document:  # noqa: PT012
        document.arrays["cube"][0] = 3
        path.write_bytes(raw)
        document.arrays["cube"][1] = 3
    assert path.read_bytes() == raw


def test_refusals(path: Path) -> None:
    with pytest.raises(MissingFileError, match="missing.asdf"):
        asdffs.open(path.parent / "missing.asdf")
    with pytest.raises(ValueError, match="'r' or 'r\\+'"):
        asdffs.open(path, "w")  # type: ignore[arg-type]
    with (
        asdffs.open(path, "r+"),
        pytest.raises(LockedError, match="this process has it open for writing; close it there"),
    ):
        asdffs.open(path, "r+")
    with asdffs.open(path) as document, pytest.raises(ReadOnlyError):  # noqa: PT012
        document.tree_text = document.tree_text.replace("Ada", "Grace")
        document.commit()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        asdffs.nothing  # noqa: B018


@pytest.mark.long
@pytest.mark.parametrize("compression", ["none", "zlib"])
def test_threads_take_turns(tmp_path: Path, compression: str) -> None:
    whole = np.arange(1 << 19, dtype="<i8").reshape(256, -1)
    path = tmp_path / "data.asdf"
    kind = {} if compression == "none" else {"all_array_compression": compression}
    asdf.AsdfFile({"a": whole, "b": whole.copy()}).write_to(path, **kind)
    faults: list[BaseException] = []

    def read(document: asdffs.Document, seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(60 if os.environ.get("ASDFFS_DEEP") else 15):
                row = chance.randrange(256)
                assert np.array_equal(document.arrays["a"][row], whole[row])
                document.arrays["b"][row, seed::8] = -seed
        except BaseException as err:  # noqa: BLE001  # of a thread: told by the test
            faults.append(err)

    with asdffs.open(path, "r+") as document:
        threads = [threading.Thread(target=read, args=(document, seed)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        found = document.arrays["b"][...]
    for seed in range(8):
        column = found[:, seed::8]
        rows = (column == -seed).all(axis=1) if seed else np.zeros(256, bool)
        assert ((column == whole[:, seed::8]).all(axis=1) | rows).all() if seed else True
    assert np.array_equal(by_asdf(path, "b"), found)


@pytest.mark.long
def test_dask_reads_it(path: Path) -> None:
    import dask.array

    with asdffs.open(path) as document:
        lazy = dask.array.from_array(document.arrays["cube"], chunks=(2, 3, 4))
        assert int(lazy.sum().compute()) == int(CUBE.sum())


def test_a_killed_program_leaves_what_the_next_one_finishes(path: Path) -> None:
    program = (
        "import asdffs, os, sys\n"
        "document = asdffs.open(sys.argv[1], 'r+')\n"
        "document.arrays['cube'][0] = 5\n"
        "document.tree_text = document.tree_text.replace('Ada', 'Grace' * 3000)\n"
        "document.commit()\n"
        "document.arrays['cube'][1] = 6\n"
        "os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, path], check=False).returncode == 9
    with asdffs.open(path, "r+") as document:
        assert "GraceGrace" in document.tree_text
        assert (document.arrays["cube"][:2, 0, 0] == [5, 6]).all()
        document.commit()
    assert (by_asdf(path)[0] == 5).all()
    assert [name for name in os.listdir(path.parent) if name.startswith(".")] == []


def test_importing_it_imports_nothing_else() -> None:
    program = "import sys, asdffs; print([m for m in sys.modules if m.startswith(('numpy', 'yaml', 'asdffs.'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_regression_items_were_counted_as_bytes(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        before = [bytes(block.buffer()) for block in document.blocks]
        document.blocks[0].write_at(8, np.full(5, -1, "i8").data)
        document.blocks[0].write_at(100, np.full((2, 2), 7, "i2"))
        assert document.blocks[0].size == CUBE.nbytes
        after = [bytes(block.buffer()) for block in document.blocks]
    assert after[0][8:48] == b"\xff" * 40
    assert after[0][100:108] == np.full(4, 7, "i2").tobytes()
    assert after[1:] == before[1:]


def test_regression_places_that_are_none_were_written_to(path: Path, packed: Path) -> None:
    for name in (path, packed):
        raw = name.read_bytes()
        with asdffs.open(name, "r+") as document:
            block = document.blocks[0]
            for work in (
                lambda block=block: block.write_at(-70, b"X"),
                lambda block=block: block.read_at(-54, 54),
                lambda block=block: block.read_at(0, -1),
                lambda block=block: block.truncate(-1),
                lambda block=block: block.truncate(1 << 63),
                lambda block=block: block.reserve(-5),
                lambda block=block: block.write_at((1 << 63) - 1, b"xx"),
            ):
                with pytest.raises(ValueError, match="bytes at|is not a valid offset or size"):
                    work()
            assert document.blocks[len(document.blocks) - 1].read_at(1 << 40, 5) == b""
        assert name.read_bytes() == raw


def run_together(*works: object, times: int = 30) -> None:
    """Each in a thread of its own, over and over; none may fail."""
    faults: list[BaseException] = []

    def over_and_over(work: object) -> None:
        try:
            for _ in range(times):
                work()  # type: ignore[operator]
        except BaseException as err:  # noqa: BLE001  # of a thread: told by the test
            faults.append(err)

    threads = [threading.Thread(target=over_and_over, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert faults == []


def test_regression_threads_that_only_looked_broke_the_turn(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        numbers = iter(range(10_000))

        def grow() -> None:
            text = f"x: {'a' * (9000 * (next(numbers) % 7))}\n...\n"
            document.tree_text = document.tree_text.partition("x: ")[0].removesuffix("...\n") + text
            document.commit()

        def look() -> None:
            block = document.blocks[0]
            assert (block.size, block.compression, block.header.flags) == (CUBE.nbytes, "none", 0)
            assert block.find_checksum_fault() == ""
            assert document.tree_text.endswith("...\n")
            assert np.array_equal(document.arrays["cube"][1], CUBE[1])

        run_together(grow, look, look)


def test_regression_a_map_taken_during_a_change_showed_other_bytes(tmp_path: Path) -> None:
    whole = np.arange(1 << 20)
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": whole, "b": whole + 1}).write_to(path)
    names = iter(["zlib", "none"] * 10)
    with asdffs.open(path, "r+") as document:

        def recompress() -> None:
            with contextlib.suppress(InUseError):
                document.blocks[0].set_compression(next(names))

        def look() -> None:
            assert np.array_equal(document.arrays["a"].mapped()[::1000], whole[::1000])

        run_together(recompress, look, look, times=6)


def test_regression_a_failed_add_took_another_ones_block(path: Path) -> None:
    entered, failed = threading.Event(), threading.Event()

    def read(offset: int, length: int) -> bytes:
        entered.set()
        raise OSError(5, "gone")

    with asdffs.open(path, "r+") as document:
        count = len(document.blocks)

        def add() -> None:
            with pytest.raises(OSError, match="gone"):
                document.blocks.add(Readable(100, read))
            failed.set()

        thread = threading.Thread(target=add)
        thread.start()
        assert entered.wait(LIMIT)
        new = document.blocks.add(b"precious" * 100)
        thread.join(LIMIT)
        assert failed.is_set()
        assert (new.number, len(document.blocks), new.read_at(0, 8)) == (count, count + 1, b"precious")


@pytest.mark.parametrize("compression", ["none", "zlib"])
def test_regression_a_refused_text_lost_the_blocks(path: Path, packed: Path, compression: str) -> None:
    name = packed if compression == "zlib" else path
    with pytest.raises(InvalidTreeError), asdffs.open(name, "r+") as document:  # noqa: PT012
        document.arrays["cube"][0] = 77
        document.tree_text = document.tree_text.replace("cube:", "cube: [")
    assert (by_asdf(name)[0] == 77).all()


def test_regression_a_text_that_was_never_read_was_written_over_a_change(path: Path) -> None:
    raw = path.read_bytes()
    text = raw[: raw.index(b"\n...\n") + 5].decode()
    document = asdffs.open(path, "r+")
    document.tree_text = text.replace("Ada", "Grace")
    path.write_bytes(raw.replace(b"Ada", b"Eve"))
    with pytest.raises(StaleFileError, match=f"{path}: another program changed it since"):
        document.commit()
    assert "Eve" in document.tree_text
    document.close()
    assert b"Eve" in path.read_bytes()


@pytest.mark.long
def test_regression_a_value_computed_of_the_same_file_waited_for_ever(path: Path) -> None:
    import dask.array

    with asdffs.open(path, "r+") as document:
        array = document.arrays["cube"]
        lazy = dask.array.from_array(array, chunks=(2, 3, 4))
        array[...] = lazy + 1
        assert np.array_equal(array[...], CUBE + 1)
        array[1:] = array[:-1]
        expected = CUBE + 1
        expected[1:] = expected[:-1].copy()
        assert np.array_equal(array[...], expected)
        array[0] = np.zeros((1, 1, 6, 7), "i4")
        assert not array[0].any()
        view = array.mapped()
        array[::-1] = view
        expected[0] = 0
        assert np.array_equal(array[...], expected[::-1])


def test_regression_elements_without_bytes(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": np.arange(3, dtype="u1")}).write_to(path)
    path.write_bytes(path.read_bytes().replace(b"datatype: uint8", b"datatype: [ascii, 0]"))
    with asdffs.open(path, "r+") as document:
        assert document.arrays["a"][...].tobytes().strip(b"\0") == b""
        document.arrays["a"][...] = b""
    assert path.read_bytes().count(bytes(range(3))) == 1


def test_regression_what_programs_do_after_the_end(path: Path) -> None:
    document = asdffs.open(path, "r+")
    array, view = document.arrays["cube"], document.arrays["cube"].mapped()
    document.close()
    document.close()
    for work in (lambda: array[0], lambda: document.tree_text, document.commit, lambda: document.blocks[0]):
        with pytest.raises(ValueError, match="is closed"):
            work()
    with asdffs.open(path, "r+"):  # a map does not keep the lock
        assert view[0, 0, 1] == 1
    with asdffs.open(path) as document, pytest.raises(ReadOnlyError, match="mode 'r\\+'"):
        document.tree_text = "nonsense"


def test_regression_a_fork_closed_the_file_of_its_parent(path: Path) -> None:
    program = (
        "import asdffs, os, sys\n"
        "with asdffs.open(sys.argv[1], 'r+') as document:\n"
        "    document.arrays['cube'][0] = 5\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        try:\n"
        "            document.commit()\n"
        "        except ValueError as err:\n"
        "            print(err, flush=True)\n"
        "        document.close()\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "    document.tree_text = document.tree_text.replace('Ada', 'Grace' * 3000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "opened by another process" in done.stdout
    assert (by_asdf(path)[0] == 5).all()
    assert b"GraceGrace" in path.read_bytes()


def test_regression_a_change_that_met_none_of_ours_was_an_error_at_the_end(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        document.arrays["cube"][0] = 5
        document.commit()
        path.write_bytes(path.read_bytes().replace(b"Ada", b"Eve"))
    assert b"Eve" in path.read_bytes()


def test_columns_first_is_as_quick_as_rows_first(tmp_path: Path) -> None:
    """One read, and one write: counted, not timed."""
    whole = np.asfortranarray(np.arange(600_000.0).reshape(600, 1000))
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": whole}).write_to(path)
    writes: list[int] = []
    with asdffs.open(path, "r+") as document:
        array = document.arrays["a"]
        assert np.array_equal(array[:, 3:7], whole[:, 3:7])
        real = Block.write_at
        with mock.patch.object(Block, "write_at", lambda *a: (writes.append(len(a[2])), real(*a))[1]):
            array[:, 3:7] = 2.0
            array[...] = whole + 1
        assert writes == [600 * 4 * 8, whole.nbytes]
    assert np.array_equal(by_asdf(path, "a"), whole + 1)


def test_readers_beside_a_writer_of_another_process(tmp_path: Path) -> None:
    """What moves while it is read is read again."""
    path = tmp_path / "data.asdf"
    whole = np.arange(1 << 16)
    asdf.AsdfFile({"x": "a", "data": whole}).write_to(path)
    program = (
        "import asdffs, re, sys\n"
        "for n in range(40):\n"
        "    with asdffs.open(sys.argv[1], 'r+') as document:\n"
        "        text = re.sub('x: a+', 'x: ' + 'a' * (1 + 9000 * (n % 5)), document.tree_text)\n"
        "        document.tree_text = text\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, path]) as writer, asdffs.open(path) as document:
        while writer.poll() is None:
            assert np.array_equal(document.arrays["data"][::7], whole[::7])
            assert document.arrays["data"][5] == 5
            assert len(document.blocks) == 1
    assert writer.returncode == 0


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("a: ARRAY\na: ARRAY\n", ["a"]),
        ("a: ARRAY\na: 5\n", []),
        ("a: {x: ARRAY}\na: {y: ARRAY}\n", ["a/y"]),
        ("b: {y: ARRAY}\na: {x: ARRAY, $ref: '#/b'}\n", ["b/y"]),
        ("a: {<<: {x: ARRAY}}\n", ["a/x"]),
    ],
)
def test_regression_arrays_were_listed_that_are_not_there(tmp_path: Path, body: str, paths: list[str]) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(tree_file(body.replace("ARRAY", "!core/ndarray-1.0.0 [1, 2]"), []))
    with asdffs.open(path) as document:
        assert (list(document.arrays), len(document.arrays)) == (paths, len(paths))
        assert [array[...].tolist() for array in document.arrays.values()] == [[1, 2]] * len(paths)


def test_odd_places_in_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(b"#ASDF 1.0.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/ndarray-1.0.0> [1, 2]\n...\n")
    with asdffs.open(path) as document:
        assert [array[...].tolist() for array in document.arrays.values()] == [[1, 2]]
        assert list(document.arrays) == [""]
    path.write_bytes(b"#ASDF 1.0.0\n%YAML 1.1\n--- [\n...\n")
    with asdffs.open(path) as document:
        assert list(document.arrays) == []
        with pytest.raises(KeyError, match="'a'"):
            document.arrays["a"]
        assert document.blocks[:] == []
    asdf.AsdfFile({"a": np.zeros(0)}).write_to(path)
    with asdffs.open(path) as document:
        assert bytes(document.blocks[0].buffer()) == b""
        assert document.blocks[0] == document.blocks[0]
        assert document.blocks[0] in document.blocks


def test_several_blocks_by_one_change(tmp_path: Path) -> None:
    path = tmp_path / "f.asdf"
    asdf.AsdfFile({"data": np.arange(100), "mask": np.zeros(40), "value": 1}).write_to(path)
    with asdffs.open(path, "r+") as document:
        added = document.blocks.append_sized([(5, 5), (0, 0), (7, 100)])
        assert [block.number for block in added] == [2, 3, 4]
        assert [block.size for block in added] == [5, 0, 7]
        assert [block.header.allocated_size for block in added] == [5, 0, 100]
        assert added[2].read_at(0, 9) == bytes(7)
        added[0].write_at(0, b"first")
        assert document.blocks.append_sized([]) == []
        document.commit()
    with asdffs.open(path, "r+") as document:
        assert document.blocks[2].read_at(0, 9) == b"first"
        assert document.blocks[4].find_checksum_fault() == ""
        with pytest.raises(InUseError, match="has source 1"):
            document.blocks.clear([1, 2])
        document.blocks.clear([2, 4])
        assert [document.blocks[number].size for number in (2, 4)] == [0, 0]
        assert document.blocks[2].header.allocated_size == 5
        document.commit()
    with asdf.open(path) as file:
        assert file["data"].tolist() == list(range(100))


def test_a_tree_is_committed_over_the_one_it_was_made_of(tmp_path: Path) -> None:
    path = tmp_path / "f.asdf"
    asdf.AsdfFile({"data": np.arange(100), "mask": np.zeros(40), "value": 1}).write_to(path)
    with asdffs.open(path, "r+") as document:
        text, version = document.tree.text(), document.tree.version
        document.commit_tree(text.replace(b"value: 1", b"value: 2"), over=version)
        with pytest.raises(TreeChangedError, match="changed meanwhile"):
            document.commit_tree(text.replace(b"value: 1", b"value: 3"), over=version)
        assert b"value: 2" in document.tree.text()
