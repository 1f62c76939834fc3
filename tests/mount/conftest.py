from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slow import SlowCodec


@pytest.fixture
def codec(tmp_path: Path) -> Iterator[SlowCodec]:
    codec = SlowCodec(tmp_path)
    yield codec
    codec.allow()
