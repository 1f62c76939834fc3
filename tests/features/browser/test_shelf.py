"""Several files on one page: those that are named, and those of a directory by its catalogue."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import asdf
import pytest
from PIL import Image
from support.commands import command
from support.mounts import environment_in
from support.page_client import Page, viewed
from support.samples import make_night

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.features.browser.contents import download
from asdffs.features.browser.shelf import Shelf
from asdffs.scheduling import SerialCalls

COUNT = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_night(tmp_path / "night", COUNT)


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


def is_open(document: Document) -> bool:
    try:
        document.check_open()
    except ValueError:
        return False
    return True


def test_a_file_stays_open_as_long_as_it_is_used(folder: Path) -> None:
    names = [f"{folder}/r{number:02}.asdf" for number in range(COUNT)]
    opened: list[Document] = []

    def open_file(name: str) -> Document:
        opened.append(open_document(name, writable=False, settings=Settings(scheduler=SerialCalls())))
        return opened[-1]

    def are_open() -> int:
        return sum(map(is_open, opened))

    shelf = Shelf(None, names, (), None, open_file)
    with shelf.using(names[0]) as first:
        found = download(first.session, "npy", "roman/data")
        pieces = found.pieces()
        for name in names[1:]:
            with shelf.using(name):
                assert are_open() <= 8
        assert len(b"".join(pieces)) == found.size, "others were looked at meanwhile"
        with shelf.using(names[0]) as again:
            assert again is first
    with shelf.using(names[-1]):
        assert are_open() == 6
    shelf.close()
    assert are_open() == 0


def test_files_that_are_named(folder: Path, tmp_path: Path) -> None:
    names = [f"{folder}/r01.asdf", f"{folder}/r02.asdf"]
    with viewed(names[0], environment_in(tmp_path), names[1]) as page:
        assert page.get("shelf").json == {"files": names[::-1], "folders": []}
        for name in names:
            assert page.get("facts", file=name).json["name"] == name
        assert page.get("facts", file=f"{folder}/r03.asdf").status == 404
    assert command("view", names[0], tmp_path / "none.asdf", environment=environment_in(tmp_path)).code == 3
