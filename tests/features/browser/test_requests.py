"""The requests of the page: what it answers, and what it refuses."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from astropy.io import fits
from astropy.wcs import WCS
from PIL import Image
from support.commands import command
from support.mounts import environment_in
from support.page_client import Page, viewed
from support.processes import until
from support.samples import odd_file

IMAGE = np.add.outer(np.arange(700.0), np.arange(600.0)).astype("<f4")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tree = {
        "meta": {"observer": "Ada", "<b>": "<script>alert(1)</script>", "list": list(range(500))},
        "data": IMAGE,
        "cube": np.stack([IMAGE[:3, :4], IMAGE[3:6, :4]]),
        "line": np.arange(5),
        "waves": IMAGE[:3, :4] * 1j,
        "words": np.array(["a", "b"]),
    }
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    return tmp_path / "a.asdf"


@pytest.fixture
def page(file: Path, tmp_path: Path) -> Iterator[Page]:
    with viewed(file, environment_in(tmp_path)) as found:
        yield found


def picture(raw: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(raw))).astype(int)


# -- safety ------------------------------------------------------------------------------


def test_only_the_url_that_was_printed_opens_the_page(page: Page) -> None:
    cookie, page.cookie = page.cookie, ""
    assert page.request("GET", "/").status == 403
    assert page.request("GET", "/?token=wrong").status == 403
    assert page.get("facts").status == 403
    assert page.request("GET", "/static/page.js").status == 403
    answer = page.request("GET", page.url.removeprefix(page.origin))
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert re.fullmatch(r"asdffs-\d+=[\w-]{32}; Path=/; HttpOnly; SameSite=Strict", answer.headers["set-cookie"])
    assert page.url.partition("token=")[2] not in cookie
    page.cookie = cookie[:-1] + ("y" if cookie.endswith("x") else "x")
    assert page.get("facts").status == 403
    page.cookie = cookie
    assert page.get("facts").status == 200


def opener(folder: Path) -> dict[str, str]:
    """The environment of a browser that notes the URL that it is started with."""
    (folder / "browser").write_text(f'#!/bin/sh\nprintf %s "$1" > {folder}/new && mv {folder}/new {folder}/url\n')
    (folder / "browser").chmod(0o755)
    return environment_in(folder) | {"BROWSER": str(folder / "browser")}


def test_regression_the_browser_is_started_without_a_secret(file: Path, tmp_path: Path) -> None:
    with viewed(file, opener(tmp_path), browser=True) as page:
        until(lambda: (tmp_path / "url").exists())
        assert (tmp_path / "url").read_text() == f"{page.origin}/"
        page.cookie = ""
        assert page.request("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 403
        assert page.get("facts").status == 403
        answer = page.request("GET", "/", Sec_Fetch_Site="none")
        assert (answer.status, "set-cookie" in answer.headers) == (303, True)
        assert page.request("GET", "/", Sec_Fetch_Site="none").status == 403, "only one is awaited"


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
def test_regression_other_users_cannot_connect(file: Path, tmp_path: Path) -> None:
    with viewed(file, opener(tmp_path), browser=True) as page:
        until(lambda: (tmp_path / "url").exists())
        path, cookie = page.url.removeprefix(page.origin), page.cookie
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")):
            with as_other_user():
                silent = [socket.socket(family) for _ in range(70)]
            for one in silent:
                one.connect((address, page.port))
            assert page.get("facts").status == 200, "70 connections take nobody's place"
            for one, asked in zip(silent, ("/", path, "/api/facts"), strict=False):
                with contextlib.suppress(ConnectionError):
                    one.sendall(f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n".encode())
                    one.sendall(f"Cookie: {cookie}\r\n\r\n".encode())
                    one.shutdown(socket.SHUT_WR)
                    assert one.recv(1) == b""
            for one in silent:
                one.close()
        page.cookie = ""
        assert page.request("GET", "/").status == 303, "the browser is still awaited"


@contextlib.contextmanager
def as_other_user() -> Iterator[None]:
    """Sockets that are made inside the block belong to another user."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "localhost.evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    ],
)
def test_other_pages_and_names_are_refused(page: Page, headers: dict[str, str], file: Path) -> None:
    before = file.read_bytes()
    version = page.get("facts").json["version"]
    text = page.get("text").body.replace(b"Ada", b"Eve")
    assert page.request("GET", "/api/text", **headers).status == 403
    sent = {"Origin": page.origin, "If-Match": version} | headers
    assert page.request("PUT", "/api/text", text, **sent).status == 403
    assert page.request("PUT", "/api/text", text, If_Match=version).status == 403  # a form or a program
    assert file.read_bytes() == before


