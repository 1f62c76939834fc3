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
from astropy import units
from astropy.io import fits
from astropy.table import MaskedColumn, Table
from astropy.wcs import WCS
from support.arrays import tree_file
from support.commands import command
from support.mounts import environment_in
from support.page_client import Answer, Page, viewed
from support.processes import until
from support.samples import block_bytes, odd_file

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
        "single": np.array(3.5),
    }
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    return tmp_path / "a.asdf"


@pytest.fixture
def page(file: Path, tmp_path: Path) -> Iterator[Page]:
    with viewed(file, environment_in(tmp_path)) as found:
        yield found


def numbers(answer: Answer) -> np.ndarray:
    assert answer.status == 200, answer.body
    shape = tuple(map(int, answer.headers["x-shape"].split(",")))
    return np.frombuffer(answer.body, answer.headers["x-dtype"]).reshape(shape)


# -- safety ------------------------------------------------------------------------------


def test_only_the_url_that_was_printed_opens_the_page(page: Page) -> None:
    cookie, page.cookie = page.cookie, ""
    assert page.request("GET", "/").status == 403
    assert page.request("GET", "/?token=wrong").status == 403
    assert page.get("facts").status == 403
    assert page.request("GET", "/page.js").status == 403
    answer = page.request("GET", page.url.removeprefix(page.origin))
    assert (answer.status, answer.headers["location"]) == (303, "./")
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
        {"Origin": "https://HOST"},
        {"Origin": "http://["},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    ],
)
def test_other_pages_and_names_are_refused(page: Page, headers: dict[str, str], file: Path) -> None:
    before = file.read_bytes()
    headers = {name: value.replace("HOST", f"127.0.0.1:{page.port}") for name, value in headers.items()}
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
    assert page.request("GET", f"/{path}").status in (404, 400, 403)


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


def element(page: Page, row: int, column: int, **words: object) -> str:
    """The value of one element as the page tells it."""
    found = page.get("elements", row=row, column=column, around=2, **words).json
    return found["values"][row - found["row"]][column - found["column"]]


def test_tiles_are_the_image(page: Page) -> None:
    facts = page.get("array", name="data").json
    assert (facts["shape"], facts["plane"], facts["side"]) == ([700, 600], [700, 600], 512)
    assert facts["limits"]["all of a sample"] == [0, 1296]
    whole = np.zeros(IMAGE.shape, "f4")
    for row in range(2):
        for column in range(2):
            tile = numbers(page.get("tile", name="data", step=1, row=row, column=column))
            whole[row * 512 : row * 512 + tile.shape[0], column * 512 : column * 512 + tile.shape[1]] = tile
    assert np.array_equal(whole, IMAGE)
    assert np.array_equal(numbers(page.get("tile", name="data", step=4, row=0, column=0)), IMAGE[::4, ::4])
    assert np.array_equal(numbers(page.get("tile", name="cube", index="1", step=1)), IMAGE[3:6, :4])
    assert np.array_equal(numbers(page.get("tile", name="waves", step=1)), IMAGE[:3, :4])
    assert element(page, 3, 5, name="data") == "8.0"
    assert element(page, 2, 3, name="cube") == "5.0", "of the first plane, which is shown"
    assert element(page, 2, 3, name="cube", index="1") == "8.0"
    assert element(page, 0, 1, name="waves") == "1j"
    found = page.get("elements", name="data", row=699, column=0, around=999).json
    assert (found["row"], found["column"], len(found["values"]), len(found["values"][0])) == (691, 0, 9, 9)
    for row, column in ((700, 5), (0, 600)):
        assert page.get("elements", name="data", row=row, column=column).status == 400


