"""FITS files of arrays, tables and stated units, as astropy reads them; headers from metadata and WCS."""

from __future__ import annotations

import contextlib
import io
import json
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asdf
import astropy.units as u
import numpy as np
import pytest
import yaml
from astropy.io import fits
from astropy.table import Table
from astropy.time import Time
from astropy.wcs import WCS
from support.arrays import tree_file
from support.samples import block_bytes

from asdffs import registry
from asdffs.document.arrays import finding
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import InvalidArrayError
from asdffs.features.fits import metadata
from asdffs.scheduling import WorkerThreads
from asdffs.storage.backend import read_bytes
from asdffs.views.arrays import Arrays
from asdffs.views.base import ViewFile

ARRAY = "!core/ndarray-1.0.0"
IMAGE = f"{ARRAY} {{source: 0, datatype: float32, byteorder: little, shape: [4, 5]}}"
PIXELS = np.arange(20, dtype="<f4").reshape(4, 5)


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Callable[[str], Document]]:
    documents = []

    def open_it(body: str) -> Document:
        path = tmp_path / f"{len(documents)}.asdf"
        path.write_bytes(tree_file(body, [block_bytes(PIXELS.tobytes()), block_bytes(bytes([0, 1] * 10))]))
        documents.append(open_document(str(path), writable=True))
        return documents[-1]

    yield open_it
    for document in documents:
        document.close()


def file_at(document: Document, path: str) -> ViewFile:
    found = Arrays(document)
    for name in path.split("/"):
        found = found.child(name)
    assert isinstance(found, ViewFile)
    return found


def read(file: ViewFile) -> fits.HDUList:
    """Whole, and in odd pieces: both are the same."""
    size = file.size()
    whole = read_bytes(file.read(0, size + 1))
    assert len(whole) == size
    assert b"".join(read_bytes(file.read(at, 777)) for at in range(0, size, 777)) == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        units = fits.open(io.BytesIO(whole), lazy_load_hdus=False)
        units.verify("exception")
    return units


def test_metadata_becomes_cards(opening: Callable[[str], Document]) -> None:
    meta = "meta: {exposure: {time: 12.5, type: WFI_IMAGE, when: 2026-01-02T03:04:05, good: true, none: null}, "
    meta += f"long: {'x' * 79}, quoted: '12', text: 'it''s', greek: 'ö', many: [1, 2]}}"
    tree = (
        f"roman:\n  {meta}\n  filter: F158\n  crval1: 5\n  naxis: 9\n  a long name: 3\n  inf: .inf\n  data: {IMAGE}\n"
    )
    units = read(file_at(opening(tree), "roman/data.fits"))
    header = units[0].header
    assert np.array_equal(units[0].data, PIXELS)
    assert (header["FILTER"], header["tree.a long name"], header["tree.crval1"]) == ("F158", 3, 5)
    assert "CRVAL1" not in header
    assert header["NAXIS"] == 2
    assert (header["meta.exposure.time"], header["meta.exposure.good"]) == (12.5, True)
    assert header["meta.exposure.when"] == "2026-01-02T03:04:05"
    assert (header["meta.quoted"], header["meta.text"]) == ("12", "it's")
    for absent in ("meta.long", "meta.greek", "meta.exposure.none", "inf"):
        assert absent not in header
    assert f"meta.long: {'x' * 79}" in "".join(header["COMMENT"])


LONG = "It's a long story, " * 30


def test_long_texts_are_continued_or_comments(opening: Callable[[str], Document]) -> None:
    tree = f'meta: {{title: "{LONG}"}}\nstory: "{LONG}"\ndata: {IMAGE}\n'
    header = read(file_at(opening(tree), "data.fits"))[0].header
    assert "meta.title" not in header
    assert f"meta.title: {LONG}".rstrip() in "".join(str(line).ljust(72) for line in header["COMMENT"])
    assert "story" not in header  # of the metadata, long texts are kept; beside arrays, those of 80 characters


ROMAN = (
    "roman: {{meta: {{telescope: ROMAN, instrument: {{name: WFI, detector: WFI01, optical_element: F158}}, "
    "exposure: {{exposure_time: 107.5, start_time: !time/time-1.2.0 2027-06-01T12:00:00.000, end_time: '?'}}, "
    "pointing: {{target_ra: 10.5, target_dec: -999999.0}}, observation: {{observation_id: '?'}}}}, "
    "data: {0}, detector: mine}}\n"
)


