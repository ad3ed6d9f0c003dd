"""mgi perf exchange --testbed: what the NICs of its servers carry at most, and a run."""

from __future__ import annotations

import json
from pathlib import Path

import mgi
import pytest
from beds import NAME, needs_control, needs_kernel, standing
from mgi.cli import main
from mgi.errors import Refused
from mgi.perf.peer_programs import PACKAGES, peers_of
from mgi.perf.servers import Servers
from processes import BUILD


def servers(count: int, processes: int, *rates: float | None) -> Servers:
    return Servers("bed", count, 2, rates or (0.5,) * count, processes)


def is_built(library: str) -> bool:
    try:
        peers_of(library, "exchange").command(2, servers(2, 2))
    except Refused:
        return False
    return True


def test_the_line_rate_of_an_exchange() -> None:
    # Half of each process' rows cross, in both directions at once.
    assert servers(2, 2).line_rate([8, 8], [8, 8], to_all=False) == pytest.approx(2.0)
    # Two processes on each server are no more than one.
    assert servers(2, 4).line_rate([4] * 4, [4] * 4, to_all=False) == pytest.approx(2.0)
    # One server is slower.
    assert servers(2, 2, 0.5, 0.1).line_rate([8, 8], [8, 8], to_all=False) == pytest.approx(0.4)


def test_the_line_rate_under_skew() -> None:
    # One source: whether one destination takes all or each a quarter, its own NICs are the limit.
    for received in ([0, 4, 4, 4, 4], [0, 16, 0, 0, 0]):
        rate = servers(5, 5).line_rate([16, 0, 0, 0, 0], received, to_all=False)
        assert rate == pytest.approx(0.5)
    # Two sources and one destination.
    assert servers(3, 3).line_rate([8, 8, 0], [0, 0, 16], to_all=False) == pytest.approx(0.5)


def test_the_line_rate_of_a_broadcast() -> None:
    assert servers(3, 3).line_rate([6, 0, 0], [6, 6, 6], to_all=True) == pytest.approx(0.75)


def test_there_is_none_without_limits_or_ways() -> None:
    assert servers(2, 2, 0.5, None).line_rate([8, 8], [8, 8], to_all=False) is None
    assert servers(2, 2).line_rate([8, 0], [8, 0], to_all=False) is None


def test_processes_fill_servers_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bed:
        @staticmethod
        def server_count() -> int:
            return 2

    monkeypatch.setattr("mgi.perf.servers.Testbed.existing", lambda _: Bed())
    with pytest.raises(mgi.InvalidArgument, match="not shared out evenly"):
        Servers.of("bed", 3)


@needs_kernel
@needs_control
def test_an_exchange_on_a_testbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGI_PEERS", str(BUILD))
    peers = [library for library in PACKAGES if is_built(library)]
    report = tmp_path / "report.json"
    with standing("--servers", "2", "--nics", "2", "--rate", "1gbit"):
        words = ["perf", "exchange", "--rows", "50k", "--repeat", "2", "--processes", "2"]
        words += ["--peers", ",".join(peers)] if peers else []
        assert main([*words, "--testbed", NAME, "--json", str(report)]) == 0
    found = json.loads(report.read_text())
    variants = [name for library in peers for name in peers_of(library, "exchange").variants]
    assert [peer["name"] for peer in found["peers"]] == variants
    assert (found["servers"], found["nics"], found["verified"]) == (2, 2, True)
    assert found["line_rate_gbps"] == pytest.approx(1.0, rel=0.1)
    assert 0 < found["ratio_to_line_rate"] < 1.5
