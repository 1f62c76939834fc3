"""Metadata as attributes."""

from __future__ import annotations

import datetime

from asdffs.features.datasets.metadata import attributes_in

VALUES = {
    "asdf_library.name": "asdf",
    "history.entries[0].description": "made",
    "roman.meta.exposure.time": 107.5,
    "roman.meta.none": None,
    "roman.meta.date": datetime.date(2026, 1, 2),
    "roman.meta.shape[0]": 3,
    "roman.meta.shape[1]": 4.5,
    "roman.meta.names[0]": "a",
    "roman.meta.names[1]": "b",
    "roman.meta.mixed[0]": 1,
    "roman.meta.mixed[1]": "b",
    "roman.meta.mixed[2]": 2,
    "roman.meta.flags[0]": True,
    "roman.meta.deep[0].x": 1,
    "romantic": 5,
}


def test_a_group() -> None:
    assert attributes_in(VALUES, "roman") == {
        "meta.exposure.time": 107.5,
        "meta.date": "2026-01-02",
        "meta.shape": [3, 4.5],
        "meta.names": ["a", "b"],
        "meta.mixed[0]": 1,
        "meta.mixed[1]": "b",
        "meta.mixed[2]": 2,
        "meta.flags[0]": True,
        "meta.deep[0].x": 1,
    }


def test_the_root_has_no_facts_about_the_file() -> None:
    found = attributes_in(VALUES, "")
    assert "roman.meta.exposure.time" in found
    assert found["romantic"] == 5
    assert not [name for name in found if name.startswith(("asdf_library", "history"))]
