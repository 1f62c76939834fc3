from __future__ import annotations

import io
import itertools
import warnings
from unittest import mock

import asdf
import pytest

from asdffs.arrays import validation
from asdffs.arrays.datatypes import item_size
from asdffs.arrays.ndarrays import find_arrays
from asdffs.arrays.placement import fault_in_block
from asdffs.arrays.validation import check_text, find_not_utf8
from asdffs.dialects.asdf_1 import Asdf1
from asdffs.errors import InvalidTreeError
from asdffs.format.text import complete_last_line

HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- "


def check(text: bytes, *, had_tree: bool = True) -> object:
    return check_text(text, Asdf1(), had_tree=had_tree)


GOOD = [
    b"!core/asdf-1.1.0\na: 1\n...\n",
    b"{}\n...\n",
    b"\n...\n",
    b"{a: &x [1, *x]}\n...\n",
    b"{a: &x {b: 1}, c: {<<: *x}, d: {<<: [*x, {e: 2}]}, e: &y [*x], f: {<<: *y}}\n...\n",
    b"{a: !!omap [b: 1, c: 2], d: !!set {e, f}, g: !!binary aGVsbG8=, h: !!str 5, i: !!null ''}\n...\n",
    b"{a: " + b"1" * 60000 + b"x, b: " + b"[" * 150 + b"]" * 150 + b"}\n...\n",
    b"{a: 2020-01-02, b: 1.5e3, c: 0x1F, d: '2020-99-99', e: -7, f: 12:30:45, g: .inf, h: -.5, i: 1_000}\n...\n",
    b"{a: !<tag:nobody:knows> {b: c}, ? d : e}\n...\n",
    b"\na: |\n  ...\n  text\nb: {<<: {c: 1}}\n...\n",
    b"{1: a, '1': b, a: {a: [{b: 1}, {b: 2}]}, y: c, 'y ': d}\n...\n",
    b"{a: &a {b: 1}, c: {<<: *a, b: 2}, d: {<<: *a, <<: {b: 1}}}\n...\n",
    "{ключ: значение}\n...\n".encode(),
]
BAD = [
    (b"{a: 1}\n", "end marker missing"),
    (b"{a: 1}\n...", "end marker missing"),
    (b"{a: 1}\n... \n", "end marker missing"),
    (b"{a: 1}\n...\nmore\n...\n", "text follows the end marker"),
    (b"{a: 1, b: {c: 1, c: 2}}\n...\n", "line 5, column 22: the key 'c' is in line 5 already"),
    (b"\na: 1\nb: 2\n'a': 3\n...\n", "line 8, column 1: the key 'a' is in line 6 already"),
    (b"\n1: a\n0x1: b\n...\n", "the key '0x1' is in line 6 already"),
    (b"\nyes: a\ntrue: b\n...\n", "the key 'true' is in line 6 already"),
    (b"\n? &k a\n: 1\n? *k\n: 2\n...\n", r"the key '\*k' is in line 6 already"),
    (b"\n? &k a\n: 1\na: 2\n...\n", "the key 'a' is in line 6 already"),
    (b"{a: ]}\n...\n", "did not find expected"),
    (b"{a: *nowhere}\n...\n", "has no anchor"),
    (b"[1, 2]\n...\n", "must be a mapping, and this is a sequence"),
    (b"hello\n...\n", "must be a mapping, and this is a scalar"),
    (b"{{a: b}: 1}\n...\n", "cannot be a key"),
    (b"{a: 2020-13-45}\n...\n", "not a valid timestamp"),
    (b"{a: !!int foo}\n...\n", "not a valid int"),
    (b"{a: !!bool foo}\n...\n", "not a valid bool"),
    (b"{a: 0x_}\n...\n", "not a valid int"),
    (b"{a: " + b"1" * 5000 + b"}\n...\n", "not a valid int"),
    (b"{a: {<<: 3}}\n...\n", "merge key"),
    (b"{a: {<<: [1]}}\n...\n", "merge key"),
    (b"{b: &b 5, a: {<<: *b}}\n...\n", "merge key"),
    (b"{b: &b [5], a: {<<: *b}}\n...\n", "merge key"),
    (b"{b: &b [5], a: {? *b : 1}}\n...\n", "cannot be a key"),
    (b"{a: &a 1, b: &a [*a]}\n...\n", "already exists"),
    (b"{a: !!omap {a: 1}}\n...\n", "cannot have the tag"),
    (b"{a: !!omap [1]}\n...\n", "mapping of one key"),
    (b"{a: !!pairs [{a: 1, b: 2}]}\n...\n", "mapping of one key"),
    (b"{a: !!set [1]}\n...\n", "cannot have the tag"),
    (b"{a: !!omap 3}\n...\n", "cannot have the tag"),
    (b"{v: {? !foo a : b}}\n...\n", "tagged scalar cannot be a key"),
    (b"{w: &k !foo a, v: {? *k : b}}\n...\n", "tagged scalar cannot be a key"),
    (b"{v: [&a <<, {? *a : 2}]}\n...\n", "merge key"),
    (b"{v: {? !!merge x : 1}}\n...\n", "merge key"),
    (b"{v: !!omap [<<: {a: 1}]}\n...\n", "merge key"),
    (b"!!set {a}\n...\n", "cannot have the tag"),
    (b"{a: 0x" + b"f" * 4000 + b"}\n...\n", "not a valid int"),
    (b"{a: 1" + b":1" * 3000 + b"}\n...\n", "not a valid int"),
    (b"{a: !!str [1]}\n...\n", "cannot have the tag"),
    (b"{a: !!int {a: 1}}\n...\n", "cannot have the tag"),
    (b"{a: !!seq {a: 1}}\n...\n", "cannot have the tag"),
    (b"{a: !!map [1]}\n...\n", "cannot have the tag"),
    (b'{a: !!binary "@@@x"}\n...\n', "not a valid binary"),
    ("{a: !!binary 'é'}\n...\n".encode(), "not a valid binary"),
    (b'{a: !!timestamp "x"}\n...\n', "not a valid timestamp"),
    (b"{a: !core/ndarray-1.0.0 {source: " + b"1" * 5000 + b"}}\n...\n", "not a valid int"),
    (b"{a: " + b"[" * 300 + b"]" * 300 + b"}\n...\n", "deep"),
    (b"{a: !undefined!x 1}\n...\n", "undefined tag handle"),
    (b"{a: \xff}\n...\n", "not UTF-8"),
    (b"{a: \x01}\n...\n", "control characters|not allowed"),
    (b"{a: 1}\n--- {b: 2}\n...\n", "second YAML document"),
    (b"a: 1\n\tb: 2\n...\n", "."),
]


