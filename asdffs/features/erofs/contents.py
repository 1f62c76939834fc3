"""Chooses what an image has of an ASDF file: ``tree.yaml``, ``arrays/`` and ``blocks/``, under the names of a mount.

An array is there if its elements lie together and are not compressed, or if it is small: then it is copied.  The
header of its ``.npy`` file is made so long that the elements begin where they do in a block of the device.  A block
needs data at a multiple of 4096 bytes, because its file has no header.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.document.arrays.array import Array
from asdffs.document.arrays.selection import is_packed
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, NameRefusedError, NotPermittedError, reason_of
from asdffs.features.erofs.image import BLOCK, LARGEST, SMALL, Copied, Device, Directory, Placed, is_name
from asdffs.storage.backend import ReadBackend, read_bytes
from asdffs.views.formats.npy import ENDING, header_of
from asdffs.views.status import CommittedTree

#: How the attributes of an image begin that tell its files.
ATTRIBUTE: Final = "asdffs."
#: Bytes of the longest header that numpy reads without being told to.
_LONGEST: Final = 10_000
_UNALIGNED: Final = "its data begin at byte"


class Exported(NamedTuple):
    """The part of an image that shows the file ``path``.

    ``attribute``: what tells its version; ``left_out``: a name -> the reason.
    """

    path: str
    files: Directory
    device: Device
    attribute: bytes
    left_out: dict[str, str]


def exported(document: Document, number: int) -> Exported:
    """Return what an image has of ``document``, its device ``number``, from 0.

    Read the device before the document is closed.  Raises ``NotPermittedError`` for a file that is not on a local
    disk, or is too large, and as ``Document``.
    """
    if document.is_remote:
        raise NotPermittedError("is not on a disk of this machine", path=document.path)
    whole, now = document.contents.transaction.whole, document.signature
    if now.size >= LARGEST:
        raise NotPermittedError("is larger than 16 TiB, which EROFS cannot address", path=document.path)
    device = Device(os.path.basename(document.path), now.size, now.mtime_ns, now.access, whole.read_at)
    tree = CommittedTree(document)
    root: Directory = {"tree.yaml": Copied(read_bytes(tree.read(0, tree.size())), number)}
    left_out: dict[str, str] = {}
    for name, node in (*_arrays(document, number, left_out), *_blocks(document, number, left_out)):
        try:
            _put(root, name.split("/"), node)
        except NameRefusedError as err:
            left_out[name] = err.sentence
    return Exported(document.path, root, device, _attribute(document, whole), left_out)


def _arrays(document: Document, number: int, left_out: dict[str, str]) -> Iterator[tuple[str, Copied | Placed]]:
    for path, array in document.arrays.items():
        name = f"arrays/{path}{ENDING}"
        try:
            yield name, _array(document, number, array)
        except (AsdffsError, OSError) as err:
            left_out[name] = err.sentence if isinstance(err, AsdffsError) else reason_of(err)


def _array(document: Document, number: int, array: Array) -> Copied | Placed:
    """Return the file of an array.  Raises ``NotPermittedError`` if it can only be copied, and is not small."""
    elements = array.elements()
    header = header_of(elements)
    if elements.size <= SMALL:
        return Copied(header + read_bytes(elements.read(0, elements.size)), number)
    stored = array.stored()
    if stored.path != document.location:
        raise NotPermittedError("its elements are in another file")
    order = -1 if elements.fortran else 1
    item = elements.size // math.prod(elements.shape)
    if stored.made or not is_packed(elements.shape[::order], stored.strides[::order], item):
        raise NotPermittedError("its elements do not lie together")
    return Placed(_longer(header, stored.offset), number, stored.offset, elements.size)


def _longer(header: bytes, offset: int) -> bytes:
    """Return the header of a ``.npy`` file with more spaces, so that it ends where ``offset`` is in a block.

    numpy reads lengths up to 10,000 bytes; its page of the format recommends a multiple of 64.  Raises
    ``NotPermittedError``.
    """
    size = len(header) + (offset - len(header)) % BLOCK
    if size > _LONGEST:
        raise NotPermittedError("its header would be longer than numpy reads")
    width = 2 if header[6] == 1 else 4
    fixed = 8 + width
    text = header[fixed:-1]
    return header[:8] + (size - fixed).to_bytes(width, "little") + text.ljust(size - fixed - 1) + b"\n"


def _blocks(document: Document, number: int, left_out: dict[str, str]) -> Iterator[tuple[str, Copied | Placed]]:
    for block in document.blocks:
        name = f"blocks/{block.number:04d}.bin"
        try:
            size = block.size
            if size <= SMALL:
                yield name, Copied(block.read_at(0, size), number)
                continue
            if block.header.compressed:
                raise NotPermittedError(f"it is compressed ({block.compression})")
            start = 0 if document.embedded is None else document.embedded.start
            offset = start + document.contents.stored_stretch(block.number).offset
            if offset % BLOCK:
                raise NotPermittedError(f"{_UNALIGNED} {offset}, which is no multiple of {BLOCK}")
            yield name, Placed(b"", number, offset, size)
        except (AsdffsError, OSError) as err:
            left_out[name] = err.sentence if isinstance(err, AsdffsError) else reason_of(err)


def _put(root: Directory, names: list[str], node: Copied | Placed) -> None:
    """Put a file into the directories of ``root``.  Raises ``NameRefusedError``."""
    here = root
    for name in names[:-1]:
        there = here.setdefault(name, {})
        if not isinstance(there, dict):
            raise NameRefusedError(f"{name} is a file already")
        here = there
    if not all(map(is_name, names)) or names[-1] in here:
        raise NameRefusedError("its name is taken, or longer than 255 bytes")
    here[names[-1]] = node


def _attribute(document: Document, whole: ReadBackend) -> bytes:
    now = document.signature
    return json.dumps(
        {
            "path": document.path,
            "size": now.size,
            "mtime_ns": now.mtime_ns,
            "head": _end_of_head(document),
            "md5": digest_of(whole.read_at(0, _end_of_head(document))),
        },
        ensure_ascii=False,
    ).encode("utf-8", "surrogateescape")


def _end_of_head(document: Document) -> int:
    start = 0 if document.embedded is None else document.embedded.start
    return start + document.layout.text_end


def digest_of(head: bytes) -> str:
    """Return what tells one head of a file from another: its MD5 as hexadecimal digits."""
    return hashlib.md5(head, usedforsecurity=False).hexdigest()


def versions_in(attributes: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the files of an image, in the order of its devices, by the attributes of its root.

    Raises ``ValueError``, ``KeyError`` or ``TypeError`` for attributes that this module did not make.
    """
    texts = [attributes[f"{ATTRIBUTE}{number}"] for number in range(len(attributes))]
    found: list[dict[str, Any]] = [json.loads(text.decode("utf-8", "surrogateescape")) for text in texts]
    keys = {"path": str, "size": int, "mtime_ns": int, "head": int, "md5": str}
    for one in found:
        if any(not isinstance(one[key], kind) for key, kind in keys.items()):
            raise TypeError("a value of an attribute")
        if min(one["size"], one["mtime_ns"], one["head"]) < 0 or "\0" in one["path"]:
            raise ValueError("a value of an attribute")
        os.fsencode(one["path"])  # raises for what is no path
    return found
