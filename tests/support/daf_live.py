"""A store as a mount has it, without a mount: done to by a program, committed, killed, taken up again."""

from __future__ import annotations

from pathlib import Path

from asdffs.document.document import Document
from asdffs.features.daf import recover_store
from asdffs.features.daf.live import LiveStore
from asdffs.features.daf.live_directory import LiveDirectory
from asdffs.features.daf.live_file import LiveFile
from asdffs.features.daf.tree_files import read_store
from support.daf_clients import packed

State = dict[str, bytes]


class Client:
    """Does to the store in ``document`` what a program does to the mount; ``spool``: for what is loose."""

    def __init__(self, document: Document, spool: Path) -> None:
        self.document = document
        self.spool = spool
        self.live = LiveStore(document, str(spool))
        self.live.refresh()

    def folder(self, path: str) -> tuple[LiveDirectory, str]:
        above, _, name = path.rpartition("/")
        folder = self.live.root.find(above)
        assert isinstance(folder, LiveDirectory)
        return folder, name

    def file(self, path: str) -> LiveFile:
        file = self.live.root.find(path)
        assert isinstance(file, LiveFile)
        return file

    def write(self, path: str, content: bytes) -> None:
        folder, name = self.folder(path)
        if name not in folder.entries:
            folder.create(name)
        file = self.file(path)
        file.opened(write=True)
        file.truncate(0)
        file.write(0, content)
        file.closed(write=True)

    def mkdir(self, path: str) -> None:
        folder, name = self.folder(path)
        folder.mkdir(name)

    def unlink(self, path: str) -> None:
        folder, name = self.folder(path)
        folder.unlink(name)

    def rename(self, path: str, new: str) -> None:
        folder, name = self.folder(path)
        target, new_name = self.folder(new)
        folder.rename(name, target, new_name)

    def link(self, path: str, new: str) -> None:
        target, name = self.folder(new)
        target.link(self.file(path), name)

    def dense(self, base: str, eltype: str, values: list[float]) -> None:
        self.write(f"{base}.json", f'{{"format":"dense","eltype":"{eltype}"}}\n'.encode())
        self.write(f"{base}.data", packed(eltype, values))

    def commit(self, *, final: bool = False) -> None:
        self.live.commit(final=final)

    def shown(self) -> State:
        """What a program sees."""
        return {path: b"".join(pieces_of(file)) for path, file in self.live.walk()[0].items()}

    def stored(self) -> State:
        """What the tree has."""
        files = read_store(self.document).files
        return {path: files.whole(path) for path in files.contents}

    def close(self) -> None:
        """As a mount ends."""
        self.commit(final=True)
        self.document.finish()
        self.kill()

    def kill(self) -> None:
        """As a mount that is killed leaves it."""
        self.live.spool.close()
        self.document.close()


def pieces_of(file: LiveFile) -> list[bytes]:
    from asdffs.storage.backend import read_bytes

    return [read_bytes(file.read(0, file.size()))]


def taken_up(document: Document, spool: Path) -> Client:
    """The store of the next mount."""
    list(recover_store(document, str(spool)))
    return Client(document, spool)
