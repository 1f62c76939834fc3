"""A look at the whole tree notes its entries, so that the next save reads only what it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from support.changes import NAME
from support.memory import MemoryFolder
from support.processes import until
from support.samples import block_bytes
from support.yaml_trees import HEAD

from asdffs.arrays import validation
from asdffs.document import tree_editor
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_in_folder
from asdffs.errors import InvalidTreeError
from asdffs.scheduling import WorkerThreads
from asdffs.tree.tape import Tape

COUNT = 1000


def text_of(first: str = "k0: 0\n") -> bytes:
    lines = first, *(f"k{n}: [{n}, {{a: 1}}]\n" for n in range(1, COUNT)), "...\n"
    return HEAD.encode() + "".join(lines).encode()


@pytest.fixture
def document() -> Document:
    folder = MemoryFolder({NAME: text_of() + block_bytes(b"block")})
    return open_in_folder(folder, NAME, writable=True, settings=Settings(scheduler=WorkerThreads()))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lines with something in them each reading for a save has had."""
    found: list[int] = []

    def counted(text: bytes) -> Tape:
        found.append(sum(map(bool, text.split(b"\n"))))
        return Tape(text)

    monkeypatch.setattr(validation, "Tape", counted)
    return found


def save(document: Document, old: bytes, new: bytes) -> None:
    document.commit_tree(document.tree.text().replace(old, new, 1))


def test_the_first_save_after_a_look_reads_what_it_changes(document: Document, read: list[int]) -> None:
    with document.scheduler.entered():
        save(document, b"k5: [5", b"k5: [6")
        save(document, b"k6: [6", b"k6: [7")
        document.check_tree()
        save(document, b"k7: [7", b"k7: [8")
        assert document.tree.text().count(b"k7: [8") == 1
    assert read[0] > COUNT
    assert max(read[1:]) < 20


def test_a_save_that_is_refused_after_a_look_names_the_place(document: Document, read: list[int]) -> None:
    with document.scheduler.entered():
        document.check_tree()
        for old, new, sentence in (
            (b"k500: ", b"k3: ", "the key 'k3' is in line 9 already"),
            (b"k500: [", b"k500: [[", "did not find expected"),
            (b"k500: ", b"k500: *x ", "the alias '\\*x' has no anchor|did not find expected"),
        ):
            with pytest.raises(InvalidTreeError, match=sentence) as error:
                save(document, old, new)
            assert error.value.line is not None
            assert error.value.line in (506, 507, 508)
        save(document, b"k500: ", b"other: ")
    assert read[-1] < 20


def test_a_key_that_is_there_twice_is_told_by_the_look() -> None:
    """As ``check`` tells it, and as every save would be refused; the first save reads the whole tree, and says so."""
    folder = MemoryFolder({NAME: text_of("k5: 0\n") + block_bytes(b"block")})
    document = open_in_folder(folder, NAME, writable=True)
    document.check_tree()
    (warning,) = document.report.warnings
    assert "the tree is not valid: " in warning
    assert "the key 'k5' is in line 6 already" in warning
    with pytest.raises(InvalidTreeError, match="the key 'k5' is in line 6 already"):
        save(document, b"k500: ", b"other: ")
    save(document, b"k5: 0\n", b"other: 0\n")
    assert not document.report.warnings


def test_a_save_waits_for_a_look(document: Document, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would take the memory of two readings, and the save would read all."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(text: bytes, wanted: Callable[[], bool]) -> Tape:
        begun.set()
        assert go_on.wait(60)
        return Tape(text, wanted)

    monkeypatch.setattr(tree_editor, "Tape", slow)
    done: list[bytes] = []

    def looking() -> None:
        with document.scheduler.entered():
            document.check_tree()

    def saving() -> None:
        with document.scheduler.entered():
            save(document, b"k7: [7", b"k7: [8")
            done.append(document.tree.text())

    threads = [threading.Thread(target=looking), threading.Thread(target=saving)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    until(lambda: bool(document._looking._queue))
    assert (done, read) == ([], [])
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert b"k7: [8" in done[0]
    assert len(read) == 1
    assert read[0] < 20
