"""Small files of every kind that the libraries of observatories write, and what these libraries read from them.

``KINDS`` has a function for each file.  ``known(path)`` returns what the library of the file reads: arrays, masks,
units.  Of an ASDF file, that is what ``asdf.open`` returns, with the converters of all installed libraries; of a FITS
file of JWST, what astropy reads from its extensions.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import asdf
import numpy as np

SHAPE = (20, 30)
ROWS = 12
RNG = np.random.default_rng(52)


class Known(NamedTuple):
    """An array as its library reads it.

    ``path``: in ``arrays/``.  ``mask``: true where masked, None without one.  ``fields``: units of fields of records.
    """

    path: str
    values: Any
    unit: str = ""
    mask: Any = None
    fields: tuple[tuple[str, str], ...] = ()


Make = Callable[[Path], None]


def tree(**found: Any) -> Make:
    """Return a function that writes these values with the asdf library."""
    return lambda path: asdf.AsdfFile(found).write_to(path)


def image() -> Any:
    """An image with a star, and NaN."""
    pixels = RNG.normal(100, 3, SHAPE).astype("f4")
    pixels[5, 7], pixels[0, 0] = 5000, np.nan
    return pixels


def sky(shape: tuple[int, ...] = SHAPE, *, rough: bool = False) -> Any:
    """A gwcs with distortion, as in the images of Roman and JWST; a ``rough`` one has waves."""
    import gwcs
    from astropy import coordinates, units
    from astropy.modeling import models
    from gwcs import coordinate_frames as frames

    pixels = frames.Frame2D(name="detector", axes_order=(0, 1), unit=(units.pix, units.pix))
    world = frames.CelestialFrame(reference_frame=coordinates.ICRS(), name="world", unit=(units.deg, units.deg))
    x = models.Polynomial2D(2, c1_0=1, c0_1=1e-3, c2_0=2e-6)
    y = models.Polynomial2D(2, c1_0=-1e-3, c0_1=1, c0_2=2e-6)
    distortion = models.Mapping((0, 1, 0, 1)) | (x & y)
    if rough:
        wave = models.Polynomial1D(1, c1=1) + models.Sine1D(amplitude=1, frequency=0.3)
        distortion = wave & models.Identity(1)
    scale = models.Scale(0.11 / 3600) & models.Scale(0.11 / 3600)
    to_sky = models.Pix2Sky_TAN() | models.RotateNative2Celestial(270, 66, 180)
    found = gwcs.WCS([(pixels, distortion | scale | to_sky), (world, None)])
    found.pixel_shape = shape[::-1]
    return found


def cube_sky() -> Any:
    """A gwcs of sky and wavelength."""
    import gwcs
    from astropy import coordinates, units
    from astropy.modeling import models
    from gwcs import coordinate_frames as frames

    pixels = frames.CoordinateFrame(3, ["SPATIAL"] * 3, (0, 1, 2), unit=[units.pix] * 3, name="detector")
    celestial = frames.CelestialFrame(reference_frame=coordinates.ICRS(), axes_order=(0, 1), name="sky")
    wave = frames.SpectralFrame(axes_order=(2,), unit=(units.um,), name="wave")
    to_sky = models.Pix2Sky_TAN() | models.RotateNative2Celestial(10.0, 20.0, 180.0)
    plane = (models.Shift(-5) & models.Shift(-4)) | (models.Scale(1e-4) & models.Scale(1e-4)) | to_sky
    world = frames.CompositeFrame([celestial, wave])
    return gwcs.WCS([(pixels, plane & (models.Scale(0.01) | models.Shift(5))), (world, None)])


# -- numpy and astropy --------------------------------------------------------


def astropy_kinds() -> dict[str, Make]:
    """Kinds that asdf and asdf-astropy write."""
    from astropy import units
    from astropy.coordinates import Angle, Latitude, Longitude, SkyCoord, SpectralCoord
    from astropy.io import fits
    from astropy.table import Column, MaskedColumn, QTable, Table
    from astropy.time import Time, TimeDelta
    from astropy.utils.masked import Masked

    numbers = np.arange(ROWS)
    columns = {"id": numbers, "flux": RNG.random(ROWS) * units.Jy, "name": [f"star {n}" for n in numbers]}
    third = numbers % 3 == 0
    masked = Table({kind: MaskedColumn(numbers.astype(kind), mask=third) for kind in ("i2", "i8", "f4", "U3")})
    described = Table(columns)
    described["flux"].description = "the flux, " * 20
    sky_table = QTable({"sky": SkyCoord(numbers * units.deg, numbers * units.deg), "f": numbers * units.Jy})
    time_table = QTable({"when": Time(50000 + numbers, format="mjd"), "f": numbers * units.Jy})
    words = Table({"bytes": [b"a", b"bc"], "words": ["é", "日本"], "flags": [True, False]})
    vectors = Table({"v": RNG.random((ROWS, 3)) * units.km / units.s, "m": RNG.random((ROWS, 2, 2))})
    records = np.zeros(ROWS, [("x", "i4"), ("y", ">f8"), ("s", "S3")])
    records["x"], records["s"] = numbers, b"abc"
    odd = Column(np.arange(3.0), unit="DN / s", name="rate")
    return {
        "image": tree(data=image()),
        "big-endian": tree(data=image().astype(">f8")),
        "integers": tree(a=np.arange(-5, 5, dtype="i1"), b=np.arange(9, dtype="u2"), c=np.array([2**63 + 1], "u8")),
        "halves and bools": tree(h=np.linspace(0, 1, 8, dtype="f2"), b=numbers % 2 == 0),
        "complex": tree(z=RNG.random(8) + 1j * RNG.random(8)),
        "texts": tree(s=np.array([b"ab", b"c"]), u=np.array(["é", "xyz"])),
        "scalar": tree(one=np.array(7.5)),
        "empty": tree(none=np.zeros((0, 3))),
        "strided": tree(turned=np.asfortranarray(image()), steps=np.arange(40)[::3]),
        "records": tree(events=records),
        "masked array": tree(data=np.ma.masked_greater(image(), 1000)),
        "masked integers": tree(data=np.ma.masked_equal(np.arange(20).reshape(4, 5) % 7, 0)),
        "quantity": tree(q=image() * units.MJy / units.sr),
        "masked quantity": tree(q=Masked(np.arange(6.0) * units.Jy, mask=[0, 1, 0, 0, 1, 0])),
        "magnitudes": tree(t=Table({"m": np.arange(5.0) * units.Unit("mag(AB)")})),
        "angle": tree(a=Angle([1.0, 2, 3] * units.rad)),
        "longitude": tree(lon=Longitude([1.0, 2, 3] * units.hourangle)),
        "latitude": tree(lat=Latitude([1.0, 2, 3] * units.deg)),
        "spectral coord": tree(s=SpectralCoord([500.0, 600] * units.nm)),
        "sky coord": tree(c=SkyCoord([1.0, 2] * units.deg, [3.0, 4] * units.deg)),
        "times": tree(t=Time(["2026-01-02T03:04:05", "2026-02-03T04:05:06"]), d=TimeDelta([1.0, 2] * units.day)),
        "column": tree(c=odd),
        "table": tree(t=Table(columns)),
        "described table": tree(t=described),
        "masked table": tree(t=masked),
        "qtable": tree(t=QTable(columns)),
        "table of sky": tree(t=sky_table),
        "table of times": tree(t=time_table),
        "table of texts": tree(t=words),
        "table of vectors": tree(t=vectors),
        "empty table": tree(t=Table({"a": np.zeros(0), "b": np.zeros(0, "i2")})),
        "hdus": tree(h=fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(image()), fits.BinTableHDU(records)])),
        "mosaic of attributes": tree(
            meta={"flag": True, "none": None, "list": [[1, 2], [3]], "when": Time("2026-01-02T03:04:05"), "n": 2**50},
            data=image(),
        ),
    }


# -- gwcs, ndcube, specutils ----------------------------------------------------


def gwcs_kinds() -> dict[str, Make]:
    """Images with a gwcs."""
    return {
        "gwcs image": tree(meta={"wcs": sky(), "telescope": "T"}, data=image(), dq=np.zeros(SHAPE, "u4")),
        "gwcs cube of images": tree(meta={"wcs": sky()}, data=np.stack([image()] * 3)),
        "gwcs of three axes": tree(meta={"wcs": cube_sky()}, data=np.zeros((4, 8, 10), "f4")),
        "gwcs that FITS cannot say": tree(meta={"wcs": sky(rough=True)}, data=image()),
    }


def ndcube_kinds() -> dict[str, Make]:
    """Cubes of ndcube."""
    from astropy import units
    from ndcube import NDCube

    cube = NDCube(image(), wcs=sky(), unit="DN / s", mask=np.zeros(SHAPE, bool))
    plain = NDCube(np.arange(600.0).reshape(SHAPE), wcs=sky(), unit=units.ct)
    return {"ndcube": tree(cube=plain), "masked ndcube": tree(cube=cube)}


def specutils_kinds() -> dict[str, Make]:
    """Spectra of specutils."""
    from astropy import units
    from astropy.nddata import StdDevUncertainty
    from specutils import Spectrum

    wave, flux = np.linspace(5000, 6000, 50) * units.AA, RNG.random(50) * units.Jy
    error = StdDevUncertainty(np.full(50, 0.1))
    return {
        "spectrum": tree(s=Spectrum(flux=flux, spectral_axis=wave)),
        "spectrum with errors": tree(s=Spectrum(flux=flux, spectral_axis=wave, uncertainty=error)),
    }


# -- Roman, JWST, sunpy, DKIST ---------------------------------------------------

#: Models of roman_datamodels, and the shapes of their arrays.
ROMAN = {
    "ScienceRawModel": (2, *SHAPE),
    "RampModel": (2, *SHAPE),
    "ImageModel": SHAPE,
    "MosaicModel": SHAPE,
    "DarkRefModel": (2, *SHAPE),
    "FlatRefModel": SHAPE,
    "GainRefModel": SHAPE,
    "MaskRefModel": SHAPE,
    "PixelareaRefModel": SHAPE,
    "ReadnoiseRefModel": SHAPE,
    "SaturationRefModel": SHAPE,
    "SegmentationMapModel": SHAPE,
}


def roman_kinds() -> dict[str, Make]:
    """Files of roman_datamodels."""
    from roman_datamodels import datamodels

    def make(name: str, shape: tuple[int, ...]) -> Make:
        def write(path: Path) -> None:
            model = getattr(datamodels, name).create_fake_data(shape=shape)
            if "data" in model:
                model.data = np.arange(np.prod(model.data.shape)).reshape(model.data.shape).astype(model.data.dtype)
            if name == "ImageModel":
                model.meta.wcs = sky()
                model.meta.exposure.exposure_time = 107.5
                model.meta.pointing.target_ra = 270.5
            model.save(path)

        return write

    return {f"Roman {name}": make(name, shape) for name, shape in ROMAN.items() if hasattr(datamodels, name)}


#: Models of stdatamodels, and the shapes of their arrays.
JWST = {"ImageModel": SHAPE, "CubeModel": (3, *SHAPE), "RampModel": (1, 2, *SHAPE), "IFUCubeModel": (3, *SHAPE)}


def jwst_kinds() -> dict[str, Make]:
    """FITS files of stdatamodels, with an ASDF extension."""
    from stdatamodels.jwst import datamodels

    def make(name: str, shape: tuple[int, ...]) -> Make:
        def write(path: Path) -> None:
            model = getattr(datamodels, name)(shape)
            model.data[:] = np.arange(np.prod(shape)).reshape(shape)
            model.dq = np.full(shape[-2:] if name == "RampModel" else shape, 1, "u4") if name != "RampModel" else None
            model.meta.bunit_data = "MJy/sr"
            model.meta.telescope, model.meta.instrument.name = "JWST", "NIRCAM"
            model.meta.target.catalog_name = "M 31"
            if name == "ImageModel":
                model.meta.wcs = sky()
            model.save(path)

        return write

    def spectra(path: Path) -> None:
        model = datamodels.MultiSpecModel()
        table = np.zeros(ROWS, datamodels.SpecModel().get_dtype("spec_table"))
        table["WAVELENGTH"] = np.arange(ROWS)
        one = datamodels.SpecModel(spec_table=table)
        one.spec_table.columns["wavelength"].unit = "um"
        model.spec.append(one)
        model.save(path)

    return {**{f"JWST {name}": make(name, shape) for name, shape in JWST.items()}, "JWST MultiSpecModel": spectra}


def sunpy_kinds() -> dict[str, Make]:
    """Maps of sunpy."""
    import sunpy.map
    from astropy import units
    from astropy.coordinates import SkyCoord

    def a_map(mask: Any = None) -> Any:
        center = SkyCoord(0, 0, unit="arcsec", obstime="2026-01-01", observer="earth", frame="helioprojective")
        scale, wave = [2, 2] * units.arcsec / units.pixel, 171 * units.angstrom
        header = sunpy.map.make_fitswcs_header(image(), center, scale=scale, instrument="AIA", wavelength=wave)
        header |= {"bunit": "DN / s", "exptime": 2.9, "history": "flat\ndark"}
        return sunpy.map.Map(image(), header) if mask is None else sunpy.map.GenericMap(image(), header, mask=mask)

    return {"sunpy map": tree(map=a_map()), "masked sunpy map": tree(map=a_map(image() > 1000))}


def dkist_kinds() -> dict[str, Make]:
    """A dataset of DKIST, whose array is in FITS files beside it: three of four are there."""
    from astropy import units
    from astropy.io import fits
    from astropy.table import Table
    from dkist import Dataset
    from dkist.io import DKISTFileManager
    from dkist.io.dask.loaders import AstropyFITSLoader

    headers = Table({"NAXIS": np.full(4, 2), "DATE": ["2026-01-01"] * 4, "EXPOSURE": np.linspace(0, 1, 4)})
    names = np.array([["a.fits", "b.fits"], ["c.fits", "d.fits"]])
    files = DKISTFileManager.from_parts(names, 1, "float64", (1, *SHAPE), loader=AstropyFITSLoader)
    dataset = Dataset(files.dask_array, wcs=sky(), meta={"inventory": {}, "headers": headers}, unit=units.count)
    dataset._file_manager = files

    def make(path: Path) -> None:
        tree(dataset=dataset)(path)
        for name in "bcd":
            hdu = fits.CompImageHDU(image()[None].astype("f8"), compression_type="RICE_1")
            fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(path.with_name(f"{name}.fits"))

    return {"DKIST dataset": make}


#: Library -> the kinds of files that it writes.
LIBRARIES: dict[str, Callable[[], dict[str, Make]]] = {
    "asdf_astropy": astropy_kinds,
    "gwcs": gwcs_kinds,
    "ndcube": ndcube_kinds,
    "specutils": specutils_kinds,
    "roman_datamodels": roman_kinds,
    "stdatamodels": jwst_kinds,
    "sunpy": sunpy_kinds,
    "dkist": dkist_kinds,
}


# -- what the libraries read --------------------------------------------------------


def known(path: Path) -> list[Known]:
    """Return the arrays of a file as its library reads them, by their paths in ``arrays/``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(_of_fits(path) if path.suffix == ".fits" else _of_asdf(path))


