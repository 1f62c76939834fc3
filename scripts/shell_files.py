"""Makes man pages, and completions of bash, zsh and fish, from the parser.  ``setup.py`` puts them into the wheel.

shtab and argparse-manpage do the work.  What they cannot know from the parser is here: which arguments are files,
and how mount points, mount options and paths of a tree are completed.

Words from files and mount tables are hostile.  The builtin ``compgen -W`` of bash expands ``$(...)`` in its words, so
only words of ours are given to it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import shtab
from argparse_manpage.manpage import Manpage

from asdffs import __version__, registry
from asdffs.cli.arguments import command_names, make_parsers
from asdffs.cli.mount_options import usages

#: Arguments that are files, by the name that the help gives them.
_FILES = {"FILE", "OUT", "A", "B", "RECORD", "FROM", "STORE", "STORE|FILE", "DIR/STEM.asdf"}
#: The completion of bash that offers those lines of its input that begin with the word.
_BASH_LINES = """\
_asdffs_lines() {
  local line
  while IFS= read -r line; do [[ $line != "$1"* ]] || printf '%s\\n' "$line"; done
}
"""
_MOUNTS = "findmnt -rno TARGET -t fuse.asdffs"
_PATHS = "asdffs grep -F '' \"$word\" 2> /dev/null | sed 's/: .*//'"


def _shells(bash: str, zsh: str, fish: str, preambles: dict[str, str]) -> dict[str, str | dict[str, str]]:
    return {"bash": bash, "zsh": zsh, "fish": fish, "preamble": preambles}


def _mount_points() -> dict[str, str | dict[str, str]]:
    """Complete what is mounted, and files."""
    bash = f'{_BASH_LINES}_asdffs_mounts_or_file() {{ {_MOUNTS} | _asdffs_lines "$1"; compgen -f -- "$1"; }}\n'
    zsh = f'_asdffs_mounts_or_file() {{ compadd -- ${{(f)"$({_MOUNTS})"}}; _files; }}\n'
    fish = f"({_MOUNTS}; __fish_complete_path (commandline -ct))"
    return _shells("_asdffs_mounts_or_file", "_asdffs_mounts_or_file", fish, {"bash": bash, "zsh": zsh})


def _tree_paths() -> dict[str, str | dict[str, str]]:
    """Complete the paths of the first file that the command line names."""
    bash = f"""{_BASH_LINES}_asdffs_paths() {{
  local word
  for word in "${{COMP_WORDS[@]:2}}"; do
    [ ! -f "$word" ] || {{ {_PATHS} | _asdffs_lines "$1"; return; }}
  done
}}
"""
    zsh = f"""_asdffs_paths() {{
  local word
  for word in $words[2,-1]; do
    [ ! -f "$word" ] || {{ compadd -- ${{(f)"$({_PATHS})"}}; return; }}
  done
}}
"""
    fish = f"""function _asdffs_paths
  for word in (commandline -opc)[3..]
    test -f $word; and {_PATHS}; and break
  end
end
"""
    return _shells("_asdffs_paths", "_asdffs_paths", "(_asdffs_paths)", {"bash": bash, "zsh": zsh, "fish": fish})


def _mount_options() -> dict[str, str | dict[str, str]]:
    """Complete the last of the mount options, which are separated by commas."""
    names = " ".join(usage.partition("=")[0] + "=" * ("=" in usage) for usage in usages())
    bash = f"""_asdffs_options() {{
  local before="" word
  [[ $1 != *,* ]] || before="${{1%,*}},"
  compopt -o nospace 2> /dev/null
  for word in {names}; do [[ $before$word != "$1"* ]] || printf '%s\\n' "$before$word"; done
}}
"""
    zsh = f"_asdffs_options() {{ compset -P '*,'; compadd -S '' -- {names}; }}\n"
    return _shells("_asdffs_options", "_asdffs_options", f"(__fish_append , {names})", {"bash": bash, "zsh": zsh})


def _tell_shtab(command: str, action: argparse.Action) -> None:
    """Note how the values of an argument are completed."""
    name = str(action.metavar)
    if name in _FILES:
        action.complete = shtab.FILE
    elif name == "MNT" and command == "umount":
        action.complete = _mount_points()
    elif name in ("DIR", "MNT"):
        action.complete = shtab.DIRECTORY
    elif name in ("PATH", "PATH[SLICE]"):
        action.complete = _tree_paths()
    elif action.dest == "options":
        action.complete = _mount_options()
    elif action.dest == "compression":
        action.choices = ["none", *map(str, registry.names("codecs"))]
    elif name == "VIEW":
        action.choices = list(registry.names("views"))


def completions() -> dict[str, str]:
    """Return the place below ``share`` of each script, and its text."""
    parser, commands = make_parsers(command_names(), None)
    for name, command in commands.items():
        for one in (command, *_subcommands(command).values()):
            for action in one._actions:
                _tell_shtab(name, action)
    return {
        "bash-completion/completions/asdffs": shtab.complete(parser, "bash"),
        "zsh/site-functions/_asdffs": shtab.complete(parser, "zsh"),
        "fish/vendor_completions.d/asdffs.fish": shtab.complete(parser, "fish"),
    }


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found[0].choices if found else {}


def pages() -> dict[str, str]:
    """Return the file name of each man page, and its text: ``asdffs.1`` and one for each command."""
    parser, commands = make_parsers(command_names(), None)
    found = {f"asdffs-{name}.1": _page(f"asdffs-{name}", command) for name, command in commands.items()}
    table = "\n".join(f".TP\n.B {name}\n{command.description}" for name, command in commands.items())
    for action in parser._actions:
        action.help = argparse.SUPPRESS  # the commands have pages of their own
    return {"asdffs.1": _page("asdffs", parser, table)} | found


def _page(name: str, parser: argparse.ArgumentParser, table: str = "") -> str:
    parser.man_short_description = parser.description
    page = Manpage(parser)
    page.prog, page.date, page.source, page.manual = name, "", f"asdffs {__version__}", ""
    for heading, text in [("commands", table), *_sections(parser.epilog or "")]:
        if text:
            page.add_section(heading, "=", text)
    page.add_section("see also", "=", ".BR asdffs (1)" if not table else ".BR asdffs-mount (1)")
    parser.epilog = None  # else it would be filled, and its examples would lose their lines
    return str(page)


def _sections(epilog: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of an epilog, which begin with a line that ends with a colon, as they are written."""
    heading, lines = "notes", list[str]()
    for line in epilog.strip().split("\n"):
        if re.fullmatch(r"\S.*:", line):
            yield heading, _verbatim(lines)
            heading, lines = line.rstrip(":").replace("exit codes", "exit status"), []
        else:
            lines.append(line)
    yield heading, _verbatim(lines)


def _verbatim(lines: list[str]) -> str:
    """Return lines that man(1) shows as they are; a dot or quote at the beginning would be a macro."""
    text = "\n".join(lines).strip("\n").replace("\\", "\\e").replace("-", "\\-")
    safe = re.sub(r"(?m)^(?=[.'])", r"\\&", text)
    return f".nf\n{safe}\n.fi" if safe else ""
