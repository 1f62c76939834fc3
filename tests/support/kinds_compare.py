"""Compares what a library reads from a file with what asdffs shows of it, view by view.

``compare(path, folder)`` returns a cell for each of ``VIEWS``: ``equal``, ``-`` if the file has nothing of the sort,
a reason in words, or ``DIFFERENT`` and what is.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from astropy import units
from astropy.io import fits
from astropy.table import Table
from astropy.wcs import WCS

from support.kinds import Known, converted, coordinates_of, keywords_of, known
from support.mounts import mounted

VIEWS = (".npy", ".fits", "units", "masks", "WCS", "keywords", "xarray", "netCDF", "show")
EQUAL, NOTHING = "equal", "-"
#: Degrees: a tenth of a pixel of the samples, the most that a FITS header may differ from a gwcs.
_NEAR = 0.1 * 0.11 / 3600


def compare(path: Path, folder: Path) -> dict[str, str]:
    """Return a cell for each view."""
    arrays = known(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mounted(path, at=folder / "mnt") as mount:
            point = mount.point / "arrays"
            shown = [one for one in arrays if (point / f"{one.path}.npy").exists()]
            cells = {
                ".npy": _all(arrays, lambda one: _npy(point, one)),
                ".fits": _all(shown, lambda one: _pixels(point, one)),
                "units": _all([one for one in shown if one.unit or one.fields], lambda one: _unit(point, one)),
                "masks": _all([one for one in shown if one.mask is not None], lambda one: _mask(point, one)),
                "WCS": _sky(point, path),
                "keywords": _keywords(point, path),
            }
            for name in ("units", "masks", ".fits"):
                found = [_table(point, table, columns, name) for table, columns in _tables(shown).items()]
                cells[name] = _joined([cells[name], *found])
        cells["xarray"], cells["netCDF"] = _xarray(path, shown, folder)
        cells["show"] = _all(shown, lambda one: _show(path, one))
    return cells


def _all(arrays: list[Known], check: Callable[[Known], str]) -> str:
    return _joined([check(one) for one in arrays])


def _joined(cells: list[str]) -> str:
    """Return the worst of several cells: a difference, a reason, equal, nothing."""
    different = [cell for cell in cells if cell.startswith("DIFFERENT")]
    reasons = [cell for cell in cells if cell not in (EQUAL, NOTHING)]
    return next(iter([*different, *reasons, *(cell for cell in cells if cell == EQUAL)]), NOTHING)


def _verdict(same: bool, what: str) -> str:
    return EQUAL if same else f"DIFFERENT: {what}"


def same_values(a: Any, b: Any) -> bool:
    """Return whether two arrays have the same shape and elements; texts may be bytes."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.names:
        return a.dtype.names == b.dtype.names and all(same_values(a[name], b[name]) for name in a.dtype.names)
    if {a.dtype.kind, b.dtype.kind} == {"S", "U"}:
        a, b = (np.char.encode(one, "utf-8") if one.dtype.kind == "U" else one for one in (a, b))
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc"))


def _npy(point: Path, one: Known) -> str:
    view = point / f"{one.path}.npy"
    return _verdict(view.exists() and same_values(np.load(view), one.values), one.path)


# -- FITS ---------------------------------------------------------------------------------


def _pixels(point: Path, one: Known) -> str:
    view, kind = point / f"{one.path}.fits", one.values.dtype.kind
    if not view.exists() and "/columns/" in one.path:
        return NOTHING  # it is in the table
    if not view.exists():
        fitting = one.values.ndim and (kind in "biuf" or one.values.dtype.names)
        return f"DIFFERENT: no {one.path}.fits" if fitting else "FITS has no such image"
    with fits.open(view, memmap=False) as hdus:
        if one.values.dtype.names:
            return _verdict(same_values(converted(hdus[1].data), one.values), one.path)
        return _verdict(same_values(hdus[0].data if one.values.size else one.values, one.values), one.path)


def _unit(point: Path, one: Known) -> str:
    view = point / f"{one.path}.fits"
    if not view.exists():
        return NOTHING
    if one.fields:
        header = fits.getheader(view, 1)
        told = {header[f"TTYPE{n}"]: header.get(f"TUNIT{n}") for n in range(1, header["TFIELDS"] + 1)}
        return _verdict(all(told[name] == unit for name, unit in one.fields), f"{one.path}: {told}")
    told = fits.getheader(view).get("BUNIT", "")
    return _verdict(units.Unit(told) == units.Unit(one.unit), f"{one.path}: {told!r}, {one.unit!r}")


def _mask(point: Path, one: Known) -> str:
    views = [point / f"{one.path}/mask.npy", point / one.path.rpartition("/")[0] / "mask.npy"]
    mask = np.load(next(view for view in views if view.exists()))
    if not np.array_equal(np.broadcast_to(mask, one.mask.shape), one.mask):
        return f"DIFFERENT: {one.path}/mask.npy"
    view = point / f"{one.path}.fits"
    if not view.exists():
        return EQUAL
    return _verdict(np.array_equal(fits.getdata(view, "MASK") != 0, one.mask), f"{one.path}.fits")


def _tables(arrays: list[Known]) -> dict[str, list[Known]]:
    found: dict[str, list[Known]] = defaultdict(list)
    for one in arrays:
        above, columns, _ = one.path.partition("/columns/")
        if columns:
            found[above].append(one)
    return found


