"""FITS files with an ASDF extension, edited by asdffs and judged by astropy."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import asdf
import numpy as np
import pytest
from astropy.io import fits
from hypothesis import given
from hypothesis import strategies as st
from support.filesystems import KINDS, filesystem
from support.fits_files import (
    COEFFICIENTS,
    DATA,
    DQ,
    FORMS,
    OBSERVER,
    SECOND,
    SPECTRUM,
    TREE,
    UNITS,
    Form,
    bomb,
    embedded,
    others,
    with_blocks,
    with_tile,
    write_fits,
)

import asdffs
from asdffs.errors import AsdffsError, InUseError, InvalidArrayError, NotAsdfError, NotPermittedError
from asdffs.features.fits.hdus import encode_sum, read_hdus, sum_of
from asdffs.features.fits.tiles import check_tiles
from asdffs.storage.backend import read_bytes
from asdffs.workflows.checking import check_document

RECORD = 2880


@pytest.fixture(params=FORMS, ids=lambda form: f"{form.kind}-{'last' if form.last else 'second'}-{form.checksum}")
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "jw_cal.fits"
    write_fits(path, request.param)
    return path


def observer(length: int) -> str:
    return "v" * length


def test_the_tree_is_that_of_the_extension(file: Path) -> None:
    with asdffs.open(file) as document:
        assert document.tree.text() == TREE
        assert document.values["meta"]["exposure"] == {"time": 107.5, "type": "NRC_IMAGE"}


def test_arrays_are_those_of_the_extensions(file: Path) -> None:
    with asdffs.open(file) as document:
        arrays = document.arrays
        for name, wanted in {"data": DATA, "second": SECOND, "dq": DQ, "spectrum": SPECTRUM}.items():
            found = arrays[name][...]
            assert np.array_equal(found, wanted)
            assert found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=")
        assert np.array_equal(arrays["data"][3:5, ::2], DATA[3:5, ::2])
        with pytest.raises(NotPermittedError):
            arrays["data"][0, 0] = 1


@pytest.mark.sampled(5)
@pytest.mark.parametrize("length", [1, 3, 40, 2000, 2880, 3000, 60_000])
def test_an_edit_changes_the_tree_and_nothing_else(file: Path, length: int) -> None:
    """Also the second and the third edit, which find the file as the first has left it."""
    before, first = others(file), embedded(file)
    for size in (length, length + 1, 2):
        value = observer(size)
        with asdffs.open(file, "r+") as document, document.edit():
            document.values["meta"]["observer"] = value
        text = first.replace(b"observer: Ada", b"observer: " + value.encode())
        found = embedded(file)
        assert found.rstrip(b" ") == text
        assert others(file) == before
        assert file.stat().st_size % RECORD == 0
        with asdffs.open(file) as document:
            assert document.tree.text() == text
            assert np.array_equal(document.arrays["data"][...], DATA)


def test_a_shorter_tree_keeps_the_size(tmp_path: Path) -> None:
    path = tmp_path / "jw.fits"
    write_fits(path)
    size, length = path.stat().st_size, len(embedded(path))
    with asdffs.open(path, "r+") as document, document.edit():
        del document.values["meta"]["exposure"]
    assert (path.stat().st_size, len(embedded(path))) == (size, length)


def test_records_are_appended_or_all_that_follows_moves(tmp_path: Path) -> None:
    """By one record for the last HDU; by the least number of bytes that whole pages and records have, elsewhere."""
    for last, growth in ((True, RECORD), (False, 184_320)):
        path = tmp_path / f"{last}.fits"
        write_fits(path, Form(last=last))
        size = path.stat().st_size
        with asdffs.open(path, "r+") as document, document.edit():
            document.values["meta"]["observer"] = observer(RECORD)
        assert path.stat().st_size == size + growth


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("lengths", [[40, 41], [3000, 3], [2600, 2700, 7000], [90_000, 200_000]], ids=str)
def test_blocks_behind_a_growing_tree(tmp_path: Path, form: Form, lengths: list[int]) -> None:
    """They are written again; the asdf library reads them and their index without a warning."""
    path = tmp_path / "jw.fits"
    write_fits(path, form, with_blocks())
    before = others(path)
    for length in lengths:
        with asdffs.open(path, "r+") as document:
            held = document.arrays["c1"]
            with document.edit():
                document.values["meta"]["observer"] = observer(length)
            assert np.array_equal(held[...], COEFFICIENTS + 1)
        raw = embedded(path)
        with asdf.open(io.BytesIO(raw)) as found:
            assert found["meta"]["observer"] == observer(length)
            for number in range(2):
                assert np.array_equal(found[f"c{number}"], COEFFICIENTS + number)
        assert raw.count(b"#ASDF BLOCK INDEX") == 1
        assert raw.endswith(b"...\n")
        assert others(path) == before
        assert doubts(path) == []
        with asdffs.open(path) as document:
            assert document.layout.index is not None


def test_a_mapped_block_does_not_move(tmp_path: Path) -> None:
    path = tmp_path / "jw.fits"
    write_fits(path, tree=with_blocks())
    before = path.read_bytes()
    with asdffs.open(path, "r+") as document:
        mapped = document.arrays["c0"].mapped()
        with pytest.raises(InUseError), document.edit():
            document.values["meta"]["observer"] = observer(5000)
        assert path.read_bytes() == before
        del mapped
        with document.edit():
            document.values["meta"]["observer"] = observer(5000)
    assert path.read_bytes() != before


def test_comments_of_cards_stay(tmp_path: Path) -> None:
    path = tmp_path / "jw.fits"
    write_fits(path)
    with fits.open(path) as hdus:
        before = {card.keyword: card.comment for card in hdus["ASDF"].header.cards}
    with asdffs.open(path, "r+") as document, document.edit():
        document.values["meta"]["observer"] = observer(100_000)
    with fits.open(path) as hdus:
        header = hdus["ASDF"].header
        assert {card.keyword: card.comment for card in header.cards} == before
        assert header["TFORM1"] == f"{header['NAXIS1']}B"


@given(st.binary(max_size=400).map(lambda raw: raw + bytes(-len(raw) % 4)))
def test_sums_are_those_of_astropy(raw: bytes) -> None:
    oracle = fits.PrimaryHDU()
    total = int(oracle._compute_checksum(np.frombuffer(raw, np.uint8), np.uint32(0)))
    assert sum_of([raw]) == total
    assert encode_sum(~total & 0xFFFF_FFFF) == oracle._char_encode(~np.uint32(total))


def without_extension(path: Path) -> None:
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(DATA, name="SCI")]).writeto(path)


def in_a_heap(path: Path) -> None:
    column = fits.Column(name="ASDF_METADATA", format="PB()", array=np.array([np.frombuffer(TREE, np.uint8)], object))
    table = fits.BinTableHDU.from_columns([column], name="ASDF")
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(path)


def scaled_bytes(path: Path) -> None:
    image = fits.ImageHDU(np.frombuffer(TREE, np.uint8).view(np.int8), name="ASDF")
    fits.HDUList([fits.PrimaryHDU(), image]).writeto(path)


def many(path: Path) -> None:
    empty = fits.ImageHDU().header.tostring(padding=True).encode()
    path.write_bytes(fits.PrimaryHDU().header.tostring(padding=True).encode() + 21_000 * empty)


def card(keyword: str, value: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        write_fits(path, Form(last=False))
        raw = path.read_bytes()
        place = raw.index(b"XTENSION")
        place = raw.index(f"{keyword:<8}= ".encode(), place)
        path.write_bytes(raw[: place + 10] + f"{value:>20}".encode() + raw[place + 30 :])

    return write


def cut(size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        write_fits(path, Form(last=False))
        path.write_bytes(path.read_bytes()[:size])

    return write


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (without_extension, "is a FITS file without an extension named ASDF (it has: SCI)"),
        (in_a_heap, "neither one cell of bytes nor an image of bytes"),
        (scaled_bytes, "neither one cell of bytes nor an image of bytes"),
        (many, "more than 20000 FITS extensions"),
        (card("NAXIS1", -5), "no valid length of an axis"),
        (card("NAXIS1", 10**18), "neither one cell of bytes"),
        (card("NAXIS1", 10**19), "a size that no file can have"),
        (card("NAXIS2", 2), "neither one cell of bytes"),
        (card("NAXIS", 1000), "no valid BITPIX and NAXIS"),
        (card("NAXIS", -1), "no valid BITPIX and NAXIS"),
        (card("BITPIX", 7), "no valid BITPIX and NAXIS"),
        (card("GCOUNT", -1), "a size that no file can have"),
        (card("PCOUNT", 10), "neither one cell of bytes"),
        (cut(100), "the file ends inside a FITS header"),
        (cut(2880 + 400), "the file ends inside a FITS header"),
        (cut(2880 * 2 + 10), "the FITS file ends inside its extension ASDF"),
    ],
)
def test_hostile_headers_give_a_sentence(tmp_path: Path, write: Callable[[Path], None], sentence: str) -> None:
    path = tmp_path / "x.fits"
    write(path)
    with pytest.raises(AsdffsError) as caught:
        asdffs.open(path)
    assert sentence in str(caught.value)


def test_an_endless_header_gives_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    with path.open("wb") as file:
        file.write(b"SIMPLE  =                    T".ljust(80))
        file.truncate(1 << 40)
    with pytest.raises(AsdffsError, match="longer than 16 MiB"):
        asdffs.open(path)


@pytest.mark.long
def test_random_bytes_in_headers_give_a_sentence_or_a_document(tmp_path: Path) -> None:
    path, dice = tmp_path / "x.fits", random.Random(1)
    write_fits(path, Form(last=False, checksum=True))
    good = path.read_bytes()
    refused = 0
    for _ in range(400):
        raw = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            raw[dice.randrange(0, 5 * RECORD)] = dice.choice(b"0123456789-' /=ABTX\0\xff")
        path.write_bytes(raw)
        try:
            with asdffs.open(path) as document:
                for name in document.arrays:
                    read_or_refuse(document, name)
        except (AsdffsError, UnicodeDecodeError):
            refused += 1
    assert 0 < refused < 400


def read_or_refuse(document: asdffs.Document, name: str) -> None:
    with contextlib.suppress(AsdffsError):
        document.arrays[name][...]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"fits:SCI,1", b"fits:SCI,7", "no such extension"),
        (b"fits:SCI,1", b"fits:99", "no such extension"),
        (
            b"shape: [40, 30]",
            b"shape: [30, 40]",
            "its shape is [30, 40], and the data of the FITS extension have [40, 30]",
        ),
        (b"datatype: float32", b"datatype: int32", "its datatype is int32, and the FITS extension has float32"),
        (
            b"datatype: float64, ",
            b"datatype: float32, ",
            "its elements have 6 bytes, and those of the FITS extension 10",
        ),
        (b"fits:SCI,1", b"fits:0", "has no data"),
    ],
)
def test_what_the_tree_says_wrongly_is_a_fault(tmp_path: Path, old: bytes, new: bytes, sentence: str) -> None:
    path = tmp_path / "x.fits"
    write_fits(path, tree=TREE.replace(old, new, 1))
    name = "spectrum" if b"float64" in old else "data"
    with asdffs.open(path) as document, pytest.raises(InvalidArrayError) as caught:
        document.arrays[name][...]
    assert sentence in str(caught.value)


def test_regression_a_column_whose_name_is_a_number_was_an_internal_error(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    write_fits(path)
    for old, new in ((b"'wavelength'", b"-1"), (b"'I       '", b"'1PB(9)'")):  # rows of any length are converted
        path.write_bytes(path.read_bytes().replace(old, new.ljust(len(old))))
    with asdffs.open(path) as document, pytest.raises(InvalidArrayError, match="astropy cannot read"):
        document.arrays["spectrum"][...]


def with_cards(path: Path, name: str, cards: dict[str, object]) -> None:
    """Replace cards of an extension, or put them behind its others."""
    raw = path.read_bytes()
    start = raw.rindex(b"XTENSION", 0, raw.index(f"EXTNAME = '{name:<8}'".encode()))
    stop = raw.index(b"END".ljust(80), start)
    header = raw[start:stop]
    for keyword, value in cards.items():
        place = header.find(f"{keyword:<8}= ".encode()) if keyword[0] != "+" else -1
        new = f"{keyword.lstrip('+'):<8}= {value:>20}".ljust(80).encode()
        header = header[:place] + new + header[place + 80 :] if place >= 0 else header + new
    path.write_bytes(raw[:start] + header + raw[stop : stop + 80] + raw[stop + 80 + len(header) - stop + start :])


def test_regression_a_card_that_is_there_twice_was_read_differently(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    write_fits(path)
    with_cards(path, "DQ", {"+NAXIS": 3})  # with more axes, astropy took all memory
    with asdffs.open(path) as document:
        assert np.array_equal(document.arrays["dq"][...], DQ)


@pytest.mark.parametrize(
    ("cards", "sentence"),
    [
        ({"XTENSION": "'A3DTABLE'", "TFIELDS": 2000}, "no valid NAXIS or TFIELDS"),
        ({"XTENSION": "'BINTABLE'", "NAXIS1": 0}, "no valid NAXIS or TFIELDS"),
        ({"GCOUNT": 0, "NAXIS1": 1 << 40}, "cut off by the end of the file"),
    ],
)
def test_regression_sizes_of_extensions_were_believed(
    tmp_path: Path, cards: dict[str, object], sentence: str
) -> None:
    path = tmp_path / "x.fits"
    write_fits(path, Form(last=False))
    with_cards(path, "DQ", cards)
    with asdffs.open(path) as document, pytest.raises(InvalidArrayError, match=sentence):
        document.arrays["dq"][...]


def test_by_the_number_of_the_extension(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    write_fits(path, tree=TREE.replace(b"fits:SCI,1", b"fits:1").replace(b"fits:DQ,1", b"fits:dq"))
    with asdffs.open(path) as document:
        assert np.array_equal(document.arrays["data"][...], DATA)
        assert np.array_equal(document.arrays["dq"][...], DQ)


def test_another_program_that_moves_the_extension_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    write_fits(path)
    with asdffs.open(path, "r+") as document:
        other = tmp_path / "y.fits"
        write_fits(other, Form("image", last=False), TREE.replace(b"Ada", b"Grace"))
        with path.open("r+b") as file:
            file.write(other.read_bytes())
            file.truncate()
        document.follow()
        assert document.values["meta"]["observer"] == "Grace"
        assert np.array_equal(document.arrays["data"][...], DATA)
        with document.edit():
            document.values["meta"]["observer"] = observer(5000)
    assert embedded(path).rstrip(b" ") == TREE.replace(b"observer: Ada", b"observer: " + b"v" * 5000)


def test_only_the_tree_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    write_fits(path)
    before = path.read_bytes()
    with asdffs.open(path, "r+") as document, pytest.raises(NotPermittedError, match="only its tree"):
        document.blocks.append()
    assert path.read_bytes() == before


def test_a_file_that_is_neither_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "x.fits"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(NotAsdfError):
        asdffs.open(path)


def test_the_text_of_the_tree(file: Path) -> None:
    assert OBSERVER.encode() in embedded(file)


@pytest.mark.long
@pytest.mark.mount
@pytest.mark.parametrize("kind", KINDS)
def test_no_byte_is_copied_where_the_file_system_can_move_them(kind: str, tmp_path: Path) -> None:
    with filesystem(kind, tmp_path) as place:
        path = place / "jw.fits"
        write_fits(path, Form(last=False, checksum=True))
        before = others(path)
        with asdffs.open(path, "r+") as document:
            with document.edit():
                document.values["meta"]["observer"] = observer(4000)
            assert document.growth == {"ext4": "insert", "xfs": "clone", "btrfs": "clone"}[kind]
            assert np.array_equal(document.arrays["data"][...], DATA)
        assert others(path) == before
        assert embedded(path).rstrip(b" ") == TREE.replace(b"observer: Ada", b"observer: " + b"v" * 4000)


def test_headers_that_changed_after_the_tree_are_told(tmp_path: Path) -> None:
    """The hash is that of stdatamodels: SHA-256 of the text of all headers but that of the extension ASDF."""
    path = tmp_path / "jw.fits"
    write_fits(path, Form(checksum=True))
    with fits.open(path) as hdus:
        text = "".join(str(hdu.header) for hdu in hdus if hdu.name != "ASDF")
    digest = hashlib.sha256(text.encode()).hexdigest()
    with asdffs.open(path, "r+") as document, document.edit():
        document.values["_fits_hash"] = digest
    assert doubts(path) == []
    with fits.open(path, "update", checksum=True) as hdus:
        hdus[0].header["TELESCOP"] = "HST"
    (sentence,) = doubts(path)
    assert "the FITS headers were changed after the tree was written" in sentence


@pytest.mark.parametrize(("place", "sentence"), [(b"observer", "DATASUM"), (b"EXTNAME ", "CHECKSUM")])
def test_wrong_checksums_are_told(tmp_path: Path, place: bytes, sentence: str) -> None:
    path = tmp_path / "jw.fits"
    write_fits(path, Form(checksum=True))
    raw = bytearray(path.read_bytes())
    offset = raw.index(place, raw.rindex(b"XTENSION")) + (30 if place == b"EXTNAME " else 0)
    raw[offset] ^= 1
    path.write_bytes(raw)
    assert doubts(path) == [f"{sentence} of the extension ASDF is wrong"]


def doubts(path: Path) -> list[str]:
    with asdffs.open(path) as document:
        return [finding.sentence for finding in check_document(document, deep=False)]


def test_regression_elements_that_are_held_follow_their_extension(tmp_path: Path) -> None:
    """It moves when the tree before it grows; also what astropy converted stays right."""
    path = tmp_path / "jw.fits"
    write_fits(path, Form(last=False))
    with asdffs.open(path, "r+") as document:
        held = {name: document.arrays[name].elements() for name in ("data", "dq", "spectrum")}
        with document.edit():
            document.values["meta"]["observer"] = observer(5000)
        for name, wanted in {"data": DATA, "dq": DQ, "spectrum": SPECTRUM}.items():
            found = read_bytes(held[name].read(0, held[name].size))
            assert found == wanted.astype(np.dtype(held[name].descr)).tobytes()
            assert np.array_equal(document.arrays[name][...], wanted)


def with_compressed(path: Path, **settings: object) -> Path:
    """The same file, but that its images are tile-compressed."""
    packed = path.with_name("packed.fits")
    with fits.open(path) as hdus:
        made = [
            fits.CompImageHDU(hdu.data, hdu.header, name=hdu.name, **settings)
            if type(hdu) is fits.ImageHDU
            else hdu.copy()
            for hdu in hdus
        ]
        fits.HDUList(made).writeto(packed, overwrite=True)
    return packed


def test_a_tile_decodes_to_no_more_than_it_should(tmp_path: Path) -> None:
    write_fits(tmp_path / "a.fits")
    packed = with_compressed(tmp_path / "a.fits", compression_type="GZIP_1", tile_shape=(2, 30))
    with_tile(packed, 2, bomb(SECOND.tobytes(), 0))
    with asdffs.open(packed) as document:
        assert np.array_equal(document.arrays["second"][...], SECOND)
    with_tile(packed, 2, bomb(SECOND.tobytes(), 40 << 20))
    with asdffs.open(packed) as document, pytest.raises(InvalidArrayError, match="tile 0 has .* more than its elem"):
        document.arrays["second"][...]


def test_rows_without_a_tile_of_their_own_are_not_looked_at() -> None:
    """A small file may state a million of them, all with the same long tile."""
    rows, stored = 500, bomb(random.Random(1).randbytes(700_000), 0)
    facts = {"XTENSION": "BINTABLE", "BITPIX": 8, "NAXIS": 2, "NAXIS1": 8, "NAXIS2": rows, "PCOUNT": len(stored)}
    facts |= {"GCOUNT": 1, "TFIELDS": 1, "TTYPE1": "COMPRESSED_DATA", "TFORM1": "1PB", "ZIMAGE": True, "ZBITPIX": 16}
    facts |= {"ZCMPTYPE": "GZIP_1", "ZNAXIS": 2, "ZNAXIS1": 600, "ZNAXIS2": 600, "ZTILE1": 600, "ZTILE2": 600}
    data = np.array([len(stored), 0], ">u4").tobytes() * rows + stored
    raw = (fits.PrimaryHDU().header.tostring() + fits.Header(facts).tostring()).encode() + data + bytes(2880)
    reads: list[int] = []

    def read(offset: int, length: int) -> bytes:
        reads.append(length)
        return raw[offset : offset + length]

    (_, table) = read_hdus(read, len(raw))
    reads.clear()
    check_tiles(table, read)
    assert reads == [8, len(stored)]


@pytest.mark.parametrize("kind", ["RICE_1", "GZIP_1", "GZIP_2"])
def test_regression_tile_compressed_images(tmp_path: Path, kind: str) -> None:
    """Their tables have other axes than the images, which were taken for those of the arrays."""
    path = tmp_path / "a.fits"
    write_fits(path)
    packed = with_compressed(path, compression_type=kind)
    with fits.open(packed) as hdus, asdffs.open(packed, "r+") as document:
        assert [finding.sentence for finding in check_document(document, deep=True)] == []
        for name, extension in {"data": ("SCI", 1), "dq": ("DQ", 1), "second": ("SCI", 2)}.items():
            found = document.arrays[name]
            assert np.array_equal(found[...], hdus[extension].data)
            assert np.array_equal(found[1:, ::2], hdus[extension].data[1:, ::2])
            assert found.units == ({"": UNITS["data"]} if name == "data" else {})
        held = document.arrays["data"].elements()
        with document.edit():
            document.values["meta"]["observer"] = observer(5000)
        assert read_bytes(held.read(0, held.size)) == document.arrays["data"][...].tobytes()
        with pytest.raises(NotPermittedError):
            document.arrays["data"][0] = 1


@pytest.mark.parametrize(
    ("keyword", "value", "sentence"),
    [
        ("ZNAXIS1", 10**9, "its shape is|would take"),
        ("ZNAXIS", 0, "without a valid ZBITPIX"),
        ("ZBITPIX", 7, "without a valid ZBITPIX"),
        ("ZCMPTYPE", "HCOMPRESS_1", "of another compression than RICE_1"),
        ("ZTILE1", 0, "astropy cannot read"),
        ("ZTILE1", 10**12, "astropy cannot read"),
    ],
)
def test_tile_compressed_images_that_are_damaged(tmp_path: Path, keyword: str, value: object, sentence: str) -> None:
    path = tmp_path / "a.fits"
    write_fits(path)
    packed = with_compressed(path)
    with fits.open(packed, mode="update", disable_image_compression=True) as hdus:
        hdus["SCI", 1].header[keyword] = value
    with asdffs.open(packed) as document, pytest.raises(InvalidArrayError, match=sentence):
        document.arrays["data"][...]