def _of_fits(path: Path) -> Iterator[Known]:
    """Yield the arrays whose source is an extension, as astropy reads that extension."""
    from astropy.io import fits

    import asdffs

    with asdffs.open(path) as document, fits.open(path, memmap=False) as hdus:
        for name in document.arrays:
            source = document.arrays[name].branch.array.source
            if not isinstance(source, str):
                continue
            key, _, version = source.removeprefix("fits:").partition(",")
            hdu = hdus[(key, int(version))] if version else hdus[key]
            if isinstance(hdu, fits.BinTableHDU):
                fields = tuple((column.name, column.unit) for column in hdu.columns if column.unit)
                yield Known(name, converted(hdu.data), fields=fields)
            else:
                yield Known(name, np.array(hdu.data), hdu.header.get("BUNIT", ""))


def converted(table: Any) -> Any:
    """Return the columns of a FITS table as astropy shows them, scaled and logical ones as well."""
    columns = {name: np.asarray(table[name]) for name in table.dtype.names}
    found = np.empty(len(table), [(name, column.dtype, column.shape[1:]) for name, column in columns.items()])
    for name, column in columns.items():
        found[name] = column
    return found


def _of_asdf(path: Path) -> Iterator[Known]:
    with asdf.open(path, memmap=False, lazy_load=False) as file:
        about = ("asdf_library", "history")
        yield from _walk({key: value for key, value in file.tree.items() if key not in about}, ())


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[Known]:
    found = _object(value, path)
    if found is not None:
        yield from found
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _walk(item, (*path, str(number)))
    elif hasattr(value, "items"):
        for key, item in value.items():
            yield from _walk(item, (*path, str(key)))


