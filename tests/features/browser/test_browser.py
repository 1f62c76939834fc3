"""The page in a real browser: look, edit, be refused, correct, choose; by keyboard, on a narrow screen, by axe."""

from __future__ import annotations

import functools
import io
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import asdf
import numpy as np
import pytest
from astropy import units
from astropy.table import Table
from axe_core_python.selenium import Axe
from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from support.browser import Browser, browser
from support.mounts import environment_in
from support.page_client import Page, viewed
from support.samples import make_night

pytestmark = pytest.mark.long

IMAGE = np.add.outer(np.arange(600.0), np.arange(800.0)).astype("<f4")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    meta = {"observer": "Ada", "<img src=x onerror=alert(1)>": "<script>alert(2)</script>", "list": list(range(450))}
    data = IMAGE.copy()
    data[100:200, 100:200] = np.nan
    wave = np.linspace(1, 2, 500) * units.um
    tree = {
        "roman": {
            "meta": meta | {"telescope": "ROMAN", "aperture": "round"},
            "data": data,
            "dq": (IMAGE % 7 == 0).astype("u4"),
            "dq_def": np.array([(0, b"DO_NOT_USE")], [("BIT", "u4"), ("NAME", "S20")]),
            "cube": np.stack([IMAGE[:40, :50] + 1000 * plane for plane in range(5)]),
            "words": np.array(["a", "b"]),
        },
        "spectrum": {"flux": np.sin(np.arange(500) / 20) * units.Jy, "wavelength": wave},
        "stars": Table({"id": np.arange(500), "mag": np.arange(500) % 10 * units.mag}),
    }
    asdf.AsdfFile(tree).write_to(tmp_path / "l2.asdf")
    return tmp_path / "l2.asdf"


@pytest.fixture
def page(file: Path, tmp_path: Path) -> Iterator[Page]:
    with viewed(file, environment_in(tmp_path)) as found:
        yield found


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser(width=1400) as found:
        yield found


@pytest.fixture
def shown(page: Page, window: Browser) -> Iterator[Browser]:
    window.errors()
    window.open(page.url)
    yield window
    window.driver.get("about:blank")  # the page asks no server that has ended


def picture(shown: Browser) -> np.ndarray:
    """What the screen shows, in its own pixels."""
    return np.asarray(Image.open(io.BytesIO(shown.driver.get_screenshot_as_png())).convert("RGB")).astype(int)


def drawn(shown: Browser, colours: int = 20) -> np.ndarray:
    """Wait until an image of more than ``colours`` is there, and the canvas is the same twice; what it shows."""
    last: list[np.ndarray] = [np.zeros(0)]

    def settled() -> bool:
        before, now = last[0], shot(shown)
        last[0] = now
        return len(np.unique(now)) > colours and np.array_equal(before, now)

    shown.until(lambda: shown.all(".canvas canvas"))
    shown.until(settled)
    return last[0]


def shot(shown: Browser) -> np.ndarray:
    raw = shown.find(".canvas canvas").screenshot_as_png
    return np.asarray(Image.open(io.BytesIO(raw)).convert("RGB")).astype(int)


def has_text(shown: Browser, text: str) -> None:
    """Wait until the editor shows ``text``."""
    shown.until(lambda: text in shown.text(".cm-content"), f"{text!r} in the editor")


def replace(shown: Browser, old: str, new: str) -> None:
    """Replace a word as a user does: by the editor's own search."""
    shown.find(".cm-content").click()
    ActionChains(shown.driver).key_down(Keys.CONTROL).send_keys("f").key_up(Keys.CONTROL).perform()
    shown.until(lambda: shown.all(".cm-search"))
    for name, words in (("search", old), ("replace", new)):
        field = shown.find(f".cm-search [name={name}]")
        field.clear()
        field.send_keys(words)
    shown.find(".cm-search [name=replaceAll]").click()
    shown.find(".cm-search [name=close]").click()


def choose(shown: Browser, selector: str, value: str) -> None:
    shown.until(lambda: value in shown.texts(f"{selector} option"))
    Select(shown.find(selector)).select_by_visible_text(value)


