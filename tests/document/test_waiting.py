"""While a change waits for the disk others are served: what they read of the blocks is right at every moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.changes import NAME, STRATEGIES
from support.memory import MemoryFolder
from support.samples import DATA, MASK, block_bytes, odd_file

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_in_folder
from asdffs.errors import StaleFileError
from asdffs.format.layout import Padding
from asdffs.scheduling import SingleThread
from asdffs.storage.backend import WriteBackend


class Nosy(SingleThread):
    """A scheduler whose others look at all blocks whenever somebody waits, unless they would have to wait too."""

    stopping, wanted = False, True

    def __init__(self) -> None:
        self.document: Document | None = None
        self.expected: list[bytes] = []
        self.looks = 0
        self._depth = 0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        self._look()
        yield
        self._look()

    @contextlib.contextmanager
    def resumed(self) -> Iterator[None]:
        yield

    def _look(self) -> None:
        document = self.document
        if document is None or self._depth or document._transaction.moving.taken:
            return
        self._depth = 1
        found = [document.blocks[n].read_at(0, document.blocks[n].size) for n in range(len(document.blocks))]
        self._depth = 0
        assert found == self.expected
        self.looks += 1


@pytest.mark.parametrize("growth", STRATEGIES)
def test_blocks_are_right_while_they_move(growth: str) -> None:
    blocks = [DATA * 20, MASK * 30, b"end"]
    folder = MemoryFolder({NAME: odd_file(blocks=[block_bytes(block) for block in blocks])})
    nosy = Nosy()
    settings = Settings(scheduler=nosy, growth=growth, padding=Padding(minimum=512, alignment=512, reserve=2048))
    document = open_in_folder(folder, NAME, writable=True, settings=settings)
    nosy.document, nosy.expected = document, blocks
    for number in range(3):
        document.commit_tree(
            document.tree.text().replace(b"value: 1", b"more%d: " % number + b"x" * 900 + b"\nvalue: 1")
        )
    before = nosy.looks
    document.blocks[0].truncate(2000 + 600)
    nosy.expected = [blocks[0] + bytes(600), *blocks[1:]]
    document.commit_tree(document.tree.text().replace(b"value: 1", b"last: " + b"x" * 3000 + b"\nvalue: 1"))
    document.finish()
    document.close()
    assert nosy.looks > before > 6


class Rude(SingleThread):
    """A scheduler during whose ``at``-th wait another program writes into the file, in place."""

    stopping, wanted = False, True

    def __init__(self, at: int) -> None:
        self.backend: WriteBackend | None = None
        self._left = at

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        if self.backend is not None:
            self._left -= 1
            if self._left == 0:
                self.backend.write_at(100, b"other")
        yield

    @contextlib.contextmanager
    def resumed(self) -> Iterator[None]:
        yield


@pytest.mark.parametrize(
    ("growth", "at"), [(growth, at) for growth in STRATEGIES for at in range(1, 5 if growth == "insert" else 2)]
)
def test_regression_a_growth_went_on_at_recovery_in_a_file_that_another_program_had_changed(
    growth: str, at: int
) -> None:
    """What another program wrote while a growth waited is neither overwritten nor moved by recovery."""
    folder = MemoryFolder({NAME: odd_file(blocks=[block_bytes(block) for block in (DATA * 20, MASK * 30)])})
    rude = Rude(at)
    document = open_in_folder(folder, NAME, writable=True, settings=Settings(scheduler=rude, growth=growth))
    rude.backend = folder.open(NAME, writable=True)
    before = rude.backend.read_at(0, 1 << 20)
    with pytest.raises(StaleFileError):
        document.commit_tree(document.tree.text().replace(b"value: 1", b"more: " + b"x" * 9000 + b"\nvalue: 1"))
    document.close()
    open_in_folder(folder, NAME, writable=True).close()
    assert rude.backend.read_at(0, 1 << 20).rstrip(b"\0") == before[:100] + b"other" + before[105:]
