"""Files as asdf-zarr writes them: an array cut into chunks by numpy, encoded by numcodecs, a block each."""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any, NamedTuple

import numcodecs
import numpy as np

from support.arrays import tree_file
from support.samples import block_bytes

TAG = "asdf://asdf-format.org/zarr/tags/zarr-1.0.0"


class Zarr(NamedTuple):
    """How an array is stored.  ``missing``: chunks that are not, by their indices."""

    chunks: tuple[int, ...]
    order: str = "C"
    compressor: dict[str, Any] | None = None
    filters: list[dict[str, Any]] | None = None
    fill: Any = None
    missing: tuple[tuple[int, ...], ...] = ()
    tag: str = TAG


def zarr_parts(array: np.ndarray[Any, Any], about: Zarr, first: int = 0) -> tuple[str, list[bytes]]:
    """Return the text of the array in the tree, and the contents of its blocks, of which ``first`` is the number."""
    counts = [-(-length // step) for length, step in zip(array.shape, about.chunks, strict=True)]
    table, blocks = [], list[bytes]()
    for where in itertools.product(*map(range, counts)):
        if where in about.missing:
            table.append(-1)
            continue
        table.append(first + len(blocks))
        blocks.append(_encoded(_chunk(array, where, about), about))
    dtype = array.dtype.descr if array.dtype.names else array.dtype.str
    metadata = {
        "chunks": about.chunks,
        "compressor": about.compressor,
        "dtype": dtype,
        "fill_value": about.fill,
        "filters": about.filters,
        "order": about.order,
        "shape": array.shape,
        "zarr_format": 2,
    }
    number = first + len(blocks)
    text = f"!<{about.tag}> {{.zarray: {json.dumps(metadata)}, chunk_block_map: {number}}}"
    return text, [*blocks, struct.pack(f"<{len(table)}i", *table)]


def zarr_file(array: np.ndarray[Any, Any], about: Zarr, more: str = "") -> bytes:
    """Return a file with the array at ``z``.  ``more``: lines of the tree."""
    text, blocks = zarr_parts(array, about)
    return tree_file(f"z: {text}\n{more}", list(map(block_bytes, blocks)))


def _chunk(array: np.ndarray[Any, Any], where: tuple[int, ...], about: Zarr) -> np.ndarray[Any, Any]:
    """Return one chunk, always of the whole size: what is beyond the array is zero."""
    found = np.zeros(about.chunks, array.dtype)
    place = tuple(slice(index * step, (index + 1) * step) for index, step in zip(where, about.chunks, strict=True))
    part = array[place]
    found[tuple(map(slice, part.shape))] = part
    return found


def _encoded(chunk: np.ndarray[Any, Any], about: Zarr) -> bytes:
    content: Any = np.frombuffer(chunk.tobytes(order=about.order), chunk.dtype)  # type: ignore[arg-type]
    for config in about.filters or []:
        content = numcodecs.get_codec(dict(config)).encode(content)
    if about.compressor is not None:
        content = numcodecs.get_codec(dict(about.compressor)).encode(content)
    return bytes(np.asarray(content).tobytes()) if not isinstance(content, bytes) else content