@pytest.mark.parametrize("body", GOOD)
def test_good(body: bytes) -> None:
    check(HEAD + body)


@pytest.mark.parametrize("body", [body for body in GOOD if not body.startswith(b"!core") and b"nobody" not in body])
def test_asdf_opens_what_is_good(body: bytes) -> None:
    with asdf.open(io.BytesIO(HEAD + b"!core/asdf-1.1.0 " + body.lstrip(b"\n") if body[:1] == b"{" else HEAD + body)):
        pass


@pytest.mark.parametrize(("body", "reason"), BAD)
def test_bad_names_the_line(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidTreeError, match=reason) as caught:
        check(complete_last_line(HEAD + body) if not body.endswith(b"...") else HEAD + body)
    assert caught.value.line is not None
    assert caught.value.line >= 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "first line must be the header"),
        (b"%YAML 1.1\n--- {}\n...\n", "first line must be the header"),
        (b"\xef\xbb\xbf" + HEAD, "BOM"),
        (b"#ASDF 0.1.0\n%YAML 1.1\n--- {}\n...\n", "must stay"),
        (b"#ASDF 1.0.0\n--- {}\n...\n", "%YAML 1.1"),
        (b"#ASDF 1.0.0\n\n%YAML 1.1\n--- {}\n...\n", "%YAML 1.1"),
        (b"#ASDF 1.0.0\n# only comments\n", "end marker missing"),
        (b"#ASDF 1.5.0\n%YAML 1.1\n--- {}\n...\n", "must stay '#ASDF 1.0.0'"),
        (
            b"#ASDF 1.0.0\n# a\n#ASDF_STANDARD 9.9.9\n%YAML 1.1\n--- {}\n...\n",
            "line 3: unknown ASDF_STANDARD 9",
        ),
    ],
)
def test_bad_heads(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidTreeError, match=reason):
        check(text)