def test_the_url_has_no_token_after_the_first_request(page: Page, shown: Browser) -> None:
    assert shown.driver.current_url.partition("?")[0] == f"{page.origin}/"
    assert "token" not in shown.driver.current_url
    assert "l2.asdf" in shown.driver.title
    assert shown.errors() == []


def test_the_first_sight_is_the_image_and_its_facts(shown: Browser) -> None:
    shown.see(".sight .facts", "ROMAN")
    assert len(shown.all(".arrays li")) == 8
    drawn(shown)
    shown.press("ROMAN", ".facts button")
    shown.see(".cm-activeLine", "telescope: ROMAN")
    assert shown.errors() == []


def test_the_tree_opens_and_searches(shown: Browser) -> None:
    shown.press("meta")
    shown.press("list")
    shown.until(lambda: shown.run_with("arguments[0].scrollTop = 1e6; return true", shown.find(".tree-list")))
    shown.until(lambda: any("250 more" in one for one in shown.texts(".tree-line")))
    assert shown.run("return document.querySelectorAll('.tree script, .tree img').length") == 0
    shown.find("#search").send_keys("ada")
    shown.see("#found", "1 found")
    shown.see(".tree-list", "roman.meta.observer")
    shown.press("roman.meta.observer")
    shown.see(".cm-activeLine", "observer: Ada")
    shown.find("#search").clear()
    shown.find("#search").send_keys("<script")
    shown.see(".tree-list", "<script>alert(2)</script>")
    assert shown.errors() == []


def test_edit_be_refused_correct_and_restore(shown: Browser, file: Path) -> None:
    shown.find("#tab-text").click()
    has_text(shown, "#ASDF 1.0.0")
    assert not shown.find("#save").is_enabled()
    replace(shown, "observer: Ada", "observer: [Ada")
    shown.find("#save").click()
    shown.see("#said", "Not saved: ")
    shown.until(lambda: shown.all(".cm-lint-marker-error"))
    assert b"observer: Ada" in file.read_bytes()
    replace(shown, "observer: [Ada", "observer: Grace")
    shown.find(".cm-content").click()
    ActionChains(shown.driver).key_down(Keys.CONTROL).send_keys("s").key_up(Keys.CONTROL).perform()
    shown.see("#said", "saved")
    assert shown.all(".cm-lint-marker-error") == []
    assert b"observer: Grace" in file.read_bytes()
    shown.until(lambda: len(shown.all("#history option")) == 2)
    shown.all("#history option")[1].click()
    shown.see("#said", "This is the old text")
    shown.until(lambda: shown.all(".cm-deletedChunk"))
    shown.find("#save").click()
    shown.see("#said", "saved")
    assert b"observer: Ada" in file.read_bytes()
    assert shown.errors() == []


def test_a_conflict_is_a_difference_to_choose_from(shown: Browser, page: Page, file: Path) -> None:
    shown.find("#tab-text").click()
    has_text(shown, "#ASDF 1.0.0")
    text, version = page.get("text").body, page.get("facts").json["version"]
    assert page.save(text.replace(b"Ada", b"Lise"), version).status == 200
    replace(shown, "aperture: round", "aperture: square")
    shown.find("#save").click()
    shown.see("#said", "Your text stays here")
    shown.until(lambda: len(shown.all(".cm-deletedChunk")) == 2)
    assert b"Lise" in file.read_bytes()
    assert shown.texts(".cm-chunkButtons button") == ["Keep mine", "Take theirs"] * 2
    mine = next(one for one in shown.all(".cm-deletedChunk") if "round" in one.text)
    next(one for one in mine.find_elements("css selector", "button") if one.text == "Keep mine").click()
    theirs = shown.until(lambda: [one for one in shown.all(".cm-deletedChunk") if "Lise" in one.text])[0]
    next(one for one in theirs.find_elements("css selector", "button") if one.text == "Take theirs").click()
    shown.find("#save").click()
    shown.see("#said", "saved")
    assert b"observer: Lise" in file.read_bytes()
    assert b"aperture: square" in file.read_bytes()
    page.expected = 7  # the text that was refused is kept beside the file, too