def _object(value: Any, path: tuple[str, ...]) -> Iterator[Known] | None:
    """Return the arrays of an object; None if it only holds others."""
    from astropy.coordinates import SkyCoord
    from astropy.io import fits
    from astropy.table import Table
    from astropy.time import TimeBase

    if isinstance(value, Table):
        return _columns(value, path)
    if isinstance(value, SkyCoord):
        return (one for part in ("ra", "dec") for one in _walk(getattr(value, part), (*path, part)))
    if isinstance(value, fits.HDUList):
        return (one for number, hdu in enumerate(value) for one in _unit(hdu, (*path, str(number), "data")))
    if isinstance(value, TimeBase):
        return iter(())  # its texts and numbers depend on its format
    if isinstance(value, np.ndarray) or type(value).__name__ == "NDArrayType":
        return _array(value, "/".join(path))
    if hasattr(value, "data") and hasattr(value, "unit"):  # NDCube, a map, a spectrum
        return _data_of(value, path)
    return None


def _unit(hdu: Any, path: tuple[str, ...]) -> Iterator[Known]:
    """Yield the data of a header/data unit, in which a table is one of columns."""
    from astropy.table import Table

    if hdu.data is not None and hdu.data.dtype.names:
        yield from _columns(Table(hdu.data), path)
    elif hdu.data is not None:
        yield Known("/".join(path), np.array(hdu.data))


