"""States the next step for each ``errors.Remedy``: commands and options that a user can type."""

from __future__ import annotations

import errno
from typing import Final

from asdffs.errors import AsdffsError, Remedy, reason_of
from asdffs.printable import as_word

#: ``{file}``: the file that the error is about, as a word for a shell; ``{block}``: the number of the block.
WORDS: Final = {
    Remedy.CLOSE_GAP: "'asdffs repack {file}' closes the gap",
    Remedy.CHANGE_SHARED: "--shared changes it in all these places",
    Remedy.COMPARE_TEXT: "'asdffs diff --text A B' compares them as text",
    Remedy.CREATE_PARENTS: "--create makes the missing mappings",
    Remedy.DROP_BYTES: "'asdffs repack --force {file}' drops them",
    Remedy.DROP_INDEX: "'asdffs repack --force {file}' drops both",
    Remedy.DROP_TAIL: "'asdffs check {file}' says more, --force drops it",
    Remedy.FOLLOW: "--follow takes them",
    Remedy.FORCE_DROP: "--force drops them",
    Remedy.FORCE_DROP_BLOCKS: "--force drops them all the same",
    Remedy.FORCE_LOSS: "--force insists",
    Remedy.FORCE_REMOVE: "to remove it all the same, see 'asdffs block --help', --force",
    Remedy.FORCE_REPLACE: "or use --force",
    Remedy.FORCE_WITHOUT: "or leave such out with --force",
    Remedy.IMPLODE: "'asdffs implode' makes another of what is in the directory",
    Remedy.INDEX: "'asdffs index DIR' makes it",
    Remedy.INDEX_ANEW: "remove it, and 'asdffs index DIR' makes it anew",
    Remedy.INIT_STORE: "'asdffs daf init {file}' makes an empty one",
    Remedy.INSTALL_FITS: "install it with: pip install 'asdffs[fits]'",
    Remedy.INSTALL_SHOW: "install it with: pip install 'asdffs[show]'",
    Remedy.INSTALL_VIEW: "install it with: pip install 'asdffs[view]'",
    Remedy.LOOK: "to look at it, mount it with -o ro, or run 'asdffs check {file}'",
    Remedy.MAKE_LOCAL: "'asdffs repack {file} OUT' makes a copy that can be changed",
    Remedy.MORE_MEMORY: "ASDFFS_MEMORY=4G in the environment allows more",
    Remedy.MORE_SPOOL: "mount with a larger -o spool_max=, or with -o spool= elsewhere",
    Remedy.OTHER_CATALOG: "name another file with --catalog",
    Remedy.RECOMPRESS: "'asdffs block {file} {block} --compression zlib' stores them otherwise",
    Remedy.RECOVER: "'asdffs recover {file}' does so now",
    Remedy.REPORT: "-v shows where; please report it",
    Remedy.STORED_BYTES: "'asdffs block {file} {block} --stored' prints what is left of it",
    Remedy.UMOUNT: "or first run 'asdffs umount {file}'",
    Remedy.UPGRADE: "'asdffs upgrade {file} OUT' writes a new file",
    Remedy.WHOLE_MAX: "-o whole_max= or --whole-max allows more; or download it yourself",
}

#: What to do about errors of the system.
ADVICE: Final = {
    errno.ENOSPC: "; make room, and try again",
    errno.EDQUOT: "; make room, and try again",
    errno.EACCES: "; a change needs the right to write the file and its directory",
    errno.EPERM: "; it belongs to another user, or must not be changed",
    errno.EBADMSG: "; the mount refuses the tree, and .asdffs/error in it says why",
    errno.EBUSY: "; it is a mount point, or in use by the system; choose another name",
    errno.EMFILE: "; close some files, or raise the limit with 'ulimit -n'",
}


def told(error: Exception) -> str:
    """Return the error as a user reads it: the sentence, and what helps."""
    if isinstance(error, AsdffsError):
        return f"{error}{_joined(error.remedy, error.block, error.path)}"
    advice = ADVICE.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    return reason_of(error) + advice


def with_remedy(sentence: str, remedy: Remedy | None, *, file: str, block: int | None = None) -> str:
    """Return the sentence of a finding about ``file``, and what helps."""
    return sentence + _joined(remedy, block, file)


def _joined(remedy: Remedy | None, block: int | None, file: str | None) -> str:
    if remedy is None:
        return ""
    words = WORDS[remedy].format(file=as_word(file) if file else "FILE", block="N" if block is None else block)
    return f", {words}" if words.startswith("or ") else f"; {words}"
