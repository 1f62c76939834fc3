"""Checks whether a draft may become the tree of the file.

An error refuses the draft (``InvalidTreeError``), because the file could not be opened.  A warning, shown in
``.asdffs/status.json``, means that the file opens but something in it refers to nothing.  The rules are those of
sections Header, Comments and Tree.  Pure functions.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from asdffs.arrays.ndarrays import Ndarray, arrays_of, is_in_pieces
from asdffs.arrays.rechecking import CheckedBefore, Entries, entries_of, rest_to_read
from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError, NotAsdfError, Remedy
from asdffs.format.constants import STANDARD_TOKEN
from asdffs.format.text import Header, find_comments_end, find_tree_end, parse_header, standard_version
from asdffs.tree.resolving import SHOWN
from asdffs.tree.rules import check_tree
from asdffs.tree.tape import Tape

_YAML_DIRECTIVE = re.compile(rb"%YAML 1\.1[ \t]*\r?\n")
_DECODED_AT_ONCE = 1 << 20
#: The error for a text without its last line.
MISSING_END = "end marker missing: the save may be incomplete; a tree ends with a line '...'"


class Oddity(NamedTuple):
    """What the file's version of the standard excludes.  ``mark``: the same for the same thing in another text."""

    mark: str
    sentence: str
    line: int


class CheckedText(NamedTuple):
    """A text that may become the tree of a file.

    ``start``: the offset where its tree begins in bytes.  ``entries``: see ``rechecking``.  ``oddities``: what the
    text before had already.
    """

    header: Header
    start: int
    arrays: tuple[Ndarray, ...] = ()
    entries: Entries | None = None
    oddities: tuple[Oddity, ...] = ()


def check_text(
    text: bytes,
    dialect: Dialect,
    *,
    had_tree: bool,
    before: bytes = b"",
    checked: CheckedBefore | None = None,
    whole_before: Callable[[], bytes] = bytes,
    read: Callable[[bytes], Tape] | None = None,
    last: bool = False,
) -> CheckedText:
    """Check a draft.

    A draft without a tree is accepted only if the file had none (``had_tree`` is false); otherwise the save was cut
    off.  ``before``: the text that it replaces, at least its head, whose versions it may keep.  ``checked``: what is
    known of that text: entries that are the same are not read again.  ``whole_before``: returns all of that text,
    whose oddities the draft may keep.  ``read(text)``: returns the tape of the whole draft, if somebody may have it.
    ``last``: no other draft follows, which would need the entries of this one.  Raises ``InvalidTreeError``.
    """
    _check_utf8(text)
    header = _check_header(text, dialect, before)
    standard = _check_standard(text, dialect, before)
    start = find_comments_end(text, header.size)
    if start is None:
        if had_tree or not text.endswith(b"\n"):
            raise InvalidTreeError(MISSING_END, line=text.count(b"\n") + 1)
        return CheckedText(header, len(text))
    _check_extent(text, start)
    if checked is not None and standard == standard_version(_comments_of(before)):
        found = _read_changes(text, dialect, standard, checked)
        if found is not None:
            return CheckedText(header, start, *found)
    tape = (read or Tape)(text)
    oddities = _oddities(tape, dialect, standard)
    if oddities:
        _refuse_new(oddities, whole_before(), dialect)
    entries = None if last else _entries(tape, dialect)
    return CheckedText(header, start, tuple(arrays_of(tape, dialect)), entries, oddities)


def read_checked(tape: Tape, dialect: Dialect) -> tuple[tuple[Ndarray, ...], Entries | None]:
    """Check a tree, and return its arrays, and its entries for the next check (``rechecking``).

    Raises ``InvalidTreeError``, also for a mapping that has a key twice.
    """
    check_tree(tape, unique=True)
    entries = _entries(tape, dialect)
    return tuple(arrays_of(tape, dialect)), entries


def useful_entries(tape: Tape, dialect: Dialect) -> Entries | None:
    """Check a tree, and return its entries; None, without a check, if these would spare less than half of the text.

    Raises as ``read_checked``.
    """
    entries = _entries(tape, dialect)
    if entries is None or 2 * entries.spared < len(tape.text):
        return None
    check_tree(tape, unique=True)
    return entries


def _entries(tape: Tape, dialect: Dialect, first_key: int | None = None) -> Entries | None:
    return entries_of(tape, lambda tag: dialect.is_ndarray(tag) or is_in_pieces(tag), first_key)


def _oddities(tape: Tape, dialect: Dialect, standard: str | None) -> tuple[Oddity, ...]:
    """Check a tree; return tags of other versions of the standard, and keys that this one excludes (section Tree).

    Raises ``InvalidTreeError``.
    """
    excluded = check_tree(tape, unique=True)
    return (
        *_foreign_tags(tape, dialect, standard),
        *_excluded_keys(tape, excluded if dialect.excludes_keys(standard) else ()),
    )


