"""docs/design/layout.md says what the scanner finds."""

from __future__ import annotations

import re
from pathlib import Path

from support.plans import scan

PAGE = (Path(__file__).parents[2] / "docs" / "design" / "layout.md").read_text()


def test_byte_sums_of_the_page() -> None:
    dump = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert dump is not None
    whole = b"".join(bytes.fromhex(re.split(r" {3,}", line)[0]) for line in dump[1].splitlines())
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| ([\d +]+) \|$", PAGE, re.MULTILINE)
    found = [(r.kind.value, str(r.span.start), str(r.span.stop)) for r in scan(whole).regions()]
    assert found == [row[:3] for row in rows]
    for _, start, stop, parts in rows:
        assert sum(map(int, parts.split(" + "))) == int(stop) - int(start)
    assert f"has {len(whole)} bytes" in PAGE
