"""``asdffs block``: every way to read and change one block, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Call
from support.mounts import ASDFFS, environment_in, run
from support.samples import DATA, MASK, block_bytes, check_saved, header_bytes, odd_file, opened, put, zlib_block


def printed(path: Path, *arguments: object, given: bytes | None = None) -> bytes:
    """The bytes that the command writes, in a process of its own."""
    done = run(*ASDFFS, "block", path, *arguments, input=given, env=environment_in(path.parent), text=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_print(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    stored = zlib_block(DATA * 9)
    path.write_bytes(odd_file(blocks=[block_bytes(DATA), stored]))
    before = path.read_bytes()
    assert printed(path, 0) == DATA
    assert printed(path, 1) == DATA * 9
    assert stored.endswith(printed(path, 1, "--stored"))
    for span, expected in (("5:12", slice(5, 12)), (":9", slice(9)), ("300:", slice(300, None)), ("9:9", slice(0))):
        assert printed(path, 1, "--range", span) == (DATA * 9)[expected]
    assert path.read_bytes() == before


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(bytes(5 << 20)), block_bytes(MASK)]))
    script = f"{sys.executable} -m asdffs block {path} 0 | head -c 10 | wc -c"
    done = run("bash", "-c", script, env=environment_in(tmp_path))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "10", "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stored", [block_bytes, zlib_block])
@pytest.mark.parametrize("size", [0, 100, 5000])
def test_replace(tmp_path: Path, call: Call, stored: Callable[[bytes], bytes], size: int) -> None:
    path, new = tmp_path / "data.asdf", tmp_path / "new"
    path.write_bytes(odd_file(blocks=[stored(DATA), block_bytes(MASK)]))
    new.write_bytes(bytes(range(256)) * (size // 256 + 1))
    content = new.read_bytes()[:size]
    new.write_bytes(content)
    assert call("block", path, 0, "--replace", new, "--force").code == 0
    assert printed(path, 0) == content
    assert call("check", path).out.count("checksum") == 0
    block = call("info", "--json", path).json["blocks"][0]
    assert (block["compression"], block["has_checksum"]) == ("zlib" if stored is zlib_block else "none", True)
    assert printed(path, 1) == MASK
    if size:
        with opened(path) as found:
            assert found["data"][:].tobytes() == content[:100]


def test_append_new_and_standard_input(tmp_path: Path, call: Call) -> None:
    path, new = tmp_path / "data.asdf", tmp_path / "new"
    path.write_bytes(odd_file())
    new.write_bytes(b"more of it")
    assert call("block", path, 1, "--append", new).code == 0
    assert call("block", path, "new", "--replace", new).out == "2\n"
    assert call("block", path, 3, "--append", new, "--compression", "zlib").out == ""
    assert printed(path, 0, "--append", "-", given=b"from a pipe") == b""
    assert printed(path, "new", "--append", "-", given=b"x" * 3_000_000) == b"4\n"
    found = [printed(path, number) for number in range(5)]
    assert found == [DATA + b"from a pipe", MASK + b"more of it", b"more of it", b"more of it", b"x" * 3_000_000]
    check_saved(path, 1)
    assert call("info", "--json", path).json["blocks"][3]["compression"] == "zlib"
    assert call("info", "--json", path).json["index"] == "valid"


def test_a_replacement_that_is_too_short_is_told(tmp_path: Path, call: Call) -> None:
    path = put(tmp_path, odd_file())
    (tmp_path / "new").write_bytes(DATA[:50])
    before = path.read_bytes()
    for name in (tmp_path / "new", "/dev/null"):  # a producer that failed
        done = call("block", path, 0, "--replace", name)
        assert (done.code, path.read_bytes()) == (2, before)
        assert "block 0: the new content is too small: line " in done.sentence
        assert done.sentence.endswith(", or use --force")
    done = call("block", path, 0, "--replace", tmp_path / "new", "--force")
    assert (done.code, done.out) == (0, "")
    assert "a block was made smaller, and an array no longer fits: line" in done.sentence
    assert "data: it needs bytes 0 to 100 of block 0, which has 50" in done.sentence
    assert printed(path, 0) == DATA[:50]
    (tmp_path / "new").write_bytes(DATA)
    assert call("block", path, 0, "--replace", tmp_path / "new").code == 0


def test_append_to_a_stream(tmp_path: Path, call: Call) -> None:
    path, new = tmp_path / "data.asdf", tmp_path / "new"
    stream = header_bytes(b"", flags=1, md5=False) + MASK
    path.write_bytes(odd_file(blocks=[block_bytes(DATA), stream], index="absent"))
    new.write_bytes(b"rows")
    assert call("block", path, 1, "--append", new).code == 0
    assert path.read_bytes().endswith(MASK + b"rows")
    done = call("block", path, 1, "--replace", new)
    assert (done.code, "a streamed block is not replaced as a whole" in done.sentence) == (2, True)
    done = call("block", path, "new", "--replace", new)
    assert (done.code, "the last block is streamed" in done.sentence) == (2, True)


def test_remove_and_recompress(tmp_path: Path, call: Call) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK), block_bytes(b"nobody")]))
    done = call("block", path, 0, "--remove")
    assert (done.code, "only the last block" in done.sentence) == (5, True)
    done = call("block", path, 2, "--remove")
    assert (done.code, "which asdffs does not know, may refer to it" in done.sentence) == (5, True)
    assert call("block", path, 2, "--remove", "--force").code == 0
    done = call("block", path, 1, "--remove")
    assert (done.code, "mask (line 10) has source 1" in done.sentence) == (5, True), done.err
    assert call("block", path, 0, "--compression", "bzp2").code == 0
    assert call("info", "--json", path).json["blocks"][0]["compression"] == "bzp2"
    check_saved(path, 1)


PRINTS = "--stored and --range print a block; leave them out to change one"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["7"], 3, "the file has no block 7; the last is 1"),
        (["-1"], 2, ""),
        (["new"], 2, "'new' is not a block number"),
        (["x", "--replace", "/dev/null"], 2, "'x' is not a block number, and not 'new'"),
        (["0", "--replace", "/nowhere"], 3, "/nowhere: cannot be read: No such file or directory"),
        (["0", "--replace", "a", "--append", "b"], 2, ""),
        (["0", "--stored", "--compression", "zlib"], 2, PRINTS),
        (["0", "--range", "1:2", "--compression", "zlib"], 2, PRINTS),
        (["0", "--range", "9"], 2, "--range 9: give START:END in bytes, such as 0:4096 or 1000:"),
        (["0", "--range", "1000000:"], 2, "START is behind the end"),
        (["0", "--compression", "magic"], 2, "the compression 'magic' is not known"),
        (["5", "--replace", "/dev/null"], 3, "the file has no block 5; the last is 1"),
    ],
)
def test_refusals(tmp_path: Path, call: Call, arguments: list[str], code: int, sentence: str) -> None:
    path = put(tmp_path, odd_file())
    before = path.read_bytes()
    done = call("block", path, *arguments)
    assert done.code == code
    assert sentence in (done.sentence if sentence else done.err)
    assert path.read_bytes() == before
