"""The interface of a dialect: the header lines it claims, its block headers, and how it describes ndarrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from asdffs.format.block_header import RULES_1, BlockRules
from asdffs.format.text import Header


class Dialect(ABC):
    """One generation of the format, stateless.  A module sets ``PLUGIN`` to an instance of a subclass."""

    #: The name of the dialect, as ``info`` prints it.
    name: str
    #: The rules for its block headers.
    rules: BlockRules = RULES_1
    #: Whether its files may end with a block index.
    indexed: bool = True
    #: Whether ``asdffs upgrade`` changes files of this dialect.
    upgradable: bool = False
    #: The versions of the standard that a text may name, as in ``#ASDF_STANDARD 1.6.0``.
    standards: tuple[str, ...] = ()

    @abstractmethod
    def claims(self, header: Header) -> bool:
        """Return whether files with this header line belong to this dialect."""

    @abstractmethod
    def is_ndarray(self, tag: str) -> bool:
        """Return whether a mapping with this resolved YAML tag describes an ndarray."""

    def ndarray(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the mapping of an ndarray with the names and the defaults of today's schema."""
        return value

    def is_of_standard(self, tag: str, standard: str | None) -> bool:
        """Return whether programs know a tag in a file of this version of the standard; None: it names none."""
        return True

    def excludes_keys(self, standard: str | None) -> bool:
        """Return whether keys must be text, integers or booleans in files of this version of the standard."""
        return False

    @abstractmethod
    def accepts_text(self, header: Header) -> str | None:
        """Return why a text with this header line must not be committed; None if it may be."""

    @abstractmethod
    def block_head(self, header: Header) -> bytes:
        """Return the lines before the block in a file with one block and no tree.

        Such files belong to the exploded form of a file with this ``header`` (section Exploded form).
        """
