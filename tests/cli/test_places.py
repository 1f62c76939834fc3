"""State and cache are only in directories of this user."""

from __future__ import annotations

import os
import tempfile

import pytest

from asdffs.cli.state_files import state_home
from asdffs.storage.own_files import cache_folder

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
OTHER = 65534


@needs_root
def test_regression_root_does_not_use_the_home_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory() as home:
        monkeypatch.setenv("HOME", home)
        assert (state_home(), cache_folder()) == (f"{home}/.local/state", f"{home}/.cache/asdffs")
        os.chown(home, OTHER, OTHER)
        for left in ("", ".local/state", ".cache/asdffs"):  # such as an earlier command of root may have left
            os.makedirs(os.path.join(home, left), exist_ok=True)
            for found in (state_home(), cache_folder()):
                assert not found.startswith(home)
        monkeypatch.setenv("XDG_STATE_HOME", f"{home}/state")
        assert not state_home().startswith(home)
        os.seteuid(OTHER)
        try:
            assert (state_home(), cache_folder()) == (f"{home}/state", f"{home}/.cache/asdffs")
        finally:
            os.seteuid(0)