def test_large_integers_and_masked_elements_are_exact(tmp_path: Path) -> None:
    large = np.array([[2**63 - 1, -(2**63)], [2**53 + 1, 7]])
    values = np.ma.masked_array(np.arange(6.0).reshape(2, 3), [[0, 1, 0], [0, 0, 0]])
    asdf.AsdfFile({"large": large, "values": values}).write_to(tmp_path / "x.asdf")
    with viewed(tmp_path / "x.asdf", environment_in(tmp_path), "--read-only") as page:
        found = page.get("elements", name="large", row=0, column=0, around=1).json["values"]
        assert found == [[str(one) for one in row] for row in large.tolist()]
        assert element(page, 0, 1, name="values") == "--"
        assert np.array_equal(np.isnan(numbers(page.get("tile", name="values", step=1))), values.mask)
        assert page.get("statistics", name="values").json["masked"] == 1
        assert page.get("statistics", name="large").json["max"] == str(2**63 - 1)


def test_statistics_of_the_whole_and_of_a_region(page: Page) -> None:
    whole = page.get("statistics", name="data").json
    assert (whole["read"], whole["min"], whole["max"]) == (IMAGE.size, 0, IMAGE.max())
    assert whole["mean"] == pytest.approx(IMAGE.mean(dtype="f8"))
    assert sum(whole["histogram"]) == IMAGE.size
    part = page.get("statistics", name="data", row=10, column=20, rows=5, columns=7).json
    assert (part["min"], part["max"], part["read"]) == (30, 44 - 4 + 10 - 10, 35)
    assert part["std"] == pytest.approx(IMAGE[10:15, 20:27].std(dtype="f8"))
    plane = page.get("statistics", name="cube", index="1").json
    assert (plane["min"], plane["max"]) == (3, 8)
    assert page.get("statistics", name="words").status == 400


def test_curves_and_what_is_no_image(page: Page) -> None:
    assert np.array_equal(numbers(page.get("curve", name="line")), [range(5), range(5)])
    assert np.array_equal(numbers(page.get("curve", name="waves", index="2"))[1], [2, 3, 4, 5])
    assert page.get("tile", name="line", step=1).status == 400
    assert page.get("curve", name="words").status == 400
    assert page.get("array", name="nothing").status == 404
    assert page.get("array", name="words").json["values"] == ["a", "b"]
    assert page.get("array", name="single").json["values"] == ["3.5"]


def test_a_long_curve_keeps_its_peaks_and_has_its_axis(tmp_path: Path) -> None:
    values = np.zeros(1_000_000, "f4")
    values[[7, 654_321]] = 5, -3
    tree = {"spectrum": {"flux": np.arange(4) * units.Jy, "wavelength": np.array([1.0, 2, 4, 8]) * units.um}}
    asdf.AsdfFile({"long": values, "none": np.full(20_000, np.nan), **tree}).write_to(tmp_path / "x.asdf")
    with viewed(tmp_path / "x.asdf", environment_in(tmp_path), "--read-only") as page:
        places, heights = numbers(page.get("curve", name="long"))
        assert len(places) <= 8192
        assert (heights[places == 7], heights[places == 654_321]) == (5, -3)
        assert (np.diff(places) > 0).all()
        assert np.isnan(numbers(page.get("curve", name="none"))[1]).all()
        axis = page.get("array", name="spectrum/flux/value").json["axis"]
        assert axis == {"name": "spectrum/wavelength/value", "unit": "um"}
        found = numbers(page.get("curve", name="spectrum/flux/value", along=axis["name"]))
        assert np.array_equal(found, [[1, 2, 4, 8], [0, 1, 2, 3]])
        assert page.get("curve", name="long", along=axis["name"]).status == 400


