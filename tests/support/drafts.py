"""Files of the drafts of 2014 and 2015: samples, and small ones that are made here."""

from __future__ import annotations

import struct
from pathlib import Path

from asdffs.document.document import Document
from asdffs.document.opening import open_in_folder
from support.memory import MemoryFolder

FOLDER = Path(__file__).parent.parent / "data" / "drafts"
SAMPLES = sorted(FOLDER.glob("*/*.asdf"))
INVALID = [path for path in SAMPLES if path.stem.endswith("_INVALID")]
HEAD_2015 = b"#ASDF 0.1.0\n"
HEAD_2014 = b"%ASDF 0.1.0\n"
DIRECTIVES = b"%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !core/asdf\n"
MAGIC = b"\xd3BLK"


def name_of(path: Path) -> str:
    """As tests are named."""
    return f"{path.parent.name}/{path.stem}"


def block_36(stored: bytes, size: int | None = None, *, flags: int = 0, slack: int = 0, extra: bytes = b"") -> bytes:
    """A block of the draft of 2015; ``size``: decoded, of an ENCODED one."""
    flags |= 2 if size is not None else 0
    fields = struct.pack(">IQQQQ", flags, len(stored) + slack, len(stored), len(stored) if size is None else size, 0)
    return MAGIC + struct.pack(">H", len(fields) + len(extra)) + fields + extra + stored + bytes(slack)


def block_40(
    stored: bytes, compression: bytes = bytes(4), size: int | None = None, *, extra: bytes = b"", total: int = 0
) -> bytes:
    """A block of February or March 2015."""
    size = len(stored) if size is None else size
    fields = struct.pack(">I4sQQQQ", 0, compression, len(stored), len(stored), size, total)
    return MAGIC + struct.pack(">H", len(fields) + len(extra)) + fields + extra + stored


def block_44(stored: bytes, encoding: bytes = bytes(16), *, magic: bytes = MAGIC, flags: int = 0) -> bytes:
    """A block of the draft of 2014; the encoding may have from 12 bytes on."""
    fields = struct.pack(">IQQQ", flags, len(stored), len(stored), 7) + encoding
    return magic + struct.pack(">H", len(fields)) + fields + stored


def draft(body: bytes, *blocks: bytes, head: bytes = HEAD_2015, padding: bytes = b"") -> bytes:
    """A file of these blocks; ``body``: the tree behind ``--- !core/asdf``."""
    return head + DIRECTIVES + body + b"...\n" + padding + b"".join(blocks)


def opened(whole: bytes) -> tuple[MemoryFolder, Document]:
    """A document in memory, for writing."""
    folder = MemoryFolder({"x.asdf": whole})
    return folder, open_in_folder(folder, "x.asdf", writable=True)


def content(folder: MemoryFolder) -> bytes:
    """The whole file."""
    return bytes(folder.files["x.asdf"].content)
