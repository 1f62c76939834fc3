"""``asdffs diff``: what is the same, what is told, and in which words."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import Call, command
from support.mounts import environment_in
from support.samples import DATA, MASK, ODD_FILES, block_bytes, header_bytes, odd_file, zlib_block

from asdffs.cli.results import name_file
from asdffs.errors import DamagedFileError, InvalidTreeError
from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.storage.urls import shown_name
from asdffs.tree.values import ValueNode, read_values

HEAD = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


@pytest.fixture
def pair(tmp_path: Path) -> Callable[[bytes, bytes], tuple[Path, Path]]:
    def write(a: bytes, b: bytes) -> tuple[Path, Path]:
        (tmp_path / "a.asdf").write_bytes(a)
        (tmp_path / "b.asdf").write_bytes(b)
        return tmp_path / "a.asdf", tmp_path / "b.asdf"

    return write


@pytest.mark.parametrize("name", ODD_FILES)
def test_a_file_is_like_its_copy(call: Call, pair, name: str) -> None:
    done = call("diff", "--json", *pair(ODD_FILES[name], ODD_FILES[name]))
    assert done.code == 0
    assert (done.json["same"], done.json["text"], done.json["values"], done.json["blocks"]) == (True, [], [], [])


def test_every_difference_in_words(call: Call, pair) -> None:
    b = odd_file(blocks=[block_bytes(DATA[:50] + b"\xff" + DATA[51:]), block_bytes(MASK), block_bytes(b"more")])
    b = b.replace(b"12.5", b"12.75").replace(b"value: 1\n", b"other: [1]\n")
    a, b_path = pair(odd_file(), b)
    done = call("diff", a, b_path)
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[:3] == [f"--- {a}", f"+++ {b_path}", "@@ -4,8 +4,8 @@"]
    assert [line for line in lines if line[0] in "+-"][2:] == [
        "-meta: {exposure: 12.5, 'observer': \"Ada\"}   # and one at the end of a line",
        "-value: 1",
        "+meta: {exposure: 12.75, 'observer': \"Ada\"}   # and one at the end of a line",
        "+other: [1]",
    ]
    assert [line for line in lines if line.startswith(("value ", "block "))] == [
        "value meta/exposure: 12.5 -> 12.75",
        "value value: only in the first, 1",
        "value data: 1 of 25 elements differs, the first at [12]; "
        "the largest difference is 0.0622559, relative 0.00516",
        "value other: only in the second, a sequence",
        "block 0: differs from byte 50 on",
        "block 2: only in the second, 4 bytes",
    ]


def test_order_comments_style_and_storage_do_not_matter_by_value(call: Call, pair) -> None:
    a = HEAD + (
        "x: 1\ny: 'text'\nflag: yes\nf: 1.0\nn: .nan\nlist: [1, two, {a: b}]\nbase: &b {p: 1, q: 2}\n"
        "more: {<<: *b, q: 3}\nsame: *b\n"
        "data: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [100]}\n...\n"
    )
    b = HEAD + (
        "# a comment\n'y': text\nx: 0x1\nf: 1.00\nn: .NaN\nflag: true\n"
        "data: !core/ndarray-1.0.0\n  datatype: uint8\n  byteorder: big\n  shape: [100]\n  source: -1\n"
        "list:\n- 1\n- two\n- a: b\nbase: {q: 2, p: 1}\nmore: {p: 1, q: 3}\nsame: {p: 1, q: 2}\n...\n"
    )
    one = odd_file(tree=a, blocks=[block_bytes(DATA)])
    other = odd_file(tree=b, blocks=[block_bytes(b"nobody"), zlib_block(DATA)], index="absent")
    paths = pair(one, other)
    assert call("diff", "--values", *paths).out == ""
    assert call("diff", "--values", *paths).code == 0
    assert call("diff", "--text", *paths).code == 1
    assert call("diff", "--blocks", *paths).out == (
        "block 0: differs from byte 0 on, 100 -> 6 bytes\nblock 1: only in the second, 100 bytes\n"
    )


@pytest.mark.parametrize(
    ("a", "b", "line"),
    [
        ("1", "1.0", "1 -> 1.0"),
        ("1", "'1'", "1 -> '1'"),
        ("yes", "'yes'", "True -> 'yes'"),
        ("!x a", "a", "!x 'a' -> 'a'"),
        ("[]", "{}", "a sequence -> a mapping"),
        ("~", "''", "None -> ''"),
        ("2001-01-01", "'2001-01-01'", "2001-01-01 -> '2001-01-01'"),
        ("!<tag:a:b> {x: 1}", "!<tag:a:c> {x: 1}", "a:b a mapping -> a:c a mapping"),
    ],
)
def test_types_and_tags_matter(call: Call, pair, a: str, b: str, line: str) -> None:
    files = [odd_file(tree=f"%YAML 1.1\n--- !core\nv: {text}\n...\n", blocks=[]) for text in (a, b)]
    assert call("diff", "--values", *pair(*files)).out == f"value v: {line}\n"


def test_aliases_of_aliases_are_told_once(call: Call, pair) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    bomb = odd_file(tree=HEAD + "\n".join(lines) + "\n...\n", blocks=[])
    assert call("diff", "--values", *pair(bomb, bomb)).code == 0
    other = odd_file(tree=HEAD + "\n".join(lines).replace("x,", "y,") + "\n...\n", blocks=[])
    done = call("diff", "--values", *pair(bomb, other))
    assert (done.code, done.out) == (1, "".join(f"value a0/{n}: 'x' -> 'y'\n" for n in range(8))), "told once"


def test_files_of_the_library(tmp_path: Path, call: Call) -> None:
    tree = {"data": np.arange(30000.0), "meta": {"a": [1, 2, {"b": None}], "t": "x"}}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    asdf.AsdfFile(tree).write_to(tmp_path / "b.asdf", all_array_compression="zlib", pad_blocks=True)
    assert call("diff", tmp_path / "a.asdf", tmp_path / "b.asdf").code == 0
    tree["data"][12345] = 1.1
    asdf.AsdfFile(tree).write_to(tmp_path / "c.asdf")
    done = call("diff", tmp_path / "b.asdf", tmp_path / "c.asdf")
    assert (done.code, done.out.splitlines()) == (
        1,
        [
            "value data: 1 of 30,000 elements differs, the first at [12345]; "
            "the largest difference is 12343.9, relative 1.12e+04",
            f"block 0: differs from byte {12345 * 8} on",
        ],
    )


def test_what_cannot_be_decoded(call: Call, pair) -> None:
    unknown = header_bytes(b"whatever", compression=b"wxyz", data_size=99) + b"whatever"
    same = odd_file(blocks=[unknown, block_bytes(MASK)])
    assert call("diff", *pair(same, same)).code == 0, "the same stored bytes are the same"
    done = call("diff", *pair(same, odd_file()))
    assert (done.code, "the compression 'wxyz' is not known here" in done.err) == (2, True)


def test_refusals(call: Call, pair, tmp_path: Path) -> None:
    a, b = pair(odd_file(), b"no asdf")
    assert call("diff", a, tmp_path / "missing").code == 2
    done = call("diff", a, b)
    assert (done.code, "not an ASDF file" in done.sentence) == (2, True)
    b.write_bytes(odd_file().replace(b"value: 1\n", b"value: [\n"))
    assert call("diff", "--values", a, b).code == 2
    assert call("diff", "--text", a, b).code == 1


@given(old=st.lists(st.sampled_from("abcdef"), max_size=40), new=st.lists(st.sampled_from("abcdef"), max_size=40))
def test_the_text_is_a_patch(tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str]) -> None:
    """``patch`` makes the second text of the first."""
    folder = tmp_path_factory.mktemp("patch")
    texts = [odd_file(tree=HEAD + "".join(f"# {x}\n" for x in lines) + "...\n", blocks=[]) for lines in (old, new)]
    for name, text in zip("ab", texts, strict=True):
        (folder / name).write_bytes(text)
    done = command("diff", "--text", folder / "a", folder / "b", environment=environment_in(folder))
    assert (done.code == 0) == (old == new)
    if old != new:
        subprocess.run(["patch", "-s", folder / "a"], input=done.out.encode(), check=True, capture_output=True)
        assert (folder / "a").read_bytes() == texts[1]


def flat(node: ValueNode) -> object:
    if isinstance(node.value, dict):
        return {name: flat(value) for name, value in node.value.items()}
    return [flat(value) for value in node.value] if isinstance(node.value, list) else node.value


def test_values() -> None:
    found = flat(
        read_values(
            b"a: &x [1, {b: ~}]\nc: *x\n1: int\n'1': text\n? e\n: {<<: [{f: 1}, {f: 2, g: 3}], g: 4}\n~: null\n"
        )
    )
    assert found == {
        "a": [1, {"b": None}],
        "c": [1, {"b": None}],
        "1": "int",
        "'1'": "text",
        "e": {"g": 4, "f": 1},
        "null": None,
    }
    with pytest.raises(InvalidTreeError, match="did not find expected"):
        read_values(b"a: [")
    with pytest.raises(InvalidTreeError, match="nested"):
        read_values(b"[" * 3000 + b"]" * 3000)
    assert flat(read_values(b"")) == {}


def test_external_arrays_are_compared_by_their_bytes(tmp_path: Path, call: Call) -> None:
    for name, content in (("a", b"one"), ("b", b"two"), ("c", b"one")):
        (tmp_path / name).mkdir()
        tree = (
            HEAD + "x: !core/ndarray-1.0.0 {source: x0000.asdf, datatype: uint8, byteorder: big, shape: [3]}\n...\n"
        )
        (tmp_path / name / "x.asdf").write_bytes(odd_file(tree=tree, blocks=[]))
        other = odd_file(tree=None, comments="", blocks=[block_bytes(content)], index="absent")
        (tmp_path / name / "x0000.asdf").write_bytes(other)
    done = call("diff", "--values", tmp_path / "a/x.asdf", tmp_path / "b/x.asdf")
    assert (done.code, "value x: 3 of 3 elements differ, the first at [0]" in done.out) == (1, True)
    assert call("diff", "--values", tmp_path / "a/x.asdf", tmp_path / "c/x.asdf").code == 0


def test_newlines_matter_as_text(call: Call, pair) -> None:
    files = pair(odd_file(), odd_file(newline="\r\n"))
    assert call("diff", "--text", *files).code == 1
    assert call("diff", "--values", *files).code == 0


def test_an_alias_to_an_array_is_that_array(call: Call, pair) -> None:
    tree = (
        HEAD + "a: &x !core/ndarray-1.0.0 {source: %d, datatype: uint8, byteorder: big, shape: [100]}\nb: *x\n...\n"
    )
    a = odd_file(tree=tree.replace("%d", "0"), blocks=[block_bytes(DATA)])
    b = odd_file(tree=tree.replace("%d", "1"), blocks=[block_bytes(b"nobody"), block_bytes(DATA)])
    assert call("diff", "--values", *pair(a, b)).code == 0


def test_regression_a_truncated_block_was_compared_for_ever(call: Call, pair) -> None:
    header = BlockHeader(0, b"zlib", 1 << 45, 1 << 45, 1 << 46, bytes(16))
    cut = odd_file(blocks=[build_block_header(header) + b"abc"], index="absent")
    done = call("diff", "--blocks", *pair(cut, cut))
    assert done.code == 2
    assert "a.asdf" in done.sentence


def test_deep_and_wide_trees_take_no_time(call: Call, pair) -> None:
    wide = odd_file(tree=HEAD + "a: " + "[" * 200 + "1," * 100_000 + "]" * 200 + "\n...\n", blocks=[])
    assert call("diff", "--values", *pair(wide, wide)).code == 0


def test_names_of_urls_have_no_secrets() -> None:
    for err in (OSError(5, "Input/output error"), DamagedFileError("is damaged")):
        name_file(err, "https://user:secret@host/a.asdf?X-Amz-Signature=secret")
        assert "secret" not in f"{err} {getattr(err, 'filename', '')} {getattr(err, 'path', '')}"
    assert shown_name("a/b.asdf") == "a/b.asdf"


def arrays(folder: Path, a: Any, b: Any) -> list[Path]:
    paths = [folder / "a.asdf", folder / "b.asdf"]
    for path, value in zip(paths, (a, b), strict=True):
        asdf.AsdfFile({"x": value, "n": 1.0}).write_to(path)
    return paths


CASES = {
    "numbers": ([1.0, 2.0, 4.0], [1.0, 2.5, 4.0], (1, [1], 0.5, 0.2)),
    "integers": (np.array([2**63 - 1, 0], "i8"), np.array([-(2**63), 0], "i8"), (1, [0], 2**64 - 1, 2.0)),
    "unsigned": (np.array([[2**64 - 1, 5]], "u8"), np.array([[2**64 - 2, 5]], "u8"), (1, [0, 0], 1, 1 / 2**64)),
    "not a number": ([np.nan, np.nan, 1.0], [np.nan, 1.0, 1.0], (1, [1], None, None)),
    "infinite": ([np.inf, -np.inf], [np.inf, np.inf], (1, [1], None, None)),
    "complex": ([1 + 1j, 2], [1 + 1j, 2 + 3j], (1, [1], 3.0, 3 / abs(2 + 3j))),
    "texts": (np.array(["a", "b"]), np.array(["a", "c"]), (1, [1], None, None)),
    "booleans": ([True, False], [False, True], (2, [0], None, None)),
    "records": (np.array([(1, 2.0)], "i4,f8"), np.array([(1, 3.0)], "i4,f8"), (1, [0], None, None)),
    "zero": ([1.0], [0.0], (1, [0], 1.0, None)),
    "records with NaN": (
        np.array([(np.nan, [1, 2]), (1.0, [3, 4])], "f8,(2,)i2"),
        np.array([(np.nan, [1, 2]), (1.0, [3, 5])], "f8,(2,)i2"),
        (1, [1], None, None),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_elements(tmp_path: Path, call: Call, case: str) -> None:
    a, b, (differing, first, largest, relative) = CASES[case]
    done = call("diff", "--values", "--json", *arrays(tmp_path, np.asarray(a), np.asarray(b)))
    assert done.code == 1
    (found,) = done.json["values"]
    assert found["path"] == "x"
    elements = found["elements"]
    assert (elements["differing"], elements["total"], elements["first"]) == (differing, np.size(a), first)
    assert elements["largest"] == largest
    assert elements["relative"] == (relative if relative is None else pytest.approx(relative))


@pytest.mark.parametrize("seed", range(30))
def test_tolerances_are_those_of_numpy(tmp_path: Path, call: Call, seed: int) -> None:
    """In arrays of many pieces, of each kind of numbers, and of numbers in the tree."""
    rng = np.random.default_rng(seed)
    kind = ["f8", "f4", "i4", "u2", "c16", "i8"][seed % 6]
    a = (rng.normal(size=(50, 7)) * 100).astype(kind)
    b = np.where(rng.random(a.shape) < 0.2, a + (rng.normal(size=a.shape) * 3).astype(kind), a).astype(kind)
    if kind in ("f8", "f4"):
        a[3, 3], b[3, 3], a[4, 4] = np.nan, np.nan, np.inf
    rtol, atol = float(rng.choice([0, 1e-3, 0.02])), float(rng.choice([0, 0.5, 2]))
    words = ["--rtol", str(rtol), "--atol", str(atol)]
    done = call("diff", "--json", *words, *arrays(tmp_path, a, b))
    wanted = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    assert done.code == int(wanted.any())
    if wanted.any():
        elements = done.json["values"][0]["elements"]
        assert elements["differing"] == wanted.sum()
        assert elements["first"] == np.argwhere(wanted)[0].tolist()


def test_tolerances_of_numbers_in_the_tree(call: Call, pair) -> None:
    files = pair(odd_file(), odd_file().replace(b"12.5", b"12.75"))
    assert call("diff", "--atol", "0.25", *files).code == 0
    assert call("diff", "--atol", "0.2", *files).code == 1
    assert call("diff", "--rtol", "0.02", *files).code == 0
    assert call("diff", "--rtol", "-1", *files).code == 2
    assert call("diff", "--rtol", "0.02", "--text", *files).code == 1


def test_rows_are_compared_some_at_a_time(tmp_path: Path, call: Call) -> None:
    a = np.zeros((5, 1 << 20), "f4")
    b = a.copy()
    b[4, 7], b[3, 2] = 2, 1
    done = call("diff", "--values", *arrays(tmp_path, a, b))
    sentence = "2 of 5,242,880 elements differ, the first at [3, 2]; the largest difference is 2, relative 1"
    assert sentence in done.out


def test_bytes_that_no_element_has_do_not_matter_by_value(tmp_path: Path, call: Call) -> None:
    a, b = arrays(tmp_path, np.arange(6)[::2], np.array([0, 9, 2, 9, 4, 9])[::2])
    assert call("diff", "--values", a, b).code == 0
    assert call("diff", "--blocks", a, b).code in (0, 1)


def test_records_of_other_fields_are_compared_by_their_bytes(tmp_path: Path, call: Call) -> None:
    files = arrays(tmp_path, np.array([(1, 2.0)], "i4,f8"), np.array([(1, 3.0)], [("x", "i4"), ("y", "f8")]))
    done = call("diff", "--values", *files)
    assert done.code == 1
    assert "value x/source: block 0 and block 0 differ from byte" in done.out
