"""Odd things in trees of ASDF 1.x that the asdf library makes objects of: an edit of the text loses none."""

from __future__ import annotations

import warnings
from pathlib import Path

import asdf
import numpy as np

import asdffs


def test_embedded_oddities_survive_edits(tmp_path: Path) -> None:
    """Complex numbers, integers beyond 64 bits in blocks and in the text, metadata of subclasses."""
    path = tmp_path / "data.asdf"
    tree = {"z": 1 - 2j, "big": asdf.IntegerType(-(3**200)), "data": np.arange(4), "value": 1}
    asdf.AsdfFile(tree).write_to(path)
    sub = "sub: !core/subclass_metadata-1.0.0 {name: a.b.C}   # kept\n"
    more = f"huge: 123456789012345678901234567890\n{sub}value: 1\n"
    with asdffs.open(path, "r+") as document:
        words = document.arrays["big/words"][...].tobytes()
        document.tree_text = document.tree_text.replace("value: 1\n", more)
    with asdffs.open(path, "r+") as document:
        document.tree_text = document.tree_text.replace("value: 1\n", "value: 2\nlong: " + "x" * 9000 + "\n")
    with asdffs.open(path) as document:
        assert document.arrays["big/words"][...].tobytes() == words
        assert sub in document.tree_text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tag that it does not know
        with asdf.open(path, validate_checksums=True) as found:
            assert found["z"] == 1 - 2j
            assert int(found["big"]) == -(3**200)
            assert found["huge"] == 123456789012345678901234567890
            assert found["sub"]["name"] == "a.b.C"
            assert found["value"] == 2
