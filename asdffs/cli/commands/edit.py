"""``asdffs edit FILE``: opens the tree in an editor, and checks and commits it as a mount does."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from asdffs import interrupts
from asdffs.cli.arguments import SCHEMA, add_files
from asdffs.cli.logs import silence
from asdffs.cli.printing import say
from asdffs.cli.process import EndedError, environment_for_programs
from asdffs.cli.results import Answer, answer_each, sentence_of
from asdffs.cli.state_directory import StateDirectory
from asdffs.cli.writing import opened_to_write
from asdffs.document.document import Document
from asdffs.document.opening import Settings
from asdffs.document.report import Outcome, raise_outcome
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.history import DRAFT, History
from asdffs.document.saves.keeping import Keeper
from asdffs.document.schema import check_available
from asdffs.errors import AsdffsError, InvalidTreeError, StaleFileError, UnfinishedError, UsageError

SUMMARY: Final = "edit the tree in $EDITOR, without a mount"
logger = logging.getLogger(__name__)

_EDITORS: Final = ("sensible-editor", "nano", "vi")
#: Editors that take ``+LINE`` before the name of the file.
_TAKE_LINE: Final = frozenset({"vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient", "kak", "joe", "mg", "ne"})


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  EDITOR=nano asdffs edit data.asdf
  VISUAL="sed -i s/Ada/Grace/" asdffs edit data.asdf      the same edit in a script; $VISUAL goes first

The editor is $VISUAL, else $EDITOR, else sensible-editor, nano or vi.  An editor with a window needs its
option to wait: 'code --wait'.  When it ends, the text is checked and committed.  If the text is refused, you
can go on editing; otherwise it is saved beside the file and the exit code is 7.  An editor that ends with an
error (':cq' in vim) changes nothing.
"""
    add_files(parser)
    parser.add_argument("--strict", action="store_true", help="refuse arrays that do not fit their blocks")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)


def run(arguments: argparse.Namespace) -> int:
    """Edit each file until its tree is committed, or kept beside it.  Raises ``AsdffsError``, ``OSError``."""
    editor = _editor()
    if arguments.schema:
        check_available()
    silence("asdffs.document.report")
    return answer_each(arguments, [(file, None) for file in arguments.files], lambda one: _edit(one, editor))


def _edit(arguments: argparse.Namespace, editor: list[str]) -> Answer:
    settings = Settings(strict=arguments.strict, schema=arguments.schema)
    with opened_to_write(arguments.file, "edit", settings, typing=True) as (document, state):
        changed = _Session(document, state, editor).edit()
        for warning in document.report.warnings if changed else ():
            logger.warning("%s: %s", document.path, warning)
    sentence = f"{arguments.file}: {'the tree is saved' if changed else 'nothing was changed'}"
    return Answer({}, lambda: say(sentence))


def _editor() -> list[str]:
    """Return the command that the user wants.  Raises ``UsageError``."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    try:
        words = shlex.split(wanted) if wanted else []
    except ValueError as err:
        raise UsageError(f"$VISUAL or $EDITOR is {wanted!r}, which is no command: {err}") from err
    words = words or [next((name for name in _EDITORS if shutil.which(name)), "")]
    if not shutil.which(words[0]):
        raise UsageError(f"the editor {words[0]!r} is not there; set $EDITOR, for example EDITOR=nano")
    return words


@dataclass(slots=True)
class _Session:
    """The edit of one file: its editor runs until the text is committed or kept."""

    document: Document
    state: StateDirectory
    editor: list[str]
    line: int | None = None

    def edit(self) -> bool:
        """Edit the tree, and return whether it was changed.

        Raises ``KeptEditsError``, ``UnfinishedError``, ``OSError``.
        """
        before, places = self.document.tree.text(), self.state.places
        folder = os.path.join(places.editing, str(os.getpid()))  # the editor of one that was killed may live
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, DRAFT)
        with open(path, "wb") as file:
            file.write(before)
        drafts = Drafts(self.document, places.rejected, History(places.history, []))
        while True:
            failure = self._run_editor(path)
            text = _read(path)
            if not text or text == before:
                self.state.release()
                if failure or not text:
                    why = failure or "the editor left no text, so nothing was committed"
                    raise UnfinishedError(why, path=self.document.path)
                return False
            if failure:
                self._keep(path, failure)
            if self._commit(drafts, path, text):
                return True

    def _run_editor(self, path: str) -> str:
        """Run the editor; return a sentence if it did not end well."""
        where = [f"+{self.line}"] if self.line and os.path.basename(self.editor[0]) in _TAKE_LINE else []
        interrupt = signal.signal(signal.SIGINT, lambda *_: None)  # it is the editor's, who must not inherit SIG_IGN
        try:
            with subprocess.Popen([*self.editor, *where, path], env=environment_for_programs()) as editor:
                return _sentence(_ended(editor))
        finally:
            signal.signal(signal.SIGINT, interrupt)

    def _commit(self, drafts: Drafts, path: str, text: bytes) -> bool:
        """Commit the text; return False to go on editing."""
        try:
            drafts.commit(text)
        except InvalidTreeError as err:
            self.line = err.line
            if sys.stdin.isatty():
                say(f"asdffs: {self.document.path}: {sentence_of(err)}", file=sys.stderr)
                if _wants_to_go_on():
                    return False
            self._keep(path, sentence_of(err))
        except (AsdffsError, OSError) as err:
            self._keep(path, sentence_of(err), conflict=isinstance(err, StaleFileError))
        self.state.release()
        self.document.finish()
        return True

    def _keep(self, path: str, why: str, *, conflict: bool = False) -> None:
        """Keep the text beside the file, and raise."""
        keeper = Keeper(self.document)
        (keeper.keep_conflict if conflict else keeper.keep_draft)(path)
        if not keeper.failures:
            self.state.release()
        raise_outcome(self.document.path, Outcome(keeper.kept, [why, *keeper.failures], [], [], []))


def _wants_to_go_on() -> bool:
    """Ask whether to edit the text again, and return the answer."""
    try:
        with interrupts.interruptible():
            answer = input("edit again (Return), or keep the text beside the file and end (k)? ")
    except (EOFError, KeyboardInterrupt, EndedError):
        print(file=sys.stderr)
        return False
    return not answer.strip().lower().startswith("k")


def _ended(editor: subprocess.Popen[bytes]) -> int:
    """Return the editor's exit code.  Pass a signal for this program on to the editor, and wait for it."""
    try:
        with interrupts.interruptible():
            return editor.wait()
    except EndedError as err:
        editor.send_signal(err.number)
        return editor.wait() or -err.number


def _sentence(code: int) -> str:
    if not code:
        return ""
    if code < 0:
        return f"the editor was ended by the signal {signal.Signals(-code).name}, so nothing was committed"
    return f"the editor ended with exit code {code}, so nothing was committed"


def _read(path: str) -> bytes | None:
    """Return the content of a file; None if it is no regular file any more."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()