def test_regression_one_array_does_not_hide_others(tmp_path: Path) -> None:
    flux = "{source: 0, datatype: float32, byteorder: little, shape: [2]}"
    bomb = "".join(f"a{n}: &a{n} {{p: *a{n - 1}, q: *a{n - 1}}}\n" for n in range(1, 40))
    body = f"""flux: !core/ndarray-1.1.0 {flux}
wavelength: !core/ndarray-1.1.0 {{source: 0, datatype: unknown, byteorder: little, shape: [2]}}
listed: !core/ndarray-1.1.0 [[1, 2], [3, 4]]
a0: &a0 {{x: 1}}
{bomb}"""
    (tmp_path / "x.asdf").write_bytes(tree_file(body, [block_bytes(np.array([1, 2], "<f4").tobytes())]))
    with viewed(tmp_path / "x.asdf", environment_in(tmp_path), "--read-only") as page:
        assert page.get("array", name="flux").json["axis"] is None
        sight = page.get("sight").json  # a walk along each alias would take days
        assert sight["main"] == {"kind": "array", "path": "listed"}
        assert {one["path"]: one["shape"] for one in sight["arrays"]}["listed"] == [2, 2]


def test_regression_a_cookie_of_another_program_does_no_harm(page: Page) -> None:
    page.cookie = f'a={{"x": 1}}; b=two words; {page.cookie}'
    assert page.get("facts").status == 200


def test_regression_galactic_coordinates_are_no_right_ascension(tmp_path: Path) -> None:
    wcs = {"ctype1": "GLON-TAN", "ctype2": "GLAT-TAN", "crval1": 120.0, "crval2": 45.0, "crpix1": 1.0, "crpix2": 1.0}
    wcs |= {"cdelt1": -0.001, "cdelt2": 0.001, "cunit1": "deg", "cunit2": "deg"}
    asdf.AsdfFile({"meta": {"telescope": "X", **wcs}, "data": np.zeros((8, 9), "f4")}).write_to(tmp_path / "g.asdf")
    with viewed(tmp_path / "g.asdf", environment_in(tmp_path), "--read-only") as page:
        found = page.get("sky", name="data", row=0, column=0).json
        assert (found["frame"], found["text"]) == ("GLON", "120.000000 +45.000000")
        assert page.get("compass", name="data", row=0, column=0).json == {}


# -- tables ------------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Page]:
    random = np.random.default_rng(3)
    columns = {
        "id": np.arange(1000),
        "ra": random.uniform(149.98, 150.02, 1000) * units.deg,
        "dec": random.uniform(1.98, 2.02, 1000) * units.deg,
        "mag": MaskedColumn(random.uniform(18, 25, 1000), mask=random.random(1000) < 0.1, description="Kron"),
        "name": [f"star {number % 7}" for number in range(1000)],
        "pair": random.random((1000, 2)),
    }
    records = np.array([(0, b"DO_NOT_USE"), (2, b"SATURATED")], [("BIT", "u4"), ("NAME", "S20")])
    wcs = {"ctype1": "RA---TAN", "ctype2": "DEC--TAN", "crval1": 150.0, "crval2": 2.0, "crpix1": 50.0, "crpix2": 40.0}
    wcs |= {"cdelt1": -0.001, "cdelt2": 0.001, "cunit1": "deg", "cunit2": "deg"}
    meta = {"telescope": "X", "observation": {"program": 123}, **wcs}
    tree = {"meta": meta, "data": np.zeros((80, 100), "f4"), "dq": np.zeros((80, 100), "u4")}
    asdf.AsdfFile(tree | {"stars": Table(columns), "dq_def": records}).write_to(tmp_path / "t.asdf")
    with viewed(tmp_path / "t.asdf", environment_in(tmp_path), "--read-only") as page:
        yield page


