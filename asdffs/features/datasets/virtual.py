"""The parser of ASDF files for VirtualiZarr, which writes their references into Icechunk, Parquet or JSON.

>>> from virtualizarr import open_virtual_dataset             # doctest: +SKIP
>>> night = open_virtual_dataset(url, registry, parser=asdffs.AsdfParser())  # doctest: +SKIP

docs/virtualizarr.md shows a night of files as one versioned store.
"""

from __future__ import annotations

import json
import logging
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from zarr.core.metadata.v3 import ArrayV3Metadata

from asdffs.document.document import Document
from asdffs.document.opening import open_to_read, open_with_store
from asdffs.errors import InvalidArrayError
from asdffs.features.datasets.references import LOCAL, References, arrays_of, make_references
from asdffs.features.datasets.zarr_metadata import Zarr3
from asdffs.storage.urls import local_path

if TYPE_CHECKING:
    from obspec_utils.registry import ObjectStoreRegistry

logger = logging.getLogger(__name__)


class AsdfParser:
    """Describes the arrays of an ASDF file as virtual Zarr arrays: no element is read.

    ``group``: only the arrays below this path, such as ``roman``; ``/`` is the root.  None: as for
    ``asdffs refs``.
    """

    def __init__(self, group: str | None = None) -> None:
        self.group = group

    def __call__(self, url: str, registry: ObjectStoreRegistry) -> ManifestStore:
        """Return the arrays of the file at ``url``, which is read through its store in ``registry``.

        A ``file://`` URL is read from the disk.  What has no references is told as a warning.  Raises
        ``AsdffsError`` for a file without arrays that can be referred to or one that cannot be read, ``ValueError``
        for a URL that the registry does not have.
        """
        with closing(_opened(url, registry)) as document:
            made = make_references([arrays_of(document, self.group)], Zarr3())
        for path, reason in made.left_out.items():
            logger.warning("%s: %s is left out: %s", url, path, reason)
        if not made.arrays:
            raise InvalidArrayError("has no array that references can describe", path=url)
        attributes = json.loads(made.refs["refs"]["zarr.json"])["attributes"]
        arrays = {name: _array(made, name) for name in made.arrays}
        return ManifestStore(ManifestGroup(arrays=arrays, attributes=attributes), registry=registry)


def _opened(url: str, registry: ObjectStoreRegistry) -> Document:
    if url.startswith(LOCAL):
        return open_to_read(local_path(url))
    store, path = registry.resolve(url)
    return open_with_store(store, str(path), url)


def _array(made: References, name: str) -> ManifestArray:
    """Return an array of ``made`` with the places of its chunks."""
    refs: dict[str, Any] = made.refs["refs"]
    facts = json.loads(refs[f"{name}/zarr.json"])
    metadata = ArrayV3Metadata.from_dict(facts)
    chunk = facts["chunk_grid"]["configuration"]["chunk_shape"]
    counts = tuple(-(-length // part) for length, part in zip(facts["shape"], chunk, strict=True))
    paths = np.full(counts, "", np.dtypes.StringDType())
    offsets, lengths = np.zeros(counts, np.uint64), np.zeros(counts, np.uint64)
    for index in np.ndindex(counts):
        paths[index], offsets[index], lengths[index] = refs[f"{name}/{Zarr3().key(index)}"]
    manifest = ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=lengths)
    return ManifestArray(metadata, manifest)
