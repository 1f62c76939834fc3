"""``asdffs upgrade``: files of the drafts as the asdf library opens them, with everything else as it was."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import Done
from support.commands import command as command_in
from support.drafts import (
    HEAD_2014,
    INVALID,
    SAMPLES,
    block_36,
    block_40,
    block_44,
    draft,
    name_of,
)
from support.samples import header_bytes, opened

import asdffs
from asdffs.features.drafts.commands.upgrade import UNKNOWN

ITEMS = np.arange(6, dtype=">i4").tobytes()


def command(*arguments: object) -> Done:
    """In an environment of which nothing here needs anything."""
    return command_in(*arguments, environment=dict(os.environ))


def upgraded(tmp_path: Path, whole: bytes, *options: str) -> bytes:
    """What ``whole`` becomes."""
    (tmp_path / "old.asdf").write_bytes(whole)
    done = command("upgrade", "--force", *options, tmp_path / "old.asdf", tmp_path / "new.asdf")
    assert done.code == 0, done.err
    assert (tmp_path / "old.asdf").read_bytes() == whole
    return (tmp_path / "new.asdf").read_bytes()


def text_of(whole: bytes) -> str:
    return whole[: whole.index(b"\n...") + 1].decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All samples upgraded; the exit code of each in ``codes.json``."""
    folder = tmp_path_factory.mktemp("upgraded")
    codes = {}
    for path in SAMPLES:
        (folder / path.parent.name).mkdir(exist_ok=True)
        codes[name_of(path)] = command("upgrade", path, folder / path.parent.name / path.name).code
    (folder / "codes.json").write_text(json.dumps(codes))
    return folder


@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_samples_are_equal_through_the_asdf_library(path: Path, folder: Path) -> None:
    new = folder / path.parent.name / path.name
    code = json.loads((folder / "codes.json").read_text())[name_of(path)]
    if path in INVALID:
        assert code == 4
        assert not new.exists()
        return
    assert code == 0
    with asdffs.open(path) as old, asdf.open(new, validate_checksums=True, memmap=False) as found:
        assert found.version_string == "1.6.0"
        for name in list(old.arrays):
            wanted = old.arrays[name]
            node = found.tree
            for key in name.split("/"):
                node = node[int(key) if isinstance(node, list) else key]
            if UNKNOWN in new.read_bytes() and name == "data":
                with pytest.raises(ValueError, match=UNKNOWN.decode().replace("?", r"\?")):
                    np.asarray(node)
                continue
            values = np.ma.getdata(node[:])
            assert values.dtype == wanted.dtype
            assert values.tobytes() == wanted[...].tobytes(), name
        if found.tree:
            assert found["history"]["entries"][0]["description"].startswith("Upgraded from ASDF 0.1.0, draft of ")
    done = command("check", "--deep", "--schema", new)
    assert done.code == (9 if UNKNOWN in new.read_bytes() else 0), done.out


def test_references_are_resolved_by_the_asdf_library(folder: Path) -> None:
    with asdf.open(folder / "2014" / "refs.asdf") as found:
        found.find_references()
        found.resolve_references()
        for key in ("local", "nofslash", "ext"):
            assert found[key][:].tolist() == list(range(8)), key


@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_mounted_samples_say_the_same(path: Path, folder: Path) -> None:
    """What asdffs itself reads of the old and the new file."""
    new = folder / path.parent.name / path.name
    if path in INVALID or path.stem == "unknown_encoding":
        return
    with asdffs.open(path) as old, asdffs.open(new) as found:
        assert list(found.arrays) == list(old.arrays)
        assert [block.read_at(0, 1 << 20) for block in found.blocks] == [
            block.read_at(0, 1 << 20) for block in old.blocks
        ]
        assert not found.repair_index() if found.writable else True
        for block in found.blocks:
            stored = block.read_stored(0, 1 << 20)
            assert block.header.checksum == hashlib.md5(stored, usedforsecurity=False).digest()