def test_rows_are_sorted_and_chosen_as_a_loop_would(tables: Page, tmp_path: Path) -> None:
    with asdf.open(tmp_path / "t.asdf") as file:
        stars = Table(file["stars"], copy=True)
    rows = tables.get("rows", path="stars").json
    assert (rows["total"], rows["count"], len(rows["rows"]), rows["numbers"][:3]) == (1000, 1000, 200, [0, 1, 2])
    facts = {one["name"]: one for one in rows["columns"]}
    assert (facts["ra"]["unit"], facts["mag"]["description"], facts["pair"]["shape"]) == ("deg", "Kron", [2])
    assert tables.get("rows", path="stars", start=990).json["numbers"] == list(range(990, 1000))
    chosen = [row for row in range(1000) if stars["mag"][row] is not np.ma.masked and stars["mag"][row] < 20]
    where = 'mag < 20 and name == "star 3"'
    expected = [row for row in chosen if stars["name"][row] == "star 3"]
    found = tables.get("rows", path="stars", where=where, sort="ra").json
    assert (found["count"], found["numbers"]) == (len(expected), sorted(expected, key=lambda row: stars["ra"][row]))
    down = tables.get("rows", path="stars", sort="mag", descending=1, start=800).json["rows"]
    assert [row[3] for row in down][-int(stars["mag"].mask.sum()) :] == ["--"] * int(stars["mag"].mask.sum())
    drawn = numbers(tables.get("columns", path="stars", x="ra", y="mag", where="mag < 20"))
    assert np.array_equal(drawn[0], chosen)
    assert np.array_equal(drawn[2], np.asarray(stars["mag"][chosen]))
    for words in ({"sort": "pair"}, {"sort": "no"}, {"where": "no > 1"}, {"where": "mag <"}):
        assert tables.get("rows", path="stars", **words).status == 400, words
    assert tables.get("columns", path="stars", x="name", y="mag").status == 400
    assert tables.get("rows", path="data").status == 404


def test_regression_records_of_a_linked_file_were_read_from_this_one(tmp_path: Path) -> None:
    mine, other = np.array([(9, 9.0)], "i4, f8"), np.array([(1, 2.0), (3, 4.0)], "i4, f8")
    asdf.AsdfFile({"ev": other}).write_to(tmp_path / "other.asdf")
    asdf.AsdfFile({"own": mine, "link": {"$ref": "other.asdf#/ev"}}).write_to(tmp_path / "main.asdf")
    with viewed(tmp_path / "main.asdf", environment_in(tmp_path), "--read-only") as page:
        assert page.get("rows", path="link").json["rows"] == [["1", "2.0"], ["3", "4.0"]]


def test_records_are_a_table_and_name_the_bits_of_flags(tables: Page) -> None:
    assert tables.get("rows", path="dq_def").json["rows"] == [["0", "DO_NOT_USE"], ["2", "SATURATED"]]
    assert tables.get("array", name="dq").json["flags"] == {"0": "DO_NOT_USE", "2": "SATURATED"}
    assert tables.get("array", name="data").json["flags"] == {}


def test_sources_lie_where_the_wcs_has_them(tables: Page, tmp_path: Path) -> None:
    with asdf.open(tmp_path / "t.asdf") as file:
        stars = Table(file["stars"], copy=True)
    with fits.open(io.BytesIO(tables.get("download", what="fits", name="data").body)) as hdus:
        columns, rows = WCS(hdus[-1].header).world_to_pixel_values(stars["ra"], stars["dec"])
    found = tables.get("sources", name="data", table="stars").json
    assert np.allclose(found["columns"], columns[found["number"]], atol=1e-3)
    assert np.allclose(found["rows"], rows[found["number"]], atol=1e-3)
    inside = (columns > -0.5) & (columns < 99.5) & (rows > -0.5) & (rows < 79.5)
    assert len(found["number"]) == inside.sum() > 100
    compass = tables.get("compass", name="data", row=40, column=50).json
    assert (compass["north"], compass["east"]) == (pytest.approx([0, 1], abs=1e-3), pytest.approx([-1, 0], abs=1e-3))
    assert compass["scale"] == pytest.approx(3.6, rel=1e-3)
    assert tables.get("sources", name="data", table="dq_def").status == 400


