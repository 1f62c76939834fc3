"""Trees that mean nothing good: whatever they say, a listing works, and opening what cannot be says why."""

# ruff: noqa: E501

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.samples import block_bytes, header_bytes

from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError
from asdffs.storage.backend import read_bytes
from asdffs.views.arrays import Arrays
from asdffs.views.base import Options, ViewDirectory, ViewFile
from asdffs.views.exploded import ExplodedView

ND = "!core/ndarray-1.0.0"
P = "source: 0, datatype: uint8, byteorder: little, shape: [5]"
BOMB = "".join(f"b{n}: &b{n} {{p: *b{n - 1}, q: *b{n - 1}}}\n" for n in range(1, 40))
TREES = {
    "a bomb of aliases in a table": f"b0: &b0 {{x: &n {ND} {{{P}}}}}\n{BOMB}t: !core/table-1.0.0 {{columns: [*n], extra: *b39}}\n",
    "a bomb of aliases in the metadata": f"b0: &b0 {{p: {{}}}}\n{BOMB}meta: *b39\na: {ND} {{{P}}}\n",
    "a bomb of plain aliases": f"a: &a0 [1, 2]\n{''.join(f'c{n}: &a{n} [*a{n - 1}, *a{n - 1}]{chr(10)}' for n in range(1, 40))}x: {ND} {{{P}, strides: *a39}}\n",
    "masks that are no YAML": "".join(f"m{n}: {ND} {{{P}, mask: {mask}}}\n" for n, mask in enumerate(("'['", "2001-99-99", "'!!foo x'", "!!binary x"))),
    "data that holds itself": f"n: {ND} {{data: &x [1, *x]}}\n",
    "a mask of texts": f"a: {ND} {{{P}, mask: {ND} {{data: [a, b], datatype: [ascii, 1]}}}}\n",
    "units that are a mapping": f"f: !fits/fits-1.0.0 {{a: {ND} {{{P}}}}}\n",
    "units of no numbers": f"f: !fits/fits-1.0.0\n- data: {ND} {{source: 0, datatype: complex64, byteorder: big, shape: [2]}}\n- data: {ND} {{source: 0, datatype: [ascii, 3], shape: [2]}}\n",
    "units of units": f"f: !fits/fits-1.0.0 [[{ND} {{{P}}}], 5]\n",
    "empty texts": f"r: {ND} {{source: 0, datatype: [{{name: a, datatype: [ascii, 0]}}, {{name: b, datatype: int8}}], shape: [5]}}\ns: {ND} {{source: 0, datatype: [ascii, 0], shape: [5], strides: [3]}}\n",
    "huge fields": f"r: {ND} {{source: 0, datatype: [{{datatype: uint8, shape: [3000000000]}}], shape: [0]}}\ns: {ND} {{source: 0, datatype: [{{datatype: [ascii, 500000000], shape: [30]}}], shape: [0]}}\n",
    "odd fields": f"r: {ND} {{source: 0, datatype: [{{datatype: uint8, shape: [3000000000, 0]}}], shape: [0]}}\ns: {ND} {{source: 0, datatype: [{{datatype: uint8, shape: {[1] * 70}}}], shape: [0]}}\n",
    "huge inline records": f"a: {ND} {{data: [[[1]]], datatype: [{{name: a, datatype: uint8, shape: [2000000000]}}]}}\n",
    "huge inline texts": f"a: {ND} {{data: [a, b, c], datatype: [ascii, 500000000], shape: [3]}}\n",
    "huge rows": f"t: !core/table-1.0.0 {{columns: [!core/column-1.0.0 {{name: a, data: {ND} {{source: 0, datatype: uint8, byteorder: big, shape: [2, 900000000], strides: [0, 0]}}}}]}}\n",
    "tables of nothing": f"t: !core/table-1.0.0 {{columns: 5, x: {ND} {{{P}}}}}\nu: !core/table-1.0.0 {{columns: [{{a: {ND} {{{P}}}}}]}}\n",
    "references in a ring": f"a: {{$ref: '#/b'}}\nb: {{$ref: '#/a'}}\nc: {ND} {{{P}}}\n",
    "arrays that are scalars": f"a: {ND} foo\nb: {ND} ''\n",
    "deep data": f"a: {ND} {'[' * 150}1{']' * 150}\n",
    "rows of a stream without bytes": f"a: {ND} {{source: -1, datatype: uint8, byteorder: big, shape: ['*', 0]}}\n",
    "names that are none": f"'': {ND} {{{P}}}\n'.': {ND} {{{P}}}\n'..': {ND} {{{P}}}\n'a/b': {ND} {{{P}}}\n'{'x' * 300}': {ND} {{{P}}}\n'{'x' * 301}': {ND} {{{P}}}\nx.npy: {{y: {ND} {{{P}}}}}\nx: {ND} {{{P}}}\n",
}  # fmt: skip


def files(directory: ViewDirectory, depth: int = 0) -> Iterator[ViewFile]:
    names = list(directory.names())
    assert len(set(names)) == len(names)
    for name in names:
        assert 0 < len(name.encode()) <= 255
        assert "/" not in name
        assert name not in (".", "..")
        child = directory.child(name)
        if isinstance(child, ViewFile):
            yield child
        elif depth < 4:
            yield from files(child, depth + 1)


@pytest.mark.parametrize("name", TREES)
def test_listings_work_and_reads_say_what_is_wrong(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    stream = header_bytes(b"", flags=1, md5=False) + bytes(10)
    path.write_bytes(tree_file(TREES[name], [block_bytes(bytes(range(200))), stream], index="absent"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    document = open_document(str(path), writable=False)
    for view in (Arrays(document), ExplodedView(document)):
        for file in files(view):
            size = file.size()
            file.version()
            assert isinstance(file.writable, bool)
            try:
                file.open_for_reading()
                assert len(read_bytes(file.read(0, 3000))) == min(size, 3000)
            except AsdffsError as err:
                assert str(err)
                assert size == 0 or "text that FITS" in str(err) or "cannot" in str(err)
    document.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20, "KiB"


def test_a_block_that_cannot_be_decoded_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    block = header_bytes(bytes(50), compression=b"zzzz", data_size=100) + bytes(50)
    path.write_bytes(tree_file(f"a: {ND} {{{P}}}\n", [block]))
    document = open_document(str(path), writable=True)
    array = Arrays(document).child("a.npy")
    assert isinstance(array, ViewFile)
    assert (array.size(), array.writable) == (0, False)
    with pytest.raises(AsdffsError, match="compression 'zzzz' is not known"):
        array.open_for_reading()
    document.close()


@pytest.mark.feature("fits")
def test_without_astropy_the_log_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(tree_file(f"a: {ND} {{{P}}}\n", [block_bytes(bytes(10))]))
    monkeypatch.setattr("asdffs.features.fits.formats.fits.find_spec", lambda _: None)
    document = open_document(str(path), writable=False)
    with caplog.at_level("INFO"):
        assert list(Arrays(document).names()) == ["a.npy"]
        assert "pip install 'asdffs[fits]'" in caplog.text
        caplog.clear()
        assert list(Arrays(document, Options(hidden=frozenset({"fits"}))).names()) == ["a.npy"]
        assert not caplog.text
    document.close()