def _table(point: Path, name: str, columns: list[Known], what: str) -> str:
    """Compare the FITS table of a table with its columns."""
    table = Table.read(point / f"{name}.fits", hdu=1, memmap=False)
    cells = []
    for one in columns:
        column = table[one.path.partition("/columns/")[2].split("/")[0]]
        hidden = np.zeros(one.values.shape, bool) if one.mask is None else one.mask
        if what == "units":
            same = str(column.unit) == one.unit or units.Unit(column.unit or "") == units.Unit(one.unit or "")
            cells.append(_verdict(same, f"{one.path}: {column.unit}") if one.unit else NOTHING)
        elif what == "masks" and one.mask is not None:
            cells.append(_verdict(np.array_equal(np.ma.getmaskarray(column), hidden), one.path))
        elif what == ".fits" and any("?" in str(text) for text in column) and one.values.dtype.kind == "U":
            cells.append("letters that take more bytes than the column has characters are ?")
        elif what == ".fits":
            cells.append(_verdict(same_values(np.ma.getdata(column)[~hidden], one.values[~hidden]), one.path))
    return _joined(cells)


def _sky(point: Path, path: Path) -> str:
    cells = []
    for name, position, (rows, columns) in coordinates_of(path):
        header = fits.getheader(point / f"{name}.fits")
        if "CTYPE1" not in header or "no sky coordinates" in str(header.get("COMMENT", "")):
            comment = "".join(str(line) for line in header.get("COMMENT", ["DIFFERENT: no comment"]))
            cells.append(comment.removeprefix("no sky coordinates: "))
            continue
        x, y = np.meshgrid(np.arange(0, columns, 3), np.arange(0, rows, 3))
        told = np.array(WCS(header, naxis=2).all_pix2world(x, y, 0))
        away = np.abs(told - position(x, y))
        same = bool(np.minimum(away, np.abs(away - 360)).max() < _NEAR)
        cells.append(_verdict(same, f"{name}: {away.max():.2g} deg"))
    return _joined(cells)


def _keywords(point: Path, path: Path) -> str:
    cells = []
    for name, keywords in keywords_of(path):
        header = fits.getheader(point / f"{name}.fits")
        wrong = {key: header.get(key) for key, value in keywords.items() if header.get(key) != value}
        cells.append(_verdict(not wrong, f"{name}: {wrong}"))
    return _joined(cells)


# -- datasets and show ------------------------------------------------------------------------


def _xarray(path: Path, arrays: list[Known], folder: Path) -> tuple[str, str]:
    if not all(importlib.util.find_spec(name) for name in ("xarray", "h5netcdf", "h5py")):
        return NOTHING, NOTHING
    import xarray

    groups = xarray.open_groups(path, engine="asdffs")
    found = [variable.values for group in groups.values() for variable in group.variables.values()]
    parts = [part for one in arrays for part in _fields(one)]
    cells = [_verdict(any(_same_missing(values, part) for values in found), part.path) for part in parts]
    copies = [_copied(group, folder / f"{number}.nc") for number, group in enumerate(groups.values())]
    for group in groups.values():
        group.close()
    return _joined(cells), _joined(copies)


def _fields(one: Known) -> Iterator[Known]:
    """Yield an array, or the fields of records, which are variables of their own."""
    if not one.values.dtype.names:
        yield one
    for name in one.values.dtype.names or ():
        yield Known(f"{one.path}.{name}", one.values[name])


def _same_missing(values: Any, one: Known) -> bool:
    if one.mask is None or not one.mask.any() or one.values.dtype.kind in "SU":
        return same_values(values, one.values)
    missing = one.values.astype(values.dtype if values.dtype.kind == "f" else "f8")
    return values.dtype.kind == "f" and same_values(values, np.where(one.mask, np.nan, missing))


def _copied(group: Any, place: Path) -> str:
    import xarray

    try:
        group.to_netcdf(place, engine="h5netcdf", invalid_netcdf=True)
    except NotImplementedError as err:
        return str(err)
    with xarray.open_dataset(place, engine="h5netcdf") as found:
        names = {str(name) for name in group.variables}
        if names - {str(name) for name in found.variables}:
            return f"DIFFERENT: {names}"
        different = [name for name in names if not same_values(found[name].values, group[name].values)]
        lost = {str(key) for key in group.attrs} - {str(key) for key in found.attrs}
    return _verdict(not different and not lost, f"{different} {lost}")


def _asked(*words: object) -> str:
    from asdffs.cli.main import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = main([*map(str, words)])
    assert code == 0, words
    return said.getvalue()


def _show(path: Path, one: Known) -> str:
    if one.values.dtype.names:
        rows = list(csv.DictReader(io.StringIO(_asked("show", path, one.path, "--csv"))))
        return _verdict(len(rows) == len(one.values), one.path)
    seen = json.loads(_asked("show", path, f"{one.path}[...]", "--json"))
    if one.unit and units.Unit(seen["unit"]) != units.Unit(one.unit):
        return f"DIFFERENT: {one.path}: {seen['unit']!r}, {one.unit!r}"
    if one.values.dtype.kind not in "biuf" or not one.values.ndim:
        return EQUAL
    values = one.values if one.mask is None else one.values[~one.mask]
    finite = values[np.isfinite(values)]
    wanted = (finite.min(), finite.max()) if finite.size else (None, None)
    hidden = 0 if one.mask is None else int(one.mask.sum())
    plane = one.values.ndim <= 2  # of more axes, show has the first plane
    same = not plane or ((seen["min"], seen["max"]) == wanted and seen["masked"] == hidden)
    return _verdict(bool(same), f"{one.path}: {seen['min']}, {seen['max']}, {seen['masked']} masked")


def rows_of(cells: dict[str, str]) -> Iterator[str]:
    """Yield the cells in the order of ``VIEWS``."""
    return (cells[view] for view in VIEWS)
