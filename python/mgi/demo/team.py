"""The processes that run the demo together: ``mgi run -n 3 -- mgi demo``, or one alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import mgi
from mgi.demo.errors import DemoError

#: Seconds that processes wait for each other: one of them times DuckDB meanwhile.
PATIENCE = 600.0
_LOOK = 0.02


class Team:
    """This process among those that run the demo.

    All have the same tables' files and share out the endpoints. Results come together in a folder
    beside those files, where the first process compares them with DuckDB's.
    """

    def __init__(self, endpoints: int) -> None:
        try:
            self._job = mgi.job()
        except mgi.Error as error:
            raise DemoError(str(error)) from error
        self.size, self.leads = self._job.size, self._job.rank == 0
        self.endpoints = endpoints
        if endpoints < self.size:
            raise DemoError(
                f"{self.size} processes share {endpoints} endpoints: give --endpoints {self.size} "
                "or more, or start fewer processes"
            )
        self._folder: Path | None = None

    @property
    def own(self) -> range:
        """The endpoints of this process, among all."""
        first, last = (self.endpoints * (self._job.rank + i) // self.size for i in (0, 1))
        return range(first, last)

    def groups(self, cores: int) -> int | None:
        """Kernel groups of an endpoint: the cores are shared by all processes of this server."""
        if self.size == 1:
            return None
        here = -(-self.endpoints * self._job.local_size // self.size)
        return max(1, cores // here)

    def runtime(self) -> mgi.Runtime:
        """Of this process alone, or in the cluster of those that run the demo."""
        if self.size == 1:
            return mgi.Runtime.local()
        return mgi.Runtime.connect(name="mgi demo", timeout=PATIENCE)

    @contextlib.contextmanager
    def meet(self, runtime: mgi.Runtime, data: Path) -> Iterator[list[mgi.Endpoint]]:
        """The endpoints of all; for the time of the block there is the folder for results."""
        mine = [runtime.create_endpoint("cpu") for _ in self.own]
        if self.size == 1:
            yield mine
            return
        everybody = runtime.gather_endpoints(mine)
        name = re.sub(r"[^\w.-]", "_", self._job.name)
        self._folder = data / f".results-{name}-{everybody[0].id}"
        signal.signal(signal.SIGTERM, _leave)  # the launcher ends all when one has failed
        try:
            if self.leads:
                shutil.rmtree(self._folder, ignore_errors=True)  # of one that was killed
                self._folder.mkdir(parents=True)
            runtime.gather_endpoints(mine)  # not before the folder is there
            places = [endpoint.device for endpoint in mine]
            self._put(f"endpoints-{self._job.rank}.json", json.dumps(places).encode())
            yield everybody
        finally:
            if self.leads:
                shutil.rmtree(self._folder, ignore_errors=True)

    def devices(self, endpoints: list[mgi.Endpoint]) -> list[str]:
        """Where each endpoint lives; for the first process, which waits for the others."""
        if self._folder is None:
            return [endpoint.device for endpoint in endpoints]
        return [
            device
            for rank in range(self.size)
            for device in json.loads(self._get(f"endpoints-{rank}.json", rank).read_bytes())
        ]

    def hand_in(self, what: str, tables: list[pa.Table]) -> list[pa.Table]:
        """Gives the first process this one's results; returns all there, own ones elsewhere."""
        if self._folder is None:
            return tables
        if not self.leads:
            for place in self.own:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, tables[place].schema) as stream:
                    stream.write_table(tables[place])
                self._put(f"{what}-{place}.arrow", sink.getvalue())
            return tables
        for place in range(len(tables)):
            if place not in self.own:
                path = self._get(f"{what}-{place}.arrow", self._rank_of(place))
                with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
                    tables[place] = stream.read_all()
        return tables

    def _rank_of(self, place: int) -> int:
        return next(
            rank for rank in range(self.size) if place < self.endpoints * (rank + 1) // self.size
        )

    def _put(self, name: str, content: Any) -> None:
        assert self._folder is not None
        partial = self._folder / f".{name}"
        try:
            partial.write_bytes(content)
            partial.rename(self._folder / name)
        except OSError as error:
            raise DemoError(f"cannot write {self._folder / name}: {error.strerror}") from error

    def _get(self, name: str, rank: int) -> Path:
        assert self._folder is not None
        path = self._folder / name
        end = time.monotonic() + PATIENCE
        while not path.exists():
            if time.monotonic() > end:
                raise DemoError(
                    f"rank {rank} has not left its results in {path} for {PATIENCE:.0f} s: is "
                    f"--data a folder that all processes share?"
                )
            time.sleep(_LOOK)
        return path


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def silence() -> Any:
    """A stream for the progress of those who have nothing to show."""
    return Path(os.devnull).open("w", encoding="utf-8")