def test_standard_keywords(opening: Callable[[str], Document]) -> None:
    """Those that programs look for, beside the names of the tree; placeholders are no values."""
    header = read(file_at(opening(ROMAN.format(IMAGE)), "roman/data.fits"))[0].header
    known = ("TELESCOP", "INSTRUME", "FILTER", "EXPTIME", "DATE-OBS", "MJD-OBS", "RA_TARG")
    values = ("ROMAN", "WFI", "F158", 107.5, "2027-06-01T12:00:00.000", Time("2027-06-01T12:00:00").mjd, 10.5)
    assert tuple(header[keyword] for keyword in known) == values
    assert header["meta.instrument.optical_element"] == "F158"
    assert header["DETECTOR"] == "mine", "what stands beside the array comes first"
    assert not {"DEC_TARG", "DATE-END", "OBS_ID", "OBJECT"} & {*header}


def test_a_mission_adds_keywords(opening: Callable[[str], Document], monkeypatch: pytest.MonkeyPatch) -> None:
    """And a table that is wrong is left out, with a line in the log."""
    tables = {"mine": SimpleNamespace(paths={"FILTER": ["wheel.colour"], "GAIN": ["gain"]})}
    tables["wrong"] = SimpleNamespace(paths={"NAXIS": ["gain"]})
    names, find = registry.names, registry.find
    monkeypatch.setattr(registry, "names", lambda kind: (*names(kind), *(tables if kind == "keywords" else ())))
    monkeypatch.setattr(registry, "find", lambda kind, name: tables.get(name) or find(kind, name))
    metadata.keyword_tables.cache_clear()
    try:
        tree = f"meta: {{wheel: {{colour: red}}, gain: 2.5, telescope: T}}\ndata: {IMAGE}\n"
        header = read(file_at(opening(tree), "data.fits"))[0].header
    finally:
        metadata.keyword_tables.cache_clear()
    assert (header["FILTER"], header["GAIN"], header["TELESCOP"], header["NAXIS"]) == ("red", 2.5, "T", 2)
    assert "NAXIS" in registry.trouble("keywords", "wrong")


def test_many_cards_have_room(opening: Callable[[str], Document]) -> None:
    """Also where most of them do not fit: END is where readers look for it."""
    for length in (3, 70):
        body = "".join(f"some_key_{n}: {'v' * length}\n" for n in range(400))
        units = read(file_at(opening(f"{body}data: {IMAGE}\n"), "data.fits"))
        assert np.array_equal(units[0].data, PIXELS)
        assert ("tree.some_key_399" in units[0].header) == (length == 3)


WCSINFO = {
    "TAN": ("ctype1: RA---TAN, ctype2: DEC--TAN, crpix1: 2, crpix2: 3, crval1: 10, crval2: -5, "
            "cdelt1: 0.1, cdelt2: 0.1, pc1_1: 0, pc1_2: 1, pc2_1: -1, pc2_2: 0, "
            "cunit1: deg, cunit2: deg, radesys: ICRS", True),
    "TAN with a CD matrix": ("ctype1: RA---TAN, ctype2: DEC--TAN, crpix1: 2, crpix2: 3, crval1: 10, crval2: -5, "
                             "cd1_1: 0.1, cd1_2: 0, cd2_1: 0, cd2_2: 0.1", True),
    "linear": ("ctype1: WAVE, crpix1: 1, crval1: 500, cdelt1: 2, cunit1: nm", True),
    "incomplete": ("ctype1: RA---TAN, ctype2: DEC--TAN, crpix1: 2, crpix2: 3, crval1: 10, crval2: -5", False),
    "half of a projection": ("ctype1: RA---TAN, crpix1: 2, crval1: 10, cdelt1: 1", False),
    "another projection": ("ctype1: RA---SIN, ctype2: DEC--SIN, crpix1: 2, crpix2: 3, crval1: 10, crval2: 1, "
                           "cdelt1: 1, cdelt2: 1", False),
    "no numbers": ("ctype1: WAVE, crpix1: x, crval1: 500, cdelt1: 2", False),
}  # fmt: skip