def test_a_text_that_was_not_touched_follows_the_file(shown: Browser, page: Page) -> None:
    shown.find("#tab-text").click()
    has_text(shown, "#ASDF 1.0.0")
    text, version = page.get("text").body, page.get("facts").json["version"]
    assert page.save(b"#ASDF 1.0.0\n# theirs\n" + text.partition(b"\n")[2], version).status == 200
    has_text(shown, "# theirs")
    assert not shown.find("#save").is_enabled()


def test_regression_line_ends_stay(tmp_path: Path, window: Browser) -> None:
    file = tmp_path / "crlf.asdf"
    file.write_bytes(b"#ASDF 1.0.0\r\n%YAML 1.1\r\n--- \r\nname: Ada\r\nother: 1\r\n...\r\n")
    with viewed(file, environment_in(tmp_path)) as page:
        window.open(page.url)
        window.find("#tab-text").click()
        has_text(window, "#ASDF 1.0.0")
        assert not window.find("#save").is_enabled()
        replace(window, "name: Ada", "name: Eve")
        window.find("#save").click()
        window.see("#said", "saved")
        assert b"\r\nname: Eve\r\nother: 1\r\n" in file.read_bytes()
        window.driver.get("about:blank")


def test_regression_a_view_that_fails_takes_no_text(shown: Browser, page: Page) -> None:
    shown.find("#tab-text").click()
    has_text(shown, "#ASDF 1.0.0")
    replace(shown, "observer: Ada", "observer: Grace")
    shown.press("flux")
    shown.until(lambda: shown.all(".line-view select"))
    Select(shown.find(".line-view select")).select_by_visible_text("log")
    shown.find("#tab-text").click()
    assert shown.find("#save").is_enabled()
    shown.find("#save").click()
    shown.see("#said", "saved")


def test_an_image_has_settings_statistics_and_flags(shown: Browser) -> None:
    shown.press("data")
    whole = drawn(shown)
    shown.see(".inspector", "600 \N{MULTIPLICATION SIGN} 800")
    shown.see(".numbers", "10,000")
    assert len(shown.all(".histogram rect")) > 50
    choose(shown, "#stretch", "asinh")
    choose(shown, "#cmap", "viridis")
    assert not np.array_equal(drawn(shown), whole)
    assert "stretch=asinh" in shown.driver.current_url
    shown.driver.refresh()
    shown.until(lambda: shown.all("#stretch"))
    assert shown.find("#stretch").get_property("value") == "asinh", "a reload shows the same"
    drawn(shown)  # the image moves until then, away from the pointer
    ActionChains(shown.driver).move_to_element(shown.find(".canvas canvas")).perform()
    shown.until(lambda: shown.all("#pixel[data-settled]"))
    row, column = map(int, re.findall(r"\d+", shown.text("#pixel .at")))
    assert float(shown.text("#pixel strong")) == row + column
    assert len(shown.all(".elements td")) == 25
    shown.press("dq")
    drawn(shown, 2)
    choose(shown, "#blink", "roman/data")
    shown.see(".image-view", "roman/data")
    choose(shown, "#blink", "nothing")
    canvas = shown.find(".canvas canvas")
    for step in range(40):  # one of seven elements that follow each other is flagged
        ActionChains(shown.driver).move_to_element_with_offset(canvas, step, 0).perform()
        shown.until(lambda: shown.all("#pixel[data-settled]"))
        if shown.text("#pixel strong") == "1":
            shown.see("#pixel", "DO_NOT_USE")
            break
    else:
        raise AssertionError("no flagged element")
    assert shown.errors() == []


def test_a_region_has_statistics_and_a_cube_plays(shown: Browser) -> None:
    shown.press("cube")
    drawn(shown)
    canvas = shown.find(".canvas canvas")
    dragging = ActionChains(shown.driver).key_down(Keys.SHIFT).move_to_element(canvas).click_and_hold()
    dragging.move_by_offset(60, 40).release().key_up(Keys.SHIFT).perform()
    shown.until(lambda: len(shown.all(".numbers")) == 2)
    told = shown.all(".numbers .of")[1].text
    words = told.replace(",", "").split()
    rows, columns = slice(int(words[1]), int(words[3]) + 1), slice(int(words[5]), int(words[7]) + 1)
    part = IMAGE[:40, :50][rows, columns]
    numbers = dict(zip(*[iter(shown.all(".numbers")[1].text.split("\n")[1:])] * 2, strict=True))
    assert (float(numbers["min"]), float(numbers["max"])) == (part.min(), part.max())
    shown.press("Play", ".planes button")
    shown.until(lambda: "index=2" in shown.driver.current_url)
    shown.press("Stop", ".planes button")
    assert shown.find("#limits").get_property("value") == "zscale"
    assert shown.errors() == []


