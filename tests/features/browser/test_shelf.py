"""Several files on one page: those that are named, and those of a directory by its catalogue."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from PIL import Image
from support.browser import browser
from support.commands import command
from support.mounts import environment_in
from support.page_client import Page, viewed

COUNT = 12


def region(number: int) -> str:
    west, south = 359.9 + 0.1 * (number % 4), 0.1 * (number // 4)
    corners = ((0, 0), (0.08, 0), (0.08, 0.08), (0, 0.08))
    return "POLYGON ICRS " + " ".join(f"{(west + x) % 360:.3f} {south + y:.3f}" for x, y in corners)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "night").mkdir()
    for number in range(COUNT):
        meta = {"telescope": "ROMAN", "exposure": {"exposure_time": 100 + number}, "s_region": region(number)}
        tree = {"roman": {"meta": meta, "data": np.full((40, 50), number, "f4") + np.eye(40, 50)}}
        asdf.AsdfFile(tree).write_to(tmp_path / f"night/r{number:02}.asdf")
    return tmp_path / "night"


@pytest.fixture
def page(folder: Path, tmp_path: Path) -> Iterator[Page]:
    with viewed(folder, environment_in(tmp_path)) as found:
        yield found


@pytest.mark.feature("catalog")
def test_a_directory_is_listed_by_its_catalogue(page: Page, folder: Path) -> None:
    assert page.get("shelf").json == {"files": [], "folders": [str(folder)]}
    found = page.get("files").json
    assert (found["total"], found["failures"]) == (COUNT, [])
    assert found["columns"] == ["roman.meta.telescope", "roman.meta.exposure.exposure_time"]
    assert [one["values"] for one in found["files"]] == [["ROMAN", str(100 + number)] for number in range(COUNT)]
    (corners,) = found["files"][0]["outlines"]
    assert corners[0] == pytest.approx([359.9, 0], abs=1e-6)
    chosen = page.get("files", where="roman.meta.exposure.exposure_time >= 110", columns="roman.meta.telescope").json
    assert [one["name"] for one in chosen["files"]] == [f"{folder}/r10.asdf", f"{folder}/r11.asdf"]
    assert page.get("files", start=10).json["files"] == found["files"][10:]
    assert page.get("files", where="roman.meta.exposure ==").status == 400
    picture = Image.open(io.BytesIO(page.get("thumbnail", file=f"{folder}/r03.asdf").body))
    assert picture.size == (50, 40)


@pytest.mark.feature("catalog")
def test_only_listed_files_are_opened_and_only_read(page: Page, folder: Path, tmp_path: Path) -> None:
    asdf.AsdfFile({"secret": 1}).write_to(tmp_path / "other.asdf")
    for other in (tmp_path / "other.asdf", f"{folder}/../other.asdf", "/etc/passwd", f"{folder}/r99.asdf", ""):
        assert page.get("facts", file=other).status == 404, other
    page.get("files")
    for number in (*range(COUNT), *range(COUNT)):  # more than stay open
        name = f"{folder}/r{number:02}.asdf"
        found = page.get("elements", file=name, name="roman/data", row=1, column=1).json
        assert (found["row"], found["values"][0][0]) == (1, f"{number + 1}.0")
    facts = page.get("facts", file=name).json
    assert (facts["name"], facts["writable"]) == (name, False)
    text = page.request("GET", f"/api/text?file={name}")
    answer = page.request(
        "PUT", f"/api/text?file={name}", text.body, Origin=page.origin, If_Match=text.headers["etag"].strip('"')
    )
    assert answer.status == 403


@pytest.mark.feature("catalog")
def test_one_bad_file_does_not_hide_the_others(folder: Path, tmp_path: Path) -> None:
    (folder / "a.asdf").write_bytes(b"#ASDF 1.0.0\nnonsense")
    (folder / "b.asdf").write_bytes(b"")
    with viewed(folder, environment_in(tmp_path)) as page:
        assert page.get("files", columns="roman.meta.telescope").json["total"] >= COUNT
        assert page.get("files").json["columns"] == ["roman.meta.telescope", "roman.meta.exposure.exposure_time"]
        assert page.get("thumbnail", file=f"{folder}/a.asdf").status >= 400


def test_files_that_are_named(folder: Path, tmp_path: Path) -> None:
    names = [f"{folder}/r01.asdf", f"{folder}/r02.asdf"]
    with viewed(names[0], environment_in(tmp_path), names[1]) as page:
        assert page.get("shelf").json == {"files": names[::-1], "folders": []}
        for name in names:
            assert page.get("facts", file=name).json["name"] == name
        assert page.get("facts", file=f"{folder}/r03.asdf").status == 404
    assert command("view", names[0], tmp_path / "none.asdf", environment=environment_in(tmp_path)).code == 3


@pytest.mark.long
@pytest.mark.feature("catalog")
def test_in_the_browser_a_file_is_chosen_and_compared(page: Page, folder: Path) -> None:
    with browser(width=1400) as shown:
        shown.open(page.url)
        shown.see("#files-counted", f"{COUNT} files")
        assert len(shown.all(".sky-map polygon")) == COUNT
        shown.until(
            lambda: shown.run("return [...document.images].filter((one) => one.naturalWidth === 50).length >= 6")
        )
        shown.press("r05.asdf", ".files button")
        shown.see(".facts", "105")
        shown.press("data")
        shown.until(lambda: f"{folder}/r07.asdf" in shown.texts("#against option"))
        shown.run_with(
            "const s = document.querySelector('#against'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change', {bubbles: true}))",
            f"{folder}/r07.asdf",
        )
        shown.until(lambda: shown.all("#minus"))
        shown.find("#minus").click()
        shown.see(".image-view", f"this file minus {folder}/r07.asdf")
        shown.run(
            "const c = document.querySelector('.canvas canvas'), b = c.getBoundingClientRect();"
            "const at = {clientX: b.x + b.width / 2, clientY: b.y + b.height / 2, bubbles: true};"
            "c.dispatchEvent(new PointerEvent('pointermove', at))"
        )
        shown.until(lambda: len(shown.all("#pixel[data-settled] strong")) == 2)
        mine, other = (float(one) for one in shown.texts("#pixel strong"))
        assert mine - other == -2
        shown.find("#tab-files").click()
        shown.find("#files-where").send_keys("roman.meta.exposure.exposure_time > 109\n")
        shown.see("#files-counted", "2 files")
        assert shown.errors() == []