BODY = b"""# at the top
caf\xc3\xa9: "\xe2\x82\xac"   # beside
dtype: this is no ndarray and keeps its dtype
a: !core/ndarray   # an array
    # before the key
    source: 0      # the block
    dtype: int32
    shape: [6]
flow: !core/ndarray {source: -1, 'dtype': int32, shape: [6]}
list:
- &it !core/ndarray
  dtype: [{name: x, dtype: int16, byteorder: little}, {name: y, dtype: [[ascii, 1], uint8]}]
  source: 0
  shape: [6]
- *it
full: !<tag:stsci.edu:asdf/0.1.0/core/complex> 1+1j
short: !core/complex 1-1j
strange: !core/unheard [1, 2]
foreign: !<tag:example.org:thing> {dtype: 1}
text: |
  dtype: not a key
  !core/ndarray neither
ref: {$ref: "#a"}
other: {$ref: 'x.asdf#a/b'}
last: [1, 2,
  3]   # the end
"""

WANTED = """# at the top
caf\u00e9: "\u20ac"   # beside
dtype: this is no ndarray and keeps its dtype
a: !core/ndarray-1.1.0   # an array
    # before the key
    byteorder: big
    source: 0      # the block
    datatype: int32
    shape: [6]
flow: !core/ndarray-1.1.0 {byteorder: big, source: 0, 'datatype': int32, shape: [6]}
list:
- &it !core/ndarray-1.1.0
  byteorder: big
  datatype: [{name: x, datatype: int16, byteorder: little}, {name: y, datatype: [[ascii, 1], uint8]}]
  source: 0
  shape: [6]
- *it
full: !<tag:stsci.edu:asdf/core/complex-1.0.0> 1+1j
short: !core/complex-1.0.0 1-1j
strange: !0.1.0/core/unheard [1, 2]
foreign: !<tag:example.org:thing> {dtype: 1}
text: |
  dtype: not a key
  !core/ndarray neither
ref: {$ref: "#/a"}
other: {$ref: 'x.asdf#/a/b'}
last: [1, 2,
  3]   # the end
"""


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_the_text_is_edited_and_nothing_else(tmp_path: Path, newline: bytes) -> None:
    whole = draft(BODY).replace(b"\n", newline) + block_36(ITEMS * 2)
    found = upgraded(tmp_path, whole)
    head = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
    text = found[: found.index(newline + b"history:") + len(newline)].decode()
    assert text == (head + WANTED).replace("\n", newline.decode())
    with opened(tmp_path / "new.asdf") as tree:
        assert tree["a"][:].tolist() == list(range(6))
        assert tree["full"] == 1 + 1j
        assert tree["list"][0]["y"][1].tolist() == (b"", 1)


@pytest.mark.parametrize(
    ("history", "wanted"),
    [
        ("history:\n- !core/history_entry {description: old}\n", ["Upgraded", "old"]),
        ("history: &h\n  - !core/history_entry {description: old}\n", ["Upgraded", "old"]),
        ("history: !!seq [!core/history_entry {description: old}]\nh: 1\n", ["Upgraded", "old"]),
        ("h: &h [!core/history_entry {description: old}]\nhistory: *h\n", ["old"]),
        ("history:\n  - !core/history_entry\n    description: old\n  - !core/history_entry {description: b}\n",
         ["Upgraded", "old", "b"]),
        ("history: [!core/history_entry {description: old}]\n", ["Upgraded", "old"]),
        ("history: []\n", ["Upgraded"]),
        ("history: {entries: [!core/history_entry {description: old}]}\n", ["Upgraded", "old"]),
        ("history:\n  entries:\n  - !core/history_entry {description: old}\nb: 1\n", ["Upgraded", "old"]),
    ],
)  # fmt: skip
def test_history_that_is_there_stays(tmp_path: Path, history: str, wanted: list[str]) -> None:
    upgraded(tmp_path, draft(history.encode() + b"a: 1\n"))
    with opened(tmp_path / "new.asdf") as found:
        entries = found["history"]
        entries = entries["entries"] if isinstance(entries, dict) else entries
        assert [entry["description"].split(" ")[0] for entry in entries] == wanted


def test_a_null_tree_gets_a_history(tmp_path: Path) -> None:
    upgraded(tmp_path, draft(b""))
    with opened(tmp_path / "new.asdf") as found:
        assert len(found["history"]["entries"]) == 1


@pytest.mark.parametrize("body", [b"{a: 1}\n", b"  a: 1\n  b: 2\n", b"history: a text\n"])
def test_where_history_cannot_be_it_is_a_comment(tmp_path: Path, body: bytes) -> None:
    found = upgraded(tmp_path, draft(body))
    assert b"# history: !<tag:stsci.edu:asdf/core/history_entry-1.0.0> {description: " in found
    asdf.open(tmp_path / "new.asdf").close()