def test_every_answer_has_the_policy(page: Page) -> None:
    answers = [page.request("GET", "/"), page.get("facts"), page.get("nothing"), page.request("GET", "/", Host="x")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "no-store" in answer.headers["cache-control"]
        assert "access-control-allow-origin" not in answer.headers


ELSEWHERE = ["../../a.asdf", "..%2f..%2fa.asdf", "%2e%2e/guard.py", "/etc/passwd", "../guard.py"]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_nothing_outside_of_the_page_is_sent(page: Page, path: str) -> None:
    assert page.request("GET", f"/static/{path}").status in (404, 400, 403)


def test_bounds(page: Page) -> None:
    version = page.get("facts").json["version"]
    assert page.save(b"x" * (65 << 20), version).json["error"] == "the text is larger than 64 MiB"
    assert len(page.get("tree", path="meta.list").json["children"]) == 200
    assert len(page.get("search", text="").json["matches"]) == 200
    assert len(page.get("array", name="words").json["values"]) == 2
    for words in ({"step": 0}, {"step": 1, "row": 3}, {"step": 1, "column": 99}, {"step": 1, "index": "5"}):
        assert page.get("tile", name="data", **words).status == 400


# -- the tree ----------------------------------------------------------------------------


def test_the_outline_and_the_search(page: Page) -> None:
    found = page.get("tree").json["children"]
    assert {one["key"] for one in found} >= {"meta", "data", "cube"}
    data = next(one for one in found if one["key"] == "data")
    assert (data["array"], data["text"], data["open"]) == ("data", "float32 [700, 600], block 0", False)
    rest = page.get("tree", path="meta.list", start=450).json
    assert (rest["total"], len(rest["children"]), rest["children"][0]["text"]) == (500, 50, "450")
    assert [one["path"] for one in page.get("search", text="ADA").json["matches"]] == ["meta.observer"]
    assert page.get("search", text="<SCRIPT").json["matches"][0]["text"] == "<script>alert(1)</script>"
    assert page.get("tree", path="meta.none").status == 404
    assert page.get("tree", path="meta..").status == 400


def test_a_save_is_the_same_commit_as_in_a_mount(page: Page, file: Path) -> None:
    answer = page.get("text")
    version = answer.headers["etag"].strip('"')
    saved = page.save(answer.body.replace(b"observer: Ada", b"observer: Grace  # hers"), version)
    assert saved.status == 200
    assert b"observer: Grace  # hers" in file.read_bytes()
    with asdf.open(file) as found:
        assert found["meta"]["observer"] == "Grace"
        assert np.array_equal(found["data"], IMAGE)
    assert page.get("facts").json["version"] == saved.json["version"] != version
    (old,) = page.get("history").json
    assert page.get(f"history/{old['number']}").body == answer.body
    assert page.get("history/99").status == 404


def test_a_refusal_names_the_line_and_the_text_is_kept(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    with viewed(file, environment_in(tmp_path), code=7) as page:
        text = page.get("text").body.replace(b"observer: Ada", b"observer: [Ada")
        refused = page.save(text, page.get("facts").json["version"])
        assert refused.status == 422
        assert refused.json["line"] > 5
        assert "expected" in refused.json["error"]
        assert file.read_bytes() == before
    assert (tmp_path / "a.asdf.rejected-1.yaml").read_bytes() == text


def test_a_killed_page_loses_nothing(file: Path, tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    with viewed(file, environment, code=-signal.SIGKILL) as page:
        text, version = page.get("text").body, page.get("facts").json["version"]
        saved = page.save(text.replace(b"observer: Ada", b"observer: Grace"), version).json["version"]
        refused = text.replace(b"observer: Ada", b"observer: [Ada")
        assert page.save(refused, saved).status == 422
        page.process.kill()
    with asdf.open(file) as found:
        assert found["meta"]["observer"] == "Grace"
    done = command("recover", file, environment=environment)
    assert (done.code, "a.asdf.rejected-1.yaml" in done.out) == (7, True), done
    assert (tmp_path / "a.asdf.rejected-1.yaml").read_bytes() == refused
    assert command("set", "meta.observer=Lise", file, environment=environment).code == 0


def test_a_browser_of_the_terminal_does_not_keep_the_page_waiting(file: Path, tmp_path: Path) -> None:
    opener = tmp_path / "browser"
    os.mkfifo(tmp_path / "closed")
    opener.write_text(f"#!/bin/sh\nexec > {tmp_path}/said 2>&1\nread line < {tmp_path}/closed\n")
    opener.chmod(0o755)
    environment = environment_in(tmp_path) | {"BROWSER": f"{opener} %s"}
    with viewed(file, environment, browser=True) as page:
        assert page.get("facts").status == 200
        (tmp_path / "closed").write_text("")  # waits until the browser reads it, and ends it


def test_a_refusal_that_is_corrected_is_kept_as_such(file: Path, tmp_path: Path) -> None:
    with viewed(file, environment_in(tmp_path)) as page:
        text, version = page.get("text").body, page.get("facts").json["version"]
        assert page.save(text.replace(b"observer: Ada", b"observer: [Ada"), version).status == 422
        assert page.save(text.replace(b"observer: Ada", b"observer: [Ada]"), version).status == 200
    assert b"observer: [Ada]" in file.read_bytes()


def test_a_conflict_is_told_and_the_text_is_kept(file: Path, tmp_path: Path) -> None:
    with viewed(file, environment_in(tmp_path), code=7) as page:
        answer = page.get("text")
        version = answer.headers["etag"].strip('"')
        assert page.save(answer.body.replace(b"Ada", b"Eve"), version).status == 200
        late = page.save(answer.body.replace(b"Ada", b"Lise"), version)
        assert (late.status, "was changed since the page read it" in late.json["error"]) == (409, True)
        assert b"Eve" in file.read_bytes()
        asdf.AsdfFile({"other": 1}).write_to(tmp_path / "new.asdf")
        (tmp_path / "new.asdf").replace(file)
        assert b"other: 1" in page.get("text").body
        assert page.save(answer.body, version).status == 409
    kept = {path.read_bytes() for path in tmp_path.glob("a.asdf.rejected-*.yaml")}
    assert kept >= {answer.body.replace(b"Ada", b"Lise"), answer.body}


def test_the_file_is_locked_and_read_only_does_not_lock(page: Page, file: Path, tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    assert command("set", "meta.observer=Eve", file, environment=environment).code == 5
    with viewed(file, environment, "--read-only") as other:
        assert other.get("facts").json["writable"] is False
        assert other.save(other.get("text").body, other.get("facts").json["version"]).status == 403


# -- arrays ------------------------------------------------------------------------------


def test_tiles_are_the_image(page: Page) -> None:
    facts = page.get("array", name="data").json
    assert (facts["shape"], facts["plane"], facts["least"]) == ([700, 600], [700, 600], 0)
    whole = np.zeros((768, 768), int)
    for row in range(3):
        for column in range(3):
            tile = picture(page.get("tile", name="data", step=1, row=row, column=column, stretch="linear").body)[::-1]
            whole[row * 256 : row * 256 + tile.shape[0], column * 256 : column * 256 + tile.shape[1]] = tile
    low, high = np.percentile(IMAGE[::3, ::3], (1, 99))
    expected = ((IMAGE - low) / (high - low)).clip(0, 1) * 255
    assert np.abs(whole[:700, :600] - expected).max() < 3
    coarse = picture(page.get("tile", name="data", step=4, row=0, column=0).body)
    assert coarse.shape == (175, 150)
    assert picture(page.get("tile", name="data", step=4, cmap="viridis", stretch="asinh").body).shape == (175, 150, 3)
    assert picture(page.get("tile", name="cube", index="1", step=1).body).shape == (3, 4)
    assert page.get("tile", name="data", step=1, cmap="nothing").status == 400
    assert page.get("pixel", name="data", row=3, column=5).json == {"value": 8}
    assert page.get("pixel", name="data", row=700, column=5).status == 400
    assert page.get("pixel", name="cube", row=2, column=3).json == {"value": 5}  # of the first plane, which is shown
    assert page.get("pixel", name="cube", index="1", row=2, column=3).json == {"value": 8}
    assert picture(page.get("tile", name="waves", step=1).body).shape == (3, 4)
    assert page.get("pixel", name="waves", row=0, column=1).json == {"value": "1j"}


def test_curves_and_what_is_no_image(page: Page) -> None:
    assert picture(page.get("curve", name="line").body).shape == (256, 1024)
    assert picture(page.get("curve", name="waves", index="2").body).shape == (256, 1024)
    assert page.get("tile", name="line", step=1).status == 400
    assert page.get("curve", name="words").status == 400
    assert page.get("array", name="nothing").status == 404
    assert page.get("array", name="words").json["values"] == ["a", "b"]


def test_the_layout_fills_the_file(page: Page, file: Path) -> None:
    found = page.get("layout").json
    place = 0
    for part in found["parts"]:
        assert part["start"] == place
        place += part["size"]
    assert place == found["size"] == file.stat().st_size
    assert next(part for part in found["parts"] if part["kind"] == "block")["arrays"] == ["data"]


def test_downloads_are_the_files_of_a_mount(page: Page, file: Path) -> None:
    answer = page.get("download", what="npy", name="data")
    assert answer.headers["content-disposition"] == 'attachment; filename="data.npy"'
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert np.array_equal(np.load(io.BytesIO(answer.body)), IMAGE)
    with fits.open(io.BytesIO(page.get("download", what="fits", name="data").body)) as hdus:
        assert np.array_equal(hdus[-1].data, IMAGE)
    assert page.get("download", what="block", name="0").body == IMAGE.tobytes()
    assert page.get("download", what="tree").body == page.get("text").body
    for what, name, status in (("npy", "none", 404), ("block", "99", 404), ("block", "x", 404), ("exe", "data", 400)):
        assert page.get("download", what=what, name=name).status == status
    assert page.get("download", what="fits", name="words").status == 400


def test_sky_coordinates_are_those_of_the_fits_file(tmp_path: Path) -> None:
    wcs = {"ctype1": "RA---TAN", "ctype2": "DEC--TAN", "crval1": 150.0, "crval2": 2.0, "crpix1": 50.0, "crpix2": 40.0}
    wcs |= {"cdelt1": -0.001, "cdelt2": 0.001, "cunit1": "deg", "cunit2": "deg"}
    tree = {"meta": {"telescope": "X", **wcs}, "data": np.zeros((80, 100), "f4"), "other": np.zeros(4)}
    asdf.AsdfFile(tree).write_to(tmp_path / "sky.asdf")
    with viewed(tmp_path / "sky.asdf", environment_in(tmp_path), "--read-only") as page:
        with fits.open(io.BytesIO(page.get("download", what="fits", name="data").body)) as hdus:
            expected = WCS(hdus[-1].header).pixel_to_world_values(10, 20)
        found = page.get("sky", name="data", row=20, column=10).json
        assert (found["longitude"], found["latitude"]) == pytest.approx(tuple(map(float, expected)), abs=1e-6)
        assert page.get("sky", name="other", row=0, column=0).json == {}


def test_a_hostile_file(tmp_path: Path) -> None:
    (tmp_path / "odd.asdf").write_bytes(odd_file())
    with viewed(tmp_path / "odd.asdf", environment_in(tmp_path)) as page:
        assert page.get("tree").status == 200
        assert page.get("layout").status == 200
        for one in page.get("search", text="").json["matches"]:
            if one["array"] is not None:
                assert page.get("array", name=one["array"]).status in (200, 400, 404, 422, 500)


def test_what_is_wrong_on_the_command_line(file: Path, tmp_path: Path, page: Page) -> None:
    environment = environment_in(tmp_path)
    assert command("view", "--port", 99999, file, environment=environment).code == 2
    assert "port" in command("view", "--read-only", "--port", page.port, file, environment=environment).sentence
    assert command("view", tmp_path / "none.asdf", environment=environment).code == 3
