"""A dask cluster of real processes over TCP on loopback."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.processes import until


class Cluster:
    """A scheduler at ``address`` and its workers."""

    def __init__(self, address: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.address = address
        self.workers = workers


@contextlib.contextmanager
def cluster(folder: Path, environment: Mapping[str, str], workers: int = 2) -> Iterator[Cluster]:
    """Start a scheduler and ``workers`` workers, each with one thread and without a nanny; end them at the end."""
    facts = folder / "scheduler.json"
    log = open(folder / "cluster.log", "wb")  # closed below
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--scheduler-file", str(facts), *words]
        process = subprocess.Popen(command, env=dict(environment), cwd=folder, stdout=log, stderr=log)
        started.append(process)
        return process

    try:
        start("scheduler", "--host", "tcp://127.0.0.1", "--port", "0", "--no-dashboard")
        until(lambda: facts.exists() and facts.read_text().endswith("}"))
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        mine = [start("worker", *words, "--local-directory", str(folder)) for _ in range(workers)]
        until(lambda: (folder / "cluster.log").read_bytes().count(b"Registered to") >= workers)
        yield Cluster(json.loads(facts.read_text())["address"], mine)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(60)
        log.close()
