"""``asdffs show``: statistics and pictures of arrays."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path

import asdf
import astropy.units
import jsonschema
import numpy as np
import pytest
from PIL import Image
from support.arrays import tree_file
from support.commands import Done, command
from support.mounts import environment_in
from support.terminal import Terminal
from support.web_server import WebServer

import asdffs

ROOT = Path(__file__).parents[3]
IMAGE = np.add.outer(np.arange(400.0), np.arange(300.0)).astype(">f4")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tree = {
        "roman": {"meta": {"observer": "Ada"}, "data": IMAGE * astropy.units.DN},
        "cube": np.stack([IMAGE[:5, :7]] * 3),
        "stack": [np.arange(5), np.zeros((4, 4))],
        "odd": np.array([1.0, np.nan, np.inf, -2.0]),
        "words": np.array(["a", "<b>"]),
        "one": np.array(7),
        "none": np.zeros((0, 3)),
        "sky": IMAGE[:10, :10] * 1j,
    }
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    return tmp_path / "a.asdf"


def show(path: Path | str, *words: object, folder: Path | None = None) -> Done:
    return command("show", path, *words, environment=environment_in(folder or Path(str(path)).parent))


def facts(path: Path | str, *words: object, folder: Path | None = None) -> dict:
    found = show(path, *words, "--json", folder=folder).json
    jsonschema.validate(found, json.loads((ROOT / "docs/schemas/show.json").read_text()))
    return found


def test_statistics(path: Path) -> None:
    found = facts(path, "roman.data", "--size", 1000)
    assert (found["path"], found["index"]) == ("roman/data/value", "[0:400, 0:300]")
    assert (found["elements"], found["read"], found["min"], found["max"]) == (120000, 120000, 0, 698)
    assert found["mean"] == pytest.approx(IMAGE.mean())
    assert found["std"] == pytest.approx(IMAGE.std())
    assert sum(found["histogram"]) == 120000
    odd = facts(path, "odd")
    assert (odd["nan"], odd["infinite"], odd["min"], odd["max"]) == (1, 1, -2, 1)
    said = show(path, "odd").out
    assert "1 NaN, 1 infinite" in said
    assert "min -2  max 1  mean -0.5" in said
    assert show(path, "roman.data").out.startswith(
        "roman/data/value[0:400, 0:300]: 400 x 300 float32, 468.8 KiB, unit DN\n"
    )


@pytest.mark.parametrize(
    ("words", "index", "expected"),
    [
        ("roman/data/value[3, 10:20]", "[3, 10:20]", IMAGE[3, 10:20]),
        ("roman.data[::-100, ...]", "[399::-100, 0:300]", IMAGE[::-100]),
        ("cube", "[0, 0:5, 0:7]", IMAGE[:5, :7]),
        ("cube[1:, :, 2]", "[1:3, 0:5, 2]", np.stack([IMAGE[:5, 2]] * 2)),
        ("stack[0]", "[0:5]", np.arange(5)),
        ("stack[1][2, 3]", "[2, 3]", np.zeros(())),
        ("/stack/1", "[0:4, 0:4]", np.zeros((4, 4))),
    ],
)
def test_paths_and_indexes(path: Path, words: str, index: str, expected: np.ndarray) -> None:
    found = facts(path, words)
    assert (found["index"], found["elements"]) == (index, expected.size)
    assert (found["min"], found["max"]) == (expected.min(), expected.max())


def test_what_is_not_numbers(path: Path) -> None:
    assert "['a', '<b>']" in show(path, "words").out
    assert "min" not in facts(path, "words")
    assert show(path, "one").out.splitlines()[1] == "  7"
    assert facts(path, "none[:, 1]")["mean"] is None


def test_without_an_array_the_outline(path: Path) -> None:
    assert "  data:\n" in show(path).out
    assert "    value: float32 [400, 300], block 0" in show(path).out
    assert show(path, "roman.meta").out == "observer: Ada\n"


@pytest.mark.parametrize(("name", "shown"), [("number", "1.5"), ("flag", "true"), ("text", "x")])
def test_regression_a_single_value(name: str, shown: str, tmp_path: Path) -> None:
    asdf.AsdfFile({"number": 1.5, "flag": True, "text": "x"}).write_to(tmp_path / "b.asdf")
    assert show(tmp_path / "b.asdf", name).out == f"{shown}\n"


def test_png(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    assert show(path, "roman.data", "--png", out, "--size", 100).out.endswith(f"{out}: written\n")
    grey = np.asarray(Image.open(out)).astype(int)
    assert grey.shape == (100, 75)
    assert grey[0, -1] == 255  # the last row is at the top
    assert grey[-1, 0] == 0
    assert show(path, "roman.data", "--png", out).code == 2
    assert show(path, "roman.data", "--png", out, "--force", "--cmap", "viridis", "--stretch", "zscale").code == 0
    assert np.asarray(Image.open(out)).shape == (400, 300, 3)
    assert show(path, "stack[0]", "--png", out, "--force", "--size", 64).code == 0
    assert np.asarray(Image.open(out)).shape == (16, 64)
    assert show(path, "sky", "--png", out, "--force").code == 0
    assert "there is nothing to draw" in show(path, "words", "--png", out, "--force").err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["roman.nothing"], 1, "roman.nothing"),
        (["roman.data[400, 0]"], 2, "index 400 is out of bounds for axis 0, which has 400"),
        (["roman.data[0, 0, 0]"], 2, "the array has 2 axes, and 3 are named"),
        (["roman.data[a]"], 2, "[a]: give integers, slices such as 10:20"),
        (["roman.data[1,,2]"], 2, "there is nothing between two commas"),
        (["roman.data[::0]"], 2, "a step cannot be 0"),
        (["roman.data", "--cmap", "nothing", "--png", "x.png"], 2, "the colour map 'nothing' is not known"),
        (["roman.data", "--size", "0"], 2, "--size 0: give pixels from 1 to 8192"),
        (["--json"], 2, "the tree: is no array; name one"),
    ],
)
def test_what_is_wrong(path: Path, words: list[str], code: int, sentence: str) -> None:
    done = show(path, *words)
    assert (done.code, sentence in done.sentence) == (code, True), done


@pytest.mark.filterwarnings("ignore:Image.Image.getdata:DeprecationWarning")
def test_pictures_of_every_kind(path: Path) -> None:
    half = show(path, "roman.data", "--picture", "half").out
    assert half.count("▀") > 200
    assert "\x1b[38;2;" in half
    assert "\x1bP" in show(path, "roman.data", "--picture", "sixel").out
    assert "▀" not in show(path, "roman.data").out  # no terminal
    assert "▀" not in show(path, "words", "--picture", "half").out


def test_on_a_terminal(path: Path, tmp_path: Path) -> None:
    with Terminal(
        f"{sys.executable} -m asdffs show a.asdf roman.data; read line", tmp_path, environment_in(tmp_path)
    ) as terminal:
        terminal.see("▀")
        assert "min 0" in terminal.screen


@pytest.mark.parametrize("peak", [False, True])
def test_a_star_between_the_pixels_is_seen(peak: bool, tmp_path: Path) -> None:
    """Of 64 elements for each pixel all count; every eighth one would miss it."""
    sky = np.random.default_rng(3).normal(100, 1, (800, 800)).astype("f4")
    sky[403, 405] = 1e4
    asdf.AsdfFile({"x": sky}).write_to(tmp_path / "a.asdf")
    words = ["x", "--size", 100, "--png", tmp_path / "a.png", *(["--peak"] if peak else [])]
    assert show(tmp_path / "a.asdf", *words).code == 0
    found = np.asarray(Image.open(tmp_path / "a.png"))
    assert found.shape == (100, 100)
    assert found[99 - 403 // 8, 405 // 8] == 255
    assert (found == 255).sum() < 200


def test_masked_elements_are_in_no_picture(tmp_path: Path) -> None:
    values = np.full((8, 8), 5.0)
    values[2, 3] = 1e6
    values[6, 6] = 7
    asdf.AsdfFile({"x": np.ma.masked_greater(values, 100), "c": np.ma.masked_greater(values[2], 100)}).write_to(
        tmp_path / "a.asdf"
    )
    assert show(tmp_path / "a.asdf", "x", "--png", tmp_path / "a.png").code == 0
    found = np.asarray(Image.open(tmp_path / "a.png"))
    assert (found[1, 6], found[5, 3]) == (255, 0)  # the first row is at the bottom
    assert show(tmp_path / "a.asdf", "c", "--png", tmp_path / "c.png", "--size", 8).code == 0
    curve = np.asarray(Image.open(tmp_path / "c.png"))
    assert curve[:, 3].sum() == 0  # a gap
    assert (curve[:, [2, 4]].max(0) == 255).all()
    with asdffs.open(tmp_path / "a.asdf") as document:
        html = document.arrays["x"]._repr_html_()
    picture = Image.open(io.BytesIO(base64.b64decode(html.partition("base64,")[2].partition('"')[0])))
    assert np.asarray(picture)[1, 6] == 255


def test_of_a_large_array_few_elements_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    asdf.AsdfFile({"data": np.random.default_rng(1).random((4000, 2000), "f4")}).write_to(tmp_path / "a.asdf")
    with WebServer().running() as server:
        url = server.put("/a.asdf", (tmp_path / "a.asdf").read_bytes())
        found = facts(url, "data", "--size", 40, folder=tmp_path)
        assert (found["elements"], found["read"]) == (8_000_000, 800)
        assert server.sent < 3 << 20


@pytest.mark.parametrize("seed", range(12))
def test_statistics_are_those_of_numpy(seed: int, tmp_path: Path) -> None:
    """Of all elements, also when the picture has few of them; without masked ones, NaN and infinite ones."""
    rng = np.random.default_rng(seed)
    kind = ["f4", "f8", "i2", "u1", "i8", "u8"][seed % 6]
    values = (rng.normal(size=(1100, 1000)) * 50 + 100).astype(kind)
    if kind[0] == "f":
        values[0, :3] = [np.nan, np.inf, -np.inf]
    mask = rng.random(values.shape) < 0.3 if seed % 2 else None
    tree = {"x": values if mask is None else np.ma.masked_array(values, mask)}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    found = facts(tmp_path / "a.asdf", "x", "--size", 10)
    left = values if mask is None else values[~mask]
    finite = left[np.isfinite(left)]
    assert (found["read"], found["masked"]) == (values.size, 0 if mask is None else mask.sum())
    assert (found["nan"], found["infinite"]) == (np.isnan(left).sum(), np.isinf(left).sum())
    assert (found["min"], found["max"]) == (finite.min(), finite.max())
    assert found["mean"] == pytest.approx(finite.astype("f8").mean())
    assert found["std"] == pytest.approx(finite.astype("f8").std())
    assert (
        np.abs(np.cumsum(np.histogram(finite.astype("f8"), 32)[0] - found["histogram"])).max() <= finite.size / 1000
    )
    assert sum(found["histogram"]) == finite.size


def test_integers_are_exact(tmp_path: Path) -> None:
    asdf.AsdfFile({"x": np.array([2**64 - 1, 2**63 + 1], "u8")}).write_to(tmp_path / "a.asdf")
    found = facts(tmp_path / "a.asdf", "x")
    assert (found["min"], found["max"]) == (2**63 + 1, 2**64 - 1)
    assert f"max {2**64 - 1}" in show(tmp_path / "a.asdf", "x").out


def test_a_mask_that_is_broadcast(tmp_path: Path) -> None:
    tree = "x: !core/ndarray-1.1.0 {data: [[1, 2], [3, 4]], mask: !core/ndarray-1.1.0 {data: [true, false]}}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(tree, []))
    found = facts(tmp_path / "a.asdf", "x")
    assert (found["masked"], found["min"], found["max"], found["mean"]) == (2, 2, 4, 3)
    assert "2 masked" in show(tmp_path / "a.asdf", "x").out


def test_of_a_source_on_a_server_few_elements_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the file that names it is local."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    asdf.AsdfFile({"data": np.zeros((4000, 2000), "f4")}).write_to(tmp_path / "a.asdf")
    with WebServer().running() as server:
        url = server.put("/a.asdf", (tmp_path / "a.asdf").read_bytes())
        array = f"{{source: '{url}', datatype: float32, byteorder: little, shape: [4000, 2000]}}"
        (tmp_path / "b.asdf").write_bytes(tree_file(f"x: !core/ndarray-1.1.0 {array}\n", []))
        host = url.partition("//")[2].partition("/")[0]
        found = facts(tmp_path / "b.asdf", "x", "--size", 40, "--follow", host)
        assert (found["elements"], found["read"]) == (8_000_000, 800)
        assert server.sent < 3 << 20
