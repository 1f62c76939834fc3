"""The page in a real browser: look, edit, be refused, correct, zoom; by keyboard, on a narrow screen, by axe."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from axe_core_python.selenium import Axe
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from support.browser import Browser, browser
from support.mounts import environment_in
from support.page_client import Page, viewed

pytestmark = pytest.mark.long

IMAGE = np.add.outer(np.arange(600.0), np.arange(800.0)).astype("<f4")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    meta = {"observer": "Ada", "<img src=x onerror=alert(1)>": "<script>alert(2)</script>", "list": list(range(450))}
    tree = {
        "roman": {"meta": meta, "data": IMAGE, "line": np.sin(np.arange(500) / 20), "words": np.array(["a", "b"])}
    }
    asdf.AsdfFile(tree).write_to(tmp_path / "l2.asdf")
    return tmp_path / "l2.asdf"


@pytest.fixture
def page(file: Path, tmp_path: Path) -> Iterator[Page]:
    with viewed(file, environment_in(tmp_path)) as found:
        yield found


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def shown(page: Page, window: Browser) -> Browser:
    window.errors()
    window.open(page.url)
    return window


def ink(shown: Browser) -> int:
    """The sum of all grey levels of the picture."""
    return int(
        shown.run(
            "const c = document.getElementById('image');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let s = 0; for (let i = 0; i < d.length; i += 4) s += d[i]; return s;"
        )
    )


def has_text(shown: Browser, text: str) -> None:
    """Wait until the editor has ``text``."""
    code = "const one = document.querySelector('.CodeMirror'); return one ? one.CodeMirror.getValue() : ''"
    shown.until(lambda: text in shown.run(code))


def drawn(shown: Browser) -> int:
    """Wait until the picture is the same twice; its ink."""
    last: list[int] = [-1]

    def settled() -> bool:
        before, now = last[0], ink(shown)
        last[0] = now
        return now > 0 and now == before

    shown.until(settled)
    return last[0]


def test_the_url_has_no_token_after_the_first_request(page: Page, shown: Browser) -> None:
    assert shown.driver.current_url == f"{page.origin}/"
    assert "l2.asdf" in shown.driver.title
    assert shown.errors() == []


def test_the_outline_opens_and_searches(shown: Browser) -> None:
    shown.press("roman")
    shown.press("meta")
    shown.press("list")
    shown.until(lambda: any(one.text == "… 250 more" for one in shown.all("#tree button")))
    assert shown.run("return document.querySelectorAll('#tree script, #tree img').length") == 0
    shown.find("#search").send_keys("ada")
    shown.see("#found", "1 found")
    shown.see("#tree", "roman.meta.observer: Ada")
    shown.find("#search").clear()
    shown.find("#search").send_keys("<script")
    shown.see("#tree", "<script>alert(2)</script>")
    assert shown.errors() == []


def test_edit_be_refused_correct_and_restore(shown: Browser, file: Path) -> None:
    shown.find("#tab-text").click()
    has_text(shown, "observer: Ada")
    code = "document.querySelector('.CodeMirror').CodeMirror"
    assert not shown.find("#save").is_enabled()
    shown.run(f"{code}.setValue({code}.getValue().replace('observer: Ada', 'observer: [Ada'))")
    shown.find("#save").click()
    shown.see("#said", "Not saved: ")
    shown.until(lambda: len(shown.all(".refused")) == 1)
    assert b"observer: Ada" in file.read_bytes()
    shown.run(f"{code}.setValue({code}.getValue().replace('observer: [Ada', 'observer: Grace'))")
    shown.find(".CodeMirror").click()
    ActionChains(shown.driver).key_down(Keys.CONTROL).send_keys("s").key_up(Keys.CONTROL).perform()
    shown.see("#said", "saved")
    assert shown.all(".refused") == []
    assert b"observer: Grace" in file.read_bytes()
    shown.until(lambda: len(shown.all("#history option")) == 2)
    shown.all("#history option")[1].click()
    shown.see("#said", "This is the old text")
    shown.find("#save").click()
    shown.see("#said", "saved")
    assert b"observer: Ada" in file.read_bytes()


def test_a_conflict_is_told(shown: Browser, page: Page, file: Path) -> None:
    shown.find("#tab-text").click()
    has_text(shown, "observer: Ada")
    text, version = page.get("text").body, page.get("facts").json["version"]
    assert page.save(text.replace(b"Ada", b"Lise"), version).status == 200
    code = "document.querySelector('.CodeMirror').CodeMirror"
    shown.run(f"{code}.setValue({code}.getValue() + '# mine\\n')")
    shown.find("#save").click()
    shown.see("#said", "Your text stays here")
    assert shown.run(f"return {code}.getValue()").endswith("# mine\n")
    assert b"Lise" in file.read_bytes()
    shown.find("#reload").click()
    has_text(shown, "Lise")
    page.expected = 7  # the refused text is kept beside the file


def test_an_image_zooms_and_tells_values(shown: Browser) -> None:
    shown.press("roman")
    shown.press("data")
    whole = drawn(shown)
    shown.see("#numbers", "600 x 800")
    assert len(shown.all("#histogram span")) == 32
    shown.find("#closer").click()
    shown.until(lambda: ink(shown) not in (0, whole))
    shown.find("#whole").click()
    shown.until(lambda: ink(shown) == whole)
    shown.find("#stretch").send_keys("asinh")
    shown.find("#cmap").send_keys("viridis")
    shown.until(lambda: ink(shown) not in (0, whole))
    drawn(shown)
    ActionChains(shown.driver).move_to_element(shown.find("#image")).perform()
    shown.see("#pixel", "] = ")
    row, column = map(int, shown.text("#pixel").partition("]")[0].strip("[").split(","))
    assert shown.text("#pixel").endswith(f"= {row + column}")
    assert shown.errors() == []


def test_curves_and_texts(shown: Browser) -> None:
    shown.press("roman")
    shown.press("line")
    shown.until(lambda: shown.run("return document.getElementById('curve').naturalWidth") == 1024)
    shown.find("#tab-outline").click()
    shown.press("words")
    shown.see("#numbers", "a, b")
    assert not shown.find("#image").is_displayed()


def test_the_file_to_scale_leads_to_arrays(shown: Browser) -> None:
    shown.find("#tab-file").click()
    shown.see("#parts", "block 0")
    assert len(shown.all("#map button")) == len(shown.all("#parts tr")) - 1
    next(one for one in shown.all("#parts button") if one.text == "roman/data").click()
    shown.see("#array-name", "roman/data")
    assert drawn(shown) > 0


def test_with_the_keyboard_alone(shown: Browser, file: Path) -> None:
    def press(*keys: str) -> None:
        for key in keys:
            ActionChains(shown.driver).send_keys(key).perform()

    def focus() -> str:
        return str(shown.run("return document.activeElement.id || document.activeElement.textContent"))

    press(Keys.TAB)
    assert focus() == "Skip to content"
    press(Keys.TAB)
    assert focus() == "tab-outline"
    press(Keys.TAB)
    assert focus() == "search"
    for _ in range(10):
        press(Keys.TAB)
        if focus().startswith("roman"):
            break
    press(Keys.ENTER)
    shown.until(lambda: any(one.text.startswith("data") for one in shown.all("#tree button")))
    press(Keys.TAB)
    assert focus().startswith("data")
    press(Keys.ENTER)
    whole = drawn(shown)
    while focus() != "image":
        press(Keys.TAB)
    press("+", Keys.ARROW_RIGHT)
    shown.until(lambda: ink(shown) not in (0, whole))
    press("0")
    shown.until(lambda: ink(shown) == whole)
    while focus() != "tab-array":
        ActionChains(shown.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    press(Keys.ARROW_LEFT)
    assert focus() == "tab-text"
    has_text(shown, "observer: Ada")
    while (
        focus() not in ("", "The tree as YAML") and shown.run("return document.activeElement.tagName") != "TEXTAREA"
    ):
        press(Keys.TAB)
    ActionChains(shown.driver).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).perform()
    press(Keys.ARROW_UP, Keys.HOME, "new: 1\n")
    ActionChains(shown.driver).key_down(Keys.CONTROL).send_keys("s").key_up(Keys.CONTROL).perform()
    shown.see("#said", "saved")
    assert b"new: 1\n" in file.read_bytes()
    press(Keys.TAB)
    assert shown.run("return document.activeElement.tagName") != "TEXTAREA"  # the editor is no trap


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(shown: Browser, scheme: str) -> None:
    scheme_of = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    shown.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme_of)
    shown.press("roman")
    for tab in ("outline", "text", "array", "file"):
        if tab == "array":
            shown.find("#tab-outline").click()
            shown.press("data")
            drawn(shown)
        shown.find(f"#tab-{tab}").click()
        shown.until(functools.partial(shown.all, f"#{tab} *"))
        found = Axe().run(shown.driver)
        told = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]]
        assert told == [], tab


def test_a_narrow_screen_has_no_scrolling_sideways(page: Page) -> None:
    with browser(width=500, height=800) as narrow:
        narrow.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        narrow.open(page.url)
        narrow.press("roman")
        for tab in ("outline", "text", "array", "file"):
            if tab == "array":
                narrow.find("#tab-outline").click()
                narrow.press("data")
                drawn(narrow)
            narrow.find(f"#tab-{tab}").click()
            assert narrow.run("return document.documentElement.scrollWidth") <= 400, tab


def test_a_read_only_page_cannot_save(file: Path, tmp_path: Path, window: Browser) -> None:
    with viewed(file, environment_in(tmp_path), "--read-only") as page:
        window.open(page.url)
        window.see("#facts", "read-only")
        window.find("#tab-text").click()
        has_text(window, "observer: Ada")
        assert window.run("return document.querySelector('.CodeMirror').CodeMirror.getOption('readOnly')") is True
        assert not window.find("#save").is_enabled()
