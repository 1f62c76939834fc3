"""Tables as FITS: masks, units, texts and columns of several arrays are those of the library that wrote the file."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from astropy import units
from astropy.coordinates import Angle, Longitude, SkyCoord, SpectralCoord
from astropy.io import fits
from astropy.table import MaskedColumn, QTable, Table
from astropy.time import Time
from astropy.utils.masked import Masked
from support.arrays import tree_file
from support.fits_files import TREE, write_fits
from support.mounts import mounted
from support.samples import block_bytes

import asdffs
from asdffs.arrays.units import unit_of

pytestmark = pytest.mark.mount
KINDS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", "U3", "S3")


def written(path: Path, **tree: Any) -> Path:
    asdf.AsdfFile(tree).write_to(path)
    return path


def shown(mount: Any, name: str, extension: int = 1) -> Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Table.read(mount.point / f"arrays/{name}.fits", hdu=extension, memmap=False)


def header(mount: Any, name: str, extension: int = 1) -> fits.Header:
    return fits.getheader(mount.point / f"arrays/{name}.fits", extension)


def check_column(found: Any, wanted: MaskedColumn) -> None:
    assert np.ma.getmaskarray(found).tolist() == wanted.mask.tolist()
    assert np.ma.getdata(found)[~wanted.mask].tolist() == np.ma.getdata(wanted)[~wanted.mask].tolist()


def kinds_table(values: list[int], masks: list[bool]) -> Table:
    """A masked column of each kind; of integers ``values`` says how far from an end of their type."""
    table = Table()
    for kind in KINDS:
        dtype = np.dtype(kind)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            column = [int(info.min) + one if one >= 0 else int(info.max) + 1 + one for one in values]
        else:
            column = ["abc"] * len(values) if dtype.kind in "US" else [*range(1, len(values) + 1)]
        table[kind] = MaskedColumn(np.array(column, dtype), mask=masks)
    return table


@pytest.mark.parametrize("seed", range(4))
def test_masked_columns_of_every_kind(tmp_path: Path, seed: int) -> None:
    """Also with the numbers at the ends of their types, which could stand for masked elements."""
    chance = random.Random(seed)
    values = [chance.choice([0, 1, 2, -1, -2, 100]) for _ in range(9)]
    table = kinds_table(values, [True, False, *(chance.random() < 0.5 for _ in range(7))])
    with mounted(written(tmp_path / "a.asdf", t=table)) as mount:
        found = shown(mount, "t")
    for kind in KINDS:
        check_column(found[kind], table[kind])


def test_a_number_that_is_written_later_does_not_become_masked(tmp_path: Path) -> None:
    table = Table({"n": MaskedColumn(np.array([1, 2, 3], "<i8"), mask=[False, True, False])})
    with mounted(written(tmp_path / "a.asdf", t=table)) as mount:
        first = header(mount, "t")["TNULL1"]
        column = np.load(mount.point / "arrays/t/columns/n/data.npy", mmap_mode="r+")
        column[0] = first
        column.flush()
        del column
        assert header(mount, "t")["TNULL1"] != first
        assert shown(mount, "t")["n"].tolist() == [first, None, 3]


def test_all_numbers_of_a_type(tmp_path: Path) -> None:
    """A wider type has numbers that no element has."""
    table = Table({"n": MaskedColumn(np.arange(257).astype("u1"), mask=np.arange(257) == 256)})
    with mounted(written(tmp_path / "a.asdf", t=table)) as mount:
        assert shown(mount, "t")["n"].tolist() == [*range(256), None]


@pytest.mark.parametrize("kind", ["i2", "u8"])
def test_no_number_is_left(tmp_path: Path, kind: str) -> None:
    """Masked elements are shown as they are, and the header says so."""
    info = np.iinfo(kind)
    ends = [*range(info.min, info.min + 129), *range(info.max - 128, info.max + 1)]
    ends += [*range(2**63 - 129, 2**63 + 129)] if kind == "u8" else []
    values = np.array([*ends, 5], kind)
    table = Table({"n": MaskedColumn(values, mask=np.arange(len(values)) == len(ends))})
    with mounted(written(tmp_path / "a.asdf", t=table)) as mount:
        assert shown(mount, "t")["n"].tolist() == values.tolist()
        assert "the mask of the column n is not in this file" in str(header(mount, "t")["COMMENT"])


def test_masks_that_are_broadcast_or_stated_as_a_value(tmp_path: Path) -> None:
    tree = b"""\