@pytest.mark.parametrize("count", [1, 150_000])
def test_the_facts_have_the_warnings_of_a_mount(tmp_path: Path, count: int) -> None:
    head = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
    wrong = b"a: !core/ndarray-1.0.0 {source: 7, datatype: int8, shape: [3]}\n"
    lines = b"".join(b"k%d: 1\n" % number for number in range(count))
    (tmp_path / "w.asdf").write_bytes(head + wrong + lines + b"...\n")
    with viewed(tmp_path / "w.asdf", environment_in(tmp_path)) as page:
        facts = page.get("facts").json
        if count > 1:
            assert facts["warnings"] is None, "it is not known"
            return
        assert facts["warnings"] == ["line 6: a: its source is 7, and the file has 0 blocks"]
        mended = head + lines + b"...\n"
        page.save(mended, facts["version"])
        assert page.get("facts").json["warnings"] == []


def test_no_flag_is_lost_in_a_coarse_tile(tmp_path: Path) -> None:
    flags = np.zeros((2100, 1300), "u4")
    places = np.random.default_rng(8).integers(0, (2100, 1300), (40, 2))
    flags[tuple(places.T)] = np.arange(1, 41)
    asdf.AsdfFile({"dq": flags, "raw": flags.astype("u2")}).write_to(tmp_path / "f.asdf")
    with viewed(tmp_path / "f.asdf", environment_in(tmp_path), "--read-only") as page:
        tiles = []
        for row in (0, 1):
            answer = page.get("tile", name="dq", step=4, row=row, column=0)
            shape = tuple(map(int, answer.headers["x-shape"].split(",")))
            tiles.append(np.frombuffer(answer.body, answer.headers["x-dtype"]).reshape(shape))
        expected = np.zeros((525, 325))
        for (row, column), value in zip(places // 4, range(1, 41), strict=True):
            expected[row, column] = max(expected[row, column], value)
        assert np.array_equal(np.concatenate(tiles), expected)
        facts = page.get("array", name="dq").json
        assert (facts["greatest"], facts["limits"]) == (True, {"any flag": [0, 1], "all": [0, 40]})
        assert not page.get("array", name="raw").json["greatest"]
        assert page.get("tile", name="dq", step=4, row=9, column=0).status == 400


@pytest.mark.parametrize("unit", ["rad", "hourangle", "arcsec", "m"])
def test_sources_are_placed_in_the_unit_of_their_columns(unit: str, tmp_path: Path) -> None:
    wcs = {"ctype1": "RA---TAN", "ctype2": "DEC--TAN", "crval1": 150.0, "crval2": 2.0, "crpix1": 50.0, "crpix2": 40.0}
    wcs |= {"cdelt1": -0.001, "cdelt2": 0.001, "cunit1": "deg", "cunit2": "deg"}
    one = units.Unit(unit)
    angles = [([150.0] * units.deg).to(one), ([2.0] * units.deg).to(one)] if unit != "m" else [[150.0] * one] * 2
    tree = {"meta": {"telescope": "X", **wcs}, "data": np.zeros((80, 100), "f4")}
    asdf.AsdfFile(tree | {"stars": Table(angles, names=["ra", "dec"])}).write_to(tmp_path / "u.asdf")
    with viewed(tmp_path / "u.asdf", environment_in(tmp_path), "--read-only") as page:
        answer = page.get("sources", name="data", table="stars")
        if unit == "m":
            assert (answer.status, answer.json["error"]) == (400, "ra: m is not a unit of angles that is known here")
        else:
            assert (answer.json["columns"], answer.json["rows"]) == ([pytest.approx(49)], [pytest.approx(39)])


def test_the_first_sight(tables: Page) -> None:
    sight = tables.get("sight").json
    assert sight["main"] == {"kind": "array", "path": "data"}
    assert sight["tables"] == ["stars"]
    facts = {one["label"]: (one["value"], one["path"]) for one in sight["facts"]}
    assert facts["Telescope"] == ("X", "meta.telescope")
    assert facts["Program"] == ("123", "meta.observation.program")
    assert facts["Compression"] == ("none", "")
    kinds = {one["key"]: one["kind"] for one in tables.get("tree").json["children"]}
    assert (kinds["stars"], kinds["dq_def"], kinds["data"], kinds["meta"]) == ("table", "table", "array", "mapping")


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
