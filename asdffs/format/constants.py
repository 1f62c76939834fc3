"""Constants of the ASDF standard 1.6.0, "Low-level file layout", and nothing else."""

from typing import Final

#: First bytes of every file (section Header).
ASDF_TOKEN: Final = b"#ASDF"
#: Comment that names the version of the standard (section Comments).
STANDARD_TOKEN: Final = b"#ASDF_STANDARD"
#: First four bytes of every block (section Block header).
BLOCK_MAGIC: Final = b"\xd3BLK"
#: Magic and header_size field, which header_size itself does not count, in bytes.
BLOCK_PREFIX_SIZE: Final = 6
#: Smallest header_size of the 1.x layouts, in bytes.
MIN_HEADER_SIZE: Final = 48
#: Flag: the block extends to the end of the file, its sizes are ignored.
STREAMED: Final = 0x1
#: Compression field of a block that is stored as it is.
NO_COMPRESSION: Final = b"\0\0\0\0"
#: Checksum that says "do not verify".
NO_CHECKSUM: Final = bytes(16)
#: First line of the block index, without its newline (section Block index).
INDEX_TOKEN: Final = b"#ASDF BLOCK INDEX"