def _array(value: Any, name: str) -> Iterator[Known]:
    from astropy import units
    from astropy.table import Column

    mask = np.array(value.mask) if hasattr(value, "mask") else None
    if isinstance(value, units.Quantity):
        bare = value.unmasked if mask is not None else value
        if np.ndim(value):
            yield Known(f"{name}/value", np.array(bare.value), value.unit.to_string(), mask)
    elif isinstance(value, Column):
        yield Known(f"{name}/data", np.array(value), str(value.unit or ""))
    elif isinstance(value, np.ma.MaskedArray):
        yield Known(name, np.ma.getdata(value), "", np.ma.getmaskarray(value))
    else:
        yield Known(name, np.array(value))


def _columns(table: Any, path: tuple[str, ...]) -> Iterator[Known]:
    from astropy import units
    from astropy.coordinates import SkyCoord
    from astropy.time import TimeBase

    for name in table.colnames:
        column = table[name]
        place = "/".join((*path, "columns", name))
        if isinstance(column, (SkyCoord, TimeBase)):
            continue
        unit = "" if column.unit is None else column.unit.to_string()
        mask = np.array(np.broadcast_to(column.mask, column.shape)) if hasattr(column, "mask") else None
        if isinstance(column, units.Quantity):
            yield Known(f"{place}/value", np.array(column.value), unit, mask)
        else:
            yield Known(f"{place}/data", np.array(np.ma.getdata(column)), unit, mask)


