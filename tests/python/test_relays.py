"""Rows between servers whose NICs do not reach each other: by way of a third server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from beds import fail, needs_control, needs_kernel, standing
from processes import wait_for
from test_servers import LONG, ROWS, Job, stop, sums, top
from test_testbed import reaches

pytestmark = [needs_kernel, needs_control]


@pytest.fixture(scope="module", autouse=True)
def made() -> Iterator[None]:
    with standing("--servers", "3", "--nics", "2", "--rate", "400mbit", "--rails"):
        yield


@pytest.fixture
def apart() -> Iterator[None]:
    """Servers 0 and 1 have no rail between them; both reach server 2."""
    fail("nic", "0", "0")
    fail("nic", "1", "1")
    yield
    fail("nic", "0", "0", "--up")
    fail("nic", "1", "1", "--up")


def test_a_nic_reaches_those_of_its_number_alone() -> None:
    assert reaches("10.1.0.1", "10.1.0.2")
    assert reaches("10.2.0.1", "10.2.0.3")
    assert not reaches("10.1.0.1", "10.2.0.2")


def test_every_row_arrives_once_though_two_servers_never_reach_each_other(apart: None) -> None:
    with Job(3, "exchange", "ordered broadcast", "balance", "direct") as job:
        found = job.found()
    assert len(found[0]) == 4, found
    for name in found[0]:
        for source in map(str, range(3)):
            here = [of[name][source] for of in found]
            whole = sums(int(source) * ROWS, ROWS)
            if "broadcast" in name:
                assert here == [whole] * 3, f"{name}: from {source}"
            else:
                assert [sum(column) for column in zip(*here, strict=True)] == whole, name


def relayed() -> list[Any]:
    return [path for path in top()["paths"] if path["by"].startswith("wire through")]


def between(paths: list[Any], *servers: str) -> list[Any]:
    return [path for path in paths if {path["server"], path["peer"].split()[-1]} == set(servers)]


def test_a_relay_is_found_while_rows_move_and_left_when_the_nics_are_back(tmp_path: Path) -> None:
    with Job(3, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        time.sleep(1)
        assert relayed() == []
        fail("nic", "0", "0")
        fail("nic", "1", "1")
        # Until the second NIC fails, server 1 may pass on what server 0's lost rail to 2 carried.
        wait_for(
            "a relay",
            lambda: any(path["bytes"] for path in between(relayed(), "server0", "server1")),
            LONG,
        )
        for path in between(relayed(), "server0", "server1"):
            assert path["by"] == "wire through rank 2 on server server2"
        fail("nic", "0", "0", "--up")
        fail("nic", "1", "1", "--up")
        wait_for("no relay", lambda: not any(path["gbps"] for path in relayed()), LONG)
        stop(job, tmp_path)


def test_without_relays_it_is_an_error(apart: None, tmp_path: Path) -> None:
    with Job(3, "stream", str(tmp_path), MGI_RELAY_SERVERS="off") as job:
        found = job.found()
    assert all("error" in each for each in found), found
    assert any("there was no wire" in each["text"] for each in found), found