#ASDF 1.0.0
#ASDF_STANDARD 1.6.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
t: !core/table-1.0.0
  columns:
  - !core/column-1.0.0
    name: a
    data: !core/ndarray-1.1.0 {data: [[1, 2], [3, 4]], mask: !core/ndarray-1.1.0 {data: [true, false]}}
  - !core/column-1.0.0 {name: b, data: !core/ndarray-1.1.0 {data: [7, 8], mask: 8}}
...
"""
    path = tmp_path / "a.asdf"
    path.write_bytes(tree)
    with mounted(path) as mount:
        found = shown(mount, "t")
        assert found["a"].tolist() == [[None, 2], [None, 4]]
        assert found["b"].tolist() == [7, None]


def test_no_column_makes_a_table_unreadable(tmp_path: Path) -> None:
    """A Time is what the tree has, a SkyCoord two angles; what is no array is told, and so is a text beyond ASCII."""
    table = QTable({"time": Time("2020-01-01") + np.arange(2) * units.day, "flux": [1.0, 2.0] * units.Jy})
    table["sky"] = SkyCoord([1.0, 2.0] * units.deg, [3.0, 4.0] * units.deg)
    table["name"] = ["Ångström", "b"]
    table["short"] = ["é", "abc"]
    table["masked"] = Masked([1.0, 2.0] * units.m, mask=[True, False])
    table["flux"].info.description = "what came in"
    with mounted(written(tmp_path / "a.asdf", q=table)) as mount:
        found = shown(mount, "q")
        assert found["flux"].tolist() == [1, 2]
        assert found["flux"].unit == units.Jy
        assert (found["sky.ra"].tolist(), found["sky.dec"].tolist()) == ([1, 2], [3, 4])
        assert found["sky.ra"].unit == units.deg
        assert found["time"].tolist() == ["2020-01-01 00:00:00.000", "2020-01-02 00:00:00.000"]
        assert found["name"].tolist() == ["?ngstr?m", "b"]
        assert found["short"].tolist() == ["é", "abc"]
        assert np.ma.getmaskarray(found["masked"]).tolist() == [True, False]
        assert "UTF-8" in header(mount, "q").comments["TFORM5"]


def test_descriptions_and_long_names(tmp_path: Path) -> None:
    """Also those that need more cards, and one with letters and quotes."""
    table = Table({"x": [1, 2], "y": [1, 2], "z": [1, 2], "w" * 100: [1, 2]})
    descriptions = [
        "what came in",
        LONG,
        "é''" * 20,
    ]
    for column, text in zip(table.columns.values(), descriptions, strict=False):
        column.description = text
    with mounted(written(tmp_path / "a.asdf", t=table)) as mount:
        found = header(mount, "t")
        assert [found["TCOMM1"], found["TCOMM2"]] == descriptions[:2]
        assert found["TCOMM3"] == (r"\xe9" + "''") * 20
        assert len(shown(mount, "t").colnames[3]) == 68


LONG = " ".join(["of all the stars that we saw that night, the magnitude, not corrected at all;"] * 12)
UNITS = {
    "angle": (Angle([1.0, 2] * units.rad), "rad"),
    "lon": (Longitude([1.0, 2] * units.hourangle), "hourangle"),
    "nm": (SpectralCoord([1.0, 2] * units.nm), "nm"),
    "flux": ([1.0, 2] * units.Unit("MJy/sr"), "MJy/sr"),
    "rate": ([1.0, 2] * units.Unit("DN / s"), "DN / s"),
}


def test_units(tmp_path: Path) -> None:
    table = Table({"m": np.arange(2.0) * units.Unit("mag(AB)")})
    tree = {name: value for name, (value, _) in UNITS.items()}
    meta = {"bunit_data": "MJy/sr", "bunit_err": "Jy"}
    more = {"data": np.ones((2, 2)), "err": np.ones((2, 2)), "dq": np.ones((2, 2)), "meta": meta}
    path = written(tmp_path / "a.asdf", t=table, **tree, jwst=more)
    with mounted(path) as mount:
        for name, (_, unit) in UNITS.items():
            assert units.Unit(header(mount, f"{name}/value", 0)["BUNIT"]) == units.Unit(unit)
        assert header(mount, "t")["TUNIT1"] == "mag(AB)"
        assert header(mount, "jwst/data", 0)["BUNIT"] == "MJy/sr"
        assert header(mount, "jwst/err", 0)["BUNIT"] == "Jy"
        assert "BUNIT" not in header(mount, "jwst/dq", 0)
    with asdffs.open(path) as document:
        found = {"/".join(map(str, one.path)): unit_of(one) for one in document.outlines.outline().arrays}
    assert found["t/columns/0/data"] == "mag(AB)"


ODD = """\
#ASDF 1.0.0
#ASDF_STANDARD 1.6.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
mapping: !core/table-1.0.0
  columns: {a: !core/column-1.0.0 {name: x, data: !core/ndarray-1.1.0 {data: [1, 2]}}}
