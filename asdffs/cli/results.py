"""The results of commands: exit codes, sentences about errors, next steps, and the one loop over files.

An error in one file is printed, or has its place in the output, and the others go on.  README and docs/semantics.md
promise the exit codes.
"""

from __future__ import annotations

import argparse
import enum
import errno
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from asdffs import errors
from asdffs.cli.printing import print_json, say
from asdffs.errors import AsdffsError, Remedy, UsageError, reason_of
from asdffs.failures import Failure, attempt
from asdffs.printable import as_word
from asdffs.storage.urls import shown_name


class ExitCode(enum.IntEnum):
    """The exit codes and what they mean."""

    OK = 0
    INTERNAL = 1
    NOT_FOUND = 1  # as grep(1); an internal error says so
    USAGE = 2
    NO_FILE = 3
    NOT_ASDF = 4
    IN_USE = 5
    NO_MOUNT = 6
    EDITS_KEPT = 7
    UNFINISHED = 8
    FINDINGS = 9


#: Error class -> exit code.  The nearest class in the hierarchy counts.
EXIT_CODES: Final[dict[type[errors.AsdffsError], ExitCode]] = {
    errors.AsdffsError: ExitCode.INTERNAL,
    errors.UsageError: ExitCode.USAGE,
    errors.MissingFileError: ExitCode.NO_FILE,
    errors.NotAsdfError: ExitCode.NOT_ASDF,
    errors.DamagedFileError: ExitCode.NOT_ASDF,
    errors.DamagedBlockError: ExitCode.NOT_ASDF,
    errors.InvalidTreeError: ExitCode.NOT_ASDF,
    errors.MissingValueError: ExitCode.NOT_FOUND,
    errors.ValueRefusedError: ExitCode.USAGE,
    errors.SharedValueError: ExitCode.USAGE,
    errors.InvalidArrayError: ExitCode.NOT_ASDF,
    errors.NotFollowedError: ExitCode.NOT_ASDF,
    errors.InvalidStoreError: ExitCode.NOT_ASDF,
    errors.TreeChangedError: ExitCode.IN_USE,
    errors.AbandonedError: ExitCode.UNFINISHED,
    errors.StorageError: ExitCode.UNFINISHED,
    errors.WorkerKilledError: ExitCode.UNFINISHED,
    errors.NotCatalogError: ExitCode.NOT_ASDF,
    errors.RemoteError: ExitCode.UNFINISHED,
    errors.LockedError: ExitCode.IN_USE,
    errors.StaleFileError: ExitCode.UNFINISHED,
    errors.FailedFileError: ExitCode.UNFINISHED,
    errors.RecoveryError: ExitCode.UNFINISHED,
    errors.UntrustedFileError: ExitCode.UNFINISHED,
    errors.NoRoomError: ExitCode.UNFINISHED,
    errors.DiskFullError: ExitCode.UNFINISHED,
    errors.SpoolFullError: ExitCode.UNFINISHED,
    errors.ReadOnlyError: ExitCode.UNFINISHED,
    errors.NoSuchNameError: ExitCode.NO_FILE,
    errors.GoneError: ExitCode.NO_FILE,
    errors.NameExistsError: ExitCode.USAGE,
    errors.NameRefusedError: ExitCode.USAGE,
    errors.NameTooLongError: ExitCode.USAGE,
    errors.NotPermittedError: ExitCode.USAGE,
    errors.CrossViewError: ExitCode.USAGE,
    errors.InUseError: ExitCode.IN_USE,
    errors.NotSupportedError: ExitCode.USAGE,
    errors.ForeignAttributeError: ExitCode.USAGE,
    errors.FileExpectedError: ExitCode.NO_FILE,
    errors.NotDirectoryError: ExitCode.NO_FILE,
    errors.NotEmptyError: ExitCode.USAGE,
    errors.NoAttributeError: ExitCode.USAGE,
    errors.MountError: ExitCode.NO_MOUNT,
    errors.KeptEditsError: ExitCode.EDITS_KEPT,
    errors.CutBlockError: ExitCode.FINDINGS,
    errors.UnfinishedError: ExitCode.UNFINISHED,
}


def worse(one: int, other: int) -> int:
    """Return the larger of two exit codes.  ``FINDINGS``, for warnings alone, is less than that of any failure."""
    return max(one, other, key=lambda code: (code not in (ExitCode.OK, ExitCode.FINDINGS), code))


