"""Constants of the ASDF standard 1.6.0, "Low-level file layout", and of its drafts, and nothing else."""

from typing import Final

#: First bytes of every file (section Header).
ASDF_TOKEN: Final = b"#ASDF"
#: Comment that names the version of the standard (section Comments).
STANDARD_TOKEN: Final = b"#ASDF_STANDARD"
#: First four bytes of every block (section Block header).
BLOCK_MAGIC: Final = b"\xd3BLK"
#: The same, as the text of the draft of 2014 has it.
DRAFT_MAGIC: Final = b"\x89BLK"
#: Magic and header_size field, which header_size itself does not count, in bytes.
BLOCK_PREFIX_SIZE: Final = 6
#: Smallest header_size of the 1.x layouts, in bytes.
MIN_HEADER_SIZE: Final = 48
#: Flag: the block extends to the end of the file, its sizes are ignored.
STREAMED: Final = 0x1
#: Flag of the draft of 2015: the content begins with a chunk of YAML that says how the rest is encoded.
ENCODED: Final = 0x2
#: Compression field of a block that is stored as it is.
NO_COMPRESSION: Final = b"\0\0\0\0"
#: What stands for a compression where the flag ENCODED says that a chain of encodings does.
CHAIN: Final = b"chain"
#: Checksum that says "do not verify".
NO_CHECKSUM: Final = bytes(16)
#: First line of the block index, without its newline (section Block index).
INDEX_TOKEN: Final = b"#ASDF BLOCK INDEX"
