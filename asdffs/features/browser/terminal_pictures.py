"""Draws pictures on a terminal: by half blocks, sixel or the protocol of kitty, with the package textual-image."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, Final

from asdffs.errors import NotSupportedError, Remedy
from asdffs.features.browser.pictures.png import png

if TYPE_CHECKING:
    import numpy as np

KINDS: Final = ("auto", "half", "sixel", "kitty", "none")
#: Rows and columns of pixels for sixel and kitty.
_FINE: Final = (480, 640)
_CLASSES: Final = {"half": "HalfcellImage", "sixel": "SixelImage", "kitty": "TGPImage"}
#: Lines that stay free for the statistics and the prompt.
_RESERVED: Final = 10


class Screen:
    """Where pictures are drawn.

    ``kind``: one of ``KINDS``; ``auto`` is what the terminal can, and nothing elsewhere.

    Raises ``NotSupportedError`` if a picture is asked for and textual-image is not installed.
    """

    def __init__(self, kind: str) -> None:
        self._image = None if kind == "none" or (kind == "auto" and not sys.stdout.isatty()) else _image_class(kind)
        self._half = self._image is not None and "halfcell" in self._image.__module__

    @property
    def wanted(self) -> bool:
        """Whether pictures are drawn."""
        return self._image is not None

    def size(self) -> tuple[int, int]:
        """Return the rows and columns of pixels that a picture may have."""
        if not self._half:
            return _FINE
        import shutil

        columns, lines = shutil.get_terminal_size()
        return max(2, 2 * (lines - _RESERVED)), max(2, columns)

    def draw(self, pixels: np.ndarray[Any, Any]) -> None:
        """Print a picture: uint8 with two axes, or a third one of 3."""
        from rich.console import Console

        rows, columns = pixels.shape[:2]
        place = {"width": columns, "height": -(-rows // 2)} if self._half else {}
        console = Console(file=sys.stdout, force_terminal=True, color_system="truecolor", width=max(80, columns))
        console.print(self._image(io.BytesIO(png(pixels)), **place) if self._image is not None else "")


def _image_class(kind: str) -> Any:
    try:
        from textual_image import renderable
    except ImportError as err:
        sentence = "pictures on a terminal need textual-image, which is not installed"
        raise NotSupportedError(sentence, remedy=Remedy.INSTALL_SHOW) from err
    return renderable.Image if kind == "auto" else getattr(renderable, _CLASSES[kind])