@pytest.mark.parametrize(
    "directive",
    [
        b"%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !core/asdf\na: !core/complex 1J\n",
        b"%TAG !a! tag:stsci.edu:asdf/\n--- !a!0.1.0/core/asdf\na: !a!0.1.0/core/complex 1J\n",
        b"%TAG !c! tag:stsci.edu:asdf/0.1.0/core/\n--- !c!asdf\na: !c!complex 1J\n",
        b"%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !<tag:stsci.edu:asdf/0.1.0/core/asdf>\na: !core/complex 1J\n",
        b"--- !<tag:stsci.edu:asdf/0.1.0/core/asdf>\na: !<tag:stsci.edu:asdf/0.1.0/core/complex> 1J\n",
        b"%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !core/asdf\na: !core/complex 1J\nb: !core/a%20b 1\n",
    ],
)
def test_tags_however_they_are_written(tmp_path: Path, directive: bytes) -> None:
    upgraded(tmp_path, b"#ASDF 0.1.0\n%YAML 1.1\n" + directive + b"...\n")
    with opened(tmp_path / "new.asdf") as found:
        assert found["a"] == 1j


@pytest.mark.parametrize(
    "body",
    [
        b"base: &b {dtype: int32, shape: [6]}\na: !core/ndarray\n  <<: *b\n  source: 0\n",
        b"type: &t [{name: x, dtype: int32}]\na: !core/ndarray {source: 0, shape: [6], dtype: *t}\n",
    ],
)
def test_what_cannot_be_edited_is_refused(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "old.asdf").write_bytes(draft(body, block_36(ITEMS)))
    done = command("upgrade", tmp_path / "old.asdf", tmp_path / "new.asdf")
    assert done.code == 4
    assert "write it plainly, without aliases and merge keys '<<'" in done.err
    assert not (tmp_path / "new.asdf").exists()


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"a: !core/ndarray {&k dtype: int32, source: 0, shape: [6]}\n", b"{byteorder: big, &k datatype: int32,"),
        (b'a: !core/ndarray {"source":0,"dtype":"int32","shape":[6]}\n', b'"datatype":"int32"'),
        (b"a: !core/ndarray\n  ? source\n  : 0\n  ? dtype\n  : int32\n  ? shape\n  : [6]\n",
         b"  byteorder: big\n  ? source\n"),
    ],
)  # fmt: skip
def test_keys_however_they_are_written(tmp_path: Path, body: bytes, wanted: bytes) -> None:
    found = upgraded(tmp_path, draft(body, block_36(ITEMS)))
    assert wanted in found
    with opened(tmp_path / "new.asdf") as tree:
        assert tree["a"][:].tolist() == list(range(6))


@pytest.mark.parametrize("start", [b"", b"%TAG ! tag:stsci.edu:asdf/0.1.0/\n", b"# a comment\n"])
def test_without_the_yaml_directive(tmp_path: Path, start: bytes) -> None:
    upgraded(tmp_path, b"#ASDF 0.1.0\n" + start + b"---\na: 1\n...\n")
    with opened(tmp_path / "new.asdf") as tree:
        assert tree["a"] == 1


@pytest.mark.parametrize("tail", [b"--- \nb: 1\n", b"b: [\n", b"\xff: 1\n", b"a: 2\nb: *x\n"])
def test_trees_that_are_none(tmp_path: Path, tail: bytes) -> None:
    (tmp_path / "old.asdf").write_bytes(draft(b"a: 1\n" + tail))
    done = command("upgrade", tmp_path / "old.asdf", tmp_path / "new.asdf")
    assert done.code == 4
    assert done.sentence.startswith(f"{tmp_path}/old.asdf: ")
    assert not (tmp_path / "new.asdf").exists()


def test_damage_is_not_hidden(tmp_path: Path) -> None:
    body = b"a: !core/ndarray {source: 0, dtype: int32, shape: [6]}\n"
    old, new = tmp_path / "old.asdf", tmp_path / "new.asdf"
    old.write_bytes(draft(body, header_bytes(ITEMS, md5=False)[:-16] + b"x" * 16 + ITEMS))
    done = command("upgrade", old, new)
    assert done.code == 0
    assert "block 0: its checksum is 7878" in done.err
    assert "its checksum is 7878" in command("check", new).out
    old.write_bytes(draft(body, block_40(b"no zlib at all", b"zlib", len(ITEMS))))
    done = command("upgrade", "--force", old, new)
    assert done.code == 4
    assert "block 0: its compressed bytes are damaged" in done.err