def test_curves_have_axes_and_texts_are_listed(shown: Browser, page: Page) -> None:
    shown.open(f"{page.origin}/?view=array&name=spectrum/flux/value")
    shown.until(lambda: shown.texts(".tree-line[aria-selected=true] .key") == ["flux"])
    shown.until(lambda: shown.all(".line-view canvas"))
    shown.see(".line-view", "wavelength (um)")
    shown.see(".line-view", "flux (Jy)")
    shown.press("words")
    shown.see(".values", "b")
    assert not shown.all(".canvas")
    assert shown.errors() == []


def test_a_table_is_sorted_chosen_and_drawn(shown: Browser) -> None:
    shown.press("stars")
    shown.see("#counted", "500 rows")
    shown.find("#where").send_keys("mag > 7", Keys.ENTER)
    shown.see("#counted", "100 of 500 rows")
    shown.press("id", ".head button")
    shown.press("id \N{BLACK UP-POINTING TRIANGLE}", ".head button")
    shown.until(lambda: shown.texts(".table-body .cell")[:3] == ["499", "499", "9.0"])
    choose(shown, "#plot-x", "id")
    choose(shown, "#plot-y", "mag")
    shown.until(lambda: shown.all(".line-view canvas"))
    shown.see(".line-view", "mag (mag)")
    shown.find("#where").clear()
    shown.find("#where").send_keys("mag >", Keys.ENTER)
    shown.until(lambda: shown.all("#middle [role=alert]"))
    assert shown.errors() == []


def test_the_file_to_scale_leads_to_arrays_and_tells_what_an_edit_does(shown: Browser) -> None:
    shown.find("#tab-map").click()
    shown.see(".parts", "block 0")
    count = len(shown.all(".map rect"))
    assert count == len(
        shown.run("return [...document.querySelectorAll('.map rect title')].map((t) => t.textContent)")
    )
    shown.see("#effect", "It does not fit the padding" if "0 bytes" in shown.text("#effect") else "It fits")
    shown.press("roman/data", ".parts button")
    shown.see("h2.thing", "roman/data")
    drawn(shown)


def test_with_the_keyboard_alone(shown: Browser, file: Path) -> None:
    def press(*keys: str) -> None:
        for key in keys:
            ActionChains(shown.driver).send_keys(key).perform()

    def focused(selector: str, back: bool = False) -> None:
        for _ in range(60):
            if shown.run(f"return document.activeElement?.matches({selector!r})"):
                return
            chain = ActionChains(shown.driver)
            (
                chain.key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT)
                if back
                else chain.send_keys(Keys.TAB)
            ).perform()
        raise AssertionError(f"Tab does not reach {selector}")

    press(Keys.TAB)
    assert shown.run("return document.activeElement.textContent") == "Skip to content"
    focused(".tree-list")
    press(Keys.END, Keys.HOME)
    for _ in range(40):
        if shown.find(".tree-line[aria-selected=true] .key").text == "data":
            break
        press(Keys.ARROW_DOWN)
    press(Keys.ENTER)
    whole = drawn(shown)
    focused("[role=img][tabindex='0']")
    press("+", "+", Keys.ARROW_RIGHT)
    shown.until(lambda: not np.array_equal(shot(shown), whole))
    press("0")
    shown.until(lambda: np.array_equal(shot(shown), whole))
    focused("#tab-text", back=True)
    press(Keys.ENTER)
    has_text(shown, "#ASDF 1.0.0")
    focused(".cm-content")
    ActionChains(shown.driver).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).perform()
    press(Keys.ARROW_UP, Keys.HOME, "new: 1\n")
    ActionChains(shown.driver).key_down(Keys.CONTROL).send_keys("s").key_up(Keys.CONTROL).perform()
    shown.see("#said", "saved")
    assert b"new: 1\n" in file.read_bytes()
    press(Keys.TAB)
    assert not shown.run("return document.activeElement.matches('.cm-content')"), "the editor is no trap"


