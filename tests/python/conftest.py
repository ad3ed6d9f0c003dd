"""What the tests of the Python package share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mgi
import pytest
from processes import Agent, Cluster, Controller, wait_for
from run_support import Runner

# test_gpu.py runs these, with a driver that is made up.
collect_ignore = [] if "MGI_FAKE_CUDA_DEVICES" in os.environ else ["gpu"]


# These start several processes and watch them by the clock: with more than one other beside
# them they take far longer, or fail. So `pytest -m by_clock -n 2 --dist loadfile` runs them.
BY_CLOCK = """
    chain cluster connect faults gpu_processes interrupt job operators_processes perf_peers
    perf_processes perf_servers processes relays run run_cluster run_ends run_hosts run_launched
    servers testbed top_live two_level
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem.removeprefix("test_") in BY_CLOCK.split():
            item.add_marker(pytest.mark.by_clock)


@pytest.fixture
def runtime() -> Iterator[mgi.Runtime]:
    with mgi.Runtime.local() as made:
        yield made


@pytest.fixture(params=[True, False], ids=["by_reference", "by_copy"])
def by_reference(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.close()
        print(made.logs())


@pytest.fixture
def controller(cluster: Cluster) -> Controller:
    return cluster.controller()


@pytest.fixture
def agent(cluster: Cluster, controller: Controller) -> Agent:
    made = cluster.agent("node1", controller.address)
    wait_for("the agent's socket", made.socket.exists)
    return made


class Background:
    """A call in a thread of its own; its result or its exception comes with `join`."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._outcome: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._outcome = call()
        except BaseException as error:
            self._error = error

    def join(self, timeout: float = 60) -> Any:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "a call in the background did not end"
        if self._error is not None:
            raise self._error
        return self._outcome


@pytest.fixture(scope="session")
def background() -> type[Background]:
    return Background


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path)
    try:
        yield made
    finally:
        made.close()