def _foreign_tags(tape: Tape, dialect: Dialect, standard: str | None) -> Iterator[Oddity]:
    wrong = {tag for tag in set(tape.tags.values()) if not dialect.is_of_standard(tag, standard)}
    for row, tag in tape.tags.items() if wrong else ():
        if tag in wrong:
            wrong.remove(tag)
            name, named = tag.rpartition("/")[2], f"ASDF_STANDARD {standard}" if standard else "1.0.0"
            reason = "" if standard else ", which a file without the line '#ASDF_STANDARD' has"
            sentence = (
                f"{name} belongs to another version of the standard than {named}{reason}; programs ignore the tag"
            )
            yield Oddity(f"{tag} {standard}", sentence, tape.line(row))


def _excluded_keys(tape: Tape, rows: Sequence[int]) -> Iterator[Oddity]:
    for row in rows:
        key = tape.text[tape.start[row] : tape.end[row]]
        sentence = f"the key {key[:SHOWN]} is neither text, an integer nor a boolean; write it in quotes"
        yield Oddity(f"key {key}", sentence, tape.line(row))


def _refuse_new(oddities: Sequence[Oddity], before: bytes, dialect: Dialect) -> None:
    """Raise ``InvalidTreeError`` for the first oddity that the text before did not have."""
    known: set[str] = set()
    if before:
        try:
            known = {one.mark for one in _oddities(Tape(before), dialect, standard_version(_comments_of(before)))}
        except InvalidTreeError:  # it is being repaired, and what else it had is not known
            return
    for one in oddities:
        if one.mark not in known:
            raise InvalidTreeError(one.sentence, line=one.line)


def _read_changes(
    text: bytes, dialect: Dialect, standard: str | None, checked: CheckedBefore
) -> tuple[tuple[Ndarray, ...], Entries] | None:
    """Return the arrays and the entries of the tree; None if all of the text must be read."""
    rest = rest_to_read(text, checked)
    if rest is None:
        return None
    try:
        tape = Tape(rest.shortened.text)
        if _oddities(tape, dialect, standard):  # all of it is read: the text before may have the same
            return None
        arrays, found = tuple(arrays_of(tape, dialect)), _entries(tape, dialect, checked.entries.offsets[0])
    except InvalidTreeError:  # the whole text has the same error, which then names the place
        return None
    entries = rest.join(found)
    return None if entries is None else (arrays, entries)


def _check_utf8(text: bytes) -> None:
    if text.startswith(b"\xef\xbb\xbf"):
        raise InvalidTreeError("the text begins with a byteorder marker; save it as UTF-8 without BOM", line=1)
    place = find_not_utf8(text)
    if place is not None:
        line = text.count(b"\n", 0, place) + 1
        column = place - text.rfind(b"\n", 0, place)
        raise InvalidTreeError("not UTF-8; save the text as UTF-8", line=line, column=column)


def find_not_utf8(text: bytes) -> int | None:
    """Return the offset of the first byte that is not UTF-8, None without one.

    Decodes in pieces, because as one string the text takes up to four times its size.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(text), _DECODED_AT_ONCE):
        kept = len(decoder.getstate()[0])  # bytes of an incomplete character
        try:
            decoder.decode(text[start : start + _DECODED_AT_ONCE], final=start + _DECODED_AT_ONCE >= len(text))
        except UnicodeDecodeError as err:
            return start - kept + err.start
    return None


def _check_header(text: bytes, dialect: Dialect, before: bytes) -> Header:
    try:
        header = parse_header(text)
    except NotAsdfError as err:
        raise InvalidTreeError("the first line must be the header line, such as '#ASDF 1.0.0'", line=1) from err
    refusal = dialect.accepts_text(header)
    if refusal and not before.startswith(text[: header.size]):
        raise InvalidTreeError(refusal, line=1, remedy=Remedy.UPGRADE if dialect.upgradable else None)
    return header


def _check_standard(text: bytes, dialect: Dialect, before: bytes) -> str | None:
    """Return the version of the standard; refuse an unknown or missing one, unless the file has the same already."""
    version, had = standard_version(_comments_of(text)), standard_version(_comments_of(before))
    if version == had or version in dialect.standards or (version is None and not before):
        return version
    if version is None:
        sentence = f"the line '#ASDF_STANDARD {had}' is missing; programs would take the tree for one of 1.0.0"
        raise InvalidTreeError(sentence, line=2)
    known = f"{dialect.standards[0]} to {dialect.standards[-1]}" if dialect.standards else "none"
    line = text[: text.index(STANDARD_TOKEN)].count(b"\n") + 1
    raise InvalidTreeError(f"unknown ASDF_STANDARD {version}; known versions: {known}", line=line)


def _comments_of(text: bytes) -> bytes:
    """Return the header line and the comments after it."""
    return text[: find_comments_end(text, 0)] if text else b""


def _check_extent(text: bytes, start: int) -> None:
    if _YAML_DIRECTIVE.match(text, start) is None:
        line = text.count(b"\n", 0, start) + 1
        raise InvalidTreeError("after the comments the tree must begin with the line '%YAML 1.1'", line=line)
    end = find_tree_end(text, start, at_eof=False)
    if end is None:
        raise InvalidTreeError(MISSING_END, line=text.count(b"\n") + 1)
    if end != len(text):
        line = text.count(b"\n", 0, end) + 1
        raise InvalidTreeError("text follows the end marker '...'; the tree must end there", line=line)