def test_compressions_of_today_are_kept(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": np.arange(100)}).write_to(tmp_path / "today.asdf", all_array_compression="lz4")
    whole = (tmp_path / "today.asdf").read_bytes()
    body = b"a: !core/ndarray {source: 0, dtype: int64, byteorder: little, shape: [100]}\n"
    facts = upgraded(tmp_path, draft(body) + whole[whole.index(b"\xd3BLK") : whole.rindex(b"#ASDF BLOCK INDEX")])
    assert UNKNOWN not in facts
    with opened(tmp_path / "new.asdf") as tree:
        assert tree["a"][:].tolist() == list(range(100))


def test_compressed_blocks_of_1_x_forms_are_copied(tmp_path: Path) -> None:
    import bz2
    import zlib

    blocks = [
        block_40(zlib.compress(ITEMS), b"zlib", len(ITEMS)),
        block_40(bz2.compress(ITEMS), b"bzp2", len(ITEMS), total=9),
        block_44(ITEMS),
        block_36(ITEMS, slack=100, extra=b"extra"),
    ]
    body = b"".join(b"a%d: !core/ndarray {source: %d, datatype: int32, shape: [6]}\n" % (n, n) for n in range(4))
    found = upgraded(tmp_path, draft(body, *blocks, padding=bytes(100)))
    assert zlib.compress(ITEMS) in found
    with asdf.open(tmp_path / "new.asdf", validate_checksums=True) as tree:
        assert [tree[f"a{n}"][:].tolist() for n in range(4)] == [list(range(6))] * 4
    assert found.rstrip(b"\0").endswith(b"...\n"), "an index follows"


def test_a_stream_stays_one(tmp_path: Path) -> None:
    body = b"a: !core/ndarray {source: -1, dtype: int32, shape: ['*', 2]}\n"
    found = upgraded(tmp_path, draft(body, block_44(ITEMS, flags=1), head=HEAD_2014))
    assert found.endswith(ITEMS)
    with asdf.open(tmp_path / "new.asdf") as tree:
        assert tree["a"][:].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_check_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "old.asdf"
    shutil.copy(SAMPLES[-2], path)
    before = path.read_bytes()
    done = command("upgrade", "--check", path)
    assert done.code == 0
    assert "+#ASDF_STANDARD 1.6.0\n" in done.out
    assert "-#ASDF 0.1.0\n" in done.out
    facts = command("upgrade", "--check", "--json", path).json
    assert facts["dialect"] == "ASDF 0.1.0, draft of 2015"
    assert facts["blocks"][0]["was"] in done.out
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["old.asdf"]


def test_the_time_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1447000000")
    whole = draft(b"a: 1\n")
    assert b"time: 2015-11-08 16:26:40," in upgraded(tmp_path, whole)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    done = command("upgrade", "--check", tmp_path / "old.asdf")
    assert (done.code, done.sentence) == (2, "$SOURCE_DATE_EPOCH is 'today', and should be seconds since 1970")


def test_refusals(tmp_path: Path) -> None:
    old, new = tmp_path / "old.asdf", tmp_path / "new.asdf"
    old.write_bytes(draft(b"a: 1\n"))
    asdf.AsdfFile({"a": 1}).write_to(new)
    before = new.read_bytes()
    for arguments, code, sentence in (
        ((old,), 2, "give OUT"),
        ((old, old), 2, "is the file itself"),
        ((old, new), 2, "already exists"),
        ((new, tmp_path / "x.asdf"), 2, "is already ASDF 1; there is nothing to upgrade"),
        ((new, "--check"), 2, "is already ASDF 1"),
        ((tmp_path / "no.asdf", tmp_path / "x.asdf"), 3, "No such file"),
        ((old, tmp_path / "no" / "x.asdf"), 3, "is no directory"),
    ):
        done = command("upgrade", *arguments)
        assert (done.code, sentence in done.err) == (code, True), done.err
    assert new.read_bytes() == before
