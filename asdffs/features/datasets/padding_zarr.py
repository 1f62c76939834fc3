"""The codec ``asdffs_pad`` for Zarr 3, which finds it by the entry point ``numcodecs.asdffs_pad``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from zarr.abc.codec import BytesBytesCodec

from asdffs.features.datasets.padding import PAD, Pad

#: Its name in metadata of Zarr 3.
NAME = f"numcodecs.{PAD}"


@dataclass(frozen=True)
class ZarrPad(BytesBytesCodec):  # type: ignore[misc]  # zarr is not installed where mypy runs
    """Adds zeros to what the codec before it decoded, up to ``size`` bytes.  See ``padding.Pad``."""

    size: int
    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the codec that metadata describe."""
        return cls(int(data["configuration"]["size"]))

    def to_dict(self) -> dict[str, Any]:
        """Return its description for metadata."""
        return {"name": NAME, "configuration": {"size": self.size}}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Return the size of a whole chunk, which stays as it is."""
        return input_byte_length

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        whole = Pad(self.size).decode(chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_array_like(whole)

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_data
