"""How programs save ``tree.yaml``: one entry a program, in a terminal or not.

A program in a terminal opens the tree at a line, types at its end, saves, and leaves: ``Keys``
says with which keys, and what the screen shows when the save succeeded or failed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from support.mounts import Mounted, run
from support.terminal import Terminal

#: Runs a program that makes the bytes of the second argument the tree; its exit status.
Save = Callable[[Mounted, Path], int]


def shell(script: str) -> Save:
    """``$T`` is the tree, ``$N`` a file with the new text, ``$M`` the mount."""

    def save(mount: Mounted, text: Path) -> int:
        variables = {"T": str(mount.tree), "N": str(text), "M": str(mount.point)}
        return run("bash", "-c", script, env={**mount.environment, **variables}, cwd=text.parent).returncode

    return save


def python(code: str) -> Save:
    """As ``shell``, in Python: ``tree`` and ``text``."""
    head = "import mmap, os, sys\ntree, text = sys.argv[1], open(sys.argv[2], 'rb').read()\n"
    return lambda mount, text: run("python3", "-c", head + code, mount.tree, text, env=mount.environment).returncode


def vim(program: str, backupcopy: str) -> Save:
    change = "call setline(1, readfile($N)) | try | silent w | catch | cq 3 | endtry | q!"
    flags = "-u NONE -es --headless" if program == "nvim" else "-Nu NONE -es"
    return shell(f"{program} {flags} -c 'set backupcopy={backupcopy} | {change}' $T")


def emacs(setting: str = "") -> Save:
    change = '(erase-buffer) (insert-file-contents-literally (getenv "N")) (save-buffer)'
    return shell(f"emacs -Q --batch $T --eval '(progn {setting} {change})'")


_GIT = """
fd = os.open(tree + '.lock', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
os.write(fd, text); os.fsync(fd); os.fchmod(fd, 0o644); os.close(fd)
try: os.rename(tree + '.lock', tree)
except OSError: os.unlink(tree + '.lock'); raise
"""
_JETBRAINS = """
new, old = tree + '___jb_tmp___', tree + '___jb_old___'
with open(new, 'xb') as f: f.write(text)
os.rename(tree, old)
try: os.rename(new, tree)
except OSError: os.rename(old, tree); os.unlink(new); raise
os.unlink(old)
"""
_VSCODE = """
fd = os.open(tree, os.O_RDWR)
os.ftruncate(fd, 0); os.pwrite(fd, text, 0); os.fdatasync(fd); os.close(fd)
"""
_MMAP = """
with open(tree, 'r+b') as f:
    f.truncate(len(text)); f.flush()
    with mmap.mmap(f.fileno(), len(text)) as view: view[:] = text; view.flush()
    os.fsync(f.fileno())
"""
_WRITE = "f = open(tree, %r)\nf.write(text); f.truncate(); f.close()\n"

#: Programs that show a refused save by their exit status.
PROGRAMS: dict[str, Save] = {
    "cp": shell("cp $N $T"),
    "cp --remove-destination": shell("cp --remove-destination $N $T"),
    "cp -p": shell("cp -p $N $T"),
    "tee": shell("tee $T < $N > /dev/null"),
    "mv within": shell("cp $N $M/new && mv $M/new $T"),
    "mv across": shell("cp $N $N.2 && mv $N.2 $T"),
    "dd": shell("dd if=$N of=$T bs=100 conv=fsync status=none"),
    "install": shell("install -m 644 $N $T"),
    "rsync": shell("rsync -I $N $T"),
    "rsync -a": shell("rsync -aI $N $T"),
    "rsync --inplace": shell("rsync -I --inplace $N $T"),
    "sed -i": shell('sed -i -e "1r $N" -e d $T'),
    "perl -i": shell("perl -i -0777 -pe 'BEGIN { open F, \"<\", $ENV{N}; $n = <F> } $_ = $n' $T"),
    "patch": shell("diff -u $T $N > p; patch -s $T p"),
    "ed": shell("printf '%s\\n' 1,\\$d \"r $N\" w q | ed -s $T"),
    "gio save": shell("gio save $T < $N"),
    "gio save -b": shell("gio save -b $T < $N"),
    "python w": python(_WRITE % "wb"),
    "python r+": python(_WRITE % "rb+"),
    "git style": python(_GIT),
    "JetBrains": python(_JETBRAINS),
    "VS Code": python(_VSCODE),
    "mmap": python(_MMAP),
    "vim backupcopy=yes": vim("vim", "yes"),
    "vim backupcopy=auto": vim("vim", "auto"),
    "vim backupcopy=no": vim("vim", "no"),
    "nvim": vim("nvim", "auto"),
    "emacs --batch": emacs(),
    "emacs precious": emacs("(setq file-precious-flag t)"),
}

#: Programs that do not look at the result of close (docs/semantics.md, Programs that cannot show an error).
SILENT_PROGRAMS: dict[str, Save] = {
    ">": shell("cat < $N > $T; true"),
    ">>": shell(": > $T; cat < $N >> $T; true"),
    "kak": shell("kak -n -ui dummy -e 'execute-keys <percent>|cat<space>$N<ret>; write; quit' $T < /dev/null; true"),
}


@dataclass(frozen=True)
class Keys:
    """``start``: command, ``{line}`` and ``{tree}`` filled in; ``ready``: shown when it takes keys.

    Steps, with a comma between, are keys to type, ``see:TEXT``, ``gone:TEXT`` or ``text:TYPED``.  After ``save`` the
    program shows ``saved`` or ``refused`` ('' if it shows no errors); then ``leave``, or ``drop`` what is unsaved.
    """

    start: str
    ready: str
    save: str
    saved: str
    refused: str
    leave: str
    drop: str
    insert: str = "End"

    def open(self, mount: Mounted, line: int) -> Terminal:
        """The program with the tree, at the end of ``line``."""
        command = self.start.format(line=line, tree=mount.tree)
        terminal = Terminal(command, mount.file.parent, mount.environment)
        terminal.see(self.ready.replace("tree.yaml", mount.tree.name))
        follow(terminal, self.insert)
        return terminal


def follow(terminal: Terminal, steps: str) -> None:
    for step in steps.split(", "):
        if step.startswith("see:"):
            terminal.see(step[4:])
        elif step.startswith("gone:"):
            terminal.until(lambda gone=step[5:]: gone not in terminal.screen)
        elif step.startswith("text:"):
            terminal.write(step[5:])
        else:
            terminal.type(step)


_NANO = Keys(
    "nano -I +{line} {tree}", "GNU nano", "C-o, see:File Name to Write, Enter", "Wrote", "Error writing", "C-x",
    "C-x, see:Save modified buffer, n",
)  # fmt: skip
_VIM = Keys(
    "vim -Nu NONE +{line} {tree}", "tree.yaml", "Escape, text::w, Enter", "B written", "Press ENTER",
    "text::q, Enter", "Enter, text::q!, Enter", "A",
)  # fmt: skip
TERMINAL_PROGRAMS = {
    "nano": _NANO,
    "nano -B": replace(_NANO, start="nano -I -B +{line} {tree}"),
    "emacs -nw": Keys(
        "emacs -nw -Q +{line} {tree}", "(Fundamental", "C-x, C-s", "Wrote", "Bad message", "C-x, C-c",
        "C-x, C-c, see:Save file, n, see:exit anyway, text:yes, Enter",
    ),
    "mg": Keys(
        "mg -n +{line} {tree}", "(fundamental", "C-x, C-s", "Wrote", "", "C-x, C-c",
        "C-x, C-c, see:Save file, n, see:really exit, text:yes, Enter",
    ),
    "jed": Keys(
        "jed -n {tree} -g {line}", "tree.yaml", "C-x, C-s", "Wrote", "Error fsyncing", "C-x, C-c",
        "C-x, C-c, see:ave, n", "C-e",
    ),
    "joe": Keys(
        "joe +{line} {tree}", "Joe's Own Editor", "C-k, d, see:Name of file to save, Enter", "saved", "", "C-c",
        "C-c", "C-e",
    ),
    "micro": Keys(
        "micro +{line} {tree}", "tree.yaml", "C-s", "Saved", "bad message", "C-q", "C-q, see:ave changes, n"
    ),
    "mcedit": Keys(
        "mcedit {tree}:{line}", "tree.yaml", "F2, see:Save, Enter", "[----]", "Save As", "F10",
        "Escape, Escape, gone:Save As, F10, see:Save before close, n",
    ),
    "ne": Keys(
        "ne --no-config +{line} {tree}", "tree.yaml", "C-s", "Saved", "rror", "C-q", "C-q, see:are you sure, y"
    ),
    "vim": _VIM,
    "nvim": replace(_VIM, start="nvim -u NONE +{line} {tree}"),
}  # fmt: skip


def installed(name: str) -> bool:
    """Whether the program behind an entry is there; ``scripts/setup test`` installs all of them."""
    return name[0] in ">pJVm" or shutil.which(name.split(" ")[0]) is not None
