"""Random edits of a document against a model of plain bytes, with finishes and openings in between."""

from __future__ import annotations

import hashlib
import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.memory import MemoryFolder
from support.plans import scan
from support.samples import DATA, MASK, block_bytes, header_bytes, odd_file

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_in_folder
from asdffs.format.block_scan import drive, scan_block_header
from asdffs.storage.open_file import STRATEGIES

NAME = "f.asdf"
TAILS = {"plain": [block_bytes(MASK)], "streamed": [header_bytes(b"", flags=1, md5=False) + MASK]}


class DocumentMachine(RuleBasedStateMachine):
    """Block 0 has slack, block 1 has none, block 2 is the last: growing, or streamed."""

    @initialize(
        kind=st.sampled_from(sorted(TAILS)), padding=st.integers(0, 300), growth=st.sampled_from(sorted(STRATEGIES))
    )
    def start(self, kind: str, padding: int, growth: str) -> None:
        self.growth = growth
        blocks = [block_bytes(DATA, slack=b"\xaa" * 70), block_bytes(MASK), *TAILS[kind]]
        index = "right" if kind == "plain" else "absent"
        whole = odd_file(padding=b" " * padding, blocks=blocks, index=index)
        self.folder = MemoryFolder({NAME: whole})
        self.streamed = kind == "streamed"
        self.text = whole[: scan(whole).text_end]
        self.blocks = [bytearray(DATA), bytearray(MASK), bytearray(MASK)]
        self.document = self.opened()

    def opened(self) -> Document:
        return open_in_folder(self.folder, NAME, writable=True, settings=Settings(growth=self.growth))

    @rule(number=st.integers(0, 2), offset=st.integers(0, 300), payload=st.binary(min_size=1, max_size=90))
    def write(self, number: int, offset: int, payload: bytes) -> None:
        self.document.blocks[number].write_at(offset, payload)
        block = self.blocks[number]
        block.extend(bytes(max(0, offset + len(payload) - len(block))))
        block[offset : offset + len(payload)] = payload

    @rule(number=st.integers(0, 2), size=st.integers(0, 400))
    def truncate(self, number: int, size: int) -> None:
        self.document.blocks[number].truncate(size)
        block = self.blocks[number]
        del block[size:]
        block.extend(bytes(size - len(block)))

    @rule(number=st.integers(0, 2), durable=st.booleans())
    def flush(self, number: int, durable: bool) -> None:
        self.document.blocks[number].flush(durable=durable)

    @rule(length=st.integers(0, 600))
    def edit_tree(self, length: int) -> None:
        line = b"value: 1\n" + (b"pad: " + b"p" * length + b"\n" if length else b"")
        start = self.text.index(b"value: 1\n")
        stop = self.text.index(b"data: ")
        new = self.text[:start] + line + self.text[stop:]
        self.document.commit_tree(new)
        self.text = new

    @rule()
    def finish(self) -> None:
        self.document.finish()
        whole = bytes(self.folder.files[NAME].content)
        layout = scan(whole)
        assert (layout.index is not None) == (not self.streamed)
        for number, offset in enumerate(layout.offsets):
            header = drive(scan_block_header(offset), lambda o, n: whole[o : o + n])
            start = offset + header.full_size
            if header.streamed:
                assert whole[start:] == self.blocks[number]
                continue
            assert whole[start : start + header.used_size] == self.blocks[number]
            assert header.checksum == hashlib.md5(self.blocks[number]).digest()

    @rule()
    def open_again(self) -> None:
        self.document.finish()
        self.document.close()
        assert list(self.folder.files) == [NAME]
        self.document = self.opened()

    @invariant()
    def equals_the_model(self) -> None:
        assert self.document.tree.text() == self.text
        for number, block in enumerate(self.blocks):
            assert self.document.blocks[number].size == len(block)
            assert self.document.blocks[number].read_at(0, len(block) + 5) == block


TestDocumentMachine = DocumentMachine.TestCase
TestDocumentMachine.settings = settings(
    max_examples=150 if os.environ.get("ASDFFS_DEEP") else 60, stateful_step_count=30, deadline=None
)
