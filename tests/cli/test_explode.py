"""``asdffs explode`` and ``implode``: the identity, the asdf library and asdftool on both sides, and refusals."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import asdf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.arrays import tree_file
from support.commands import Call, command
from support.filesystems import KINDS, filesystem
from support.mounts import asdffs, environment_in, run
from support.samples import DATA, MASK, ODD_FILES, block_bytes, header_bytes, odd_file, opened, put, zlib_block

from asdffs.cli.main import main
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.storage import linux_calls
from asdffs.storage.file_backend import FileFolder
from asdffs.workflows.exploded_files import explode
from asdffs.workflows.imploding import read_exploded


def contents(path: Path) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The text, and of each block its compression and stored bytes."""
    document = open_document(str(path), writable=False)
    blocks = [stored(document, number) for number in range(len(document.blocks))]
    found = document.tree.text(), blocks
    document.close()
    return found


def stored(document: Document, number: int) -> tuple[bytes, bytes]:
    return document.blocks[number].header.compression, document.blocks[number].read_stored(0, 1 << 30)


@pytest.mark.parametrize("name", ODD_FILES)
def test_identity(tmp_path: Path, call: Call, name: str) -> None:
    path = put(tmp_path, ODD_FILES[name])
    assert call("explode", path, tmp_path / "parts").code == 0
    assert path.read_bytes() == ODD_FILES[name]
    done = call("implode", tmp_path / "parts/data.asdf", tmp_path / "out.asdf", "--json")
    assert done.code == 0, done.err
    assert contents(tmp_path / "out.asdf") == contents(path)
    assert done.json == {"file": str(tmp_path / "out.asdf"), "blocks": len(contents(path)[1]), "remote": []}
    assert call("check", tmp_path / "out.asdf").code == call("check", path).code % 9  # a wrong index is right now
    names = sorted(found.name for found in (tmp_path / "parts").iterdir())
    assert names == ["data.asdf", *(f"data{number:04d}.asdf" for number in range(done.json["blocks"]))]


