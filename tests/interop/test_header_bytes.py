"""Each byte of a block header is judged: a wrong one is told by ``check --deep``, or changes nothing shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from asdf.tags.core.stream import Stream

from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError
from asdffs.workflows.checking import check_document

MAGIC = b"\xd3BLK"
#: Sentences about files that are right.
USUAL = ("there is no block index",)
#: Bytes that may have another value although it changes what is shown: the number of the block and the place in it.
LEGAL = {
    ("streamed", 1, 5): "header_size: any size from 48 on is legal, and a streamed block has no end that would tell",
}


def write(path: Path, kind: str) -> bytes:
    file = asdf.AsdfFile({"a": np.arange(40, dtype="<i4"), "b": (np.arange(60) % 7).astype("u1")})
    if kind == "streamed":
        with open(path, "wb") as out:
            asdf.AsdfFile({"a": np.arange(40, dtype="<i4"), "s": Stream([5], "u1")}).write_to(out)
            out.write(bytes(number for number in range(8) for _ in range(5)))
    else:
        options = {"zlib": {"all_array_compression": "zlib"}, "slack": {"pad_blocks": True}}
        file.write_to(path, include_block_index=kind != "without index", **options.get(kind, {}))
    return path.read_bytes()


def shown(path: Path) -> object:
    """What the file shows; None if anything is told."""
    try:
        document = open_document(str(path), writable=False)
    except AsdffsError:
        return None
    try:
        if any(not finding.sentence.startswith(USUAL) for finding in check_document(document, deep=True)):
            return None
        arrays = {name: np.asarray(document.arrays[name][...]).tobytes() for name in document.arrays}
        return arrays, [block.size for block in document.blocks]
    except AsdffsError:
        return None
    finally:
        document.close()


def wrong_values(byte: int) -> Iterator[int]:
    yield from sorted({0, 255, (byte + 1) % 256, (byte - 1) % 256, *(byte ^ 1 << bit for bit in range(8))} - {byte})


@pytest.mark.long
@pytest.mark.parametrize("kind", ["with index", "without index", "zlib", "slack", "streamed"])
def test_each_wrong_byte_is_told_or_means_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.asdf"
    whole = write(path, kind)
    right = shown(path)
    assert right is not None
    blocks = [place for place in range(len(whole)) if whole.startswith(MAGIC, place)]
    silent: set[tuple[str, int, int]] = set()
    for number, block in enumerate(blocks):
        for place in range(54):
            for value in wrong_values(whole[block + place]):
                path.write_bytes(whole[: block + place] + bytes([value]) + whole[block + place + 1 :])
                if shown(path) not in (None, right):
                    silent.add((kind, number, place))
    assert silent == {place for place in LEGAL if place[0] == kind}