@pytest.mark.parametrize("name", WCSINFO)
def test_a_wcs_that_the_tree_states(name: str, opening: Callable[[str], Document]) -> None:
    facts, stated = WCSINFO[name]
    for body in (
        f"meta: {{wcsinfo: {{{facts}}}}}\ndata: {IMAGE}\n",
        f"meta: {{wcsinfo: {{{facts}}}}}\na: {{b: {{data: {IMAGE}}}}}\n",
    ):
        document = opening(body)
        header = read(file_at(document, "data.fits" if body.endswith(f"}}}}\ndata: {IMAGE}\n") else "a/b/data.fits"))[
            0
        ].header
        assert ("CTYPE1" in header) == stated
        if name == "TAN":
            world = WCS(header)
            assert np.allclose(world.wcs_pix2world([[2, 3]], 1), [[10, -5]])
            assert world.wcs_pix2world([[3, 3]], 1)[0][1] == pytest.approx(-5.1, abs=1e-3)


def test_a_wcs_is_not_that_of_other_arrays(opening: Callable[[str], Document]) -> None:
    """Only of the science image, and of arrays of its shape."""
    facts, _ = WCSINFO["TAN"]
    small = f"{ARRAY} {{source: 0, datatype: float32, byteorder: little, shape: [2, 2]}}"
    line = f"{ARRAY} {{source: 0, datatype: float32, byteorder: little, shape: [6]}}"
    document = opening(f"meta: {{wcsinfo: {{{facts}}}}}\ndata: {IMAGE}\nerr: {IMAGE}\nsmall: {small}\nline: {line}\n")
    found = {
        name: "CTYPE1" in read(file_at(document, f"{name}.fits"))[0].header
        for name in ("data", "err", "small", "line")
    }
    assert found == {"data": True, "err": True, "small": False, "line": False}


def test_the_numbers_of_a_gwcs_have_no_sky_coordinates(opening: Callable[[str], Document]) -> None:
    """The image has them, and without a science image each image beside the gwcs."""
    facts, _ = WCSINFO["TAN"]
    inside = f"!<tag:stsci.edu:gwcs/wcs-1.2.0> {{steps: [{{coefficients: {IMAGE}}}]}}"
    for name in ("data", "other"):
        document = opening(f"meta: {{wcsinfo: {{{facts}}}, wcs: {inside}}}\n{name}: {IMAGE}\n")
        assert "CTYPE1" in read(file_at(document, f"{name}.fits"))[0].header
        header = read(file_at(document, "meta/wcs/steps/0/coefficients.fits"))[0].header
        assert "CTYPE1" not in header
        assert "no sky coordinates" not in str(header.get("COMMENT", ""))


SUNPY = (
    "map: {{meta: {{cdelt1: 2.0, cdelt2: 3.0, crpix1: 2.5, crpix2: 2.0, crval1: 0.0, crval2: 10.0, ctype1: HPLN-TAN, "
    "ctype2: HPLT-TAN, cunit1: arcsec, cunit2: arcsec, date-obs: '2026-01-01T00:00:00.000', naxis: 2, naxis1: 5, "
    'instrume: AIA, history: "flat\\ndark", comment: "' + "x" * 100 + '\\nsecond", '
    "keycomments: {{a: b}}, bitpix: 16, wcsaxes: 2}}, data: {0}, mask: {1}}}\n"
)