def _data_of(value: Any, path: tuple[str, ...]) -> Iterator[Known]:
    """Yield the data of a cube, map or spectrum."""
    inner = "data" if hasattr(value, "meta") and not hasattr(value, "spectral_axis") else "flux"
    array = np.array(value.data if inner == "data" else value.flux.value)
    mask = value.mask if getattr(value, "mask", None) is not None else None
    suffix = ("flux", "value") if inner == "flux" else ("data",)
    yield Known("/".join((*path, *suffix)), array, str(value.unit or ""), None if mask is None else np.array(mask))


# -- coordinates and keywords -------------------------------------------------------------

#: How to find the position of pixels x and y: right ascension and declination in degrees.
Position = Callable[[Any, Any], Any]
#: Values of ``meta`` that programs look for by keywords.
KEYWORDS = {
    "TELESCOP": ("telescope",),
    "INSTRUME": ("instrument", "name"),
    "EXPTIME": ("exposure", "exposure_time"),
    "OBJECT": ("target", "catalog_name"),
    "RA_TARG": ("pointing", "target_ra"),
}


def coordinates_of(path: Path) -> Iterator[tuple[str, Position, tuple[int, ...]]]:
    """Yield the path of each image with coordinates, its positions by its library, and its rows and columns."""
    with warnings.catch_warnings(), _opened(path) as (found, prefix):
        warnings.simplefilter("ignore")
        for value in found.values() if isinstance(found, dict) else ():
            if type(value).__name__ == "NDCube" or "sunpy" in type(value).__module__:
                name = next(key for key, item in found.items() if item is value)
                yield f"{name}/data", _position(value.wcs), value.data.shape[-2:]
        meta = found.get("meta") if hasattr(found, "get") else None
        wcs = meta.get("wcs") if hasattr(meta, "get") else None
        if hasattr(wcs, "forward_transform"):
            yield f"{prefix}data", _position(wcs), np.shape(found["data"])[-2:]


