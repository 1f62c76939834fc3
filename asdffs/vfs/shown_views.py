"""Creates the views that a mount shows: one of each kind in the registry.

The caller holds the main lock.
"""

from __future__ import annotations

from asdffs import registry
from asdffs.document.document import Document
from asdffs.errors import MountError, Remedy
from asdffs.views.base import Options, View


def views_of(document: Document, options: Options) -> dict[str, View]:
    """Return the views of ``document`` by name.  A view that fails or clashes is noted as trouble and left out."""
    found: dict[str, View] = {}
    for name in registry.names("views"):
        view = _made(name, document, options)
        if view is not None and view.directory in {other.directory for other in found.values()}:
            registry.note_trouble("views", name, f"another view already has the directory {view.directory}")
        elif view is not None:
            found[name] = view
    return found


def check_alone(name: str, view: View | None, document: Document) -> None:
    """Raise ``MountError`` if the view ``name`` cannot be the root of a mount, or has nothing to show."""
    if view is None or not getattr(view, "standalone", False):
        raise MountError(f"the view {name!r} cannot be the root of a mount", path=document.path)
    if not view.present():
        raise MountError("contains no such store", path=document.path, remedy=Remedy.INIT_STORE)


def _made(name: str, document: Document, options: Options) -> View | None:
    plugin = registry.find("views", name)

    def make() -> View:
        view: View = plugin(document, options)
        if not isinstance(view.directory, str) or not view.directory or "/" in view.directory:
            raise ValueError(f"{view.directory!r} is not a valid directory name")
        return view

    return None if plugin is None else registry.answer("views", name, make, None)
