"""2,000 random operations on a file with every kind of block, against plain bytes; asdf opens it every 50 steps."""

from __future__ import annotations

import os
import random
from pathlib import Path

import asdf
import pytest
from support import codecs
from support.samples import block_bytes, header_bytes, odd_file, zlib_block

from asdffs.codecs.base import name_of
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import InUseError, NameRefusedError, NotPermittedError

STEPS = 2000
NAMES = ["none", *sorted(codecs.CODECS)]
ENTRY = "b%d: !core/ndarray-1.0.0 {source: %d, datatype: uint8, byteorder: little, shape: [%d]}\n"
HEAD = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n# a comment to keep\n"


def tree(blocks: list[bytearray], referred: int, *, streamed: bool, pad: int) -> str:
    """A tree that refers to the first ``referred`` blocks."""
    lines = [ENTRY % (number, number, len(blocks[number])) for number in range(referred)]
    if streamed:
        lines[-1] = lines[-1].replace(f"shape: [{len(blocks[-1])}]", "shape: ['*']")
    return HEAD + "".join(lines) + (f"pad: {'p' * pad}\n" if pad else "") + "...\n"


class Machine:
    """The model: contents of blocks, compressions, and how many of them the tree refers to."""

    def __init__(self, path: Path, *, streamed: bool, seed: int) -> None:
        self.rng = random.Random(seed)
        self.path, self.streamed, self.pad = path, streamed, 0
        self.blocks = [bytearray(self.rng.randbytes(900) + bytes(700)) for _ in range(6)]
        raw = [
            block_bytes(bytes(self.blocks[0]), slack=b"\xaa" * 300),
            zlib_block(bytes(self.blocks[1])),
            block_bytes(bytes(self.blocks[2]), md5=False),
            zlib_block(bytes(self.blocks[3]), slack=b"\xaa" * 99, md5=False),
            block_bytes(bytes(self.blocks[4]), size=64),
        ]
        last = bytes(self.blocks[5])
        raw.append(header_bytes(b"", flags=1, md5=False) + last if streamed else block_bytes(last))
        self.names = ["none", "zlib", "none", "zlib", "none", "none"]
        self.referred = 6
        text = tree(self.blocks, self.referred, streamed=streamed, pad=0)
        path.write_bytes(odd_file(tree=text, blocks=raw, index="absent" if streamed else "right"))
        self.document = self.opened()

    def opened(self) -> Document:
        growth = self.rng.choice(["auto", "insert", "copy"])
        settings = Settings(spool=str(self.path.parent), growth=growth, spool_max=16 << 20)
        return open_document(str(self.path), writable=True, settings=settings)

    def step(self) -> None:
        operations = [self.write, self.write, self.truncate, self.recompress, self.flush, self.reserve]
        operations += [self.append, self.remove, self.edit, self.read, self.reopen, self.finish]
        self.rng.choice(operations)()

    def any_block(self) -> int:
        return self.rng.randrange(len(self.blocks))

    def write(self) -> None:
        number = self.any_block()
        block, offset = self.blocks[number], self.rng.randrange(2500)
        fill = self.rng.choice([self.rng.randbytes, bytes])
        payload = fill(self.rng.choice([1, 300, 3000]))
        self.document.blocks[number].write_at(offset, payload)
        block.extend(bytes(max(0, offset + len(payload) - len(block))))
        block[offset : offset + len(payload)] = payload

    def truncate(self) -> None:
        number, size = self.any_block(), self.rng.choice([0, 10, 1000, 4000])
        self.document.blocks[number].truncate(size)
        block = self.blocks[number]
        del block[size:]
        block.extend(bytes(size - len(block)))

    def recompress(self) -> None:
        number, name = self.any_block(), self.rng.choice(NAMES)
        if self.streamed and number == len(self.blocks) - 1:
            with pytest.raises(NotPermittedError):
                self.document.blocks[number].set_compression(name)
            return
        self.document.blocks[number].set_compression(name)
        self.names[number] = name

    def flush(self) -> None:
        self.document.blocks[self.any_block()].flush(durable=self.rng.random() < 0.5)

    def reserve(self) -> None:
        number, size = self.any_block(), self.rng.choice([10, 3000, 6000])
        try:
            self.document.blocks[number].reserve(size)
        except (NameRefusedError, NotPermittedError):
            return
        assert self.document.blocks[number].header.allocated_size >= size

    def append(self) -> None:
        if self.streamed:
            with pytest.raises(NotPermittedError):
                self.document.blocks.append()
            return
        assert self.document.blocks.append().number == len(self.blocks)
        self.blocks.append(bytearray())
        self.names.append("none")

    def remove(self) -> None:
        if self.referred < len(self.blocks):
            self.document.blocks[len(self.blocks) - 1].remove()
            self.blocks.pop()
            self.names.pop()
            return
        with pytest.raises(InUseError):
            self.document.blocks[len(self.blocks) - 1].remove()

    def edit(self) -> None:
        self.pad = self.rng.choice([0, 200, 3000])
        self.referred = len(self.blocks) if self.streamed else self.rng.randint(1, len(self.blocks))
        self.commit()

    def commit(self) -> None:
        text = tree(self.blocks, self.referred, streamed=self.streamed, pad=self.pad)
        self.document.commit_tree(b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n" + text.encode())

    def read(self) -> None:
        for number, block in enumerate(self.blocks):
            assert self.document.blocks[number].size == len(block)
            assert self.document.blocks[number].read_at(0, len(block) + 5) == block

    def finish(self) -> None:
        self.document.finish()
        assert (self.document.layout.index is not None) is not self.streamed

    def reopen(self) -> None:
        self.finish()
        self.document.close()
        assert os.listdir(self.path.parent) == [self.path.name]
        self.document = self.opened()

    def check(self) -> None:
        """The library reads what the model has, checksums verified."""
        self.commit()
        self.finish()
        with asdf.open(self.path, validate_checksums=True, lazy_load=False, memmap=False) as found:
            for number in range(self.referred):
                assert found[f"b{number}"][:].tobytes() == self.blocks[number], (number, self.names[number])
        assert [name_of(self.document.blocks[n].header.compression) for n in range(len(self.blocks))] == self.names
        assert [self.document.blocks[n].find_checksum_fault() for n in range(len(self.blocks))] == [""] * len(
            self.blocks
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("streamed", [False, True])
def test_random_operations(tmp_path: Path, streamed: bool) -> None:
    machine = Machine(tmp_path / "data.asdf", streamed=streamed, seed=20 + streamed)
    for number in range(STEPS):
        machine.step()
        if number % 50 == 49:
            machine.check()
    machine.read()
    machine.document.close()