VIEWS = {"sight": "/", "image": "/?view=array&name=roman/data", "curve": "/?view=array&name=spectrum/flux/value"}
VIEWS |= {"table": "/?view=table&name=stars&x=id&y=mag", "text": "/?view=text", "map": "/?view=map"}
READY = {"sight": ".sight canvas", "image": ".numbers", "curve": ".line-view canvas", "table": ".table-body .cell"}
READY |= {"text": ".cm-line", "map": ".parts .cell"}


def visit(shown: Browser, page: Page, view: str) -> None:
    shown.open(page.origin + VIEWS[view])
    shown.until(functools.partial(shown.all, READY[view]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(shown: Browser, page: Page, scheme: str) -> None:
    scheme_of = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    shown.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme_of)
    for view in VIEWS:
        visit(shown, page, view)
        found = Axe().run(shown.driver)
        told = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]]
        assert told == [], view


def test_a_narrow_screen_has_no_scrolling_sideways(page: Page) -> None:
    with browser(width=500, height=800) as narrow:
        metrics = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        narrow.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        narrow.open(page.url)
        for view in VIEWS:
            visit(narrow, page, view)
            for pane in ("Tree", "Info", "Data"):
                narrow.press(pane, "header button")
                assert narrow.run("return document.documentElement.scrollWidth") <= 400, (view, pane)


def is_narrow(shown: Browser, *, narrow: bool) -> bool:
    return bool(shown.all(".narrow")) == narrow


def test_what_was_typed_stays_when_the_window_becomes_narrow(shown: Browser, page: Page, file: Path) -> None:
    shown.find("#tab-text").click()
    has_text(shown, "#ASDF 1.0.0")
    replace(shown, "observer: Ada", "observer: Grace")
    for width in (500, 1400):
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        shown.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        shown.until(functools.partial(is_narrow, shown, narrow=width < 760))
        assert shown.find("#save").is_enabled()
    shown.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    shown.find("#tab-map").click()
    shown.find("#tab-text").click()
    shown.find("#save").click()
    shown.see("#said", "saved")
    assert b"observer: Grace" in file.read_bytes()


def test_a_read_only_page_cannot_save(file: Path, tmp_path: Path, window: Browser) -> None:
    with viewed(file, environment_in(tmp_path), "--read-only") as page:
        window.open(page.url)
        window.see("#facts", "read-only")
        window.find("#tab-text").click()
        has_text(window, "#ASDF 1.0.0")
        window.find(".cm-content").click()
        ActionChains(window.driver).send_keys("x").perform()
        assert not window.find("#save").is_enabled()
        assert window.text(".cm-line") == "#ASDF 1.0.0"


@pytest.mark.feature("catalog")
def test_a_file_of_a_directory_is_chosen_and_compared(tmp_path: Path) -> None:
    folder = make_night(tmp_path / "night", 12)
    with viewed(folder, environment_in(tmp_path)) as page, browser(width=1400) as shown:
        shown.open(page.url)
        shown.see("#files-counted", "12 files")
        assert len(shown.all(".sky-map polygon")) == 12
        shown.until(
            lambda: shown.run("return [...document.images].filter((one) => one.naturalWidth === 50).length >= 6")
        )
        shown.press("r05.asdf", ".files button")
        shown.see(".facts", "105")
        shown.press("data")
        shown.until(lambda: "r07.asdf" in shown.texts("#against option"))
        shown.run_with(
            "const s = document.querySelector('#against'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change', {bubbles: true}))",
            f"{folder}/r07.asdf",
        )
        shown.until(lambda: shown.all("#minus"))
        shown.find("#minus").click()
        shown.see(".image-view", "this file minus r07.asdf")
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


# -- the value below the pointer ---------------------------------------------------------

SIDE = 8


class Seen(NamedTuple):
    """A point of the screen: what the picture shows there, and what the page tells, or "" of no element."""

    shown: str
    told: str


