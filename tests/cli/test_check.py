"""``asdffs check`` and ``recover``: every kind of finding, its exit code, and what --repair does."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import zlib
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.arrays import UNSHOWN, tree_file
from support.mounts import asdffs, environment_in, mounted
from support.samples import DATA, MASK, ODD_FILES, STANDARDS, block_bytes, odd_file, opened, put, write_sample

import asdffs as package
from asdffs.document.blocks.reading import ChecksumPolicy
from asdffs.document.opening import Settings, open_document
from asdffs.errors import InvalidArrayError
from asdffs.format.layout import Padding
from asdffs.format.plan import plan_text
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.journal import Journal
from asdffs.storage.record import make_record
from asdffs.storage.sidecars import journal_name
from asdffs.tree.tape import Tape
from asdffs.workflows.checking import Level, check_document

CLEAN = {"index absent", "NULs after blocks", "no tree", "header only", "header and comment"}
WARNED = {"index stale", "index truncated", "index lying in the middle"}
#: Their tree has arrays, and there are no blocks for them.
WRONG = {"no blocks", "no blocks, padded"}


def check(path: Path, *options: str) -> tuple[int, list[dict[str, object]], str]:
    """The exit code, the findings, and their sentences as one text."""
    done = asdffs("check", "--json", *options, path, environment=environment_in(path.parent))
    assert done.stderr == ""
    (facts,) = json.loads(done.stdout)
    return done.returncode, facts["findings"], "\n".join(one["sentence"] for one in facts["findings"])


def test_a_first_block_without_a_magic(tmp_path: Path) -> None:
    """Named by the index; without one it looks like padding."""
    path = tmp_path / "data.asdf"
    for index, code, sentence in (
        ("right", 4, "no block begins here: the magic d3 42 4c 4b is missing"),
        ("absent", 4, "the padding between the tree and the first block looks like a block with a damaged magic"),
    ):
        block = block_bytes(bytes(100))
        raw = odd_file(blocks=[block, block_bytes(bytes(range(100)))], index=index, padding=b" " * 9)
        path.write_bytes(raw.replace(block, b"XXXX" + block[4:]))
        found, findings, _ = check(path)
        assert found == code
        assert sentence in [finding["sentence"] for finding in findings]


@pytest.mark.parametrize("name", ODD_FILES)
def test_legal_files_have_no_errors(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, ODD_FILES[name])
    code, all_findings, said = check(path)
    assert code == (9 if name in WARNED else 4 if name in WRONG else 0), said
    findings = [finding for finding in all_findings if not _is_unseen(finding)]
    assert path.read_bytes() == ODD_FILES[name]
    if name not in CLEAN | WARNED | WRONG and name != "streamed":
        assert findings == []
    if name in WARNED:
        code, findings, _ = check(path, "--repair")
        assert (code, [finding for finding in findings if not _is_unseen(finding)]) == (0, [])
        with opened(path) as found:
            assert found["data"][:].tobytes() == DATA


def _is_unseen(finding: dict[str, object]) -> bool:
    """The sample has an object of an unknown tag, which may refer to blocks that no array refers to."""
    return finding["level"] == "note" and str(finding["sentence"]).startswith("no array refers to these blocks")


@pytest.mark.parametrize("version", STANDARDS)
def test_files_of_the_library_are_right(tmp_path: Path, version: str) -> None:
    path = tmp_path / "data.asdf"
    write_sample(path, version=version, all_array_compression="zlib")
    assert check(path, "--deep")[:2] == (0, [])


DAMAGED = {
    "checksum": (odd_file().replace(hashlib.md5(DATA).digest(), b"\x01" * 16), "its checksum is"),
    "header": (odd_file(index="absent").replace(b"\xd3BLK\x000", b"\xd3BLK\xff\xff", 1), "its header is damaged"),
    "cut off": (odd_file(index="absent")[:-10], "inside this block"),
    "shape": (odd_file().replace(b"shape: [25]", b"shape: [99]"), "it needs bytes 0 to 396 of block"),
    "source": (odd_file().replace(b"source: 1", b"source: 7"), "its source is 7"),
    "tree": (odd_file().replace(b"value: 1\n", b"value: [\n"), "the tree is not valid"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_an_error_and_is_not_repaired(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.asdf"
    whole, sentence = DAMAGED[name]
    path.write_bytes(whole)
    code, findings, said = check(path)
    assert code == 4
    assert sentence in said
    assert "error" in {finding["level"] for finding in findings}
    assert check(path, "--repair")[0] == 4
    if name != "header":
        assert path.read_bytes().startswith(whole[:300])


INDEX = b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- ["


def test_an_index_with_negative_offsets_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    whole = odd_file(index="absent", blocks=[block_bytes(DATA)])
    offset = whole.index(b"\xd3BLK")
    path.write_bytes(whole + INDEX + b"%d]\n...\n" % offset)
    assert "index is wrong" not in check(path)[2]
    path.write_bytes(whole + INDEX + b"-%d]\n...\n" % offset)
    assert "the block index is wrong" in check(path)[2]


def test_an_index_behind_a_stream_is_a_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    whole = odd_file(index="absent", blocks=[block_bytes(DATA, flags=1)])
    path.write_bytes(whole)
    assert "ends with a block index" not in check(path)[2]
    path.write_bytes(whole + INDEX + b"500]\n...\n")
    code, _, said = check(path)
    assert (code in (4, 9), "it ends with a block index" in said) == (True, True)


MASKED = {
    "a mask that does not fit": "!core/ndarray-1.0.0 {source: 0, datatype: bool8, byteorder: big, shape: [3]}",
    "a mask that cannot be compared": "text",
}


@pytest.mark.parametrize("name", [*UNSHOWN, *MASKED])
def test_an_array_that_cannot_be_shown_is_an_error(tmp_path: Path, name: str) -> None:
    """With the words with which views and programs refuse it."""
    common = "{source: 0, datatype: int16, byteorder: big, shape: [5], mask: "
    text = UNSHOWN[name][0] if name in UNSHOWN else f"{common}{MASKED[name]}}}"
    body = f"kind: &kind int24\na: !core/ndarray-1.0.0 {text}\n"
    path = put(tmp_path, tree_file(body, [block_bytes(bytes(4096))]))
    code, findings, _ = check(path)
    assert (code, len(findings)) == (4, 1), findings
    with package.open(path) as document:
        array = document.arrays["a/mask" if name.endswith("compared") else "a"]
        if name not in ("a mask that does not fit", "another file"):
            with pytest.raises(InvalidArrayError) as caught:
                array[...]
            assert caught.value.sentence in findings[0]["sentence"]


def test_damaged_compression_is_found_by_deep(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": np.arange(10_000)}).write_to(path, all_array_compression="bzp2")
    whole = bytearray(path.read_bytes())
    start = whole.index(b"\xd3BLK") + 54
    whole[start + 500 : start + 510] = bytes(10)
    whole[start - 16 : start] = bytes(16)  # no checksum
    path.write_bytes(whole)
    assert check(path)[0] == 0
    code, _, said = check(path, "--deep")
    assert code == 4
    assert "cannot be decoded" in said


def test_a_checksum_of_the_decoded_bytes_is_right(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    content = np.arange(1000)
    asdf.AsdfFile({"a": content}).write_to(path, all_array_compression="zlib")
    whole = bytearray(path.read_bytes())
    start = whole.index(b"\xd3BLK") + 54
    whole[start - 16 : start] = hashlib.md5(content.tobytes()).digest()
    path.write_bytes(whole)
    assert check(path)[0] == 0
    settings = Settings(checksums=ChecksumPolicy(verify=True))
    with contextlib.closing(open_document(str(path), writable=False, settings=settings)) as one:
        assert one.blocks[0].read_at(0, content.nbytes) == content.tobytes()


def test_regression_sixteen_digits_are_no_checksum(tmp_path: Path) -> None:
    """As the writer of DKIST's level-2 files leaves the field: one note of all blocks, and every byte can be read."""
    path = tmp_path / "data.asdf"
    content = np.arange(100)
    asdf.AsdfFile({"a": content, "b": content + 1}).write_to(path)
    whole = path.read_bytes()
    for block in whole.split(b"\xd3BLK")[1:]:
        whole = whole.replace(block[34:50], b"0" * 16)
    path.write_bytes(whole)
    code, findings, told = check(path, "--deep")
    assert (code, len(findings)) == (0, 1)
    assert told == "2 blocks have sixteen digits '0' for a checksum, which is taken for none"
    with package.open(path, "r+") as document:
        document.arrays["a"][0] = 7
    assert path.read_bytes().split(b"\xd3BLK")[1][34:50] == bytes(16)
    with asdf.open(path, memmap=False) as file:
        assert file["a"][0] == 7