@given(
    sizes=st.lists(st.integers(0, 9000), min_size=1, max_size=5),
    order=st.lists(st.integers(-5, 4), max_size=8),
    stem=st.text(
        st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="/\x7f"), min_size=1, max_size=20
    ),
)
def test_identity_of_any_blocks(tmp_path_factory: pytest.TempPathFactory, sizes, order, stem) -> None:
    folder = tmp_path_factory.mktemp("any")
    sources = [number % len(sizes) for number in order]
    lines = "".join(
        f"a{n}: !core/ndarray-1.0.0 {{source: {source}, shape: []}}\n" for n, source in enumerate(sources)
    )
    tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n" + lines + "...\n"
    blocks = [(zlib_block if n % 2 else block_bytes)(os.urandom(size)) for n, size in enumerate(sizes)]
    path = folder / f"{stem}.asdf"
    path.write_bytes(odd_file(tree=tree, blocks=blocks))
    document = open_document(str(path), writable=False)
    (folder / "parts").mkdir()
    names = explode(document, FileFolder(str(folder / "parts")), "s", mode=0o644)
    document.close()
    assert len(names) == len(sizes) + 1
    exploded = read_exploded(str(folder / "parts" / "s.asdf"))
    assert (exploded.text, [piece.length for piece in exploded.pieces]) == (
        contents(path)[0],
        [len(content) for _, content in contents(path)[1]],
    )
    shutil.rmtree(folder)


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A file by the asdf library: plain, compressed, masked, inline, shared, tables."""
    data = np.arange(600, dtype=">f4").reshape(20, 30)
    table = np.array([(1, 2.5, b"one"), (2, 3.5, b"two")], dtype=[("n", "<i4"), ("x", "<f8"), ("s", "S3")])
    tree = {"data": data, "view": data[3:7], "z": np.arange(5000), "t": table, "small": np.arange(3)}
    file = asdf.AsdfFile(tree)
    file.set_array_compression(tree["z"], "zlib")
    file.set_array_storage(tree["small"], "inline")
    path = tmp_path / "real.asdf"
    file.write_to(path)
    return path


def check_real(path: Path) -> None:
    with asdf.open(path, validate_checksums=True, lazy_load=False, memmap=False) as found:
        assert found["data"].sum() == 179700
        assert found["view"][0, 0] == 90
        assert np.array_equal(found["z"], np.arange(5000))
        assert found["t"]["s"][1] == b"two"
        assert list(found["small"]) == [0, 1, 2]


def test_the_library_opens_what_is_exploded_and_imploded(tmp_path: Path, call: Call, real: Path) -> None:
    assert call("explode", real, tmp_path / "parts").out == (
        f"{tmp_path}/parts/real.asdf, and 4 blocks from {tmp_path}/parts/real0000.asdf\n"
    )
    check_real(tmp_path / "parts/real.asdf")
    assert (
        call("implode", tmp_path / "parts/real.asdf", tmp_path / "out.asdf").out == f"{tmp_path}/out.asdf: 4 blocks\n"
    )
    check_real(tmp_path / "out.asdf")


def test_asdftool_implodes_what_we_explode_and_the_reverse(tmp_path: Path, call: Call, real: Path) -> None:
    call("explode", real, tmp_path / "ours")
    tool = Path(run("which", "asdftool").stdout.strip() or Path(sys.executable).with_name("asdftool"))
    done = run(tool, "implode", "-o", tmp_path / "by-tool.asdf", tmp_path / "ours/real.asdf")
    assert done.returncode == 0, done.stderr
    check_real(tmp_path / "by-tool.asdf")
    done = run(tool, "explode", "-o", tmp_path / "theirs.asdf", real)
    assert done.returncode == 0, done.stderr
    assert call("implode", tmp_path / "theirs.asdf", tmp_path / "by-us.asdf").code == 0
    check_real(tmp_path / "by-us.asdf")


def test_blocks_of_the_main_file_and_files_elsewhere_become_blocks(tmp_path: Path, call: Call) -> None:
    (tmp_path / "parts/more stuff").mkdir(parents=True)
    other = odd_file(tree=None, comments="", blocks=[block_bytes(b"other" * 30)], index="absent")
    (tmp_path / "parts/more stuff/x.asdf").write_bytes(other)
    tree = (
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\nvalue: 1\n"
        "own: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [100]}\n"
        "far: !core/ndarray-1.0.0 {source: 'more%20stuff/x.asdf', datatype: uint8, byteorder: big, shape: [150]}\n"
        "again: !core/ndarray-1.0.0 {source: more%20stuff/x.asdf, datatype: uint8, byteorder: big, shape: [3]}\n"
        "web: !core/ndarray-1.0.0 {source: 'http://localhost/a.asdf', datatype: uint8, byteorder: big, shape: [3]}\n"
        "...\n"
    )
    (tmp_path / "parts/main.asdf").write_bytes(odd_file(tree=tree, blocks=[block_bytes(DATA)]))
    done = call("implode", tmp_path / "parts/main.asdf", tmp_path / "out.asdf", "--json")
    assert done.json["remote"] == ["http://localhost/a.asdf"]
    assert "http://localhost/a.asdf" in done.sentence
    text, blocks = contents(tmp_path / "out.asdf")
    assert [content for _, content in blocks] == [DATA, b"other" * 30]
    assert text.decode() == odd_file(tree=tree, blocks=[]).decode().replace("'more%20stuff/x.asdf'", "1").replace(
        "more%20stuff/x.asdf", "1"
    )


def test_unreferenced_blocks_come_along_and_other_files_do_not(tmp_path: Path, call: Call) -> None:
    path = put(tmp_path, ODD_FILES["unreferenced block"])
    call("explode", path, tmp_path / "parts")
    shutil.copy(path, tmp_path / "parts/data2020.asdf")  # a file with a tree of its own, by chance of such a name
    call("implode", tmp_path / "parts/data.asdf", tmp_path / "out.asdf")
    assert [content for _, content in contents(tmp_path / "out.asdf")[1]] == [DATA, MASK, b"nobody refers to me"]


def test_a_stream_that_is_not_the_last_becomes_a_block(tmp_path: Path, call: Call) -> None:
    stream = header_bytes(b"", flags=1, md5=False) + DATA
    (tmp_path / "s0000.asdf").write_bytes(odd_file(tree=None, blocks=[stream], index="absent"))
    (tmp_path / "s0001.asdf").write_bytes(odd_file(tree=None, blocks=[block_bytes(MASK)], index="absent"))
    tree = (
        odd_file(blocks=[]).replace(b"source: 0", b"source: s0000.asdf").replace(b"source: 1", b"source: s0001.asdf")
    )
    (tmp_path / "s.asdf").write_bytes(tree)
    assert call("implode", tmp_path / "s.asdf", tmp_path / "out.asdf").code == 0
    with opened(tmp_path / "out.asdf") as found:
        assert found["data"][:].tobytes() == DATA
        assert found["mask"][:].tobytes() == MASK


@pytest.mark.long
@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_bytes_are_shared_where_the_file_system_can(tmp_path: Path, kind: str) -> None:
    assert "clone" in KINDS[kind][1]
    noise = [np.random.default_rng(n).integers(0, 256, 2_000_001 + n, "u1") for n in range(3)]
    with filesystem(kind, tmp_path) as folder:
        path = folder / "data.asdf"
        asdf.AsdfFile({"tiny": np.arange(9), **{f"a{n}": array for n, array in enumerate(noise)}}).write_to(path)
        os.sync()
        call = partial(command, environment=environment_in(tmp_path))
        assert call("explode", path, folder / "parts", "--sync").code == 0
        assert call("implode", folder / "parts/data.asdf", folder / "out.asdf", "--sync").code == 0
        assert call("repack", path, folder / "packed.asdf", "--sync").code == 0
        for made in (folder / "parts/data0002.asdf", folder / "out.asdf", folder / "packed.asdf"):
            fd = os.open(made, os.O_RDONLY)
            shared = sum(extent.length for extent in linux_calls.extents(fd) if extent.shared)
            os.close(fd)
            assert shared > 0.98 * made.stat().st_size - (20 << 10)
        assert contents(folder / "out.asdf") == contents(path)
        with opened(folder / "out.asdf") as found, opened(folder / "parts/data.asdf") as exploded:
            assert all(np.array_equal(found[f"a{n}"], array) for n, array in enumerate(noise))
            assert all(np.array_equal(exploded[f"a{n}"], array) for n, array in enumerate(noise))


def test_holes_stay_holes(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "data.asdf"
    size = 1 << 30
    header = build_block_header(BlockHeader(0, bytes(4), size, size, size, bytes(16)))
    whole = odd_file(tree=None, blocks=[header], index="absent")
    path.write_bytes(whole)
    os.truncate(path, len(whole) + size)
    assert call("explode", path, tmp_path / "parts").code == 0
    assert call("implode", tmp_path / "parts/data.asdf", tmp_path / "out.asdf").code == 0
    assert (tmp_path / "out.asdf").stat().st_size > size
    assert (tmp_path / "out.asdf").stat().st_blocks * 512 < 1 << 20


def test_a_block_that_was_edited_in_its_file_gets_a_new_checksum(tmp_path: Path, call: Call) -> None:
    path, parts, out = tmp_path / "data.asdf", tmp_path / "parts", tmp_path / "out.asdf"
    path.write_bytes(odd_file())
    assert call("explode", path, parts).code == 0
    block = parts / "data0000.asdf"
    block.write_bytes(block.read_bytes().replace(DATA, DATA[::-1]))
    assert call("implode", parts / "data.asdf", out).code == 0
    assert call("check", out).out == f"{out}: nothing wrong\n"
    assert call("info", "--json", out).json["blocks"][0]["has_checksum"]
    shutil.copytree(parts, tmp_path / "copied")  # nothing is known about a copy, so checksums show what was edited
    damaged = tmp_path / "copied/data0001.asdf"
    damaged.write_bytes(damaged.read_bytes().replace(MASK, MASK[::-1]))
    assert call("implode", "--force", tmp_path / "copied/data.asdf", out).code == 0
    assert "block 1, offset" in call("check", out).out


def test_nothing_is_written_over_without_force(tmp_path: Path, call: Call, real: Path) -> None:
    call("explode", real, tmp_path / "parts")
    (tmp_path / "parts/real0001.asdf").write_bytes(b"mine")
    done = call("explode", real, tmp_path / "parts")
    assert (done.code, done.sentence) == (
        2,
        f"{tmp_path}/parts/real.asdf: already exists, and 4 more files of its kind; "
        "choose another directory, or use --force",
    )
    assert (tmp_path / "parts/real0001.asdf").read_bytes() == b"mine"
    (tmp_path / "parts/real0007.asdf").write_bytes(b"nothing that we know")
    for number in (4, 5):
        shutil.copy(tmp_path / "parts/real0000.asdf", tmp_path / f"parts/real000{number}.asdf")
    assert call("explode", real, tmp_path / "parts", "--force").code == 0
    check_real(tmp_path / "parts/real.asdf")
    names = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert names == ["real.asdf", *(f"real000{number}.asdf" for number in (0, 1, 2, 3, 7))]
    (tmp_path / "out.asdf").write_bytes(b"mine")
    os.chmod(tmp_path / "out.asdf", 0o640)
    done = call("implode", tmp_path / "parts/real.asdf", tmp_path / "out.asdf")
    assert (done.code, "already exists" in done.sentence) == (2, True)
    assert (tmp_path / "out.asdf").read_bytes() == b"mine"
    assert call("implode", tmp_path / "parts/real.asdf", tmp_path / "out.asdf", "--force").code == 0
    check_real(tmp_path / "out.asdf")
    assert (tmp_path / "out.asdf").stat().st_mode & 0o777 == 0o640


def test_refusals(tmp_path: Path, call: Call, real: Path) -> None:
    call("explode", real, tmp_path / "parts")
    main = tmp_path / "parts/real.asdf"
    out = tmp_path / "out.asdf"
    assert call("implode", main, main).sentence.endswith("is a part of the exploded form; give OUT another name")
    done = call("implode", main, tmp_path / "nowhere/out.asdf")
    assert (done.code, "is no directory" in done.sentence) == (3, True)
    done = call("implode", main, out, "--padding", "lots")
    assert (done.code, "--padding lots" in done.sentence) == (2, True)
    (tmp_path / "parts/real0001.asdf").write_bytes((tmp_path / "parts/real0001.asdf").read_bytes()[:-5])
    size = (tmp_path / "parts/real0001.asdf").stat().st_size
    done = call("implode", main, out)
    assert (done.code, done.sentence) == (
        4,
        f"{tmp_path}/parts/real0001.asdf: block 0, offset {size}: the file ends inside this block; "
        f"'asdffs block {tmp_path}/parts/real0001.asdf 0 --stored' prints what is left of it",
    )
    os.unlink(tmp_path / "parts/real0001.asdf")
    done = call("implode", main, out)
    assert (done.code, "real0001.asdf: cannot be opened" in done.sentence) == (3, True)
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir() if "asdffs" in path.name) == []
    done = call("explode", tmp_path / "parts", tmp_path)
    assert (done.code, "is a directory" in done.sentence) == (3, True)
    broken = put(tmp_path, odd_file()[:-60], "broken.asdf")
    done = call("explode", broken, tmp_path / "b")
    assert done.code == 4
    advice = f"the file ends inside this block; 'asdffs block {broken} 1 --stored' prints what is left of it"
    assert advice in done.sentence
    left = asdffs("block", broken, "1", "--stored", environment=environment_in(tmp_path))
    assert (left.returncode, len(left.stdout) > 0) == (0, True), "the advice is right"
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.long
def test_many_small_blocks(tmp_path: Path, call: Call) -> None:
    """More than descriptors, and than a thread each."""
    path = put(tmp_path, odd_file(blocks=[block_bytes(b"%d" % n) for n in range(3000)]), "many.asdf")
    assert call("explode", path, tmp_path / "parts").code == 0
    assert call("implode", tmp_path / "parts/many.asdf", tmp_path / "out.asdf").code == 0
    assert contents(tmp_path / "out.asdf") == contents(path)


def test_a_pending_change_of_a_killed_mount_is_seen(tmp_path: Path) -> None:
    """Without the lock the journal is not replayed; what it holds is exploded all the same."""
    from support.changes import CHANGES, NAME
    from support.crashes import record
    from support.memory import MemoryFolder

    change = CHANGES["tree, longer, fits"]
    steps = record(folder := MemoryFolder({NAME: change.start}), lambda: change.run(folder))
    for stop in range(len(steps)):
        folder = MemoryFolder({NAME: change.start})
        record(folder, lambda f=folder: change.run(f), stop=stop)
        if len(folder.names()) > 1:
            break
    for name, file in folder.files.items():
        (tmp_path / name).write_bytes(bytes(file.content))
    environment = environment_in(tmp_path)
    done = asdffs("explode", tmp_path / NAME, tmp_path / "parts", environment=environment)
    assert done.returncode == 0, done.stderr
    document = open_document(str(tmp_path / "parts/f0000.asdf"), writable=False)
    assert document.blocks[0].read_at(0, 1 << 20) == DATA * 20
    document.close()


@pytest.mark.parametrize(
    "name", ["a;b", "a\tb", "a\nb", "a\rb", "a\x01b", "a%b", "a#b", "a?b", "a b", "a:b", "[a]", "ä"]
)
def test_the_library_opens_the_form_of_any_name(tmp_path: Path, name: str) -> None:
    with open(tmp_path / f"{name}.asdf", "wb") as file:
        asdf.AsdfFile({"x": np.arange(10)}).write_to(file)
    assert main(["explode", str(tmp_path / f"{name}.asdf"), str(tmp_path / "out")]) == 0
    (tree,) = (path for path in (tmp_path / "out").iterdir() if not path.stem.endswith("0000"))
    with asdf.open(tree) as found:
        assert found["x"].sum() == 45


@pytest.mark.parametrize("source", ["!!int 0", "!!int '0'", "&s 0", "!!int -1"])
def test_regression_a_source_may_have_a_tag(tmp_path: Path, source: str) -> None:
    array = f"a: !core/ndarray-1.1.0 {{source: {source}, shape: [4], datatype: uint8, byteorder: little}}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(array, [block_bytes(b"abcd")]))
    assert main(["explode", str(tmp_path / "a.asdf"), str(tmp_path / "out")]) == 0
    with asdf.open(tmp_path / "out/a.asdf") as found:
        assert found["a"].tobytes() == b"abcd"
