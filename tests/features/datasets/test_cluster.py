"""A dask cluster over TCP sums the files of an object store through xarray, and moves little more than the data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asdf
import numpy as np
import pytest
import xarray as xr
from distributed import Client
from support.clusters import cluster
from support.mounts import environment_in
from support.relay import Relay
from support.s3_server import CREDENTIALS, s3_server

pytestmark = pytest.mark.long

FILES = 100 if os.environ.get("ASDFFS_DEEP") else 30
DATA = np.random.default_rng(4).integers(0, 1000, (1024, 1024)).astype("<f4")


@pytest.fixture
def relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    tree = {"meta": {"telescope": "ROMAN"} | {f"key_{number}": f"text {number}" for number in range(1500)}}
    asdf.AsdfFile(tree | {"data": DATA}).write_to(tmp_path / "one.asdf")
    raw = (tmp_path / "one.asdf").read_bytes()
    with (
        s3_server({f"{number:03d}.asdf": raw for number in range(FILES)}) as s3,
        Relay(urlsplit(s3.endpoint).port or 0).running() as relay,
    ):
        settings = {"AWS_ENDPOINT_URL": relay.url, "NO_PROXY": "127.0.0.1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        for key, value in (environment_in(tmp_path) | CREDENTIALS | settings).items():
            monkeypatch.setenv(key, value)
        yield relay


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_workers_sum_many_files(tmp_path: Path, relay: Relay) -> None:
    (tmp_path / "cluster").mkdir()
    environment = dict(os.environ)
    files = [f"s3://bucket/{number:03d}.asdf" for number in range(FILES)]
    with (
        cluster(tmp_path / "cluster", environment) as started,
        Client(started.address) as client,
    ):
        stack = xr.open_mfdataset(files, engine="asdffs", combine="nested", concat_dim="file", parallel=True)
        assert stack["data"].dims == ("file", "y", "x")
        total = client.compute(stack["data"].sum(dtype="f8")).result(timeout=120)
    assert float(total) == FILES * float(DATA.sum(dtype="f8"))
    assert relay.received / (FILES * DATA.nbytes) <= 1.05
