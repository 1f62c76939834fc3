"""The catalogue of many files: ``asdffs index`` fills it, ``asdffs find`` and ``asdffs.find`` search it.

``walking`` finds files, ``reading`` reads them in worker processes, ``indexing`` brings a catalogue up to date;
``store`` is its SQLite file (``schema``, ``chunks``, ``sql``); ``query`` answers conditions; ``parquet`` and
``sinks`` write datasets; ``cluster`` reads on dask workers.
"""

from __future__ import annotations

from typing import Any


def find_files(*arguments: Any, **options: Any) -> Any:
    """See ``for_programs.find_files``."""
    from asdffs.features.catalog.for_programs import find_files

    return find_files(*arguments, **options)


def selected_files(*arguments: Any) -> list[str]:
    """See ``for_commands.selected_files``."""
    from asdffs.features.catalog.for_commands import selected_files

    return selected_files(*arguments)


def index_again(*arguments: Any) -> None:
    """See ``for_commands.index_again``."""
    from asdffs.features.catalog.for_commands import index_again

    index_again(*arguments)
