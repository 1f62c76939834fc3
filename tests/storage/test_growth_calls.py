"""A save that outgrows its room is carried out in few steps."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
from support.samples import DATA, MASK, block_bytes, odd_file

from asdffs.document import preloading
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.opening import Settings, open_document
from asdffs.errors import NoRoomError

#: Calls of Python that carry out the change, once its text was checked; names of files that are opened.
MOST = {"insert": (290, 0), "copy": (220, 3)}


@pytest.mark.parametrize("growth", MOST)
def test_calls_of_a_growth(tmp_path: Path, growth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preloading.load()
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(blocks=[block_bytes(DATA * 2000), block_bytes(MASK * 100)]))
    counts = Counter[str]()

    def note(frame: FrameType, event: str, function: object) -> None:
        counts["calls"] += event == "call"
        counts[getattr(function, "__name__", "")] += event == "c_call"

    real = Transaction.commit

    def counted(*arguments: object) -> None:
        sys.setprofile(note)
        try:
            real(*arguments)  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)

    document = open_document(str(path), writable=True, settings=Settings(growth=growth))
    document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2"))  # now the journal has its name
    monkeypatch.setattr(Transaction, "commit", counted)
    try:
        document.commit_tree(document.tree.text().replace(b"value: 2", b"value: 3\nlong: " + b"x" * 60_000))
    except NoRoomError as err:
        pytest.skip(f"this file system cannot {growth}: {err}")
    finally:
        document.close()
    calls, opened = MOST[growth]
    assert counts["calls"] <= calls
    assert counts["open"] <= opened
    assert counts["stat"] + counts["fstat"] <= 13