def canvas_box(shown: Browser) -> list[float]:
    """Where the canvas is, its width and height, and pixels of the screen for one of the page."""
    code = "const b = document.querySelector('.canvas canvas').getBoundingClientRect();"
    return list(shown.run(f"{code} return [b.x, b.y, b.width, b.height, devicePixelRatio]"))


def state(shown: Browser, chance: random.Random) -> None:
    """Change the width, the zoom of the browser, or the part of the image that is seen."""
    ratio, width = chance.choice([1, 1.25, 1.5, 2, 3]), chance.randrange(400, 1500)
    metrics = {"width": width, "height": chance.randrange(700, 1000), "deviceScaleFactor": ratio, "mobile": False}
    if chance.random() < 0.3:
        shown.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        drawn(shown, 2)  # zoomed in, few are left
    box = canvas_box(shown)
    x, y = box[0] + chance.random() * box[2], box[1] + chance.random() * box[3]
    for _ in range(chance.randrange(8)):
        wheel = {"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": chance.choice([-100, -100, 100])}
        shown.driver.execute_cdp_cmd("Input.dispatchMouseEvent", wheel)
    if chance.random() < 0.3:
        for kind, dx in (("mousePressed", 0), ("mouseMoved", 40), ("mouseReleased", 40)):
            event = {
                "type": kind,
                "x": x + dx,
                "y": y,
                "button": "left",
                "buttons": int(kind != "mouseReleased"),
                "clickCount": 1,
            }
            shown.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)


def seen(shown: Browser, chance: random.Random, levels: dict[tuple[int, ...], str]) -> Seen | None:
    """Point somewhere, and compare; None at the edge of an element, or where the axes are."""
    box = canvas_box(shown)
    x, y = box[0] + 2 + chance.random() * (box[2] - 4), box[1] + 2 + chance.random() * (box[3] - 4)
    shown.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    shown.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    shown.until(lambda: shown.all("#pixel[data-settled]") or shown.all(".readout.hint"))
    found = shown.all("#pixel strong")
    told = found[0].text if found else ""
    screen = picture(shown)
    row, column = int(y * box[4]), int(x * box[4])
    if not shown.run_with(
        "return document.elementFromPoint(arguments[0], arguments[1]).matches('canvas, svg')", x, y
    ):
        return None  # a button lies over the image
    around = {tuple(one) for one in screen[row - 2 : row + 3, column - 2 : column + 3].reshape(-1, 3)}
    if len(around) != 1:
        return None
    colour = around.pop()
    return Seen(levels.get(colour, ""), told)


@pytest.mark.parametrize("part", range(2))
def test_the_value_below_the_pointer_is_that_of_the_pixel(tmp_path: Path, part: int) -> None:
    """An image of 64 grey levels in any order: the colour at the pointer, by itself, tells which element is there."""
    chance = random.Random(part)
    values = np.array(chance.sample(range(SIDE * SIDE), SIDE * SIDE)).reshape(SIDE, SIDE)
    asdf.AsdfFile({"image": values}).write_to(tmp_path / "levels.asdf")
    with (
        viewed(tmp_path / "levels.asdf", environment_in(tmp_path), "--read-only") as page,
        browser(width=1400) as shown,
    ):
        shown.open(page.url)
        shown.open(f"{page.origin}/?view=array&name=image&low=0&high={SIDE * SIDE - 1}&cmap=viridis")
        drawn(shown)
        common = Counter(map(tuple, shot(shown).reshape(-1, 3))).most_common(SIDE * SIDE + 1)
        colours = [colour for colour, _ in common if len(set(colour)) > 1]
        assert len(colours) == SIDE * SIDE
        order = sorted(colours, key=lambda colour: colour[1])  # green only rises in viridis
        levels = {colour: str(value) for value, colour in enumerate(order)}
        compared = 0
        for number in range(100):
            state(shown, random.Random(f"{part} {number}"))
            found = seen(shown, random.Random(f"point {part} {number}"), levels)
            if found is not None:
                assert found.shown == found.told, number
                compared += found.shown != ""
        assert compared > 40
        assert shown.errors() == []
