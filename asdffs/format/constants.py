"""Constants of the ASDF standard 1.6.0, "Low-level file layout"."""

from typing import Final

#: Comment that names the version of the standard (section Comments).
STANDARD_TOKEN: Final = b"#ASDF_STANDARD"
#: First four bytes of every block (section Block header).
BLOCK_MAGIC: Final = b"\xd3BLK"
#: Size of the magic and the header_size field, in bytes.  The value of header_size does not include them.
BLOCK_PREFIX_SIZE: Final = 6
#: Smallest header_size of the 1.x layouts, in bytes.
MIN_HEADER_SIZE: Final = 48
#: Flag: the block extends to the end of the file, and its sizes are ignored.
STREAMED: Final = 0x1
#: Flag of the draft of 2015: the content begins with a chunk of YAML that describes how the rest is encoded.
ENCODED: Final = 0x2
#: Compression field of an uncompressed block.
NO_COMPRESSION: Final = b"\0\0\0\0"
#: Placeholder for the compression of a block whose flag ENCODED announces a chain of encodings.
CHAIN: Final = b"chain"
#: Checksum that means "do not verify".
NO_CHECKSUM: Final = bytes(16)
#: The same as the writer of DKIST's level-2 files has it: sixteen digits.  No reader may take it for an MD5.
NO_CHECKSUM_DIGITS: Final = b"0" * 16
#: First line of the block index, without its newline (section Block index).
INDEX_TOKEN: Final = b"#ASDF BLOCK INDEX"
#: Endings of the names of files that are ASDF, or may have ASDF inside; compared without regard to case.
FILE_ENDINGS: Final = (".asdf", ".fits")
