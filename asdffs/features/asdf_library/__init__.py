"""Files for programs that use the asdf library: an ``asdf.AsdfFile`` whose arrays are read by asdffs.

``opening`` makes it; ``arrays`` has the arrays, and the extension that lets asdf read and write them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from asdffs.errors import NotSupportedError

if TYPE_CHECKING:
    import asdf

__all__ = ["open_asdf"]


def open_asdf(path: str | os.PathLike[str], **options: Any) -> asdf.AsdfFile:
    """Open an ASDF file for reading as ``asdf.open`` does, but read its arrays with asdffs.

    ``path``: a local file, also a FITS file with an ASDF file inside, or a URL.  ``options``: those of ``asdf.open``
    for the tree: ``custom_schema``, ``extensions``, ``ignore_unrecognized_tag``, ``lazy_tree`` and others.  A slice
    of an array reads only its elements, also of a compressed block or over a network.  Close the result, or use it in
    a ``with`` statement.

    Raises ``AsdffsError`` as ``asdffs.open``, ``TypeError`` for an option about arrays, and as ``asdf.open``.
    """
    try:
        from asdffs.features.asdf_library.opening import open_asdf as opened
    except ModuleNotFoundError as err:
        sentence = f"open_asdf needs {err.name}, which is not installed: pip install 'asdffs[schema]'"
        raise NotSupportedError(sentence) from err
    return opened(path, options)
