"""The picture in the README shows what the commands print now."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def lines_of(svg: str) -> list[str]:
    """Its text, row by row."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text class="[^"]*-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")))
    joined = ("".join(text for _, text in sorted(row)) for _, row in sorted(rows.items()))
    return [line.rstrip() for line in joined]


@pytest.mark.mount
def test_it_is_what_the_script_makes() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}"}
    command = [sys.executable, ROOT / "scripts/record.py", "--text"]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "Grace" in printed
    shown = "".join(lines_of((ROOT / "docs/recording.svg").read_text()))
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", printed), "run scripts/record"
