"""Edits of single values in the text of a tree: set, add, remove, rename.

Only the bytes of the value change: comments, order, quotes, anchors, tags and every other byte stay.  An edit is
refused (``ValueRefusedError``) when it would change more than the caller named, because an alias shares the value.
Pure functions; offsets count characters.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from asdffs.errors import InvalidTreeError, Remedy, SharedValueError, ValueRefusedError
from asdffs.tree.locating import Container, Location, both_places, locate, missing
from asdffs.tree.paths import Path, format_path
from asdffs.tree.snippets import BLANKS, NewValue, Place, number_text, same, text_value, write_key, write_value
from asdffs.tree.tape import Tape, behind_properties
from asdffs.tree.values import OMAP, Nodes, ValueNode, scalar_value

#: What may follow a value on its line, and its line end.
_TAIL: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?")
_LINE_END: Final = re.compile(r"\r?\n")
#: The head of a literal or folded block, and the comment on it.
_BLOCK_HEAD: Final = re.compile(r"[|>][-+\d]*([ \t]+#[^\r\n]*)?")
#: White space and comments, as they may be between a key and its value.
_NOTHING: Final = re.compile(r"(?:\s|#[^\r\n]*)*")
_STEP: Final = 2


class Edit(NamedTuple):
    """Characters ``old`` from ``start`` on become ``new``.  ``path``: of the value, with numbers of items as ints.

    ``anchor``, ``distance``: how to find the place again: the path of a value that exists afterwards, and the
    characters from its start to that of the edit.
    ``note``: what the user may not have meant, such as text that becomes a number; else empty.
    """

    path: Path
    start: int
    old: str
    new: str
    line: int
    anchor: Path
    distance: int
    note: str = ""

    def apply(self, text: str) -> str:
        """Return ``text`` with the edit."""
        return text[: self.start] + self.new + text[self.start + len(self.old) :]


def set_value(tape: Tape, path: Path, new: NewValue, *, create: bool = False, shared: bool = False) -> Edit | None:
    """Return the edit that sets the value at ``path`` to ``new``; None if the value is ``new`` already.

    A missing key of a mapping, or the item behind the last one of a sequence, is added.  ``create``: also add missing
    mappings on the way.  ``shared``: change the value even if aliases share it.
    Raises ``MissingValueError`` if the parent is missing, else ``ValueRefusedError``, ``InvalidTreeError``.
    """
    text, found = tape.text, _located(tape, path)
    if found.missing:
        return _added(tape, found, path, new, create=create, shared=shared)
    if not path:
        raise ValueRefusedError("the root of the tree cannot be replaced; set the values in it")
    new = _fitting(found, new)
    if _has_already(found, new):
        return None
    _check_shared(found, path, shared=shared)
    edit = _replaced(text, found, new)
    return edit._replace(note=_note(found, new)) if edit.old != edit.new else None


def _fitting(found: Location, new: NewValue) -> NewValue:
    """Return ``new`` as it was typed if the value that is there is text: text stays text."""
    if new.typed_text is None or found.kind != "scalar" or not isinstance(scalar_value(found.tape, found.row), str):
        return new
    return text_value(new.typed_text)


def _note(found: Location, new: NewValue) -> str:
    """Return a note if the value becomes one of another kind."""
    kind, tag = _kind(new.node.value), found.tag or ""
    was = _kind(scalar_value(found.tape, found.row)) if found.kind == "scalar" else f"a {found.kind}"
    if was == kind:
        return ""
    was = "an array" if "core/ndarray" in tag else was
    stays = f"; it still has the tag {tag.rpartition('/')[2]}" if tag and found.kind != "scalar" else ""
    if was == "a number" and new.text is not None and (number := _as_number(new.text)):
        stays = f"; in YAML 1.1 this number is written {number}"
    return f"was {was}, and is {kind} now{stays}"


def _as_number(text: str) -> str:
    """Return how YAML 1.1 writes a number such as ``1e3``, which it reads as text; empty if it is none."""
    try:
        return number_text(float(text))
    except ValueError:
        return ""


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {
        str: "text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        dict: "a mapping",
        list: "a sequence",
    }
    return kinds.get(type(value), "a date")


def unset_value(tape: Tape, path: Path, *, shared: bool = False) -> Edit:
    """Return the edit that removes the value at ``path``, with its key and the comment on its line.

    Raises ``MissingValueError``, ``ValueRefusedError``, ``InvalidTreeError``.
    """
    text, found = tape.text, _existing(tape, path)
    removed = found.path
    if found.item is not None:
        found = _existing(tape, (*removed[:-1], found.item))
    _check_shared(found, path, shared=shared, removes=True)
    start, end, new = _extent(text, found)
    above = locate(tape, found.path[:-1])
    first, inside = above.origin, found.container
    if start <= first < end and inside is not None and inside.next_start is not None:
        following = _NOTHING.match(text, end)  # the next entry is the first one afterwards
        first = (following.end() if following else end) - (end - start) + len(new)
    return Edit(removed, start, text[start:end], new, found.line, above.path, start - first)


def rename_value(tape: Tape, path: Path, key: str, *, shared: bool = False) -> Edit:
    """Return the edit that gives the value at ``path`` another key in its mapping.

    Raises ``MissingValueError``, and ``ValueRefusedError`` if the mapping has that key already.
    """
    text, found = tape.text, _existing(tape, path)
    if found.key is None:
        raise ValueRefusedError(f"{format_path(path)} is an item of a sequence, and has no key", line=found.line)
    _check_shared(found, path[:-1], shared=shared, parent=True)
    other = locate(tape, (*found.path[:-1], key))
    if not other.missing:
        raise ValueRefusedError(f"{format_path((*path[:-1], key))} already exists", line=other.line)
    start, end = found.key
    written, renamed = write_key(key), (*found.path[:-1], key)
    distance = end - found.start - len(written)
    return Edit(renamed, start, text[start:end], written, found.line, renamed, distance)


def _located(tape: Tape, path: Path) -> Location:
    """Return where the value is.  Raises ``InvalidTreeError`` if a mapping on the way has a key of the path twice."""
    found = locate(tape, path)
    if found.twice is not None:
        raise InvalidTreeError(f"{both_places(found.twice)}; remove or rename one of the two", line=found.twice[2])
    return found


def _existing(tape: Tape, path: Path) -> Location:
    found = _located(tape, path)
    if found.missing:
        raise missing(tape, path, found)
    if not path:
        raise ValueRefusedError("the root of the tree cannot be removed or renamed")
    if found.container is None:
        raise _shared_error(found, path, None)
    return found


def _check_shared(found: Location, path: Path, *, shared: bool, removes: bool = False, parent: bool = False) -> None:
    """Raise ``ValueRefusedError`` if the edit would change more than the value at ``path``.

    ``removes``: the value is removed.  ``parent``: ``path`` is the mapping of the edited key.
    """
    if removes and found.anchor and found.kind != "alias":
        own = [found.tape.line(row) for row in found.aliases if row > found.row]
        if own:
            raise ValueRefusedError(
                f"{format_path(path)} has the anchor '&{found.anchor}', and {_lines(own)} uses it"
            )
    if found.inner and not parent:
        one = found.inner[0]
        sentence = f"{format_path(path)} has the anchor '&{one.anchor}' in it, and line {one.line} uses that"
        raise ValueRefusedError(sentence, line=one.anchor_line)
    if shared or not (found.through or found.aliases):
        return
    raise _shared_error(found, path, Remedy.CHANGE_SHARED)


def _shared_error(found: Location, path: Path, remedy: Remedy | None) -> SharedValueError:
    if found.through:
        last = found.through[-1]
        sentence = f"{format_path(path)} is shared: '*{last.anchor}' means the value of line {last.anchor_line}"
        return SharedValueError(sentence, line=last.line, remedy=remedy)
    sentence = f"{format_path(path)} is shared: {_lines([*map(found.tape.line, found.aliases)])} has an alias to it"
    return SharedValueError(sentence, line=found.line, remedy=remedy)


def _lines(lines: list[int]) -> str:
    return f"line {lines[0]}" if len(lines) == 1 else f"each of the lines {', '.join(map(str, lines[:10]))}"


# -- replace ----------------------------------------------------------------------


def _has_already(found: Location, new: NewValue) -> bool:
    """Return whether the value is ``new``; if ``new`` has no tag, the present tag stays and is not compared."""
    if found.kind == "alias" or (new.node.tag and new.node.tag != found.tag) or found.tape.has_alias(found.row):
        return False
    have = Nodes(found.tape, distinguish_quoted=True).node(found.row)
    return same(ValueNode("", have.value), ValueNode("", new.node.value))


def _replaced(text: str, found: Location, new: NewValue) -> Edit:
    box = found.container
    assert box is not None, "the root is not replaced"
    start, end, comment = found.content, found.end, ""
    lead = ""
    style = found.style
    if found.kind == "scalar" and style in ("|", ">"):
        end = _without_blank_lines(text, start, end)
        head = _BLOCK_HEAD.match(text, start)
        comment = head[1] or "" if head else ""
    elif found.kind in ("mapping", "sequence") and not found.flow and "#" not in text[_before(text, found) : start]:
        start, lead = _before(text, found), " "
    if new.node.tag or found.kind == "alias":
        start, lead = found.start, ""
        if found.anchor and found.kind != "alias":
            lead = f"&{found.anchor} "
    if start == end and not text[start - 1].isspace():  # there is nothing yet, maybe not even a colon: {a, b}
        lead = ": " if found.key is not None and found.key[1] == start else " "
    written = write_value(new, _place(text, found, box), style=style)
    old = text[start:end]
    if written[:1] in ("\r", "\n"):
        lead = lead.rstrip()
    written = _with_comment(written, comment)
    if old.endswith("\n") and not written.endswith("\n"):
        written += newline_of(text, start)
    first = start + len(lead) + len(written) - len(written.lstrip(BLANKS)) if start <= found.start else found.start
    return Edit(found.path, start, old, lead + written, found.line, found.path, start - first)


def _place(text: str, found: Location, box: Container) -> Place:
    indent = box.column + _STEP
    if found.kind == "scalar" and found.style in ("|", ">"):
        first = re.search(r"\n( *)[^\s]", text[found.content : found.end])
        indent = len(first[1]) if first else indent
    return Place(flow=box.flow, indent=indent, newline=newline_of(text, found.start))


def _with_comment(written: str, comment: str) -> str:
    """Return ``written`` with ``comment``, from the head of the replaced block, on its first line."""
    first, end, rest = written.partition("\n")
    if not comment or first.endswith("\r"):
        return written
    return f"{first}{comment}{end}{rest}"


def _without_blank_lines(text: str, start: int, end: int) -> int:
    """Return the end of a block scalar without the blank lines behind it, which stay."""
    kept = text[start:end].rstrip(BLANKS)
    line_end = _LINE_END.search(text, start + len(kept))
    return line_end.end() if line_end and line_end.end() <= end else end


def _before(text: str, found: Location) -> int:
    """Return the offset behind the colon, dash or tag of a block collection."""
    if found.content != found.start:
        return behind_properties(text, found.start)[0]
    if found.key is not None:
        return text.index(":", found.key[1]) + 1
    return _dash(text, found) + 1


def newline_of(text: str, place: int) -> str:
    """Return the line end of the line at ``place``."""
    found = _LINE_END.search(text, place)
    return found[0] if found else "\n"


# -- add --------------------------------------------------------------------------


def _added(tape: Tape, found: Location, path: Path, new: NewValue, *, create: bool, shared: bool) -> Edit:
    text, box = tape.text, found.container
    if box is None:
        raise ValueRefusedError("the file has no tree to add a value to")
    first, *rest = found.missing
    ordered = found.tag == OMAP and isinstance(first, str)
    wrong = not ordered and (isinstance(first, str) != box.mapping or (not box.mapping and first != box.number))
    if wrong or (rest and not create) or any(isinstance(step, int) for step in rest):
        raise missing(tape, path, found, creates=not wrong)
    _check_shared(found, path, shared=shared)
    newline = newline_of(text, box.start)
    if box.flow:
        lead = "" if box.number == 0 else ", "
        start = box.start + 1 if box.number == 0 else box.last_end
        name = [str(first)] if box.mapping or ordered else []
        entry, before = _flow_entry(name, [str(step) for step in rest], write_value(new, Place(flow=True)))
        return Edit(path, start, "", lead + entry, box.line, path, -len(lead) - before)
    names = ([] if box.mapping else [None]) + ([str(first)] if box.mapping or ordered else [])
    entry, before = _block_entry([*names, *map(str, rest)], new, box.column, newline)
    start = _line_end(text, box.last_end)
    entry = entry.rstrip("\r\n")
    if written := text[box.start : found.end] if box.number == 0 else "":  # the tree is null, and says so
        return Edit(path, box.start, written, newline + entry, box.line, path, -len(newline) - before)
    if start == box.last_end and text[start - 1 : start] == "\n":
        return Edit(path, start, "", entry + newline, box.line, path, -before)
    return Edit(path, start, "", newline + entry, box.line, path, -len(newline) - before)


def _line_end(text: str, place: int) -> int:
    """Return where the line of ``place`` ends, before its line end; ``place`` itself if a block ended the line."""
    if text[place - 1 : place] == "\n":
        return place
    tail = _TAIL.match(text, place)
    return tail.end() if tail else place


def _flow_entry(name: list[str], keys: list[str], value: str) -> tuple[str, int]:
    """Return a new entry in flow style, with the mappings that are created for it, and where its value begins."""
    before = "".join([*(f"{write_key(key)}: " for key in name), *(f"{{{write_key(key)}: " for key in keys)])
    return f"{before}{value}{'}' * len(keys)}", len(before)


def _block_entry(names: list[str | None], new: NewValue, column: int, newline: str) -> tuple[str, int]:
    """Return the lines of a new entry, with the mappings that are created for it, and where its value begins.

    ``names``: the keys from the outermost on, None for a dash, which stands on the line of the next key.
    """
    lines, dash = list[str](), ""
    for name in names:
        if name is None and len(names) > 1:
            dash = "- "
            continue
        lines.append(" " * column + dash + ("-" if name is None else f"{write_key(name)}:"))
        column, dash = column + len(dash) + _STEP, ""
    column -= _STEP
    written = write_value(new, Place(indent=column + _STEP, newline=newline))
    before = newline.join(lines) + ("" if written[:1] in ("\r", "\n") else " ")
    return before + written, len(before) + len(written) - len(written.lstrip(BLANKS))


# -- remove -----------------------------------------------------------------------


def _extent(text: str, found: Location) -> tuple[int, int, str]:
    """Return the start and end of the text to remove, and the text that replaces it."""
    box = found.container
    assert box is not None, "the root is not removed"
    start = found.key[0] if found.key else found.start
    if box.flow:
        if box.next_start is not None:
            return start, box.next_start, ""
        return (box.last_end if box.number else start), found.end, ""
    if found.key is None:
        start = _dash(text, found)
    elif text[:start].rstrip(" ").endswith("?"):
        raise ValueRefusedError("its key is written with '?'; remove it in an editor", line=found.line)
    if box.number == 0 and box.next_start is None:
        return (
            start,
            found.end,
            ("{}" if box.mapping else "[]")
            + (newline_of(text, start) if text[found.end - 1] == "\n" and found.end > start else ""),
        )
    line_start = text.rfind("\n", 0, start) + 1
    if text[line_start:start].strip(" "):  # the first of a mapping in "- key: value"
        assert box.next_start is not None
        end = _line_end(text, found.end)
        comment = text.find("#", end, box.next_start)
        return start, comment if comment >= 0 else _item_start(text, box), ""
    end = _line_end(text, found.end)
    line_end = _LINE_END.match(text, end)
    return line_start, line_end.end() if line_end else end, ""


def _item_start(text: str, box: Container) -> int:
    """Return where the next key or dash is."""
    assert box.next_start is not None
    if box.mapping:
        return box.next_start
    return _dash_before(text, box.next_start, box.column)


def _dash(text: str, found: Location) -> int:
    """Return where the dash of an item of a block sequence is."""
    box = found.container
    assert box is not None, "the root is no item"
    return box.start if box.number == 0 else _dash_before(text, found.start, box.column)


def _dash_before(text: str, place: int, column: int) -> int:
    dash = text.rfind("-", 0, place)
    while dash >= 0:
        at = dash - text.rfind("\n", 0, dash) - 1
        if at == column and _NOTHING.fullmatch(text, dash + 1, place):
            return dash
        dash = text.rfind("-", 0, dash)
    raise ValueRefusedError("the item is written in a way that cannot be edited alone; use an editor")
