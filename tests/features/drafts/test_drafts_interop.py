"""Files of the drafts of 2014 and 2015 are read and changed as those of today (shared rules: docs/conformance.md)."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.drafts import (
    DIRECTIVES,
    HEAD_2014,
    HEAD_2015,
    INVALID,
    SAMPLES,
    block_36,
    block_40,
    block_44,
    content,
    draft,
    name_of,
    opened,
)

import asdffs
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import (
    AsdffsError,
    DamagedBlockError,
    InvalidTreeError,
    NotAsdfError,
    NotPermittedError,
    NotSupportedError,
    ReadOnlyError,
    Remedy,
)
from asdffs.features.drafts.dialects.draft_2014 import FORM_36, FORM_40, FORM_44, PLUGIN
from asdffs.format.block_scan import drive
from asdffs.format.scanner import scan_layout
from asdffs.storage.backend import read_bytes
from asdffs.storage.file_backend import FileFolder
from asdffs.workflows.checking import Level, check_document
from asdffs.workflows.exploded_files import explode
from asdffs.workflows.exploding import block_file

EXPECTED = [path for path in SAMPLES if path.with_suffix(".expect.npy").exists()]
ITEMS = np.arange(6, dtype=">i4").tobytes()
ARRAY = b"data: !core/ndarray {source: 0, dtype: int32, shape: [6]}\n"
TILED = b"---\n- [tile, {shape: [2, 2], original_shape: [3, 5], item_size: 1}]\n- zlib\n...\n"
FIFTEEN = bytes(range(15))


def tiled(items: bytes) -> bytes:
    """3 x 5 bytes in tiles of 2 x 2."""
    padded = np.zeros((4, 6), np.uint8)
    padded[:3, :5] = np.frombuffer(items, np.uint8).reshape(3, 5)
    return padded.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).tobytes()


def findings(document: Document, *, deep: bool = True) -> list[str]:
    return [found.sentence for found in check_document(document, deep=deep) if found.level is not Level.NOTE]


def test_there_are_samples_of_both() -> None:
    assert len(SAMPLES) >= 17
    assert len(EXPECTED) == 4
    assert len(INVALID) == 1


@pytest.mark.parametrize("path", EXPECTED, ids=name_of)
def test_decodes_as_expected(path: Path) -> None:
    expected = np.load(path.with_suffix(".expect.npy"))
    with asdffs.open(path) as document:
        found = document.arrays["data"][...]
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
        assert document.blocks[0].read_at(0, 1 << 20) == expected.tobytes()


@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_nothing_is_wrong_with_valid_ones(path: Path) -> None:
    document = open_document(str(path), writable=False)
    found = findings(document)
    document.close()
    assert bool(found) == (path in INVALID or path.stem == "unknown_encoding"), found


@pytest.mark.parametrize("path", INVALID, ids=name_of)
def test_invalid_ones_fail_by_block(path: Path) -> None:
    document = open_document(str(path), writable=False)
    assert len(document.blocks) == 1
    assert document.tree.arrays()[0].name == "data"
    with pytest.raises(DamagedBlockError, match="data_size 99 differs from used_size 64"):
        document.blocks[0].read_at(0, 1)
    document.close()


@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_edited_and_opened_again(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    if b"--- !core/asdf\n" not in whole:
        return
    folder, document = opened(whole)
    before = whole[document.layout.offsets[0] :]
    head = b"--- !core/asdf\n# by hand\nlong: " + b"x" * 9000 + b"\n"
    document.commit_tree(document.tree.text().replace(b"--- !core/asdf\n", head))
    document.finish()
    document.close()
    found = content(folder)
    assert found.endswith(before), "the blocks moved as they are, and no index follows"
    assert found.startswith(whole[:12])
    again = opened(found)[1]
    assert bytes(again.tree.text()).count(b"# by hand\n") == 1
    assert [again.blocks[n].offset for n in range(len(again.blocks))] == [
        document.layout.offsets[n] for n in range(len(again.blocks))
    ]
    again.close()


def test_forms_are_told_by_header_size() -> None:
    blocks = [block_36(ITEMS), block_40(ITEMS), block_44(ITEMS), block_36(ITEMS, extra=b"pad")]
    _, document = opened(draft(ARRAY, *blocks))
    forms = [block.header.form for block in document.blocks]
    assert forms == [FORM_36, FORM_40, FORM_44, FORM_36]
    assert [block.read_at(0, 100) for block in document.blocks] == [ITEMS] * 4
    assert not findings(document)
    document.close()


@pytest.mark.parametrize("extra", [b"12", b"\0" * 7, bytes(4000)])
def test_a_padded_header_is_read_by_what_makes_sense(extra: bytes) -> None:
    stored = zlib.compress(ITEMS)
    blocks = [block_40(stored, b"zlib", len(ITEMS), extra=extra), block_36(ITEMS, extra=extra)]
    _, document = opened(draft(ARRAY, *blocks))
    if len(extra) < 8:  # with 8 zeros more that of 40 bytes is the same as today's without a checksum
        assert [block.header.form for block in document.blocks] == [FORM_40, FORM_36]
    assert [block.read_at(0, 100) for block in document.blocks] == [ITEMS, ITEMS]
    document.close()


@pytest.mark.parametrize("magic", [b"\xd3BLK", b"\x89BLK"])
@pytest.mark.parametrize("length", [12, 13, 16])
def test_headers_of_2014(magic: bytes, length: int) -> None:
    whole = draft(ARRAY, block_44(ITEMS, bytes(length), magic=magic), head=HEAD_2014)
    folder, document = opened(whole)
    assert document.arrays["data"][...].tolist() == list(range(6)), "big endian, where nothing is said"
    document.blocks[0].write_at(4, b"\0\0\0\x09")
    document.blocks.append().write_at(0, b"new")
    document.finish()
    document.close()
    found = content(folder)
    assert found[: whole.index(b"BLK") - 1] == whole[: whole.index(b"BLK") - 1]
    assert found.count(magic) == 2, "a new block is written as the others"
    again = opened(found)[1]
    assert again.arrays["data"][1] == 9
    assert again.blocks[1].read_at(0, 9) == b"new"
    assert again.blocks[1].header.form == again.blocks[0].header.form
    again.close()


def test_2014_names_an_encoding_that_nobody_knows() -> None:
    _, document = opened(draft(ARRAY, block_44(b"stored", b"secret".ljust(16, b"\0")), head=HEAD_2014))
    block = document.blocks[0]
    assert block.compression == "secret"
    assert "'secret' is not known" in block.obstacle
    assert block.read_stored(0, 99) == b"stored"
    with pytest.raises(ReadOnlyError, match="shows its stored bytes"):
        block.write_at(0, b"x")
    document.close()


def test_a_stream_of_2014_is_source_minus_1() -> None:
    body = b"data: !core/ndarray {source: -1, dtype: int32, shape: ['*', 2]}\n"
    whole = draft(body, block_44(ITEMS, flags=1), head=HEAD_2014)
    folder, document = opened(whole)
    assert document.arrays["data"].shape == (3, 2)
    document.blocks[0].write_at(len(ITEMS), ITEMS)
    document.finish()
    assert document.arrays["data"].shape == (6, 2)
    document.close()
    assert content(folder) == whole + ITEMS


def test_sums_of_the_drafts_are_not_looked_at_and_not_written() -> None:
    folder, document = opened(draft(ARRAY, block_40(ITEMS, total=0xABCD)))
    assert document.blocks[0].find_checksum_fault() == ""
    document.blocks[0].write_at(0, b"\0\0\0\7")
    document.finish()
    document.close()
    assert content(folder) == draft(ARRAY, block_40(b"\0\0\0\7" + ITEMS[4:]))


def test_no_index_is_written() -> None:
    folder, document = opened(draft(ARRAY, block_36(ITEMS)))
    document.blocks.add(b"more")
    document.finish()
    assert not document.repair_index()
    document.close()
    assert content(folder) == draft(ARRAY, block_36(ITEMS), block_36(b"more"))


# -- chains -------------------------------------------------------------------


def chain_36(chunk: bytes, encoded: bytes, size: int) -> bytes:
    return block_36(chunk + encoded, size)


@pytest.mark.parametrize(
    "chunk",
    [
        b"---\n[zlib]\n...\n",
        b"[zlib]\r\n...\r\n",
        b"- [zlib]\n...\n",
        b"%YAML 1.1\n--- # a comment\n- zlib\n...\n",
        b"--- [[zlib, {}]]\n...\n",
    ],
)
def test_a_chunk_stays_what_it_was(chunk: bytes) -> None:
    folder, document = opened(draft(ARRAY, chain_36(chunk, zlib.compress(ITEMS), len(ITEMS))))
    assert document.blocks[0].compression == "zlib"
    assert document.arrays["data"][...].tolist() == list(range(6))
    document.arrays["data"][2] = 77
    document.commit()
    document.close()
    again = opened(content(folder))[1]
    assert again.arrays["data"][...].tolist() == [0, 1, 77, 3, 4, 5]
    assert again.blocks[0].read_stored(0, len(chunk)) == chunk
    again.close()


def test_tiles_are_written_as_they_were() -> None:
    whole = draft(b"x: 1\n", chain_36(TILED, zlib.compress(tiled(FIFTEEN)), 15))
    folder, document = opened(whole)
    block = document.blocks[0]
    assert block.compression == "tile+zlib"
    assert block.read_at(0, 99) == FIFTEEN
    block.write_at(14, b"\xff")
    document.finish()
    document.close()
    again = opened(content(folder))[1]
    assert again.blocks[0].read_at(0, 99) == FIFTEEN[:14] + b"\xff"
    stored = again.blocks[0].read_stored(0, 999)
    assert stored.startswith(TILED)
    assert zlib.decompress(stored[len(TILED) :]) == tiled(FIFTEEN[:14] + b"\xff")
    again.close()


def test_tiles_have_one_size() -> None:
    folder, document = opened(draft(b"x: 1\n", chain_36(TILED, zlib.compress(tiled(FIFTEEN)), 15)))
    block = document.blocks[0]
    with pytest.raises(NotPermittedError, match="its tiles hold 15 bytes"):
        block.write_at(14, b"12")
    with pytest.raises(NotPermittedError, match="its tiles hold 15 bytes"):
        block.truncate(16)
    block.truncate(0)  # as cp does before it writes
    with pytest.raises(NotSupportedError, match="its tiles hold exactly 15 bytes, not 0"):
        block.flush(durable=True)
    block.write_at(0, FIFTEEN[::-1])
    block.flush(durable=True)
    document.close()
    again = opened(content(folder))[1]
    assert again.blocks[0].read_at(0, 99) == FIFTEEN[::-1]
    again.close()


def test_compressions_that_a_form_can_say() -> None:
    folder, document = opened(draft(ARRAY, block_36(ITEMS), block_40(ITEMS), block_44(ITEMS)))
    document.blocks[0].set_compression("zlib")
    document.blocks[1].set_compression("bzp2")
    for number, name in ((0, "bzp2"), (1, "lz4"), (2, "zlib")):
        with pytest.raises(NotSupportedError, match=rf"cannot say {name}, only none") as refused:
            document.blocks[number].set_compression(name)
        assert refused.value.remedy is Remedy.UPGRADE
    document.finish()
    document.close()
    again = opened(content(folder))[1]
    assert [block.compression for block in again.blocks] == ["zlib", "bzp2", "none"]
    assert again.blocks[0].header.stored_flags == 2
    assert again.blocks[0].read_stored(0, 15) == b"---\n[zlib]\n...\n"
    assert [block.read_at(0, 99) for block in again.blocks] == [ITEMS] * 3
    again.blocks[0].set_compression("none")
    assert again.blocks[0].header.stored_flags == 0
    assert again.blocks[0].read_stored(0, 99) == ITEMS
    again.close()


def quantized(*chunks: tuple[int, float, float, bytes, int]) -> bytes:
    return b"".join(struct.pack(">BddQ", bits, offset, scale, n) + raw for bits, offset, scale, raw, n in chunks)


OF_SIX = b"---\n[[quantize, {dtype: 32, original_shape: [6]}]]\n...\n"
QUANTIZE = b"---\n- [quantize, {dtype: 64, original_shape: [5]}]\n...\n"


def test_quantize_follows_the_byteorder_of_the_tree() -> None:
    encoded = quantized((8, 10.0, 0.5, b"\xff\x00\x02", 3), (4, 0.0, 1.0, b"\x87", 2))
    body = b"data: !core/ndarray {source: 0, dtype: float64, shape: [5], byteorder: little}\n"
    _, document = opened(draft(body, chain_36(QUANTIZE, encoded, 40)))
    expected = [9.5, 10.0, 11.0, -8.0, 7.0]
    assert document.arrays["data"][...].tolist() == expected
    assert document.blocks[0].read_at(0, 40) == np.array(expected, "<f8").tobytes()
    document.commit_tree(document.tree.text().replace(b"little", b"big"))
    assert document.blocks[0].read_at(0, 40) == np.array(expected, ">f8").tobytes()
    assert document.arrays["data"][...].tolist() == expected
    document.close()


def test_quantize_is_read_only_until_it_is_stored_otherwise() -> None:
    encoded = quantized((8, 0.0, 1.0, b"\1\2\3\4\5", 5))
    body = b"data: !core/ndarray {source: 0, dtype: float64, shape: [5]}\n"
    folder, document = opened(draft(body, chain_36(QUANTIZE, encoded, 40)))
    with pytest.raises(ReadOnlyError, match="quantize rounds values"):
        document.blocks[0].write_at(0, b"x")
    document.blocks[0].set_compression("zlib")
    document.arrays["data"][0] = 0.25
    document.commit()
    document.close()
    again = opened(content(folder))[1]
    assert again.arrays["data"][...].tolist() == [0.25, 2, 3, 4, 5]
    again.close()


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"", "cannot come from 0 stored"),
        (b"---\n[zlib]\n", "has no end"),
        (b"---\n[zlib, {\n...\n", "is not YAML"),
        (b"---\nzlib\n...\n", "not a list"),
        (b"---\n[]\n...\n", "cannot come from 11 stored"),
        (b"---\n# " + b"x" * (1 << 20) + b"\n[zlib]\n...\n", "longer than 1 MiB"),
        (b"---\n[[quantize, {dtype: 32}]]\n...\n", "needs original_shape"),
        (b"---\n[[quantize, {dtype: 32, original_shape: [5]}]]\n...\n", "exactly 20 bytes, not 24"),
        (b"---\n[&a zlib, *a]\n...\n", "has anchors"),
        (b"---\n[[zlib, {x: " + b"9" * 5000 + b"}]]\n...\n", "not YAML"),
        (b"---\n[[zlib, {x: 0x" + b"f" * 5000 + b"}]]\n...\n", "not YAML"),
        (b"---\n[[zlib, {x: {y: 1}}]]\n...\n", "not a number, a text or a list"),
        (
            OF_SIX + struct.pack(">BddQ", 8, 0, 1, 0) * 1001,
            "too many chunks",
        ),
        (b"---\n[" + b"zlib, " * 65 + b"]\n...\n", "at most 64 encodings"),
        (b"---\n[[zlib, 3]]\n...\n", "not a name with arguments"),
        (b"---\n[zlib, [tile, {shape: [1], original_shape: [1], item_size: 1}]]\n...\n", "cannot follow each other"),
        (b"---\n[[tile, {shape: [1], item_size: 1}]]\n...\n", "needs shape"),
        (b"---\n[[tile, {shape: [1, 1], original_shape: [24], item_size: 1}]]\n...\n", "2 axes"),
        (b"---\n[[tile, {shape: [0], original_shape: [24], item_size: 1}]]\n...\n", "must be positive"),
        (b"---\n[[tile, {shape: [5], original_shape: [24], item_size: 1}]]\n...\n", "tiles end too early"),
        (b"---\n[[tile, {shape: [5], original_shape: [23], item_size: 1}]]\n...\n", "exactly 23 bytes, not 24"),
        (b"---\n[[tile, {shape: [1000000000], original_shape: [24], item_size: 1}]]\n...\n", "at most 268435456"),
        (b"---\n[[quantize, {dtype: 16}]]\n...\n", "32 or 64"),
        (b"---\n[[quantize, {dtype: 32, original_shape: [2, 3]}]]\n...\n", "6 quantized values are missing"),
        (OF_SIX + b"xyz", "inside the header of a chunk"),
        (
            OF_SIX + struct.pack(">BddQ", 65, 0, 1, 6),
            "65 bits",
        ),
        (
            OF_SIX + struct.pack(">BddQ", 8, 0, 1, 7),
            "more quantized values",
        ),
        (
            OF_SIX + struct.pack(">BddQ", 8, 0, 1, 6),
            "values end too early",
        ),
        (b"---\n[zlib]\n...\nno zlib at all", "the zlib stream is not valid"),
        (b"---\n[zlib]\n...\n" + zlib.compress(bytes(24))[:-3], "end too early"),
        (b"---\n[zlib]\n...\n" + zlib.compress(bytes(25)), "more than"),
        (b"---\n[zlib, zlib]\n...\n" + zlib.compress(zlib.compress(bytes(1 << 20))), "more than"),
        (b"---\n" + b"[" * 3000 + b"\n...\n", "is not YAML"),
    ],
)
def test_a_bad_chain_is_a_bad_block(stored: bytes, reason: str) -> None:
    _, document = opened(draft(ARRAY, block_36(stored, 24), block_36(ITEMS)))
    with pytest.raises(DamagedBlockError, match=reason):
        document.blocks[0].read_at(0, 24)
    with contextlib.suppress(ReadOnlyError), pytest.raises(DamagedBlockError):
        document.blocks[0].write_at(1, b"x")
    assert document.blocks[1].read_at(0, 99) == ITEMS
    assert len(findings(document)) == 1
    document.close()


def test_encoded_and_streamed_is_a_bad_block() -> None:
    _, document = opened(draft(ARRAY, block_36(ITEMS), block_36(b"---\n[zlib]\n...\n", 3, flags=1)))
    assert len(document.blocks) == 2
    with pytest.raises(DamagedBlockError, match="streamed and encoded"):
        document.blocks[1].read_at(0, 3)
    assert document.blocks[0].read_at(0, 99) == ITEMS
    document.close()


@pytest.mark.parametrize("count", [0, 1, 5, 64])
@pytest.mark.parametrize("comment", [0, 20_000])
def test_chains_of_any_length_the_draft_allows(count: int, comment: int) -> None:
    encoded = ITEMS
    for _ in range(count):
        encoded = zlib.compress(encoded)
    chunk = b"# " + b"x" * comment + b"\n[" + b", ".join([b"zlib"] * count) + b"]\n...\n"
    _, document = opened(draft(ARRAY, block_36(chunk + encoded, len(ITEMS))))
    assert document.blocks[0].read_at(0, len(ITEMS)) == ITEMS
    document.close()


def test_a_few_bytes_cannot_claim_any_amount() -> None:
    stored = b"---\n[zlib, zlib, zlib, zlib]\n...\n" + bytes(300)
    _, document = opened(draft(ARRAY, block_36(stored, 1 << 40)))
    with pytest.raises(DamagedBlockError, match="cannot come from"):
        document.blocks[0].read_at(0, 1)
    document.close()


@pytest.mark.parametrize("magic", [b"\xd3BLK", b"\x89BLK"])
def test_regression_the_padding_may_have_the_other_magic(magic: bytes) -> None:
    (other,) = {b"\xd3BLK", b"\x89BLK"} - {magic}
    whole = draft(ARRAY, other * 20, block_44(ITEMS, magic=magic), block_44(ITEMS[::-1], magic=magic), head=HEAD_2014)
    _, document = opened(whole)
    assert [block.read_at(0, 99) for block in document.blocks] == [ITEMS, ITEMS[::-1]]
    document.close()


@pytest.mark.parametrize("extra", [4, 8, 12, 14])
@pytest.mark.parametrize("tail", [b"", bytes(50), b"\n"])
def test_a_padded_header_of_another_forms_size(extra: int, tail: bytes) -> None:
    """36 bytes padded to 40, 44 or 48 are not those forms; nor does what follows the blocks hide them."""
    blocks = [block_36(ITEMS, extra=bytes(extra)), block_36(ITEMS[::-1], extra=bytes(extra))]
    _, document = opened(draft(ARRAY, *blocks) + tail)
    assert [block.header.form for block in document.blocks[:1]] == [FORM_36]
    assert document.blocks[0].read_at(0, 99) == ITEMS
    if not tail:
        assert document.blocks[1].read_at(0, 99) == ITEMS[::-1]
    document.close()


def test_a_padded_header_whose_block_was_cut() -> None:
    _, document = opened(draft(ARRAY, block_36(ITEMS, extra=bytes(14)))[:-4])
    assert len(document.blocks) == 1
    assert document.blocks[0].read_stored(0, 99) == ITEMS[:-4]
    document.close()


def test_a_sum_of_8_bytes_in_a_padded_header_is_no_md5() -> None:
    _, document = opened(draft(ARRAY, block_40(ITEMS, extra=bytes(16), total=0xABCD)))
    assert document.blocks[0].header.form == FORM_40
    assert not findings(document)
    document.blocks[0].set_compression("zlib")
    document.close()


def test_a_contradiction_in_a_padded_header_hides_nothing() -> None:
    broken = bytearray(block_36(ITEMS, extra=bytes(4)))
    broken[33] = 99  # data_size
    _, document = opened(draft(ARRAY, bytes(broken), block_36(ITEMS)))
    assert len(document.blocks) == 2
    with pytest.raises(DamagedBlockError, match="data_size"):
        document.blocks[0].read_at(0, 1)
    assert document.blocks[1].read_at(0, 99) == ITEMS
    document.close()


FLOATS = np.array([9.5, 10.0, 11.0, -8.0, 7.0])
QUANTIZED = quantized((8, 10.0, 0.5, b"\xff\x00\x02", 3), (4, 0.0, 1.0, b"\x87", 2))


@pytest.mark.parametrize(
    "body",
    [
        b"z: !core/ndarray {source: 0, dtype: uint8, shape: [40]}\n"
        b"a: !core/ndarray {source: 0, dtype: float64, shape: [5], byteorder: little}\n",
        b"a: !core/ndarray {source: 0, dtype: [{name: x, dtype: float64, byteorder: little}], shape: [5]}\n",
    ],
)
def test_the_byteorder_is_that_of_floats(body: bytes) -> None:
    _, document = opened(draft(body, chain_36(QUANTIZE, QUANTIZED, 40)))
    assert document.arrays["a"][...].astype(float).tolist() == FLOATS.tolist()
    document.close()


def test_values_that_follow_the_tree_are_not_exploded(tmp_path: Path) -> None:
    body = b"a: !core/ndarray {source: 0, dtype: float64, shape: [5], byteorder: little}\n"
    path = tmp_path / "x.asdf"
    path.write_bytes(draft(body, chain_36(QUANTIZE, QUANTIZED, 40)))
    document = open_document(str(path), writable=False)
    with pytest.raises(NotPermittedError, match="the tree states its byteorder") as refused:
        explode(document, FileFolder(str(tmp_path)), "out", mode=0o644)
    assert refused.value.remedy is Remedy.RECOMPRESS
    file = block_file(document, 0)
    assert read_bytes(file.read(document, 0, 99)) == FLOATS.astype("<f8").tobytes(), (
        "in a mount they are shown decoded"
    )
    document.close()


def test_a_write_to_a_block_that_claims_anything() -> None:
    broken = bytearray(block_40(ITEMS, total=5))
    broken[14:22] = struct.pack(">Q", 1 << 62)
    folder, document = opened(draft(ARRAY, bytes(broken)))
    document.blocks[0].write_at(0, b"new")
    document.finish()
    document.close()
    assert content(folder) == draft(ARRAY, block_40(b"new" + ITEMS[3:]))


def test_new_blocks_behind_one_that_claims_anything() -> None:
    broken = bytearray(block_36(ITEMS))
    broken[10:18] = struct.pack(">Q", 1 << 62)
    folder, document = opened(draft(ARRAY, bytes(broken)))
    document.blocks.add(b"more")
    document.close()
    again = opened(content(folder))[1]
    assert [block.read_at(0, 99) for block in again.blocks] == [ITEMS, b"more"]
    again.close()


# -- the tree -----------------------------------------------------------------


def test_the_header_line_stays() -> None:
    for head, line in ((HEAD_2014, b"%ASDF 0.1.0"), (HEAD_2015, b"#ASDF 0.1.0")):
        block = block_44(ITEMS) if head is HEAD_2014 else block_36(ITEMS)
        _, document = opened(draft(ARRAY, block, head=head))
        for other in (b"#ASDF 1.0.0", b"%ASDF 0.2.0", HEAD_2015.strip() if head is HEAD_2014 else HEAD_2014.strip()):
            with pytest.raises(InvalidTreeError, match=rf"must stay '{line.decode()}'") as refused:
                document.commit_tree(document.tree.text().replace(line, other))
            assert refused.value.remedy is Remedy.UPGRADE
        document.close()


@pytest.mark.parametrize("line", [b"#ASDF 0.2.0\n", b"%ASDF 1.0.0\n", b"#ASDF 2.0.0\n"])
def test_versions_that_nobody_knows(line: bytes) -> None:
    with pytest.raises(NotAsdfError, match="a version that asdffs does not know"):
        opened(line + DIRECTIVES + b"...\n")


def test_errors_of_a_2014_tree_have_their_line() -> None:
    _, document = opened(draft(b"a: 1\n", head=HEAD_2014))
    with pytest.raises(InvalidTreeError) as caught:
        document.commit_tree(document.tree.text().replace(b"a: 1\n", b"a: 1\nb: [\n"))
    assert caught.value.line is not None
    assert caught.value.line >= 6
    document.close()


def test_arrays_of_the_drafts() -> None:
    body = b"""table: !core/ndarray
  source: 0
  shape: [1]
  dtype:
  - name: place
    dtype:
    - {name: ra, dtype: int16}
    - {name: dec, dtype: int16, byteorder: little}
  - [ascii, 2]
  - {name: pair, dtype: uint8, shape: [2]}
