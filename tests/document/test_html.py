"""What a notebook shows of a document and of its arrays."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import asdf
import numpy as np
import pytest
from PIL import Image
from support.arrays import tree_file
from support.samples import block_bytes
from support.web_server import WebServer

import asdffs
from asdffs.document import values


class Reader(HTMLParser):
    """The elements and the text of a page; it refuses elements that are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def picture_of(page: str) -> np.ndarray:
    (source,) = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source))))


def test_the_outline(tmp_path: Path) -> None:
    tree = {"meta": {"observer": "Ada", "list": [1, {"x": None}], "<b>": "<script>"}, "data": np.zeros((3, 4))}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    with asdffs.open(tmp_path / "a.asdf") as document:
        page = Reader(document._repr_html_())
    said = "".join(page.text)
    for part in (str(tmp_path / "a.asdf"), "observer: Ada", "data: float64 [3, 4], block 0", "<b>: <script>"):
        assert part in said
    assert {*page.tags} - {"img"} == {"div", "b", "ul", "li", "details", "summary"}


@pytest.mark.feature("browser")
def test_pictures(tmp_path: Path) -> None:
    image = np.add.outer(np.arange(300), np.arange(500)).astype(">i4")
    tree = {"image": image, "cube": np.stack([image[:4, :8], image[4:8, :8]]), "complex": image[:9, :9] * 1j}
    tree |= {"none": np.zeros((0, 5)), "line": np.arange(5), "word": np.array("x")}
    tree["rows"] = np.array([(1, b"<b>"), (2, b"y")], [("number", "i4"), ("name", "S3")])
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf", all_array_compression="zlib")
    with asdffs.open(tmp_path / "a.asdf") as document:
        pages = {name: array._repr_html_() for name, array in document.arrays.items()}
    for name, page in pages.items():
        assert name in "".join(Reader(page).text)
        assert ("img" in Reader(page).tags) == (name in ("image", "cube", "complex", "line")), name
    assert "".join(Reader(pages["rows"]).text).endswith("numbername1<b>2y")
    assert "300 x 500" in pages["image"]
    assert "585.9 KiB" in pages["image"]
    picture = picture_of(pages["image"]).astype(int)
    assert picture.shape == (75, 125)
    assert picture[0, -1] > picture[-1, 0]  # the first row is at the bottom
    assert picture_of(pages["cube"]).shape == (4, 8)


@pytest.mark.feature("browser")
def test_nothing_is_downloaded_for_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    asdf.AsdfFile({"a": np.random.default_rng(1).random((500, 500))}).write_to(tmp_path / "a.asdf")
    with WebServer().running() as server:
        document = asdffs.open(server.put("/a.asdf", (tmp_path / "a.asdf").read_bytes()))
        sent = server.sent
        assert "500 x 500" in document.arrays["a"]._repr_html_()
        assert server.sent == sent
        document.close()


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    body = "a: !core/ndarray-1.1.0 {source: 7, datatype: int8, shape: [3, 3]}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(body, [block_bytes(b"123")]))
    with asdffs.open(tmp_path / "a.asdf") as document:
        assert "its source is 7" in "".join(Reader(document.arrays["a"]._repr_html_()).text)
        array = document.arrays["a"]
    assert "is closed" in document._repr_html_()
    assert "is closed" in array._repr_html_()


def test_a_large_tree_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MOST", 50)
    asdf.AsdfFile({"list": [{"a": 1, "b": [2] * 9}] * 100, "long": "x" * 5000}).write_to(tmp_path / "a.asdf")
    with asdffs.open(tmp_path / "a.asdf") as document:
        page = document._repr_html_()
    assert re.search(r"… and \d+ more", page)
    assert len(page) < 10_000
