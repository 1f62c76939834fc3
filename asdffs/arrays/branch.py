"""Branches of a tree: the mappings and sequences that lead to arrays, and the references between them.

An alias, a merge key and a ``$ref`` into the same tree lead to the branch that they refer to.  So a branch may have
several parents, but there are no cycles.  Branches do not change after the outline was read, except ``stamp`` and
``listing``.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from asdffs.arrays.ndarrays import Ndarray
from asdffs.errors import InvalidTreeError
from asdffs.limits import REFERENCES
from asdffs.tree.paths import Path

#: The largest number of digits in an item number.
_LONGEST: Final = 20
#: The longest chain of references: each takes a few levels of Python's recursion.
_FARTHEST: Final = 100
#: The tags of quantities: a ``value`` with a ``unit`` (schema unit/quantity, and those of asdf-astropy).
_QUANTITY: Final = re.compile(
    r".*[:/](unit/quantity|coordinates/(angle|longitude|latitude|spectralcoord|spectral_coord))-[\d.]+"
)
_TABLE: Final = re.compile(r".*[:/](core|table)/table(?:-[\d.]+)?")
_MASK: Final = "mask"
_DATA: Final = "data"
_FITS: Final = re.compile(r".*[:/]fits/fits(?:-[\d.]+)?")


class Scalar(NamedTuple):
    """A scalar as written; ``plain``: without quotes and tag, so it may be a number; ``tag``: empty without one."""

    text: str
    plain: bool
    tag: str = ""


#: Shared by all branches without children or scalars, to save memory; never changed.
_NO_CHILDREN: Final[Mapping[Any, Any]] = MappingProxyType({})


class Branch:
    """A mapping or a sequence.  Spans are in characters.

    Place: ``path`` from the root, of its first occurrence; ``line``, from 1; ``span`` of its text.

    Content: ``children`` are the mappings and sequences in it, by key or number; ``scalars`` are the short scalars of
    a mapping; ``above`` are its parents.  Children that neither hold nor lead to anything, and are not metadata, are
    left out.  Most metadata nobody asks for, so ``later`` reads these two when somebody does; ``units``: there may
    be keys that state units.

    Of an ndarray: ``array`` is its description; ``source``, the span of its source; ``shared``, whether aliases other
    than sources use that source; ``inline``, the span of values in the tree (its data or those of a mask);
    ``nulls``, whether some of these are null.

    Of a reference: ``reference`` is the ``$ref``; ``external_uri``, the URI if it refers to another file.  A branch
    that is made with a ``reference`` is one to another file.

    Flags: ``holds``, it is or contains an array, or units of FITS; ``leads``, it contains a ``$ref`` or metadata;
    ``metadata``, it is below a key of metadata.

    ``label``: the name of a column of a table, which its key, a number, does not tell.

    For other modules: ``stamp`` is the time of the last change of an ndarray (``changes``); ``listing`` is a cache of
    a view.
    """

    __slots__ = (
        "_children",
        "_scalars",
        "above",
        "array",
        "external_uri",
        "holds",
        "inline",
        "label",
        "later",
        "leads",
        "line",
        "listing",
        "mapping",
        "metadata",
        "nulls",
        "path",
        "reference",
        "shared",
        "source",
        "span",
        "stamp",
        "tag",
        "units",
    )

    def __init__(
        self,
        tag: str,
        path: Path,
        line: int,
        span: tuple[int, int] = (0, 0),
        *,
        mapping: bool = True,
        metadata: bool = False,
        inline: tuple[int, int] | None = None,
        reference: str | None = None,
    ) -> None:
        self.tag = tag
        self.path = path
        self.line = line
        self.span = span
        self.mapping = mapping
        self.above: Sequence[Branch] = ()
        self._children: Mapping[str | int, Branch] = _NO_CHILDREN
        self._scalars: Mapping[str, Scalar] = _NO_CHILDREN
        self.later: Callable[[Branch], None] | None = None
        self.units = True
        self.array: Ndarray | None = None
        self.source: tuple[int, int] | None = None
        self.shared = False
        self.inline = inline
        self.nulls = False
        self.reference = reference
        self.external_uri = reference
        self.holds = False
        self.metadata = metadata
        self.leads = reference is not None
        self.stamp = 0
        self.listing: Any = None
        self.label: str | None = None

    @property
    def children(self) -> Mapping[str | int, Branch]:
        """The mappings and sequences in the branch, by key or number."""
        self._read()
        return self._children

    @property
    def scalars(self) -> Mapping[str, Scalar]:
        """The short scalars of a mapping, by key."""
        self._read()
        return self._scalars

    def _read(self) -> None:
        if self.later is not None:
            later, self.later = self.later, None
            later(self)

    @property
    def masked(self) -> bool:
        """True if an ndarray has a mask that is not an array: a value, or nulls among its elements.

        A mask that is an array takes precedence over nulls (schema core/ndarray, inline-data).
        """
        return "mask" in self.scalars or (self.nulls and "mask" not in self.children)

    def add(self, key: str | int, child: Branch) -> None:
        """Put ``child`` at ``key`` of this branch; it may have other parents."""
        self._read()
        if not isinstance(self._children, dict):
            self._children = {}
        self._children[key] = child
        child.add_parent(self)
        if child.holds:
            self.hold()

    def add_parent(self, above: Branch) -> None:
        """Add ``above`` to the parents.  Most branches have one parent, so a tuple holds it until there are more."""
        if isinstance(self.above, list):
            self.above.append(above)
        else:
            self.above = [*self.above, above] if self.above else (above,)

    def remove(self, key: str | int) -> None:
        """Remove the child at ``key``, if there is one."""
        if isinstance(self._children, dict):
            self._children.pop(key, None)

    def add_scalar(self, key: str, scalar: Scalar) -> None:
        """Put ``scalar`` at ``key``."""
        if not isinstance(self._scalars, dict):
            self._scalars = {}
        self._scalars[key] = scalar

    def hold(self) -> None:
        """Mark this branch and all of its ancestors as holding an array."""
        rest = [self]
        while rest:
            branch = rest.pop()
            if not branch.holds:
                branch.holds = True
                rest += branch.above


def shown_key(key: str | int, child: Branch) -> str | int:
    """Return what stands for ``key`` in paths of arrays: the name of a column, or the key itself."""
    return key if child.label is None else child.label


class Outline(NamedTuple):
    """The outline of ``text``, which is empty if no span needs it.

    ``root``: the whole tree, None without one.  ``arrays``: the branches of all ndarrays, in the order of the text.
    ``prefix``: the directives before the tree, including ``---``.
    """

    text: str
    root: Branch | None
    arrays: tuple[Branch, ...]
    prefix: str = ""

    def shown_path(self, branch: Branch) -> Path | None:
        """Return the path of a branch of this tree, with the names of columns instead of their numbers.

        None if it is not there: the last of equal keys counts, and a ``$ref`` replaces what is beside it.
        """
        found, shown = self.root, list[str | int]()
        for key in branch.path:
            found = None if found is None else found.children.get(key)
            shown.append(key if found is None else shown_key(key, found))
        return tuple(shown) if found is branch else None

    def take_apart(self) -> None:
        """Let all branches that have one parent be freed at once, and not by the garbage collector some time."""
        rest = [] if self.root is None else [self.root]
        while rest:
            below = [child for child in tuple(rest.pop()._children.values()) if len(child.above) == 1]
            for child in below:
                child.above = ()
            rest += below

    def pointed(self, fragment: str) -> Branch | None:
        """Return the branch at a JSON Pointer (RFC 6901), the fragment of a URI; None if no array is there."""
        return walk(self.root, fragment, lambda branch: branch) if self.root is not None else None


def walk(root: Branch, fragment: str, resolve: Callable[[Branch], Branch | None]) -> Branch | None:
    """Return the branch at a JSON Pointer below ``root``; None if no array is there.

    ``resolve`` returns the target of a branch on the way, which may be a reference, or the branch itself.  If the way
    leads into another file, a new branch that refers to that file is returned.
    """
    branch, keys = resolve(root), pointer_keys(fragment)
    for number, key in enumerate(keys):
        if branch is None:
            return None
        if branch.external_uri is not None:
            return _beyond(branch, keys[number:])
        found = branch.children.get(
            key if branch.mapping else int(key) if key.isdecimal() and len(key) < _LONGEST else -1
        )
        branch = None if found is None else resolve(found)
    return branch


def _beyond(branch: Branch, keys: list[str]) -> Branch:
    """Return a reference to the path ``keys`` below the target of ``branch``, which is in another file."""
    from urllib.parse import quote

    file, _, fragment = str(branch.external_uri).partition("#")
    more = "/".join(quote(key.replace("~", "~0").replace("/", "~1"), safe="~") for key in keys)
    uri = f"{file}#{fragment.rstrip('/')}/{more}"
    return Branch(branch.tag, branch.path, branch.line, reference=uri)


def pointer_keys(fragment: str) -> list[str]:
    """Return the keys and numbers of a JSON Pointer.

    The first slash may be missing: the examples of the draft formats and the asdf library leave it out.
    """
    from urllib.parse import unquote  # late, as above: few trees have references

    pointer = unquote(fragment)
    if not pointer:
        return []
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.removeprefix("/").split("/")]


#: The mapping or sequence that has a reference, its key there, and the reference.
Reference = tuple[Branch, str | int, Branch]


class References:
    """Replaces each ``$ref`` below ``root`` by the branch that it refers to (section References).

    A reference may point to or through another one, forward or back; each is followed once.  A reference to another
    file stays a branch of its own, with ``external_uri``.
    """

    def __init__(self, root: Branch) -> None:
        self._root = root
        self._targets: dict[int, Branch | None] = {}
        self._following: set[int] = set()
        self._budget = REFERENCES

    def join(self, references: Iterable[Reference]) -> None:
        """Replace each reference by its target.

        A reference without a target, or to a branch that contains it, stays as it is.  Raises ``InvalidTreeError``
        if the search for cycles takes too long.
        """
        found = [(above, key, self._target_of(branch)) for above, key, branch in references]
        for above, key, target in found:
            if target is None or self._is_below(above, target):
                continue
            above.add(key, target)
            if target.external_uri is not None:  # the other file may have arrays
                target.hold()

    def _target_of(self, branch: Branch) -> Branch | None:
        """Return the final target of a reference, or ``branch`` itself if it is none; None without a target."""
        if branch.reference is None or branch.external_uri is not None:
            return branch
        if id(branch) in self._following or len(self._following) >= _FARTHEST:
            return None  # a cycle, or too long a chain
        if id(branch) not in self._targets:
            self._following.add(id(branch))
            self._targets[id(branch)] = self._pointed(branch, branch.reference)
            self._following.remove(id(branch))
        return self._targets[id(branch)]

    def _pointed(self, branch: Branch, reference: str) -> Branch | None:
        file, _, fragment = reference.partition("#")
        if file:
            branch.external_uri = reference
            return branch
        return walk(self._root, fragment, self._target_of) if fragment else None

    def _is_below(self, branch: Branch, other: Branch) -> bool:
        """Return whether ``branch`` is ``other`` or inside it."""
        rest, seen = [branch], {id(branch)}
        while rest:
            now = rest.pop()
            if now is other:
                return True
            self._budget -= 1 + len(now.above)
            if self._budget < 0:
                raise InvalidTreeError(
                    f"references lead to each other without end: at most {REFERENCES:,} steps are made",
                    line=branch.line,
                )
            new = [above for above in now.above if id(above) not in seen]
            seen.update(map(id, new))
            rest += new
        return False


def is_fits(tag: str) -> bool:
    """Return whether ``tag`` is that of a FITS file in a tree (``fits/fits``), which need not have arrays."""
    return _FITS.fullmatch(tag) is not None


def is_table(tag: str) -> bool:
    """Return whether a value with ``tag`` is a table: ``core/table``, or that of astropy."""
    return _TABLE.fullmatch(tag) is not None


def branch_of_mask(array: Branch) -> Branch | None:
    """Return the mask of an array, if it is an array as well; None without one.

    It is in the ndarray; or bools of the same shape beside it, if the array is the ``data`` of an object, as of an
    NDCube or a map of sunpy.
    """
    own = array.children.get(_MASK)
    if own is not None or array.masked or not array.above or not array.above[0].tag:
        return own if own is None or own.holds else None
    above = array.above[0]
    beside = above.children.get(_MASK) if above.children.get(_DATA) is array else None
    if beside is None or beside.array is None or array.array is None or beside.array.datatype != "bool8":
        return None
    return beside if beside.array.shape == array.array.shape else None


def is_quantity(branch: Branch) -> bool:
    """Return whether ``branch`` is a quantity: a value with a unit."""
    return _QUANTITY.fullmatch(branch.tag) is not None


def quantity_of(array: Branch) -> Branch | None:
    """Return the quantity whose value ``array`` is; None if it is that of none."""
    above = array.above[0] if array.above else None
    return above if above is not None and is_quantity(above) else None


def home_of(array: Branch) -> Branch | None:
    """Return the mapping or sequence in which an array stands; a quantity stands for its value."""
    stands = quantity_of(array) or array
    return stands.above[0] if stands.above else None


def upwards(branch: Branch | None) -> Iterator[Branch]:
    """Yield a branch, and those in which it is; of several parents, the first."""
    while branch is not None:
        yield branch
        branch = branch.above[0] if branch.above else None