def test_a_save_while_elements_are_read_takes_no_keywords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The branches that were found before are taken apart by then."""
    values = "!core/ndarray-1.0.0 {data: [[1, 2], [3, 4]], datatype: int16, shape: [2, 2]}"
    body = f"roman:\n  meta: {{telescope: ROMAN, exposure: {{time: 12.5}}}}\n  group:\n    x: {values}\n# comment\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(body, []))
    workers, real, threads = WorkerThreads(), finding.inline_array, list[threading.Thread]()

    def save(document: Document) -> None:
        with workers.entered():
            document.commit_tree(document.tree.text().replace(b"# comment", b"# changed"))
            document.outlines.outline()

    def read_late(*arguments: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=save, args=(document,)))
            threads[0].start()
            threads[0].join()
        return real(*arguments)

    settings = Settings(scheduler=workers)
    with contextlib.closing(open_document(str(tmp_path / "a.asdf"), writable=True, settings=settings)) as document:
        monkeypatch.setattr(finding, "inline_array", read_late)
        with workers.entered():
            raw = read_bytes(file_at(document, "roman/group/x.fits").read(0, 1 << 20))
    assert len(threads) == 1
    header = fits.HDUList.fromstring(raw)[0].header
    assert (header["TELESCOP"], header["meta.exposure.time"]) == ("ROMAN", 12.5)


def test_keywords_in_meta_are_keywords(opening: Callable[[str], Document]) -> None:
    """As sunpy writes them, so that its maps open from the view."""
    small = f"{ARRAY} {{source: 0, datatype: uint8, byteorder: little, shape: [2, 2]}}"
    document = opening(SUNPY.format(IMAGE, small))
    header = read(file_at(document, "map/data.fits"))[0].header
    world = WCS(header, fix=False)
    assert list(world.wcs.ctype) == ["HPLN-TAN", "HPLT-TAN"]
    assert np.allclose(world.wcs_pix2world([[2.5, 2.0]], 1), [[0, 10 / 3600]])
    assert (header["DATE-OBS"], header["INSTRUME"], header["BITPIX"]) == ("2026-01-01T00:00:00.000", "AIA", -32)
    assert not [card for card in header if card.startswith("META.")]
    assert [*header["HISTORY"]] == ["flat", "dark"]
    assert [*header["COMMENT"]] == ["x" * 72, "x" * 28, "second"]
    other = read(file_at(document, "map/mask.fits"))[0].header
    assert (other["INSTRUME"], "CTYPE1" in other) == ("AIA", False)


def test_quantities_have_units(opening: Callable[[str], Document]) -> None:
    tree = f"flux: !unit/quantity-1.1.0 {{value: {IMAGE}, unit: !unit/unit-1.0.0 'Jy'}}\nscale: 3\n"
    header = read(file_at(opening(tree), "flux/value.fits"))[0].header
    assert (header["BUNIT"], header["SCALE"]) == ("Jy", 3)


def test_masks_are_an_extension(opening: Callable[[str], Document]) -> None:
    mask = f"{ARRAY} {{source: 1, datatype: bool8, byteorder: little, shape: [4, 5]}}"
    for what in ("7", mask, "[[true, false, false, false, true]]"):
        tree = f"data: {IMAGE[:-1]}, mask: {what}}}\n"
        units = read(file_at(opening(tree), "data.fits"))
        assert np.array_equal(units[0].data, PIXELS)
        found = units["MASK"].data.astype(bool)
        wanted = {"7": PIXELS == 7, mask: np.array([0, 1] * 10, bool).reshape(4, 5)}.get(
            what, np.array([[1, 0, 0, 0, 1]], bool)
        )
        assert np.array_equal(found, wanted)
    for mask, last in (("3", [False, True, True]), ("[true, false, false]", [True, False, False])):
        units = read(
            file_at(
                opening(f"data: {ARRAY} {{data: [[1, null, 3]], datatype: int16, shape: [1, 3], mask: {mask}}}\n"),
                "data.fits",
            )
        )
        assert units["MASK"].data.astype(bool).ravel().tolist() == last


def test_records_are_a_table(opening: Callable[[str], Document]) -> None:
    """With every kind of column, also in columns; nested records by names with dots."""
    fields = "[{name: i, datatype: int8, byteorder: big}, {name: u, datatype: uint16, byteorder: little}, "
    fields += "{name: t, datatype: [ascii, 2], shape: [2]}, {name: b, datatype: bool8}, "
    fields += "{name: in, datatype: [{name: x, datatype: float16, byteorder: big}, "
    fields += "{name: w, datatype: [ucs4, 1], byteorder: little}]}]"
    dtype = np.dtype([("i", "i1"), ("u", "<u2"), ("t", "S2", (2,)), ("b", "?"), ("in", [("x", ">f2"), ("w", "<U1")])])
    rows = np.zeros(5, dtype)
    rows["i"], rows["u"], rows["b"] = [-128, -1, 0, 1, 127], [0, 1, 32768, 65535, 7], [1, 0, 1, 1, 0]
    rows["t"] = [[b"ab", b"c"]] * 5
    rows["in"]["x"], rows["in"]["w"] = [0.5, -2, 65504, 0, 1], list("vwxyz")
    tree = f"r: {ARRAY} {{source: 2, datatype: {fields}, byteorder: big, shape: [5]}}\n"
    document = opening(tree)
    document.blocks[document.blocks.append().number].write_at(0, rows.tobytes())
    units = read(file_at(document, "r.fits"))
    assert units[0].data is None
    table = units[1].data
    assert table.columns.names == ["i", "u", "t", "b", "in.x", "in.w"]
    for name in ("i", "u", "b"):
        assert np.array_equal(table[name], rows[name]), name
    assert table["t"].tolist() == [["ab", "c"]] * 5
    assert np.array_equal(table["in.x"], rows["in"]["x"].astype("f4"))
    assert table["in.w"].tolist() == list("vwxyz")


def test_a_letter_that_does_not_fit_is_a_question_mark(opening: Callable[[str], Document]) -> None:
    document = opening(
        f"r: {ARRAY} {{source: 2, datatype: [{{name: w, datatype: [ucs4, 1]}}], byteorder: little, shape: [1]}}\n"
    )
    document.blocks[document.blocks.append().number].write_at(0, "é".encode("utf-32-le"))
    assert read(file_at(document, "r.fits"))[1].data["w"].tolist() == ["?"]


def test_tables_and_stated_units_of_astropy(tmp_path: Path) -> None:
    """As asdf-astropy writes them: columns with units, several dimensions; units with exactly the stated headers."""
    stated = fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.arange(6, dtype="u2").reshape(2, 3), name="A")])
    stated[1].header["FOO"] = (1.5, "a comment")
    stated[1].header["HISTORY"] = "told"
    stated[1].header["LONG"] = "x" * 150
    stated.append(fits.BinTableHDU(Table({"a": [1, 2], "b": ["x", "yy"], "c": np.array([1.5, 2]) * u.m}), name="T"))
    stated.append(fits.ImageHDU(np.arange(6, dtype=">f8").reshape(3, 2)))
    table = Table({"n": np.arange(3), "s": np.array(["x", "yy", ""]), "q": np.ones((3, 2)) * u.s})
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"stated": stated, "table": table}).write_to(path)
    document = open_document(str(path), writable=False)
    found = read(file_at(document, "stated.fits"))
    assert len(found) == 4
    for have, want in zip(found, stated, strict=True):
        assert [tuple(card) for card in have.header.cards] == [tuple(card) for card in want.header.cards]
        assert (have.data is None) == (want.data is None)
        if isinstance(want, fits.BinTableHDU):
            assert all(np.array_equal(have.data[name], want.data[name]) for name in want.columns.names)
        elif want.data is not None:
            assert np.array_equal(have.data, want.data)
    shown = Table.read(io.BytesIO(read_bytes(file_at(document, "table.fits").read(0, 10**6))), hdu=1)
    assert [str(shown[name].unit) for name in ("n", "s", "q")] == ["None", "None", "s"]
    assert np.array_equal(shown["q"], table["q"])
    assert shown["s"].tolist() == ["x", "yy", ""]
    document.close()


SIZES = """
import sys
from asdffs.document.opening import open_document
from asdffs.storage.file_backend import FileBackend
from asdffs.views.arrays import Arrays

