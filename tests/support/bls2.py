"""The asdf library with the compression ``bls2``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asdf
import blosc2


class Compressor(asdf.extension.Compressor):
    """As the source of asdf-compression has it; no release has yet."""

    label = b"bls2"

    def compress(self, data: memoryview, **kwargs: object) -> Iterator[bytes]:
        yield blosc2.compress(data, **kwargs)

    def decompress(self, data: Iterator[bytes], out: memoryview, **kwargs: object) -> int:
        out[:] = blosc2.decompress(b"".join(data), **kwargs)
        return out.nbytes


class Extension(asdf.extension.Extension):
    extension_uri = "asdf://example.org/bls2-1.0.0"
    compressors = (Compressor(),)


@contextmanager
def library_with_bls2() -> Iterator[None]:
    """Have the library write and read it inside the block."""
    with asdf.config_context() as config:
        config.add_extension(Extension())
        yield
