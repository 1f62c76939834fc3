"""Compares what the libraries of observatories read from their files with what a mount of asdffs shows.

For each file: each array, in the library and in the mount; then an edit by ``asdffs set``, after which the library
must read the new value, and everything else as before.  Exits with 1 if anything differs.  See ``scripts/interop``.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ASDFFS = [sys.executable, "-m", "asdffs"]
SHAPE = (40, 30)
PACKAGES = ("asdf", "asdf-astropy", "asdf_zarr", "astropy", "dkist", "gwcs", "numpy", "numcodecs", "roman_datamodels")
PACKAGES += ("stdatamodels", "sunpy", "zarr")


class Sample(NamedTuple):
    """A file that ``make(path)`` writes, and how its library reads it.

    ``read(path)``: returns arrays by their paths in ``arrays/``, and other values by name.  ``edit``: a path of the
    tree and its new value, and the name of that value in what ``read`` returns.
    """

    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], tuple[dict[str, Any], dict[str, str]]]
    edit: tuple[str, str, str]


def sky() -> Any:
    """A gwcs with distortion, as in the images of Roman and JWST."""
    import gwcs
    from astropy import coordinates, units
    from astropy.modeling import models
    from gwcs import coordinate_frames as frames

    pixels = frames.Frame2D(name="detector", axes_order=(0, 1), unit=(units.pix, units.pix))
    world = frames.CelestialFrame(reference_frame=coordinates.ICRS(), name="world", unit=(units.deg, units.deg))
    x = models.Polynomial2D(2, c1_0=1, c0_1=1e-3, c2_0=2e-6)
    y = models.Polynomial2D(2, c1_0=-1e-3, c0_1=1, c0_2=2e-6)
    distortion = models.Mapping((0, 1, 0, 1)) | (x & y)
    scale = models.Scale(0.11 / 3600) & models.Scale(0.11 / 3600)
    return gwcs.WCS(
        [
            (pixels, distortion | scale | models.Pix2Sky_TAN() | models.RotateNative2Celestial(270, 66, 180)),
            (world, None),
        ]
    )


# -- Roman ------------------------------------------------------------------


def make_roman(path: Path) -> None:
    from roman_datamodels.datamodels import ImageModel

    model = ImageModel.create_fake_data(shape=SHAPE)
    model.data[:] = np.arange(1200).reshape(SHAPE)
    model.meta.wcs = sky()
    model.save(path)


def make_roman_raw(path: Path) -> None:
    from roman_datamodels.datamodels import ScienceRawModel

    model = ScienceRawModel.create_fake_data(shape=(2, *SHAPE))
    model.save(path)


def read_roman(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    from roman_datamodels import datamodels

    with datamodels.open(path) as model:
        flat = dict(model.to_flat_dict())
        arrays = {f"roman/{key}": np.array(value) for key, value in model.items() if hasattr(value, "dtype")}
        return arrays, {key: str(value) for key, value in flat.items() if not hasattr(value, "dtype")}


# -- JWST -------------------------------------------------------------------


def make_jwst_image(path: Path) -> None:
    from stdatamodels.jwst.datamodels import ImageModel

    model = ImageModel(SHAPE)
    model.data[:] = np.arange(1200).reshape(SHAPE)
    model.dq = np.full(SHAPE, 3, "u4")
    model.err = np.full(SHAPE, 0.5, "f4")
    model.meta.wcs = sky()
    model.meta.target.catalog_name = "M 31"
    model.meta.note = "dawn"
    model.save(path)


def make_jwst_summed(path: Path) -> None:
    """With CHECKSUM and DATASUM in each header.  To stdatamodels, keywords were edited, so it reads these first."""
    from astropy.io import fits

    make_jwst_image(path)
    with fits.open(path) as hdus:
        hdus.writeto(path, overwrite=True, checksum=True)


def make_jwst_inside(path: Path) -> None:
    """With the ASDF extension before the data, with checksums."""
    from astropy.io import fits

    make_jwst_image(path)
    with fits.open(path) as hdus:
        moved = fits.HDUList([hdus[0], hdus["ASDF"], *hdus[1:-1]])
        moved.writeto(path, overwrite=True, checksum=True)


def make_jwst_bytes(path: Path) -> None:
    """With the ASDF extension as an image of bytes, the form of older files."""
    from astropy.io import fits

    make_jwst_image(path)
    with fits.open(path) as hdus:
        raw = np.frombuffer(hdus["ASDF"].data.tobytes(), np.uint8)
        fits.HDUList([*hdus[:-1], fits.ImageHDU(raw, name="ASDF")]).writeto(path, overwrite=True)


def make_jwst_cube(path: Path) -> None:
    from stdatamodels.jwst.datamodels import CubeModel

    model = CubeModel((3, *SHAPE))
    model.data[:] = 7
    model.dq = np.full((3, *SHAPE), 1, "u4")
    model.meta.target.catalog_name = "M 31"
    model.save(path)


def make_jwst_spectra(path: Path) -> None:
    from stdatamodels.jwst.datamodels import MultiSpecModel, SpecModel

    model = MultiSpecModel()
    for number in range(3):
        table = np.zeros(20, SpecModel().get_dtype("spec_table"))
        table["WAVELENGTH"] = np.arange(20) + number
        model.spec.append(SpecModel(spec_table=table))
    model.meta.target.catalog_name = "M 31"
    model.save(path)


def read_jwst(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    from stdatamodels.jwst import datamodels

    with datamodels.open(path) as model:
        arrays = {name: np.array(model[name]) for name in ("data", "dq", "err") if model.hasattr(name)}
        if "spectra" in path.name:
            arrays = {f"spec/{number}/spec_table": np.array(one.spec_table) for number, one in enumerate(model.spec)}
        flat = model.to_flat_dict(include_arrays=False)
        return arrays, {key: str(value) for key, value in flat.items()}


# -- astropy and sunpy ------------------------------------------------------


def make_astropy(path: Path) -> None:
    import asdf
    from astropy import units
    from astropy.coordinates import SkyCoord
    from astropy.io import fits
    from astropy.table import QTable, Table
    from astropy.time import Time

    tree = {
        "table": Table({"a": np.arange(5), "b": np.linspace(0, 1, 5)}),
        "quantities": QTable({"flux": np.arange(4.0) * units.Jy}),
        "time": Time("2026-01-02T03:04:05"),
        "coordinates": SkyCoord([1, 2] * units.deg, [3, 4] * units.deg),
        "times": Time(["2026-01-02T03:04:05", "2026-02-03T04:05:06"]).mjd,
        "hdus": fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.arange(6.0).reshape(2, 3))]),
        "meta": {"observer": "Ada"},
    }
    asdf.AsdfFile(tree).write_to(path)


def read_astropy(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    import asdf

    with asdf.open(path, memmap=False, lazy_load=False) as file:
        arrays = {f"table/columns/{name}/data": np.array(file["table"][name]) for name in "ab"}
        arrays["quantities/columns/flux/value"] = np.array(file["quantities"]["flux"].value)
        arrays |= {f"coordinates/{name}/value": getattr(file["coordinates"], name).value for name in ("ra", "dec")}
        arrays |= {"times": np.array(file["times"]), "hdus/1/data": np.array(file["hdus"][1].data)}
        values = {name: str(file[name]) for name in ("table", "quantities", "time", "coordinates")}
        return arrays, {**values, "observer": file["meta"]["observer"]}


def make_sunpy(path: Path) -> None:
    import asdf
    import sunpy.map
    from astropy import units
    from astropy.coordinates import SkyCoord

    data = np.arange(1200, dtype="f4").reshape(SHAPE)
    center = SkyCoord(0, 0, unit="arcsec", obstime="2026-01-01", observer="earth", frame="helioprojective")
    scale, wave = [2, 2] * units.arcsec / units.pixel, 171 * units.angstrom
    header = sunpy.map.make_fitswcs_header(data, center, scale=scale, instrument="AIA", wavelength=wave)
    asdf.AsdfFile({"sunpymap": sunpy.map.Map(data, header)}).write_to(path)


def read_sunpy(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    import asdf

    with asdf.open(path, memmap=False, lazy_load=False) as file:
        found = file["sunpymap"]
        return {"sunpymap/data": np.array(found.data)}, {key: str(value) for key, value in found.meta.items()}


# -- DKIST and Zarr ---------------------------------------------------------


def make_dkist(path: Path) -> None:
    import asdf
    from astropy import units
    from astropy.io import fits
    from astropy.table import Table
    from dkist import Dataset
    from dkist.io import DKISTFileManager
    from dkist.io.dask.loaders import AstropyFITSLoader

    headers = Table({"NAXIS": np.full(4, 2), "DATE": ["2026-01-01"] * 4, "EXPOSURE": np.linspace(0, 1, 4)})
    names = np.array([["a.fits", "b.fits"], ["c.fits", "d.fits"]])
    files = DKISTFileManager.from_parts(names, 1, "float64", (1, 10, 20), loader=AstropyFITSLoader)
    for number, name in enumerate(names.flat[1:]):  # the first is missing
        hdu = fits.CompImageHDU(np.full((1, 10, 20), number + 0.5), compression_type="GZIP_2", quantize_level=0)
        fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(path.with_name(str(name)), overwrite=True)
    meta = {"inventory": {"datasetId": "AAAA"}, "headers": headers}
    dataset = Dataset(files.dask_array, wcs=sky(), meta=meta, unit=units.count)
    dataset._file_manager = files
    asdf.AsdfFile({"dataset": dataset}).write_to(path)


def read_dkist(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    import asdf

    with asdf.open(path, memmap=False, lazy_load=False) as file:
        found = file["dataset"]
        table = found.meta["headers"]
        arrays = {f"dataset/meta/headers/columns/{name}/data": np.array(table[name]) for name in table.colnames}
        arrays["dataset/data"] = found.data.compute()
        values = {"datasetId": found.meta["inventory"]["datasetId"], "files": str(found.files.filenames)}
        return arrays, {**values, "headers": str(table), "wcs": str(found.wcs)}


CHUNKED = {
    "plain": {"compressor": None},
    "blosc": {},
    "columns": {"order": "F"},
    "filtered": {"filters": [{"id": "delta", "dtype": "<f4"}]},
}


def make_zarr(path: Path) -> None:
    import asdf
    import numcodecs
    import zarr
    from asdf_zarr.storage import to_internal

    tree: dict[str, Any] = {"meta": {"observer": "Ada"}}
    for name, options in CHUNKED.items():
        filters = [numcodecs.get_codec(dict(one)) for one in options.get("filters", ())] or None
        store = zarr.storage.KVStore({})
        array = zarr.create((7, 10, 5), chunks=(3, 4, 5), dtype="<f4", store=store, **{**options, "filters": filters})
        array[:] = np.arange(350).reshape(7, 10, 5)
        tree[name] = to_internal(array)
    asdf.AsdfFile(tree).write_to(path)


def read_zarr(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    import asdf

    with asdf.open(path, memmap=False, lazy_load=False) as file:
        return {name: np.array(file[name][...]) for name in CHUNKED}, {"observer": file["meta"]["observer"]}


SAMPLES = (
    Sample(
        "roman_l2.asdf",
        make_roman,
        read_roman,
        ("roman.meta.exposure.ma_table_name", "IM_107", "roman.meta.exposure.ma_table_name"),
    ),
    Sample(
        "roman_l1.asdf",
        make_roman_raw,
        read_roman,
        ("roman.meta.exposure.ma_table_name", "IM_107", "roman.meta.exposure.ma_table_name"),
    ),
    Sample("jwst_summed.fits", make_jwst_summed, read_jwst, ("meta.note", "dusk", "meta.note")),
    Sample("jwst_inside.fits", make_jwst_inside, read_jwst, ("meta.note", "dusk", "meta.note")),
    *(
        Sample(
            f"jwst_{name}.fits", make, read_jwst, ("meta.target.catalog_name", "NGC 1", "meta.target.catalog_name")
        )
        for name, make in (
            ("image", make_jwst_image),
            ("bytes", make_jwst_bytes),
            ("cube", make_jwst_cube),
            ("spectra", make_jwst_spectra),
        )
    ),
    Sample("astropy.asdf", make_astropy, read_astropy, ("meta.observer", "Grace", "observer")),
    Sample("sunpy.asdf", make_sunpy, read_sunpy, ("sunpymap.meta.instrume", "HMI", "instrume")),
    Sample("dkist.asdf", make_dkist, read_dkist, ("dataset.meta.inventory.datasetId", "BBBB", "datasetId")),
    Sample("zarr.asdf", make_zarr, read_zarr, ("meta.observer", "Grace", "observer")),
)

#: The image with sky coordinates in a file.
SKY = {"roman_l2.asdf": "roman/data.fits", "jwst_image.fits": "data.fits"}


def compare(sample: Sample, folder: Path) -> list[tuple[str, str, str, str]]:
    """Return a row for each array, and one for the edit: what it is, the library's, the mount's, and the verdict."""
    path, point = folder / sample.name, folder / "mnt"
    sample.make(path)
    arrays, values = sample.read(path)
    point.mkdir(exist_ok=True)
    subprocess.run([*ASDFFS, "mount", "-q", path, point], check=True)
    try:
        rows = [_row(sample.name, name, array, point) for name, array in arrays.items()]
        rows += [_sky_row(sample.name, point / "arrays" / view) for name, view in SKY.items() if name == sample.name]
    finally:
        subprocess.run([*ASDFFS, "umount", point], check=True)
    return [*rows, _edited(sample, path, arrays, values), *_sum_rows(sample.name, path)]


def _sum_rows(file: str, path: Path) -> list[tuple[str, str, str, str]]:
    """Return a row for a FITS file: what astropy says of its structure and checksums after the edit."""
    from astropy.io import fits

    if path.suffix != ".fits":
        return []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with fits.open(path, checksum=True) as hdus:
            hdus.verify("exception")
            count = sum("CHECKSUM" in hdu.header for hdu in hdus)
    said = "; ".join(str(one.message) for one in told)
    return [(f"{file} verify", f"{count} checksums", said or "nothing to say", "equal" if not said else "DIFFERENT")]


def _row(file: str, name: str, array: Any, point: Path) -> tuple[str, str, str, str]:
    view = point / "arrays" / f"{name}.npy"
    if not view.exists():
        return f"{file} {name}", _text(array), "nothing", "missing"
    found = np.load(view)
    same = found.shape == array.shape and equal(found, array)
    return f"{file} {name}", _text(array), _text(found), "equal" if same else "DIFFERENT"


def _sky_row(file: str, view: Path) -> tuple[str, str, str, str]:
    """Compare positions of pixels by the gwcs and by the FITS header of a view, in degrees."""
    from astropy.io import fits
    from astropy.wcs import WCS

    x, y = np.meshgrid(np.arange(SHAPE[1]), np.arange(SHAPE[0]))
    difference = np.abs(np.array(sky()(x, y)) - np.array(WCS(fits.getheader(view)).all_pix2world(x, y, 0))).max()
    return (
        f"{file} pixel to sky",
        "gwcs",
        f"within {difference:.1g} deg",
        "equal" if difference < 1e-6 else "DIFFERENT",
    )


def equal(a: Any, b: Any) -> bool:
    if a.dtype.names:
        return bool(a.dtype.names == b.dtype.names) and all(equal(a[name], b[name]) for name in a.dtype.names)
    if {a.dtype.kind, b.dtype.kind} == {"S", "U"}:  # astropy decodes the texts of a FITS table
        a, b = (np.char.encode(one) if one.dtype.kind == "U" else one for one in (a, b))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _text(array: Any) -> str:
    return f"{array.dtype.kind}{array.dtype.itemsize} {'x'.join(map(str, array.shape))}"


def _edited(sample: Sample, path: Path, arrays: dict[str, Any], values: dict[str, str]) -> tuple[str, str, str, str]:
    where, value, name = sample.edit
    subprocess.run([*ASDFFS, "set", f"{where}={value}", path], check=True, stdout=subprocess.DEVNULL)
    found, now = sample.read(path)
    changed = {key for key in {*values, *now} if values.get(key) != now.get(key)}
    same = found.keys() == arrays.keys() and all(equal(found[key], arrays[key]) for key in arrays)
    right = changed == {name} and now[name] == value and same
    return f"{sample.name} set {where}", values[name], now[name], "only that" if right else f"ALSO {sorted(changed)}"


def main(folder: str) -> int:
    """Print the rows, and the versions of the libraries."""
    warnings.simplefilter("ignore")
    rows = [row for sample in SAMPLES for row in compare(sample, Path(folder))]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES))
    return 0 if all(row[3] in ("equal", "only that") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