def test_several_files_and_what_cannot_be_opened(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.asdf", tmp_path / "bad.asdf"
    good.write_bytes(odd_file())
    bad.write_bytes(b"no")
    done = asdffs("check", good, bad, tmp_path / "none", environment=environment_in(tmp_path))
    assert done.returncode in (3, 4)
    assert "good.asdf: nothing wrong" in done.stdout
    assert f"{bad}: error: offset 0: not an ASDF file" in done.stdout
    assert "none" in done.stderr


def test_quiet_and_json_print_no_sentences(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA) + b"gap!", block_bytes(MASK)]))
    done = asdffs("check", "-q", path, tmp_path / "none", environment=environment_in(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert "none" in done.stderr, "what cannot be read is told nevertheless"
    code, _, said = check(path)
    assert code == 9
    advice = f"belong to neither; 'asdffs repack {path}' closes the gap"
    assert said.endswith(advice)


def interrupted(path: Path) -> bytes:
    """Leave a journal as a daemon does that is killed before it changes the file; what the file will be."""
    document = open_document(str(path), writable=False)
    old = document.tree.text()
    new = old.replace(b"value: 1", b"value: 2")
    plan = plan_text(document.layout, old, b" ", new, Padding())
    document.close()
    folder = FileFolder(str(path.parent))
    store = folder.open(path.name, writable=True)
    journal = Journal.open(folder, path.name)
    journal.write(make_record(store, plan))
    journal.close()
    store.close()
    return path.read_bytes().replace(b"value: 1", b"value: 2")


@pytest.mark.parametrize("command", ["recover", "repair", "mount"])
def test_an_interrupted_change_is_told_and_finished(tmp_path: Path, command: str) -> None:
    path = put(tmp_path, odd_file(padding=b" " * 500))
    before, after = path.read_bytes(), interrupted(path)
    code, findings, said = check(path)
    assert code == 9
    assert "holds an interrupted change" in said
    assert [finding["repairable"] for finding in findings] == [True]
    assert path.read_bytes() == before, "check changes nothing"
    environment = environment_in(tmp_path)
    if command == "recover":
        done = asdffs("recover", path, environment=environment)
        assert done.returncode == 0
        assert "has been completed from the journal" in done.stdout
    elif command == "repair":
        done = asdffs("check", "--repair", path, environment=environment)
        assert done.returncode == 0
        assert "will put right" in done.stdout
    else:
        with mounted(path):
            pass
    assert path.read_bytes() == after
    assert not (tmp_path / journal_name(path.name)).exists()
    done = asdffs("recover", path, environment=environment)
    assert "nothing to recover" in done.stdout
    assert check(path)[0] == 0


@pytest.mark.mount
def test_recover_keeps_what_a_killed_mount_held(tmp_path: Path) -> None:
    path, environment = put(tmp_path, odd_file()), environment_in(tmp_path)
    with mounted(path, code=6) as mount:
        assert asdffs("recover", path, environment=environment).returncode == 5, "it is mounted"
        assert check(path)[0] == 0, "a living daemon's journal is no leftover"
        (mount.point / "notes").write_text("remember")
        draft = os.open(mount.tree, os.O_RDWR)
        os.pwrite(draft, b"half a thought", 0)
        mount.kill()
        with contextlib.suppress(OSError):  # nobody is there any more
            os.close(draft)
    assert check(path)[0] == 9
    done = asdffs("recover", "--json", path, environment=environment)
    assert done.returncode == 7
    names = sorted(Path(kept).name for kept in json.loads(done.stdout)["kept"])
    assert names == ["data.asdf.rejected-1.yaml", "notes"]
    assert (tmp_path / "data.asdf.leftover/notes").read_text() == "remember"
    assert (tmp_path / "data.asdf.rejected-1.yaml").read_bytes().startswith(b"half a thought")
    code, findings, _ = check(path)
    assert (code, {finding["level"] for finding in findings}) == (0, {"note"})


def test_a_stride_of_zero_and_a_compressed_stream_are_told(tmp_path: Path) -> None:
    array = "a: !core/ndarray-1.1.0 {source: 0, shape: [4], datatype: uint8, strides: [0]}\n"
    stream = b"\xd3BLK" + struct.pack(">HI4sQQQ16s", 48, 1, b"zlib", 0, 0, 0, bytes(16)) + zlib.compress(DATA)
    path = tmp_path / "a.asdf"
    path.write_bytes(tree_file(array, [block_bytes(DATA)]))
    assert check(path)[::2] == (9, "line 6: a: its schema allows no strides of 0")
    path.write_bytes(tree_file("a: 1\n", [stream], index="absent"))
    code, _, told = check(path)
    assert (code, told) == (9, "it is streamed and compressed, so nobody can tell where its compressed bytes end")


def test_an_index_that_does_not_follow_the_last_block_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    whole = tree_file("a: 1\n", [block_bytes(DATA)], index="absent")
    path.write_bytes(whole + b"    " + INDEX + b"%d]\n...\n" % whole.index(b"\xd3BLK"))
    assert check(path)[::2] == (9, "the block index is wrong")
    assert check(path, "--repair")[0] == 0
    assert path.read_bytes().startswith(whole + INDEX)


@pytest.mark.parametrize("text", [b"--- {a: 1}\n...\n", b"---\n[a, b]\n...\n", b"--- some text\n...\n"])
def test_an_index_that_is_no_list_is_made_anew(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.asdf"
    whole = tree_file("a: 1\n", [block_bytes(DATA)], index="absent")
    path.write_bytes(whole + b"#ASDF BLOCK INDEX\n%YAML 1.1\n" + text)
    assert check(path)[::2] == (9, "the block index is wrong")
    assert check(path, "--repair")[0] == 0
    assert path.read_bytes().startswith(whole + b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- [")


def test_the_tree_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that check asks of a tree it asks of one tape."""
    parsed = []
    real = Tape._parse

    def counted(tape: Tape, *arguments: object) -> None:
        parsed.append(len(tape.text))
        real(tape, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Tape, "_parse", counted)
    path = put(tmp_path, odd_file())
    with contextlib.closing(open_document(str(path), writable=False)) as document:
        assert [one for one in check_document(document, deep=False) if one.level is Level.ERROR] == []
        assert parsed == [document.tree.size]