read = FileBackend.read_at
document = open_document(sys.argv[1], writable=False)
HEADER = 54
starts = document.layout.offsets
content = [(start + HEADER, end) for start, end in zip(starts, starts[1:] + (10**9,))]

def checked(self, at, size):
    assert not any(at < end and at + size > start for start, end in content), (at, size, content)
    return read(self, at, size)

FileBackend.read_at = checked
print([Arrays(document).child(name).size() for name in ("image.fits", "stated.fits", "table.fits")])
assert "astropy" not in sys.modules
"""


def test_sizes_need_neither_astropy_nor_blocks(tmp_path: Path) -> None:
    stated = fits.HDUList([fits.PrimaryHDU(np.ones((3, 2))), fits.ImageHDU(np.ones(5), name="A")])
    table = Table({"n": np.arange(3), "q": np.ones((3, 2)) * u.s})
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"stated": stated, "table": table, "image": np.ones((4, 4)), "meta": {"a": 1}}).write_to(path)
    done = subprocess.run([sys.executable, "-c", SIZES, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with contextlib.closing(open_document(str(path), writable=False)) as document:
        whole = [read_bytes(file_at(document, name).read(0, 10**6)) for name in ("image.fits", "stated.fits")]
    assert json.loads(done.stdout)[:2] == list(map(len, whole))


@pytest.mark.parametrize("keyword", ["HIERARCH ESO DET CHIP1 NAME", "HIERARCH LONGER", "KEY"])
@pytest.mark.parametrize("comment", ["", "a comment of some length, which has no room left at all"])
def test_regression_sizes_of_long_keywords(tmp_path: Path, keyword: str, comment: str) -> None:
    """astropy continues a text after a long keyword earlier than after a short one."""
    stated = fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.arange(6.0).reshape(2, 3))])
    for number in range(60):
        stated[1].header[f"{keyword}{number}"] = ("x" * (20 + number), comment)
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"stated": stated}).write_to(path)
    with contextlib.closing(open_document(str(path), writable=False)) as document:
        file = file_at(document, "stated.fits")
        size = file.size()
        assert len(read_bytes(file.read(0, 10**6))) == size == file.size()
        assert np.array_equal(read(file)[1].data, stated[1].data)


WRONG_STATED = {
    "another type": ("[[SIMPLE, true], [BITPIX, 16]]", "states BITPIX = 16, and its data has -32"),
    "another shape": (
        "[[SIMPLE, true], [BITPIX, -32], [NAXIS, 2], [NAXIS1, 4]]",
        "states NAXIS1 = 4, and its data has 5",
    ),
    "no cards": ("[5, 6]", "a card of a header is a list"),
    "no keyword": ("[[5, 6]]", "a card of a header is a list"),
    "not a value": ("[[SIMPLE, true], [FOO, [1]]]", "FITS cannot hold 'FOO'"),
}


@pytest.mark.parametrize("name", WRONG_STATED)
def test_stated_headers_that_are_wrong(name: str, opening: Callable[[str], Document]) -> None:
    header, sentence = WRONG_STATED[name]
    file = file_at(opening(f"f: !fits/fits-1.0.0\n- header: {header}\n  data: {IMAGE}\n"), "f.fits")
    assert (file.size() == 0) == (name != "not a value"), "what astropy refuses is found when the header is made"
    with pytest.raises(InvalidArrayError) as caught:
        file.open_for_reading()
    assert sentence in str(caught.value)
    assert caught.value.line


@pytest.mark.parametrize("data", ["", ", data: null"])
@pytest.mark.parametrize("alias", [False, True])
def test_headers_without_data_are_shown(opening: Callable[[str], Document], data: str, alias: bool) -> None:
    first = "[SIMPLE, true], [BITPIX, 8], [NAXIS, 0], [OBSERVER, Ada]"
    second = "[XTENSION, IMAGE], [BITPIX, 8], [NAXIS, 0], [PCOUNT, 0], [GCOUNT, 1], [OBSERVER, Grace]"
    units = "".join(f"  - {{header: [{cards}]{data}}}\n" for cards in (first, second))
    tree = f"m:\n  f: &f !fits/fits-1.1.0\n{units}"
    document = opening(tree + ("other: *f\n" if alias else ""))
    assert list(Arrays(document).names()) == ["m", *(["other.fits"] if alias else [])]
    assert list(Arrays(document).child("m").names()) == ["f.fits"]
    for name in ("m/f.fits", *(["other.fits"] if alias else [])):
        units = read(file_at(document, name))
        assert [unit.header["OBSERVER"] for unit in units] == ["Ada", "Grace"]
        assert [unit.data for unit in units] == [None, None]
    assert list(document.arrays) == []


def test_what_a_stated_header_lacks_is_added(opening: Callable[[str], Document]) -> None:
    units = read(
        file_at(
            opening(f"f: !fits/fits-1.0.0\n- data: {IMAGE}\n  header: [[OBJECT, M31]]\n- data: {IMAGE}\n"), "f.fits"
        )
    )
    keywords = [
        keyword for keyword in units[0].header if keyword != "EXTEND"
    ]  # astropy's own, of the first of several
    assert keywords == ["SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "OBJECT"]
    assert np.array_equal(units[1].data, PIXELS)


def test_columns_of_different_lengths(opening: Callable[[str], Document]) -> None:
    column = "!core/column-1.0.0 {name: %s, data: !core/ndarray-1.0.0 [%s]}"
    tree = f"t: !core/table-1.0.0\n  columns:\n  - {column % ('a', '1, 2')}\n  - {column % ('b', '1')}\n"
    with pytest.raises(InvalidArrayError, match="its columns have 1, 2 rows"):
        file_at(opening(tree), "t.fits").open_for_reading()


def test_a_stated_header_keeps_texts_without_a_keyword_and_numbers_fits_cannot_hold(
    opening: Callable[[str], Document],
) -> None:
    cards = f"[['', Top Level MIRI Metadata], [COMMENT, '', hi], [HISTORY, {'h' * 100}], [GAIN, .inf], ['']]"
    units = read(file_at(opening(f"f: !fits/fits-1.1.0\n- {{header: {cards}, data: {IMAGE}}}\n"), "f.fits"))
    header = units[0].header
    assert (next(iter(header[""])), header["COMMENT"][0], header["GAIN"]) == ("Top Level MIRI Metadata", "hi", "inf")
    assert "".join(header["HISTORY"]) == "h" * 100


def test_columns_of_a_qtable_have_the_names_of_the_table(opening: Callable[[str], Document]) -> None:
    columns = (
        f"[!unit/quantity-1.3.0 {{unit: !unit/unit-1.0.0 s, value: {IMAGE}}}, !table/column-1.1.0 {{data: {IMAGE}}}]"
    )
    tree = f"t: !<tag:astropy.org:astropy/table/table-1.3.0>\n  colnames: [time, flux]\n  columns: {columns}\n"
    assert read(file_at(opening(tree), "t.fits"))[1].columns.names == ["time", "flux"]


def test_long_names_of_columns_are_cut_and_stay_different(opening: Callable[[str], Document]) -> None:
    names = ["c" * 69, "c" * 70, "d" * 68, "short"]
    columns = "".join(
        f'  - !core/column-1.0.0 {{name: "{name}", data: !core/ndarray-1.0.0 [1, {number}]}}\n'
        for number, name in enumerate(names)
    )
    table = read(file_at(opening(f"t: !core/table-1.0.0\n  columns:\n{columns}"), "t.fits"))[1]
    assert table.columns.names == ["c" * 66 + "_1", "c" * 66 + "_2", "d" * 68, "short"]
    assert [table.data[name][1] for name in table.columns.names] == [0, 1, 2, 3]


def test_regression_long_texts_of_coordinates_had_no_room(opening: Callable[[str], Document]) -> None:
    facts, _ = WCSINFO["TAN"]
    long = facts.replace("radesys: ICRS", f"radesys: '{'ICRS ' * 700}', cunit2: '{'deg ' * 300}'")
    header = read(file_at(opening(f"meta: {{wcsinfo: {{{long}}}}}\ndata: {IMAGE}\n"), "data.fits"))[0].header
    assert header["CTYPE1"] == "RA---TAN"


@pytest.mark.parametrize("seed", range(40))
def test_random_metadata_has_room(seed: int, opening: Callable[[str], Document]) -> None:
    """Texts of every length and with every character: the header ends where its size says."""
    chance = random.Random(seed)
    letters = "ab '\"\\é=/&\n"
    texts = {f"key{n}": "".join(chance.choices(letters, k=chance.choice([0, 3, 67, 68, 69, 500]))) for n in range(40)}
    meta = {"telescope": texts["key0"], "instrument": {"name": texts["key1"]}, **texts}
    tree = yaml.safe_dump({"meta": meta, **texts}, allow_unicode=True, width=10_000)
    header = read(file_at(opening(f"{tree}data: {IMAGE}\n"), "data.fits"))[0].header
    assert header["NAXIS1"] == 5


def test_the_offset_of_a_date_counts(opening: Callable[[str], Document]) -> None:
    tree = f"meta: {{exposure: {{start_time: '2020-01-01T00:00:00+05:00'}}}}\ndata: {IMAGE}\n"
    header = read(file_at(opening(tree), "data.fits"))[0].header
    assert header["MJD-OBS"] == pytest.approx(Time("2019-12-31T19:00:00").mjd)
