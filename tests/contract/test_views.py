"""What every view keeps: names lead to children, reads agree with sizes, read-only files refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.samples import odd_file

from asdffs.dialects.base import Dialect
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import NoAttributeError, NotPermittedError
from asdffs.format.text import parse_header
from asdffs.registry import each
from asdffs.storage.backend import read_bytes
from asdffs.views.base import View, ViewDirectory, ViewFile

VIEWS = tuple(each("views"))
DIALECTS = tuple(each("dialects"))


@pytest.fixture
def document(tmp_path: Path) -> Iterator[Document]:
    daf = b"daf: {version: [1, 0], axes: {cell: [a, b]}}\n..."
    (tmp_path / "f.asdf").write_bytes(odd_file().replace(b"...", daf, 1))
    opened = open_document(str(tmp_path / "f.asdf"), writable=True)
    yield opened
    opened.close()


def files(directory: ViewDirectory) -> Iterator[ViewFile]:
    for name in directory.names():
        child = directory.child(name)
        if isinstance(child, ViewFile):
            yield child
        else:
            yield from files(child)


@pytest.mark.parametrize("kind", VIEWS)
def test_names_lead_to_children(kind: type[View], document: Document) -> None:
    view = kind(document)
    names = list(view.names())
    assert names
    assert len(set(names)) == len(names)
    assert all("/" not in name and name not in (".", "..") for name in names)
    with pytest.raises(KeyError):
        view.child("there is no such name")


@pytest.mark.parametrize("kind", VIEWS)
def test_reads_agree_with_sizes(kind: type[View], document: Document) -> None:
    for file in files(kind(document)):
        size = file.size()
        whole = read_bytes(file.read(0, size + 100))
        assert len(whole) == size
        assert read_bytes(file.read(size, 10)) == b""
        assert read_bytes(file.read(3, 7)) == whole[3:10]


@pytest.mark.parametrize("kind", VIEWS)
def test_attributes_and_refusals(kind: type[View], document: Document) -> None:
    for file in files(kind(document)):
        for name, value in file.attributes().items():
            assert file.attribute(name) == value
        with pytest.raises(NoAttributeError):
            file.attribute("user.no.such")
        if not file.writable:
            for work in (file.open_for_writing, lambda f=file: f.write(0, b"x"), lambda f=file: f.truncate(0)):
                with pytest.raises(NotPermittedError):
                    work()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects(dialect: Dialect) -> None:
    assert dialect.name
    claimed = [
        line for line in (b"#ASDF 1.0.0\n", b"#ASDF 0.1.0\n", b"%ASDF 0.1.0\n") if dialect.claims(parse_header(line))
    ]
    assert len(claimed) == 1
    assert dialect.accepts_text(parse_header(claimed[0])) is None
    assert dialect.accepts_text(parse_header(b"#ASDF 9.0.0\n"))
    tags = ["tag:stsci.edu:asdf/core/ndarray-1.0.0", "tag:stsci.edu:asdf/0.1.0/core/ndarray"]
    assert [dialect.is_ndarray(tag) for tag in tags] == [not dialect.upgradable, dialect.upgradable]
    assert not any(dialect.is_ndarray(tag.replace("ndarray", "complex")) for tag in tags)
    assert dialect.ndarray({"source": 0, "datatype": "int8", "byteorder": "little"})["datatype"] == "int8"
    assert dialect.rules.new in dialect.rules.forms
    head = dialect.block_head(parse_header(claimed[0]))
    assert dialect.claims(parse_header(head)), "a file of one block is of the same dialect"
