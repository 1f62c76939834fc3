"""Answers requests: finds what each is about, holds the main lock, and turns errors into errno.

The decorators of this module make an operation of a method of a subclass of ``Answers``.  Each is about a path, an
open file, or either.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from asdffs.errors import AsdffsError, NoSuchNameError
from asdffs.mount.errno_map import SILENT, errno_of
from asdffs.mount.loop import Loop
from asdffs.vfs.areas import Area, Areas, Place

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Answers")

PathMethod = Callable[Concatenate[S, Place, P], R]
NodeMethod = Callable[Concatenate[S, Place, int | None, P], R]
FileMethod = Callable[Concatenate[S, Area, P], R]
Path = str | None


class Answers:
    """What all operations of a mount share."""

    def __init__(self, areas: Areas, loop: Loop) -> None:
        self.areas = areas
        self.loop = loop

    def at(
        self,
        method: Callable[..., R],
        place: Place,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        *,
        changing: bool,
    ) -> R:
        """Return ``method(self, place, ...)``; the caller holds the main lock, and this method leaves ``place``.

        Domain errors become errno, and the report of the area records refusals.  Afterwards the kernel is told of
        changes.  With ``changing``, the answer waits a moment until mmaps show them.
        """
        area = place.area
        try:
            try:
                return method(self, place, *arguments, **named)
            finally:
                if place.directory:
                    place.leave()
        except (AsdffsError, OSError) as err:
            raise self.refused(area, err) from err
        finally:
            area.tell_changes(wait=changing)

    def place(self, path: Path, fh: int | None, *, looking: bool) -> Place:
        """Return the place of an open file, or that of ``path`` if there is no handle.  Raises ``OSError``.

        ``looking``: see ``Areas.enter``.
        """
        if fh is not None and fh in self.areas.handles:
            return Place(self.areas.handles[fh], path or "")
        try:
            if path is None:
                raise NoSuchNameError("the file is no longer open")
            return self.areas.enter(path, looking=looking)
        except (AsdffsError, OSError) as err:
            raise self.refused(self.areas.root, err) from err

    def refused(self, area: Area, error: AsdffsError | OSError) -> OSError:
        """Return the error for the program, and note everything but everyday results in the report of ``area``."""
        if not isinstance(error, SILENT):
            self.areas.refuse(area, error)
        code = errno_of(error) if isinstance(error, AsdffsError) else error.errno or errno.EIO
        return OSError(code, os.strerror(code))


def on_path(
    method: PathMethod[S, P, R], *, changing: bool = False, looking: bool = False
) -> Callable[Concatenate[S, str, P], R]:
    """Decorate a method about a path: it gets the place of the path, as ``Answers.at`` says."""

    @functools.wraps(method)
    def call(self: S, path: str, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.loop.lock:
            place = self.place(path, None, looking=looking)
            return self.at(method, place, arguments, named, changing=changing)

    return call


def on_node(
    method: NodeMethod[S, P, R], *, changing: bool = False, looking: bool = False
) -> Callable[Concatenate[S, Path, int | None, P], R]:
    """Decorate a method about an open file, or about a path if there is no handle; otherwise as ``on_path``."""

    @functools.wraps(method)
    def call(self: S, path: Path, fh: int | None = None, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.loop.lock:
            place = self.place(path, fh, looking=looking)
            return self.at(method, place, (fh, *arguments), named, changing=changing)

    return call


def on_file(
    method: FileMethod[S, P, R], *, handle: int = -1, changing: bool = False
) -> Callable[Concatenate[S, P], R]:
    """Decorate a method about an open file or directory: it gets the area of it; otherwise as ``Answers.at``.

    ``handle``: which argument is the handle.
    """

    @functools.wraps(method)
    def call(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.loop.lock:
            area = self.areas.handles[arguments[handle]]  # type: ignore[index]
            try:
                return method(self, area, *arguments, **named)
            except (AsdffsError, OSError) as err:
                raise self.refused(area, err) from err
            finally:
                area.tell_changes(wait=changing)

    return call


def looking_path(method: PathMethod[S, P, R]) -> Callable[Concatenate[S, str, P], R]:
    """Decorate as ``on_path``, for a request that does not open the document of a directory (``Areas.enter``)."""
    return on_path(method, looking=True)


def looking_node(method: NodeMethod[S, P, R]) -> Callable[Concatenate[S, Path, int | None, P], R]:
    """Decorate as ``on_node``; otherwise as ``looking_path``."""
    return on_node(method, looking=True)


def changing_path(method: PathMethod[S, P, R]) -> Callable[Concatenate[S, str, P], R]:
    """Decorate as ``on_path``, for a change that other programs shall see."""
    return on_path(method, changing=True)


def changing_node(method: NodeMethod[S, P, R]) -> Callable[Concatenate[S, Path, int | None, P], R]:
    """Decorate as ``on_node``, for a change that other programs shall see."""
    return on_node(method, changing=True)


def changing_file(method: FileMethod[S, P, R]) -> Callable[Concatenate[S, P], R]:
    """Decorate as ``on_file``, for a change that other programs shall see."""
    return on_file(method, changing=True)


def by_handle(method: FileMethod[S, P, R]) -> Callable[Concatenate[S, P], R]:
    """Decorate as ``on_file``, if the handle is the first argument."""
    return on_file(method, handle=0)


def changing_by_handle(method: FileMethod[S, P, R]) -> Callable[Concatenate[S, P], R]:
    """Decorate as ``by_handle``, for a change that other programs shall see."""
    return on_file(method, handle=0, changing=True)
