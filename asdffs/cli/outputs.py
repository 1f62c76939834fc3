"""Writes the new file of a command, completely or not at all."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Final

from asdffs import interrupts
from asdffs.document.document import Document
from asdffs.document.saves.history import DRAFT
from asdffs.errors import AsdffsError, MissingFileError, NameExistsError, NotPermittedError, UsageError
from asdffs.format.layout import Padding, parse_padding, parse_size
from asdffs.storage.backend import Folder, WriteBackend
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.mount_table import filesystem_of
from asdffs.storage.new_file import mode_of_copy, shared_mode, write_new, write_over
from asdffs.storage.urls import is_remote

_LARGEST_ALIGNMENT: Final = 64 << 20
#: Bounds of ``--piece-size``: smaller pieces compress badly, larger ones need much memory.
_LEAST_PIECE, _LARGEST_PIECE = 4096, 64 << 20
#: Compressions that the asdf library does not know by itself.
_OF_A_PACKAGE: Final = ("blsc", "lz4f", "zstd")


def padding_of(text: str | None) -> Padding:
    """Return the policy that ``--padding`` asks for.  Raises ``UsageError``."""
    policy = Padding() if text is None else parse_padding(text, Padding())
    if policy is None:
        raise UsageError(
            f"--padding {text}: give bytes such as 64K, or a part of the tree such as 20% (at most 1000%)"
        )
    return policy


def compression_notes(name: str) -> list[str]:
    """Return what to tell about a new compression: which readers need a package for it."""
    if name not in _OF_A_PACKAGE:
        return []
    return [f"the asdf library reads {name} only with the package asdf-compression; zlib, bzp2 and lz4 need none"]


def alignment_of(text: str | None) -> int:
    """Return the bytes that ``--align`` asks for, 0 for none.  Raises ``UsageError``."""
    size = 0 if text is None else parse_size(text)
    if size is None or size > _LARGEST_ALIGNMENT:
        raise UsageError(f"--align {text}: give bytes such as 4096 or 2M, at most 64M")
    return size


def piece_of(text: str | None) -> int:
    """Return the bytes that ``--piece-size`` asks for, 0 for the default.  Raises ``UsageError``."""
    size = 0 if text is None else parse_size(text)
    if size is None or (text is not None and not _LEAST_PIECE <= size <= _LARGEST_PIECE):
        raise UsageError(f"--piece-size {text}: give bytes such as 65536 or 1M, from 4K to 64M")
    return size


def is_tree_of_mount(path: str) -> bool:
    """Return whether ``path`` is ``tree.yaml`` of a mount, which is a file without its blocks."""
    real = os.path.realpath(path)
    return os.path.basename(real) == DRAFT and filesystem_of(real) == "fuse.asdffs"


def check_whole(path: str) -> None:
    """Refuse the tree of a mount, which is a file without its blocks.  Raises ``NotPermittedError``."""
    if is_tree_of_mount(path):
        sentence = "is only the tree of a mounted file; give the ASDF file, whose name 'asdffs ls' shows"
        raise NotPermittedError(sentence, path=path)


def mode_like(*paths: str, into: str) -> int:
    """Return ``mode_of_copy`` in the directory ``into`` for files that may be URLs.  Raises ``OSError``."""
    return mode_of_copy((path for path in paths if not is_remote(path)), into)


def check_alone(document: Document, command: str) -> None:
    """Refuse an ASDF file inside a file of another format.  Raises ``NotPermittedError``."""
    if document.embedded is not None:
        kind = document.embedded.kind
        sentence = (
            f"the ASDF file is inside a {kind} file, which 'asdffs {command}' does not take; its values can be "
        )
        raise NotPermittedError(sentence + "changed with 'asdffs set' or 'asdffs edit'", path=document.path)


def write_out(
    arguments: argparse.Namespace, fill: Callable[[Folder, WriteBackend], None], others: Iterable[str] = ()
) -> str:
    """Write ``arguments.out``, made of ``arguments.file`` and ``others``, by ``fill(folder, store)``.

    Return its path.

    Raises ``NameExistsError`` if it exists and ``--force`` is not given, ``LockedError``, ``MissingFileError``,
    ``OSError``, and what ``fill`` raises.
    """
    path: str = os.path.realpath(arguments.out)
    try:
        _write(path, arguments, fill, others)
    except OSError as err:
        err.filename = err.filename or path  # else it would be told of the file that is read
        raise
    return path


def _write(
    path: str, arguments: argparse.Namespace, fill: Callable[[Folder, WriteBackend], None], others: Iterable[str]
) -> None:
    directory, name = os.path.split(path)
    if not os.path.isdir(directory):
        raise MissingFileError("is no directory; create it first", path=directory)
    folder = FileFolder(directory)
    if not os.path.lexists(path):
        mode = mode_like(arguments.file, *others, into=directory)
        write_new(folder, name, lambda backend: fill(folder, backend), durable=arguments.sync, mode=mode)
    elif not os.path.isfile(path):
        raise MissingFileError("is no regular file; nothing is written over it", path=path)
    elif not arguments.force:
        raise NameExistsError("already exists; choose another name, or use --force", path=arguments.out)
    else:
        from asdffs.document.opening import open_document  # slow to import, and seldom needed

        with (
            interrupts.critical(),
            contextlib.suppress(AsdffsError),
        ):  # what a crash left beside it goes; no ASDF file leaves nothing
            open_document(path, writable=True).close()
        write_over(folder, name, lambda backend: fill(folder, backend), most=_most(path, (arguments.file, *others)))


def _most(path: str, sources: Iterable[str]) -> int:
    """Return the permissions that the new file in place of ``path`` may have: no others read it than its sources.

    Its owner may always change it.
    """
    local = (one for one in sources if not is_remote(one) and not os.path.samefile(one, path))
    return 0o7700 | shared_mode(local, os.stat(path).st_gid)
