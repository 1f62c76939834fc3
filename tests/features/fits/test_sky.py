"""Sky coordinates of .fits views: those of the gwcs in the tree, as astropy computes them from the cards."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import asdf
import gwcs
import numpy as np
import pytest
from astropy import coordinates, units
from astropy.io import fits
from astropy.modeling import models
from astropy.wcs import WCS
from gwcs import coordinate_frames
from support.fits_files import Form, write_fits
from support.kinds import cube_sky
from support.mounts import mounted, run
from support.web_server import WebServer

import asdffs
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.features.fits import sky, sky_helper
from asdffs.storage.backend import read_bytes
from asdffs.views.arrays import Arrays

pytestmark = pytest.mark.long

SHAPE = (80, 100)


def sky_of(distortion: Any) -> gwcs.WCS:
    """A WCS as Roman and JWST have it: shift, distortion, scale, projection, rotation."""
    pixels = coordinate_frames.Frame2D(name="detector", axes_order=(0, 1), unit=(units.pix, units.pix))
    world = coordinate_frames.CelestialFrame(
        reference_frame=coordinates.ICRS(), name="world", unit=(units.deg, units.deg)
    )
    shift = models.Shift(-50.5) & models.Shift(-40.5)
    scale = models.Scale(0.11 / 3600) & models.Scale(0.11 / 3600)
    to_sky = models.Pix2Sky_TAN() | models.RotateNative2Celestial(270.0, 66.0, 180.0)
    return gwcs.WCS([(pixels, shift | distortion | scale | to_sky), (world, None)])


def polynomial(curvature: float) -> Any:
    x = models.Polynomial2D(3, c0_0=0, c1_0=1, c0_1=1e-3, c2_0=curvature, c1_1=curvature / 2, c0_2=1e-6)
    y = models.Polynomial2D(3, c0_0=0, c1_0=-1e-3, c0_1=1, c2_0=1e-6, c1_1=-curvature, c0_3=curvature / 100)
    return models.Mapping((0, 1, 0, 1)) | (x & y)


def rough() -> Any:
    """Waves of a pixel, which no polynomial follows."""
    return (models.Polynomial1D(1, c1=1) + models.Sine1D(amplitude=1, frequency=0.1)) & models.Identity(1)


def spectral() -> gwcs.WCS:
    pixels = coordinate_frames.Frame2D(name="detector", unit=(units.pix, units.pix))
    world = coordinate_frames.Frame2D(name="slit", unit=(units.m, units.m))
    return gwcs.WCS([(pixels, models.Identity(2)), (world, None)])


def tree_of(wcs: gwcs.WCS) -> dict[str, Any]:
    return {
        "roman": {
            "meta": {
                "wcs": wcs,
                "observer": "Ada",
                "wcsinfo": {"ctype1": "X", "crpix1": 1.0, "crval1": 2.0, "cdelt1": 1.0},
            },
            "data": np.arange(8000, dtype="f4").reshape(SHAPE),
            "err": np.zeros(SHAPE, "f4"),
            "small": np.zeros((2, 2)),
            "cube": np.zeros((2, *SHAPE), "u1"),
        }
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[[gwcs.WCS], Path]:
    def writing(wcs: gwcs.WCS) -> Path:
        path = tmp_path / "wfi.asdf"
        asdf.AsdfFile(tree_of(wcs)).write_to(path)
        return path

    return writing


def header_of(document: Document, *names: str) -> fits.Header:
    return header_in(view_of(document, *names))


def view_of(document: Document, *names: str) -> Any:
    found: Any = Arrays(document)
    for name in names:
        found = found.child(name)
    return found


def header_in(view: Any) -> fits.Header:
    raw, size = b"", view.size()
    while len(raw) < size:
        raw += read_bytes(view.read(len(raw), size))
    return fits.open(BytesIO(raw))[0].header


def farthest(wcs: gwcs.WCS, header: fits.Header) -> float:
    """The largest difference of a coordinate, in degrees, on pixels that the helper does not look at."""
    x, y = np.meshgrid(np.arange(0, SHAPE[1], 7), np.arange(0, SHAPE[0], 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told, found = np.array(wcs(x, y)), np.array(WCS(header).all_pix2world(x, y, 0))
    return float(np.abs(told - found).max())


def test_the_coordinates_are_those_of_the_gwcs(write: Callable[[gwcs.WCS], Path]) -> None:
    wcs = sky_of(polynomial(2e-6))
    document = open_document(str(write(wcs)), writable=False)
    header = header_of(document, "roman", "data.fits")
    assert farthest(wcs, header) < 1e-6
    assert header["SIPMXERR"] < 1e-3
    assert header["CTYPE1"] == "RA---TAN-SIP"
    assert farthest(wcs, header_of(document, "roman", "err.fits")) < 1e-6
    assert "CTYPE1" not in header_of(document, "roman", "small.fits")
    cube = header_of(document, "roman", "cube.fits")
    assert (cube["WCSAXES"], cube["CTYPE1"]) == (3, "RA---TAN")  # astropy refuses distortions of three axes
    assert WCS(cube).celestial.pixel_to_world_values(10, 20) == pytest.approx(wcs(10, 20), abs=0.1 * 0.11 / 3600)
    document.close()


def test_a_cube_whose_gwcs_needs_distortions_says_so(write: Callable[[gwcs.WCS], Path]) -> None:
    with asdffs.open(write(sky_of(polynomial(1e-3)))) as document:
        assert "CTYPE1" in header_of(document, "roman", "data.fits")
        cube = header_of(document, "roman", "cube.fits")
    assert "CTYPE1" not in cube
    assert "without distortions, which FITS has for images of two axes only" in "".join(cube["COMMENT"])


def test_a_gwcs_of_three_axes_has_its_celestial_part(tmp_path: Path) -> None:
    wcs = cube_sky()
    asdf.AsdfFile({"meta": {"wcs": wcs}, "data": np.zeros((4, 8, 10), "f4")}).write_to(tmp_path / "a.asdf")
    with asdffs.open(tmp_path / "a.asdf") as document:
        header = header_of(document, "data.fits")
    assert "CTYPE3" not in header
    assert "axis 3 of the gwcs is not in this header" in str(header["COMMENT"])
    assert WCS(header).celestial.pixel_to_world_values(7, 2) == pytest.approx(wcs(7, 2, 1)[:2], abs=1e-8)


def test_it_belongs_to_arrays_beside_it_with_its_pixel_shape(tmp_path: Path) -> None:
    wcs = sky_of(models.Identity(2))
    wcs.pixel_shape = SHAPE[::-1]
    image = np.zeros(SHAPE, "f4")
    tree = {
        "meta": {"wcs": wcs},
        "err": image,
        "cube": np.zeros((2, *SHAPE), "u1"),
        "turned": image.T.copy(),
        "line": image[0].copy(),
        "deeper": {"image": image + 1},
    }
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    with asdffs.open(tmp_path / "a.asdf") as document:
        names = ("err", "cube", "turned", "line")
        found = {name: "CTYPE1" in header_of(document, f"{name}.fits") for name in names}
        assert found == {"err": True, "cube": True, "turned": False, "line": False}
        assert "CTYPE1" not in header_of(document, "deeper", "image.fits")


@pytest.mark.feature("remote")
def test_of_a_file_on_a_server(write: Callable[[gwcs.WCS], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    wcs = sky_of(polynomial(1e-6))
    with WebServer().running() as server:
        url = server.put("/a.asdf", write(wcs).read_bytes())
        with asdffs.open(url) as document:
            assert farthest(wcs, header_of(document, "roman", "data.fits")) < 1e-6


def test_they_are_computed_again_for_another_gwcs_only(
    write: Callable[[gwcs.WCS], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    asked = sky._asked
    monkeypatch.setattr(sky, "_asked", lambda fd, job: (jobs.append(job), asked(fd, job))[1])
    path = write(sky_of(polynomial(3e-6)))
    with asdffs.open(path, "r+") as document:
        first = header_of(document, "roman", "data.fits")
        with document.edit():
            document.values["roman"]["meta"]["observer"] = "Grace"
        assert header_of(document, "roman", "data.fits")["CRVAL1"] == first["CRVAL1"]
        assert len(jobs) == 1
        text = document.tree.text()
        document.commit_tree(text.replace(b"phi: 270.0", b"phi: 271.0"))
        assert document.tree.text() != text
        assert header_of(document, "roman", "data.fits")["CRVAL1"] == pytest.approx(first["CRVAL1"] + 1)
        assert len(jobs) == 2
        coefficients = next(name for name in document.arrays if name.endswith("coefficients"))
        view = view_of(document, "roman", "data.fits")
        before = header_in(view), view.version()
        document.arrays[coefficients][0, 0] = 1.0  # a pixel: it is in a block, and not in the text
        assert header_in(view)["CRVAL2"] != before[0]["CRVAL2"]
        assert view.version() != before[1]
        assert len(jobs) == 3


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: sky_of(rough()), "a FITS WCS would be wrong by"),
        (spectral, "gwcs makes no FITS WCS of it"),
    ],
)
def test_what_fits_cannot_say_is_left_out_with_the_reason(
    write: Callable[[gwcs.WCS], Path], make: Callable[[], gwcs.WCS], reason: str
) -> None:
    document = open_document(str(write(make())), writable=False)
    header = header_of(document, "roman", "data.fits")
    assert header["CTYPE1"] == "X", "that of the wcsinfo"
    assert "CTYPE2" not in header
    comment = "".join(str(header["COMMENT"]).split("\n"))
    assert comment.startswith("no sky coordinates: ")
    assert reason in comment
    document.close()


def test_in_a_fits_file_of_jwst(tmp_path: Path) -> None:
    wcs, buffer = sky_of(polynomial(1e-6)), BytesIO()
    asdf.AsdfFile({"meta": {"wcs": wcs}}).write_to(buffer)
    node = b"data: !core/ndarray-1.1.0 {source: 'fits:SCI,1', datatype: float32, byteorder: big, shape: [40, 30]}\n"
    write_fits(tmp_path / "jw.fits", Form(last=False), buffer.getvalue().replace(b"\nmeta:", b"\n" + node + b"meta:"))
    document = open_document(str(tmp_path / "jw.fits"), writable=False)
    header = header_of(document, "data.fits")
    x, y = np.meshgrid(np.arange(30), np.arange(40))
    assert np.allclose(WCS(header).all_pix2world(x, y, 0), wcs(x, y), rtol=0, atol=1e-6)
    document.close()


def helper(*options: str, **job: Any) -> dict[str, Any]:
    with open("/dev/null", "rb") as nothing:
        done = subprocess.run(
            [sys.executable, *options, sky_helper.__file__, json.dumps({"file": 0, **job})],
            stdin=nothing,
            capture_output=True,
            check=True,
        )
    return json.loads(done.stdout)


def test_without_gwcs_the_reason_names_the_extra() -> None:
    assert helper("-I", "-S", path=["x"], shape=[2, 2]) == {
        "reason": "gwcs is not installed; pip install 'asdffs[wcs]'"
    }


def test_a_file_that_cannot_be_read_is_a_reason() -> None:
    assert helper("-P", path=["x"], shape=[2, 2])["reason"]


@pytest.mark.mount
@pytest.mark.skipif(not (shutil.which("ds9") and shutil.which("xvfb-run")), reason="ds9 or xvfb-run is not installed")
def test_ds9_has_the_same_coordinates(write: Callable[[gwcs.WCS], Path]) -> None:
    """A region at a pixel, which DS9 saves with its position in the sky."""
    wcs = sky_of(polynomial(2e-6))
    with mounted(write(wcs)) as mount:
        view, out = mount.point / "arrays/roman/data.fits", mount.file.with_name("out.reg")
        region = ("-regions", "command", "image; point 11 21", "-regions", "system", "wcs", "-regions", "sky", "icrs")
        saved = ("-regions", "skyformat", "degrees", "-regions", "save", str(out), "-exit")
        done = run("timeout", "60", "xvfb-run", "-a", "ds9", "-fits", view, *region, *saved)
        assert done.returncode == 0, done.stderr
    match = re.search(r"point\(([-+0-9.]+),([-+0-9.]+)\)", out.read_text())
    assert match is not None
    assert np.allclose([float(match[1]), float(match[2])], wcs(10, 20), rtol=0, atol=1e-6)