@pytest.mark.parametrize("head", [b"#ASDF 1.5.0\n", b"#ASDF 1.0.0\n#ASDF_STANDARD 9.9.9\n", b"#ASDF 1.0.0\n"])
def test_versions_that_a_file_has_may_stay(head: bytes) -> None:
    text = head + b"%YAML 1.1\n--- {}\n...\n"
    assert check_text(text, Asdf1(), had_tree=True, before=head)[2] == ()


@pytest.mark.parametrize("standard", [None, *(f"1.{minor}.0" for minor in range(7))])
@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_tags_belong_to_the_standard_for_which_asdf_makes_arrays(standard: str | None, version: str) -> None:
    named = f"#ASDF_STANDARD {standard}\n" if standard else ""
    text = f"#ASDF 1.0.0\n{named}%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
    text += f"a: !core/ndarray-{version} {{data: [1, 2], datatype: int64, shape: [2]}}\n...\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with asdf.open(io.BytesIO(text.encode())) as file:
            known = not isinstance(file["a"], dict)
    assert Asdf1().is_of_standard(f"tag:stsci.edu:asdf/core/ndarray-{version}", standard) == known
    if known:
        check(text.encode())
    else:
        with pytest.raises(InvalidTreeError, match=rf"line {6 if standard else 5}: ndarray-{version} belongs to"):
            check(text.encode())


OF_TODAY = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- \n"


@pytest.mark.parametrize("key", ["1.5", "null", "2014-01-01", "~", "!!binary aGVs", ".inf"])
def test_keys_that_the_standard_excludes(key: str) -> None:
    text = OF_TODAY + f"a: 1\n? {key}\n: 2\n...\n".encode()
    with pytest.raises(InvalidTreeError, match="line 7: the key .* is neither text, an integer nor a boolean"):
        check(text)
    check(text.replace(b"1.6.0", b"1.5.0"))


@pytest.mark.parametrize("key", ["1", "'1.5'", "true", "a", "-0x1F", "!!str 1.5"])
def test_keys_that_it_allows(key: str) -> None:
    check(OF_TODAY + f"{key}: 2\n...\n".encode())


@pytest.mark.parametrize(
    "line", ["1.5: 2", "b: !core/ndarray-1.0.0 {data: [1], datatype: int64, shape: [1]}"], ids=["key", "tag"]
)
def test_what_the_standard_excludes_may_stay(line: str) -> None:
    """Only what the text before had: the same key, the same tag."""
    before = OF_TODAY + f"{line}\n...\n".encode()
    after = before.replace(b"...\n", b"c: 3\n...\n")
    found = check_text(after, Asdf1(), had_tree=True, before=before, whole_before=lambda: before)
    assert [one.line for one in found.oddities] == [6]
    with pytest.raises(InvalidTreeError):
        check_text(after + b"", Asdf1(), had_tree=True, before=OF_TODAY + b"{}\n...\n", whole_before=lambda: b"")
    worse = after.replace(b"c: 3", b"2.5: 3")
    with pytest.raises(InvalidTreeError, match="the key 2.5"):
        check_text(worse, Asdf1(), had_tree=True, before=before, whole_before=lambda: before)


def test_the_line_of_the_standard_may_not_go() -> None:
    before = OF_TODAY + b"{}\n...\n"
    with pytest.raises(InvalidTreeError, match="the line '#ASDF_STANDARD 1.6.0' is missing"):
        check_text(before.replace(b"#ASDF_STANDARD 1.6.0\n", b""), Asdf1(), had_tree=True, before=before)


@pytest.mark.parametrize(
    ("end", "completed"),
    [
        (b"...", b"...\n"),
        (b"...\n", b"...\n"),
        (b"...\r\n", b"...\r\n"),
        (b"...\n\n", b"...\n"),
        (b"...\n \t\r\n\n", b"...\n"),
        (b"...\r\n\r\n", b"...\r\n"),
        (b"... \n", b"... \n"),
        (b"...\nx\n", b"...\nx\n"),
        (b"x...\n\n", b"x...\n\n"),
    ],
)
def test_one_newline_follows_the_end_marker(end: bytes, completed: bytes) -> None:
    assert complete_last_line(b"a: 1\n" + end) == b"a: 1\n" + completed