units: !core/table-1.0.0
  columns:
  - !core/column-1.0.0 {name: x, unit: "WEIRD", data: !core/ndarray-1.1.0 {data: [1, 2]}}
  - !core/column-1.0.0 {name: y, unit: "µm", data: !core/ndarray-1.1.0 {data: [1, 2]}}
left: !core/table-1.0.0
  colnames: [x, "né"]
  columns:
  - !core/column-1.0.0 {name: x, data: !core/ndarray-1.1.0 {data: [1, 2]}}
  - {what: 1}
hdus: !fits/fits-1.0.0
- {header: [[SIMPLE, true], [BITPIX, 8], [NAXIS, 0]]}
- header: [[XTENSION, IMAGE], [BITPIX, 8], [NAXIS, 0], [PCOUNT, 0], [GCOUNT, 1], [BUNIT, bananas, of a tree]]
- header: []
  data: !core/table-1.0.0
    columns: [!core/column-1.0.0 {name: x, data: !core/ndarray-1.1.0 {data: [1, 2], mask: 2, datatype: uint8}}]
...
"""


def test_odd_tables(tmp_path: Path) -> None:
    """A unit that is none, a column without a number, one that is no array; a stated header has no mask of ours."""
    (tmp_path / "a.asdf").write_text(ODD.replace("WEIRD", "é'" * 30), encoding="utf-8")
    with mounted(tmp_path / "a.asdf") as mount:
        for name in ("mapping", "units", "left", "hdus"):
            assert shown(mount, name, 2 if name == "hdus" else 1)["x"].tolist() == [1, 2]
            with fits.open(mount.point / f"arrays/{name}.fits") as found:
                found.verify("exception")
        assert header(mount, "units")["TUNIT2"] == "um"
        assert header(mount, "units")["TUNIT1"].strip() == ""
        assert header(mount, "units").comments["TUNIT1"] == "its unit is too long for a card"
        assert r"the column n\xe9 is not in this file" in str(header(mount, "left")["COMMENT"])
        assert header(mount, "hdus", 2)["TFORM1"] == "1B"
        stated = header(mount, "hdus").cards["BUNIT"]
        assert (stated.value, stated.comment) == ("bananas", "of a tree")


def test_units_of_the_fits_file_around_the_tree(tmp_path: Path) -> None:
    """BUNIT of an image and TUNIT of a table; what the tree states comes first."""
    path = tmp_path / "jw.fits"
    write_fits(path, tree=TREE.replace(b"\nmeta:", b"\nmeta:\n  bunit_second: s", 1))
    with mounted(path) as mount:
        assert header(mount, "data", 0)["BUNIT"] == "MJy/sr"
        assert header(mount, "second", 0)["BUNIT"] == "s"
        assert "BUNIT" not in header(mount, "dq", 0)
        found = shown(mount, "spectrum")
    assert (found["wavelength"].unit, found["order"].unit) == (units.um, None)
    with asdffs.open(path) as document:
        known = {name: dict(document.arrays[name].units) for name in ("data", "second", "dq", "spectrum")}
    assert known == {"data": {"": "MJy/sr"}, "second": {"": "s"}, "dq": {}, "spectrum": {"wavelength": "um"}}


@pytest.mark.feature("datasets")
def test_datasets_have_the_same_units(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="opens the dataset")
    path = written(tmp_path / "a.asdf", t=Table({"m": np.arange(2.0) * units.Unit("mag(AB)")}), lon=UNITS["lon"][0])
    with xarray.open_dataset(path, engine="asdffs", group="t") as found:
        assert found["m"].attrs["units"] == "mag(AB)"
    with xarray.open_dataset(path, engine="asdffs", group="lon") as found:
        assert units.Unit(found["value"].attrs["units"]) == units.hourangle


def test_regression_a_line_end_in_a_name_made_a_table_unreadable(tmp_path: Path) -> None:
    table = Table({"a\nb": [1, 2]})
    table["a\nb"].unit = "odd\nunit"
    with mounted(written(tmp_path / "a.asdf", t=table)) as mount:
        assert shown(mount, "t").colnames == [r"a\nb"]


def test_a_mask_beside_the_data_of_a_column(tmp_path: Path) -> None:
    """Also after an element became the number that stands for masked ones."""
    data = "!core/ndarray-1.1.0 {source: 0, datatype: int32, byteorder: little, shape: [3]}"
    mask = "!core/ndarray-1.1.0 {source: 1, datatype: bool8, byteorder: little, shape: [3]}"
    tree = f"t: !core/table-1.1.0\n  columns: [!core/column-1.1.0 {{data: {data}, name: x, mask: {mask}}}]\n"
    blocks = [np.arange(3, dtype="<i4").tobytes(), bytes([0, 1, 0])]
    (tmp_path / "a.asdf").write_bytes(tree_file(tree, [block_bytes(raw) for raw in blocks]))
    with mounted(tmp_path / "a.asdf") as mount:
        assert shown(mount, "t")["x"].tolist() == [0, None, 2]
        least = np.array([-(2**31)], "<i4").tobytes()
        with open(mount.point / "blocks/0000.bin", "r+b") as block:
            block.write(least)
        assert shown(mount, "t")["x"].tolist() == [-(2**31), None, 2]


def test_the_mask_of_a_column_of_records_is_told_to_be_left_out(tmp_path: Path) -> None:
    data = "!core/ndarray-1.1.0 {source: 0, datatype: [{name: a, datatype: int32}], byteorder: little, shape: [3]"
    mask = "!core/ndarray-1.1.0 {source: 1, datatype: bool8, byteorder: little, shape: [3]}"
    tree = f"t: !core/table-1.1.0\n  columns: [!core/column-1.1.0 {{data: {data}, mask: {mask}}}, name: x}}]\n"
    blocks = [np.arange(3, dtype="<i4").tobytes(), bytes([0, 1, 0])]
    (tmp_path / "a.asdf").write_bytes(tree_file(tree, [block_bytes(raw) for raw in blocks]))
    with mounted(tmp_path / "a.asdf") as mount:
        assert shown(mount, "t")["a"].tolist() == [0, 1, 2]
        assert "the mask of the column x is not in this file" in str(header(mount, "t")["COMMENT"])
