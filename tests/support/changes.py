"""Every change of a file that asdffs can make, for the crash tests: on which bytes, and how."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_in_folder
from asdffs.format.layout import Padding
from asdffs.scheduling import WorkerThreads
from asdffs.workflows.assembling import RoomPolicy
from asdffs.workflows.repacking import Repacking, RepackOptions
from support.drafts import block_36, draft
from support.memory import MemoryFolder
from support.samples import DATA, MASK, ODD_FILES, block_bytes, header_bytes, lz4_block, odd_file, zlib_block

NAME = "f.asdf"
SLACK = b"\xaa" * 600
START = odd_file(padding=b" " * 900, blocks=[block_bytes(DATA * 20, slack=SLACK), block_bytes(MASK * 30)])
PACKED = odd_file(blocks=[block_bytes(DATA * 20), block_bytes(MASK * 30)])
STREAM = odd_file(blocks=[block_bytes(DATA * 5), header_bytes(b"", flags=1, md5=False) + MASK], index="absent")


class Promising:
    """A document that tells the crash simulator what its callers may rely on, once a call has returned.

    And what it held: ``version`` before each call that returned, so that a crash may show any of them.
    """

    def __init__(self, folder: MemoryFolder, document: Document) -> None:
        self._folder = folder
        self._document = document
        self._versions = 0
        self._appended: list[int] = []

    def commit_tree(self, draft: bytes) -> None:
        for number in self._appended:  # a crash that shows this tree shows what it may refer to
            self._promise((number, draft), self._block(number))
        self._document.commit_tree(draft)
        self._promise("tree", self._document.tree.text())
        for number in self._appended:  # the tree may refer to them now
            self._promise(number, self._block(number))

    def write_block(self, number: int, offset: int, payload: bytes) -> None:
        self._document.blocks[number].write_at(offset, payload)
        self._note_version()

    def truncate_block(self, number: int, size: int) -> None:
        self._document.blocks[number].truncate(size)
        self._note_version()

    def set_compression(self, number: int, name: str) -> None:
        self._document.blocks[number].set_compression(name)
        self._promise(number, self._block(number))

    def replace_block(self, number: int, content: bytes) -> None:
        self._document.blocks[number].replace(content)
        self._promise(number, content)

    def add_block(self, content: bytes) -> None:
        blocks = [self._block(number) for number in range(len(self._document.blocks))]
        self._folder.step("version", "", (self._document.tree.text(), [*blocks, b""], 0))  # it is empty first
        self._versions += 1
        self._promise(self._document.blocks.add(content).number, content)

    def repack(self, compression: str, *, drop: bool) -> None:
        room = RoomPolicy(Padding(minimum=512, alignment=512))
        self._document.rewrite(
            Repacking(self._document, WorkerThreads(), RepackOptions(compression, room, drop=drop)).write
        )
        self._promise("tree", self._document.tree.text())
        for number in range(len(self._document.blocks)):
            self._promise(number, self._block(number))

    def add_sized(self, contents: list[bytes]) -> None:
        """Several by one change, then their bytes."""
        blocks = self._document.blocks.append_sized([(len(content), len(content) + 50) for content in contents])
        self._appended += [block.number for block in blocks]
        self._note_version()
        for block, content in zip(blocks, contents, strict=True):
            self.write_block(block.number, 0, content)

    def clear_blocks(self, *numbers: int) -> None:
        self._document.blocks.clear(numbers)
        self._note_version()

    def append_block(self) -> int:
        number = self._document.blocks.append().number
        self._appended.append(number)
        self._note_version()
        return number

    def remove_block(self, number: int) -> None:
        self._document.blocks[number].remove(force=True)
        self._note_version()

    def flush_block(self, number: int, *, durable: bool) -> None:
        self._document.blocks[number].flush(durable=durable)
        if durable:
            self._promise(number, self._block(number))

    def _promise(self, key: object, content: bytes) -> None:
        self._note_version()
        self._folder.step("promise", "", key, content, self._versions)

    def _note_version(self) -> None:
        blocks = [self._block(number) for number in range(len(self._document.blocks))]
        self._folder.step("version", "", (self._document.tree.text(), blocks, 0))
        self._versions += 1

    def _block(self, number: int) -> bytes:
        return self._document.blocks[number].read_at(0, self._document.blocks[number].size)

    def __getattr__(self, name: str) -> object:
        return getattr(self._document, name)


@dataclass(frozen=True)
class Change:
    """``work`` on a file of the bytes ``start``; ``growth``: the strategy if it must move blocks."""

    start: bytes
    work: Callable[[Promising], None]
    growth: str = "auto"

    @property
    def settings(self) -> Settings:
        """Little room is reserved, so that files stay small."""
        return Settings(growth=self.growth, padding=Padding(minimum=512, alignment=512, reserve=2048))

    def run(self, folder: MemoryFolder) -> None:
        """Open, change, finish, close."""
        document = open_in_folder(folder, NAME, writable=True, settings=self.settings)
        self.work(Promising(folder, document))
        document.finish()
        document.close()


def replace_tree(old: bytes, new: bytes) -> Callable[[Promising], None]:
    return lambda d: d.commit_tree(d.tree.text().replace(old, new))


def overwrite(d: Promising) -> None:
    d.write_block(0, 300, b"\xee" * 1200)
    d.flush_block(0, durable=True)


def shrink(d: Promising) -> None:
    d.truncate_block(0, 700)
    d.flush_block(0, durable=False)


def grow_inside(d: Promising) -> None:
    d.write_block(0, 1900, b"\xdd" * 500)
    d.flush_block(0, durable=False)


def grow_last(d: Promising) -> None:
    d.write_block(1, 1000, b"\xcc" * 3000)
    d.write_block(1, 4500, b"\xcc" * 100)
    d.flush_block(1, durable=True)
    d.write_block(1, 4700, b"\xcc" * 100)


def grow_middle(d: Promising) -> None:
    d.write_block(0, 1500, b"\xcc" * 1500)
    d.flush_block(0, durable=True)


def append_to_stream(d: Promising) -> None:
    d.write_block(1, 40, b"\xcc" * 900)
    d.flush_block(1, durable=True)
    d.write_block(1, 940, b"\xcd" * 30)


def everything(d: Promising) -> None:
    overwrite(d)
    d.commit_tree(d.tree.text().replace(b"value: 1", b"value: " + b"7" * 3000))
    grow_last(d)


def content_after_growth(d: Promising) -> None:
    """The block has no checksum, so its content is written without a record: an old one must not be there."""
    GROWING_TREE(d)
    write_content(d)


def write_content(d: Promising) -> None:
    d.write_block(0, 10, b"\x99" * 300)
    d.flush_block(0, durable=True)


def growth_after_content(d: Promising) -> None:
    """Content that is not durable yet, in room that has no address on the disk yet."""
    d.write_block(1, 1000, b"\xcc" * 3000)
    GROWING_TREE(d)


def tree_after_content(d: Promising) -> None:
    """What is not durable of the blocks must not keep recovery from making the tree whole."""
    d.write_block(0, 0, b"\x99" * 1900)
    d.write_block(1, 0, b"\x98" * 1100)
    d.commit_tree(d.tree.text().replace(b"value: 1", b"value: " + b"1" * 700))


def tree_after_append(d: Promising) -> None:
    d.write_block(1, 40, b"\xcc" * 900)
    d.commit_tree(d.tree.text().replace(b"value: 1", b"value: 2"))
    d.truncate_block(1, 500)
    d.commit_tree(d.tree.text().replace(b"value: 2", b"value: 3"))


NOISE = random.Random(4).randbytes(3000)


def compress(d: Promising) -> None:
    """In place: it becomes smaller."""
    d.set_compression(0, "zlib")


def decompress(d: Promising) -> None:
    """It outgrows its room, and others follow."""
    d.set_compression(0, "none")


def decompress_last(d: Promising) -> None:
    d.set_compression(1, "none")


def write_compressed(d: Promising) -> None:
    """Twice: once it fits into its room, once it does not."""
    d.write_block(0, 100, b"\xee" * 500)
    d.flush_block(0, durable=False)
    d.write_block(0, 0, NOISE)
    d.flush_block(0, durable=True)


def write_pieces(d: Promising) -> None:
    """Some pieces of a block: first they fit, then one gets longer."""
    d.write_block(0, 700, bytes(40))
    d.write_block(0, 1900, b"\xee" * 100)
    d.flush_block(0, durable=True)
    d.write_block(0, 700, NOISE[:200])
    d.flush_block(0, durable=True)


def write_many_pieces(d: Promising) -> None:
    """Two of them get longer."""
    d.write_block(0, 10, NOISE[:200])
    d.write_block(0, 1900, NOISE[200:400])
    d.flush_block(0, durable=True)


def compress_written(d: Promising) -> None:
    """What was written in place and not synced is what is compressed."""
    d.write_block(0, 0, b"\x99" * 1900)
    d.write_block(1, 900, b"\x98" * 1500)
    d.set_compression(0, "bzp2")
    d.set_compression(1, "zlib")


def reserve(d: Promising) -> None:
    """Of the last one, and of one that others follow; and back."""
    d.blocks[1].reserve(4000)
    d.blocks[0].reserve(3500)
    d.write_block(0, 1900, b"\xcd" * 900)
    d.flush_block(0, durable=True)
    d.blocks[1].reserve(1300)


def append(d: Promising) -> None:
    number = d.append_block()
    d.write_block(number, 0, NOISE[:1300])
    d.commit_tree(d.tree.text().replace(b"source: 1", b"source: 2"))
    d.write_block(d.append_block(), 0, NOISE[:700])


def add_several(d: Promising) -> None:
    d.add_sized([NOISE[:700], NOISE[300:1300], b"x"])
    d.commit_tree(d.tree.text().replace(b"source: 1", b"source: 3"))
    d.clear_blocks(1, 2)
    d.write_block(2, 0, NOISE[:400])


def append_and_remove(d: Promising) -> None:
    d.write_block(d.append_block(), 0, NOISE[:1300])
    d.remove_block(2)
    d.write_block(d.append_block(), 0, NOISE[300:900])


def append_first(d: Promising) -> None:
    d.write_block(d.append_block(), 0, NOISE[:1300])
    d.commit_tree(d.tree.text().replace(b"value: 1", b"value: 2"))


def replace(d: Promising) -> None:
    """By less, by more than its room, and of what was written and not stored."""
    d.replace_block(0, NOISE[:900])
    d.write_block(1, 5, b"\x97" * 50)
    d.replace_block(1, NOISE)
    d.replace_block(0, b"")


def replace_compressed(d: Promising) -> None:
    d.write_block(0, 5, b"\x97" * 50)
    d.replace_block(0, NOISE[:900])


def repack(d: Promising) -> None:
    """Twice, with a change between."""
    d.write_block(0, 5, b"\x97" * 50)
    d.flush_block(0, durable=True)
    d.finish()
    d.repack("zlib", drop=False)
    d.commit_tree(d.tree.text().replace(b"value: 1", b"value: 2"))
    d.repack("none", drop=True)


def write_tiles(d: Promising) -> None:
    """What a draft has: a chain is encoded again, others become one, and a block is added."""
    d.write_block(0, 5, b"\x97" * 50)
    d.flush_block(0, durable=True)
    d.set_compression(1, "zlib")
    d.write_block(d.append_block(), 0, NOISE[:900])
    d.set_compression(0, "none")


def write_where_much_is_claimed(d: Promising) -> None:
    """The last block has less room than its header says."""
    d.write_block(1, 0, b"\xab" * 100)
    d.flush_block(1, durable=True)
    d.write_block(d.append_block(), 0, NOISE[:900])


TILES = b"---\n- [tile, {shape: [7, 9], original_shape: [40, 50], item_size: 1}]\n- zlib\n...\n"
TILED = TILES + zlib.compress(bytes(n * 31 % 251 for n in range(42 * 54)))
DRAFT = draft(b"value: 1\n", block_36(TILED, 2000, slack=200), block_36(MASK * 30), padding=b" " * 100)
CLAIMING = odd_file(blocks=[block_bytes(DATA * 20), block_bytes(MASK * 30, slack=SLACK)], index="absent")[:-400]
ZLIB = odd_file(blocks=[zlib_block(DATA * 20, slack=SLACK), zlib_block(MASK * 30)])
PIECES = odd_file(blocks=[lz4_block(DATA * 24, 600, slack=SLACK), block_bytes(MASK * 3)])
UNCHECKED = odd_file(blocks=[block_bytes(DATA * 20, md5=False), block_bytes(MASK * 30, md5=False)])
GROWING_TREE = replace_tree(b"value: 1", b"value: " + b"1" * 700)
STRATEGIES = ("clone", "insert", "copy")
CHANGES: dict[str, Change] = {
    "tree, same length": Change(START, replace_tree(b"value: 1", b"value: 2")),
    "tree, shorter": Change(START, replace_tree(b"# a comment to keep\n", b"")),
    "tree, longer, fits": Change(START, replace_tree(b"value: 1", b"value: " + b"1" * 700)),
    "tree without blocks, grows": Change(ODD_FILES["no blocks"], replace_tree(b"value: 1", b"value: " + b"1" * 2000)),
    "tree without blocks, shrinks": Change(ODD_FILES["no blocks"], replace_tree(b"# a comment to keep\n", b"")),
    "block, overwrite": Change(START, overwrite),
    "block, shrink": Change(START, shrink),
    "block, grow inside": Change(START, grow_inside),
    "block, grow last": Change(START, grow_last),
    "stream, append": Change(STREAM, append_to_stream),
    **{f"tree, grows by {growth}": Change(PACKED, GROWING_TREE, growth) for growth in STRATEGIES},
    "tree after content": Change(START, tree_after_content),
    "tree after an appended stream": Change(STREAM, tree_after_append),
    **{f"tree before a stream, grows by {g}": Change(STREAM, GROWING_TREE, g) for g in ("insert", "copy")},
    **{f"block, grow middle by {growth}": Change(PACKED, grow_middle, growth) for growth in STRATEGIES},
    **{f"content after growth by {g}": Change(UNCHECKED, content_after_growth, g) for g in ("insert", "copy")},
    "growth by insert after content": Change(PACKED, growth_after_content, "insert"),
    "block, compress in place": Change(START, compress),
    **{f"block, decompress by {growth}": Change(ZLIB, decompress, growth) for growth in ("insert", "clone")},
    "block, decompress the last": Change(ZLIB, decompress_last),
    "block, write compressed": Change(ZLIB, write_compressed, "copy"),
    **{f"block, write pieces by {growth}": Change(PIECES, write_pieces, growth) for growth in STRATEGIES},
    "block, write many pieces": Change(PIECES, write_many_pieces),
    "block, compress what was written": Change(START, compress_written),
    "draft, write tiles": Change(DRAFT, write_tiles),
    **{f"draft, tree grows by {growth}": Change(DRAFT, GROWING_TREE, growth) for growth in ("insert", "copy")},
    "block, much is claimed": Change(CLAIMING, write_where_much_is_claimed),
    "block, reserve": Change(PACKED, reserve, "insert"),
    "block, append": Change(PACKED, append),
    "blocks, several": Change(START, add_several),
    "block, append and remove": Change(START, append_and_remove),
    "block, append the first": Change(ODD_FILES["no blocks"], append_first),
    "block, replace": Change(START, replace),
    "block, replace compressed": Change(ZLIB, replace_compressed, "insert"),
    "block, add": Change(START, lambda d: d.add_block(NOISE[:1300])),
    "block, add the first": Change(ODD_FILES["no blocks"], lambda d: d.add_block(NOISE[:1300])),
    "repack": Change(START, repack),
    "repack compressed": Change(ZLIB, lambda d: d.repack("none", drop=False)),
    **{f"everything by {growth}": Change(PACKED, everything, growth) for growth in ("insert", "copy")},
}


def random_changes(seed: int) -> Change:
    """Some edits of tree and blocks, drawn from ``seed``."""
    rng = random.Random(seed)

    def work(d: Promising) -> None:
        for number in range(rng.randint(3, 6)):
            block, fill = rng.randrange(2), bytes([rng.randrange(1, 256)])
            kind = rng.choice(("tree", "tree", "write", "write", "grow", "cut", "flush"))
            if kind == "tree":
                start, stop = (d.tree.text().index(mark) for mark in (b"value: ", b"data: "))
                line = b"value: %d%s\n" % (number, b"7" * rng.choice((1, 300, 900, 2500)))
                d.commit_tree(d.tree.text()[:start] + line + d.tree.text()[stop:])
            elif kind == "write":
                d.write_block(block, rng.randrange(900), fill * rng.randrange(1, 700))
            elif kind == "grow":
                d.write_block(block, d.blocks[block].size, fill * rng.randrange(1, 2500))
            elif kind == "cut":
                d.truncate_block(block, rng.randrange(600, 1500))
            else:
                d.flush_block(block, durable=True)
        d.commit_tree(d.tree.text().replace(b"observer", b"Observer"))

    return Change(rng.choice((START, PACKED, UNCHECKED, STREAM)), work, rng.choice(STRATEGIES))