def test_no_tree_is_good_where_there_was_none() -> None:
    assert check(b"#ASDF 1.0.0\n# comment\n", had_tree=False)[1:3] == (22, ())
    with pytest.raises(InvalidTreeError):
        check(b"#ASDF 1.0.0\n# comment", had_tree=False)


def test_most_truncations_are_refused() -> None:
    """A tree that was cut anywhere has lost its last line."""
    text = HEAD + b"a: 1\nb: [1, 2]\nc: {d: e}\n...\n"
    for cut in range(len(text) - 1):
        with pytest.raises(InvalidTreeError):
            check(text[:cut])


def test_only_the_last_newline_is_added() -> None:
    assert complete_last_line(b"x\n...") == b"x\n...\n"
    assert complete_last_line(b"x\r\n...") == b"x\r\n...\r\n"
    assert complete_last_line(b"x\n") == b"x\n"
    assert complete_last_line(b"x\n... ") == b"x\n... "


ARRAYS = HEAD + (
    b"!core/asdf-1.1.0\n"
    b"a: !core/ndarray-1.0.0 {source: 0, datatype: float32, byteorder: big, shape: [3, 4]}\n"
    b"deep:\n- x\n- b: !core/ndarray-1.1.0\n    source: -1\n    datatype: [ascii, 5]\n    shape: [2]\n    offset: 8\n"
    b"inline: !core/ndarray-1.0.0 {data: [[1, 2], [3, 4]], datatype: int8}\n"
    b"list: !core/ndarray-1.0.0 [1, 2, 3]\n"
    b"outside: !core/ndarray-1.0.0 {source: other.asdf, shape: ['*', 7], datatype: {a: b}}\n"
    b"strided: !core/ndarray-1.0.0 {source: 9, datatype: int16, shape: [2, 3], strides: [100, -2], offset: 4}\n"
    b"masked: !core/ndarray-1.0.0 {source: 0, datatype: int8, shape: [1], mask: !core/ndarray-1.0.0 {source: 1}}\n"
    b"record: !core/ndarray-1.0.0 {source: 0, shape: [10], datatype: [{name: x, datatype: int16},"
    b" {name: y, datatype: [ucs4, 2], shape: [3]}]}\n"
    b"...\n"
)


def test_arrays_are_found_at_their_paths() -> None:
    arrays = {array.name: array for array in find_arrays(ARRAYS, Asdf1())}
    assert set(arrays) == {
        "a", "deep/1/b", "inline", "list", "outside", "strided", "masked", "masked/mask", "record",
    }  # fmt: skip
    assert arrays["a"].line == 6
    assert arrays["deep/1/b"].source == -1
    assert arrays["inline"].source is None
    assert arrays["outside"].source == "other.asdf"


def test_item_sizes() -> None:
    assert item_size("complex128") == 16
    assert item_size("nonsense") is None
    assert item_size(["ascii", "x"]) is None


def test_faults_name_block_and_bytes() -> None:
    arrays = {array.name: array for array in find_arrays(ARRAYS, Asdf1())}
    faults = {name: fault_in_block(array, 2, lambda number: 40) for name, array in arrays.items()}
    assert faults["strided"] == "its source is 9, and the file has 2 blocks"
    assert faults["a"] == "it needs bytes 0 to 48 of block 0, which has 40"
    assert fault_in_block(arrays["a"], 2, lambda number: 48) == ""
    assert fault_in_block(arrays["a"], 2, lambda number: None) == "", "a damaged block is no fault of the array"


@pytest.mark.parametrize("whole", ["aé€😀" * 9, "é" * 20, "a" * 30])
def test_text_that_is_no_utf8_is_found_where_python_finds_it(whole: str) -> None:
    """In pieces of any size, which end in the middle of characters."""
    good = whole.encode()
    for piece in range(4, 12):
        with mock.patch.object(validation, "_DECODED_AT_ONCE", piece):
            assert find_not_utf8(good) is None
            for place, odd in itertools.product(range(len(good)), (b"\xff", b"\x80" * 9, b"\xe2\x82", b"a")):
                bad = good[:place] + odd + good[place + 1 :]
                try:
                    bad.decode()
                except UnicodeDecodeError as err:
                    assert find_not_utf8(bad) == err.start, (bad, piece)
                else:
                    assert find_not_utf8(bad) is None