def _position(wcs: Any) -> Position:
    from astropy import units

    def position(x: Any, y: Any) -> Any:
        if hasattr(wcs, "forward_transform"):
            return np.array(wcs(x, y, *[0 * x] * (wcs.pixel_n_dim - 2), with_bounding_box=False)[:2])
        sky = wcs.pixel_to_world(x, y)
        return np.array([sky.spherical.lon.to_value(units.deg), sky.spherical.lat.to_value(units.deg)])

    return position


def keywords_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each image, and the keywords that its metadata have by its library."""
    with warnings.catch_warnings(), _opened(path) as (found, prefix):
        warnings.simplefilter("ignore")
        for key, value in found.items() if isinstance(found, dict) else ():
            if "sunpy" in type(value).__module__:
                names = ("instrume", "exptime", "bunit")
                yield f"{key}/data", {name.upper(): value.meta[name] for name in names if name in value.meta}
        meta = found.get("meta") if hasattr(found, "get") else None
        stated = {} if meta is None else {key: _at(meta, steps) for key, steps in KEYWORDS.items()}
        values = {key: value for key, value in stated.items() if value not in (None, "?", -999999)}
        if values and "data" in found:
            yield f"{prefix}data", values


def _at(meta: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        meta = meta.get(step) if hasattr(meta, "get") else None
    return meta


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, str]]:
    """Open the tree of a file, or the part of it that a mission has all in, and the prefix of its paths."""
    if path.suffix == ".fits":
        from astropy.io import fits

        with fits.open(path, memmap=False) as hdus:
            raw = io.BytesIO(hdus["ASDF"].data.tobytes())
            with asdf.open(raw, memmap=False, lazy_load=False) as file:
                arrays = {"data": hdus["SCI"].data} if "SCI" in hdus else {}
                yield {**file.tree, **arrays}, ""
        return
    with asdf.open(path, memmap=False, lazy_load=False) as file:
        yield (file["roman"], "roman/") if "roman" in file else (file.tree, "")