def exit_code_of(error: errors.AsdffsError) -> ExitCode:
    """Return the exit code of the nearest class of ``error`` in the table."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


#: ``{file}``: the file that the error is about, as a word for a shell; ``{block}``: the number of the block.
WORDS: Final = {
    Remedy.CLOSE_GAP: "'asdffs repack {file}' closes the gap",
    Remedy.CHANGE_SHARED: "--shared changes it in all these places",
    Remedy.COMPARE_TEXT: "'asdffs diff --text A B' compares them as text",
    Remedy.CREATE_PARENTS: "--create makes the missing mappings",
    Remedy.DROP_BYTES: "'asdffs repack --force {file}' drops them",
    Remedy.DROP_INDEX: "'asdffs repack --force {file}' drops both",
    Remedy.DROP_TAIL: "'asdffs check {file}' says more, --force drops it",
    Remedy.EXPORT: "'asdffs export --force --erofs IMAGE {file}' makes the image again",
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
    Remedy.KEEP_OLD_BYTES: "mount with -o undo=SIZE, before blocks are changed",
    Remedy.MORE_SPOOL: "mount with a larger -o spool_max=, or with -o spool= elsewhere",
    Remedy.OTHER_CATALOG: "name another file with --catalog",
    Remedy.RECOMPRESS: "'asdffs block {file} {block} --compression zlib' stores them otherwise",
    Remedy.RECOVER: "'asdffs recover {file}' does so now",
    Remedy.REPORT: "-v shows where; please report it",
    Remedy.SERVER: "--follow HOST[:PORT], or -o follow= of a mount, follows those on that server",
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


def sentence_of(error: Exception) -> str:
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


def name_file(err: AsdffsError | OSError, file: str | None) -> None:
    """Have the error name ``file`` as the user typed it, if it names no other file.

    An error about the command line is about no file.
    """
    if isinstance(err, OSError):
        err.filename = _as_typed(err.filename, file)
    elif err.path is not None or not isinstance(err, UsageError):
        err.path = _as_typed(err.path, file)


def _as_typed(named: Any, file: str | None) -> Any:
    """Return ``file`` if ``named``, the path in an error, is the same file or None; else ``named``."""
    if file is None:
        return named
    if named in (None, file):
        return shown_name(file)
    from asdffs.storage.mount_table import resolved  # late, for a short start

    return shown_name(file) if named == resolved(file) else named


def sentence_and_code(file: str | None, err: AsdffsError | OSError) -> tuple[str, ExitCode]:
    """Return the error about ``file`` as users read it, and its exit code."""
    name_file(err, file)
    return sentence_of(err), exit_code_of(err) if isinstance(err, AsdffsError) else ExitCode.UNFINISHED


def failed(file: str | None, err: AsdffsError | OSError) -> ExitCode:
    """Print the error about ``file`` and the next step; return its exit code."""
    sentence, code = sentence_and_code(file, err)
    say(f"asdffs: {sentence}", file=sys.stderr)
    return code


T = TypeVar("T")


class Answer(NamedTuple):
    """The result for one file: ``facts`` for ``--json``; ``show`` prints it for people.

    ``code``: the exit code, if not all that was asked for could be done.
    """

    facts: dict[str, Any]
    show: Callable[[], None]
    code: int = 0


def with_outputs(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return each FILE and its OUT, from the operands ``FILE``, ``FILE OUT`` or ``FILE... DIRECTORY``.

    OUT is None where only FILE is given.  Raises ``UsageError``.
    """
    *files, last = words
    if not files:
        return [(last, None)]
    if os.path.isdir(last):
        return [(file, os.path.join(last, os.path.basename(file))) for file in files]
    if len(files) > 1:
        raise UsageError("is no directory, and there are several files; name a directory last", path=last)
    return [(files[0], last)]


def for_each(
    files: Iterable[tuple[str, Callable[[], T]]],
    take: Callable[[str, T], int],
    fail: Callable[[str, AsdffsError | OSError], int] = failed,
) -> int:
    """Do the work on each file, and call ``take(file, result)``, or ``fail(file, error)``: each returns an exit code.

    Returns the worst of these codes.
    """
    code = 0
    for file, work in files:
        found = attempt(work)
        code = worse(code, fail(file, found.error) if isinstance(found, Failure) else take(file, found))
    return code


def answer_each(
    arguments: argparse.Namespace,
    files: Sequence[tuple[str, str | None]],
    work: Callable[[argparse.Namespace], Answer],
) -> int:
    """Call ``work`` for each FILE and OUT, which are ``file`` and ``out`` of its argument, and print the answers.

    ``--json`` prints an array for several files.  Returns the exit code.
    """
    facts, as_json = [], getattr(arguments, "json", False)

    def take(file: str, answer: Answer) -> int:
        if as_json:
            facts.append(answer.facts)
        else:
            answer.show()
        return answer.code

    def bound(file: str, out: str | None) -> Callable[[], Answer]:
        return lambda: work(argparse.Namespace(**{**vars(arguments), "file": file, "out": out}))

    code = for_each(((file, bound(file, out)) for file, out in files), take)
    if as_json and facts:
        print_json(facts if len(files) > 1 else facts[0])
    return code