last: !core/ndarray {source: -1, dtype: uint8, shape: [4], mask: 7}
masked: !core/ndarray
  source: 1
  dtype: uint8
  shape: [4]
  mask: !core/ndarray {source: -1, dtype: bool8, shape: [4]}
inline: !core/ndarray [[1, 2], [3, 4]]
typed: !core/ndarray {data: [1, 2], dtype: float32}
mixed: !core/ndarray
  dtype: [[ascii, 4], uint16]
  data: [[M110, 110], [M31, 31]]
whole: !<tag:stsci.edu:asdf/0.1.0/core/ndarray> {source: 1, dtype: uint16, shape: [2]}
complex: !core/ndarray [!core/complex 1-1j]
"""
    blocks = [block_36(b"\0\1\2\0ab\5\6"), block_36(bytes([0, 7, 1, 0]))]
    _, document = opened(draft(body, *blocks))
    found = {name: document.arrays[name][...] for name in document.arrays}
    place, name, pair = found["table"][0].tolist()
    assert (place, name, pair.tolist()) == ((1, 2), b"ab", [5, 6])
    assert found["last"].tolist() == [0, 7, 1, 0]
    assert document.arrays["last/mask"][...].tolist() == [False, True, False, False]
    assert found["masked/mask"].tolist() == [False, True, True, False]
    assert found["inline"].tolist() == [[1, 2], [3, 4]]
    assert found["typed"].dtype == np.float32
    assert found["mixed"].tolist() == [(b"M110", 110), (b"M31", 31)]
    assert found["whole"].tolist() == [7, 256]
    assert found["complex"].tolist() == [1 - 1j]
    assert not findings(document)
    document.close()


@pytest.mark.parametrize("head", [HEAD_2014, HEAD_2015])
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"!core/asdf", b"!core/wrong", "the root of the tree has the tag tag:stsci.edu:asdf/0.1.0/core/wrong, not"),
        (b" !core/asdf", b"", "the root of the tree has no tag, not core/asdf"),
        (b"data: !core/ndarray", b"data: !core/other", "data is not an ndarray"),
    ],
)
def test_what_the_drafts_want_of_a_tree_is_told(head: bytes, old: bytes, new: bytes, sentence: str) -> None:
    whole = draft(ARRAY, block_44(ITEMS), head=head)
    assert old in whole
    for text, expected in ((whole, False), (whole.replace(old, new), True)):
        _, document = opened(text)
        assert any(sentence in finding.sentence for finding in check_document(document, deep=False)) is expected
        document.close()


def test_many_false_magics_are_not_read_again_and_again() -> None:
    padding = bytes(5 << 20) + b"\xd3BLK" * 5000 + bytes(1 << 20)
    whole = draft(ARRAY, block_44(ITEMS, magic=b"\x89BLK"), head=HEAD_2014, padding=padding)
    count = 0

    def read(offset: int, length: int) -> bytes:
        nonlocal count
        count += min(length, len(whole) - offset)
        return whole[offset : offset + length]

    drive(scan_layout(len(whole), lambda header: PLUGIN.rules), read)
    assert count < 3 * len(whole)


TILE = b"[tile, {shape: [1, 8388608], original_shape: [1, 8388608], item_size: 8}], "


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (b"[" + TILE * 60 + b"]", "too much memory"),
        (b"[" + b"a," * 20_000 + b"]", "thousands of values"),
        (b"[[zlib, {x: [" + b"1," * 20_000 + b"]}]]", "thousands of values"),
    ],
)
def test_a_chain_cannot_cost_much(chunk: bytes, reason: str) -> None:
    stored = chunk + b"\n...\n" + zlib.compress(ITEMS)
    _, document = opened(draft(ARRAY, block_36(stored, len(ITEMS))))
    with pytest.raises(AsdffsError, match=reason):
        document.blocks[0].read_at(0, 1)
    document.close()
