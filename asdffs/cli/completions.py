"""Completions for bash, zsh and fish, from the parser.

Words after ``asdffs`` are commands; after a command its options, choices of an option, and files.
"""

from __future__ import annotations

from collections.abc import Iterator

from asdffs.cli.command_line import Argument, Command, describe


def completions() -> dict[str, str]:
    """Place below ``share`` of each script -> its text."""
    top, commands = describe()
    return {
        "bash-completion/completions/asdffs": "\n".join(_bash(top, commands)) + "\n",
        "zsh/site-functions/_asdffs": "\n".join(_zsh(top, commands)) + "\n",
        "fish/vendor_completions.d/asdffs.fish": "\n".join(_fish(top, commands)) + "\n",
    }


def _flags(command: Command) -> list[str]:
    """Of it, and of the commands that it has itself."""
    own = [flag for argument in command.arguments for flag in argument.flags]
    below = [flag for action in command.actions for flag in _flags(action)] if command.name else []
    return list(dict.fromkeys([*own, *below]))


def _actions(command: Command) -> str:
    """The names of the commands that it has itself."""
    return " ".join(action.name.rpartition(" ")[2] for action in command.actions)


def _arguments(command: Command) -> list[Argument]:
    """As ``_flags``."""
    found = {
        argument.flags: argument for action in command.actions for argument in action.arguments if argument.flags
    }
    return [*command.arguments, *found.values()] if command.name else list(command.arguments)


def _bash(top: Command, commands: tuple[Command, ...]) -> Iterator[str]:
    names = " ".join(command.name for command in commands)
    yield "# bash completion for asdffs"
    yield "_asdffs() {"
    yield '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=""'
    yield "    COMPREPLY=()"
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'        mapfile -t COMPREPLY < <(compgen -W "{names} {" ".join(_flags(top))}" -- "$word")'
    yield "        return"
    yield "    fi"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for command in commands:
        for argument in command.arguments:
            if argument.flags and argument.choices:
                patterns = "|".join(f'"{command.name} {flag}"' for flag in argument.flags)
                yield f'        {patterns}) words="{" ".join(argument.choices)}" ;;'
    yield "        *)"
    yield '            case "${COMP_WORDS[1]}" in'
    for command in commands:
        if command.actions:
            yield f'                {command.name}) [ "$COMP_CWORD" -ne 2 ] || words="{_actions(command)}"'
            yield f'                    [[ $word != -* ]] || words="{" ".join(_flags(command))}" ;;'
        else:
            yield f'                {command.name}) [[ $word != -* ]] || words="{" ".join(_flags(command))}" ;;'
    yield "            esac ;;"
    yield "    esac"
    yield '    if [ -n "$words" ]; then mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")'
    yield '    else mapfile -t COMPREPLY < <(compgen -f -- "$word"); compopt -o filenames 2> /dev/null; fi'
    yield "}"
    yield "complete -F _asdffs asdffs"


def _zsh(top: Command, commands: tuple[Command, ...]) -> Iterator[str]:
    yield "#compdef asdffs"
    yield "_asdffs() {"
    yield "    local -a commands"
    yield "    commands=("
    yield from (f"        '{command.name}:{_zsh_quoted(command.text)}'" for command in commands)
    yield "    )"
    yield "    if (( CURRENT == 2 )); then"
    yield f"        _describe command commands; compadd -- {' '.join(_flags(top))}"
    yield "        return"
    yield "    fi"
    yield "    case $words[2] in"
    for command in commands:
        yield f"        {command.name}) shift words; (( CURRENT-- )); _arguments \\"
        for argument in _arguments(command):
            yield from (f"            {specification} \\" for specification in _zsh_specifications(argument))
        if command.actions:
            yield f"            '1:action:({_actions(command)})' \\"
        yield "            '*:file:_files' ;;"
    yield "    esac"
    yield "}"
    yield '_asdffs "$@"'


def _zsh_specifications(argument: Argument) -> Iterator[str]:
    text = _zsh_quoted(argument.text).replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    action = f"({' '.join(argument.choices)})" if argument.choices else "_files" if argument.is_path else " "
    value = f":{argument.value.split('[')[0].replace(',', ' ')}:{action}" if argument.value else ""
    yield from (f"'{flag}[{text}]{value}'" for flag in argument.flags)


def _fish(top: Command, commands: tuple[Command, ...]) -> Iterator[str]:
    yield "# fish completion for asdffs"
    for command in commands:
        yield f"complete -c asdffs -n __fish_use_subcommand -f -a {command.name} -d '{_fish_quoted(command.text)}'"
    yield from _fish_options(top, "__fish_use_subcommand")
    for command in commands:
        seen = f"__fish_seen_subcommand_from {command.name}"
        yield from _fish_options(command, f"'{seen}'")
        if command.actions:
            yield f"complete -c asdffs -n '{seen}' -a '{_actions(command)}'"


def _fish_options(command: Command, condition: str) -> Iterator[str]:
    for argument in _arguments(command):
        if not argument.flags:
            continue
        flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in argument.flags)
        value = f" -x -a '{' '.join(argument.choices)}'" if argument.choices else " -r" if argument.value else ""
        yield f"complete -c asdffs -n {condition} {flags}{value} -d '{_fish_quoted(argument.text)}'"


def _zsh_quoted(text: str) -> str:
    """Inside single quotes."""
    return text.replace("'", "'\\''")


def _fish_quoted(text: str) -> str:
    """Inside single quotes."""
    return text.replace("\\", "\\\\").replace("'", "\\'")
