"""A real browser, chromium without a window, for the tests of the page."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from support.mounts import LIMIT
from support.processes import text_of

#: WebGL by software, which draws the same pixels everywhere.
_PICTURES: Final = ("--enable-unsafe-swiftshader", "--use-angle=swiftshader")

_ALL: Final = "[...document.querySelectorAll(arguments[0])]"


class Browser:
    """A browser that shows a page."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)
        self.until(lambda: self.driver.execute_script("return document.body.dataset.ready") == "true")

    def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Wait for something that the page does.  ``what``: see ``processes.until``."""
        waiting = WebDriverWait(self.driver, LIMIT, 0.05)
        return waiting.until(lambda _: condition(), f"waited {LIMIT} s for: {what or text_of(condition)}")

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text of the first element, as it is seen at one instant; empty without one."""
        return str(self.run_with("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def see(self, selector: str, text: str) -> None:
        """Wait until ``text`` is in an element."""
        self.until(lambda: text in self.text(selector), f"{text!r} in {selector}")

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements, at one instant."""
        return list(self.run_with(f"return {_ALL}.map((one) => one.textContent)", selector))

    def press(self, text: str, selector: str = ".tree-line .key") -> None:
        """Click the first element with ``text``, when it is there; of the tree unless ``selector`` says more."""
        code = f"const found = {_ALL}.find((one) => one.textContent === arguments[1]); found?.click(); return !!found"
        self.until(lambda: self.run_with(code, selector, text), f"{text!r} among {selector}")

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def run_with(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """What the console said since the last call, without answers that are errors by themselves."""
        found = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [message for message in found if "Failed to load resource" not in message]


@contextlib.contextmanager
def browser(*, width: int = 1100, height: int = 900) -> Iterator[Browser]:
    """Start the browser; skip the test if there is none."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", *_PICTURES):
        options.add_argument(word)
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
