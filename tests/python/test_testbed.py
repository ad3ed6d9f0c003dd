"""mgi testbed: servers and NICs of namespaces, their rates and failures, and jobs on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import mgi
import pytest
from beds import NAME, bed, fail, needs_control, needs_kernel, run, standing
from marks import marked, new_mark
from mgi.testbed import layout
from mgi.testbed.rates import parse_rate, shape, show_bytes, show_rate
from processes import PATIENCE, wait_for

STREAMS = str(Path(__file__).with_name("streams.py"))


def on(server: int | str, *words: str) -> str:
    """What a program on a server prints."""
    done = bed("exec", "--server", str(server), "--", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def nics() -> dict[tuple[str, str], dict[str, Any]]:
    done = bed("status", "--json")
    assert done.returncode == 0, done.stderr
    return {(nic["server"], nic["nic"]): nic for nic in json.loads(done.stdout)["nics"]}


@pytest.fixture(scope="module")
def made() -> Iterator[None]:
    with standing("--servers", "3", "--nics", "2", "--rate", "200mbit"):
        yield


def transfer(*pairs: str) -> list[float]:
    """Moves bytes from server 0 to server 1 for a moment, on connections FROM=TO."""
    addresses = [pair.partition("=")[2] for pair in pairs]
    command = [sys.executable, "-m", "mgi.cli", "testbed", "exec", "--name", NAME, "--server", "1"]
    receive = [*command, "--", sys.executable, STREAMS, "receive", "5000", *addresses]
    with subprocess.Popen(receive, stdout=subprocess.PIPE, text=True) as receiver:
        try:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "listens\n"
            return json.loads(on(0, sys.executable, STREAMS, "send", "5000", "0.2", *pairs))
        finally:
            receiver.kill()


def reaches(source: str, destination: str) -> bool:
    """Whether a socket of server 0 bound to an address gets through to a closed port there."""
    script = f"""
import socket
socket.setdefaulttimeout(1)
try:
    socket.create_connection(("{destination}", 9), source_address=("{source}", 0))
except ConnectionRefusedError:
    print("reached")
except OSError as error:
    print(error)
"""
    return on(0, sys.executable, "-c", script) == "reached\n"


def test_rates_are_read_and_shown() -> None:
    assert parse_rate("2gbit") == parse_rate("2000 Mbit/s") == 2_000_000_000
    assert parse_rate("2.5Gbit") == 2_500_000_000
    for text in ("2", "2gb", "fast", "-1gbit", "1kbit", "9tbit", "2gbit2"):
        with pytest.raises(mgi.InvalidArgument, match="no rate"):
            parse_rate(text)
    assert show_rate(2_500_000_000) == "2.5 Gbit/s"
    assert show_rate(200_000_000) == "200 Mbit/s"
    assert show_rate(None) == "unshaped"
    assert show_bytes(1_234_567) == "1.23 MB"
    assert shape("a", None) == []
    assert shape("a", None, shaped=True) == ["qdisc del dev a root"]


def test_names_tell_testbeds_apart() -> None:
    spaces = ["mgi-a-switch", "mgi-a-server0", "mgi-ab-server0", "mgi-ab-switch", "other"]
    assert layout.testbeds_among(spaces) == ["a", "ab"]
    assert layout.spaces_of("a", spaces) == ["mgi-a-server0", "mgi-a-switch"]
    with pytest.raises(mgi.InvalidArgument, match="no name of a testbed"):
        layout.check_name("a-switch")


def test_wrong_calls() -> None:
    assert run("testbed").returncode == 2
    assert run("testbed", "exec").returncode == 2
    assert run("testbed", "up", "--", "true").returncode == 2
    assert run("testbed", "fail", "nic", "0", "0", "--slow", "1gbit", "--up").returncode == 2


@needs_kernel
def test_refusals(made: None) -> None:
    for words, why in (
        (["up", "--servers", "0"], "--servers is 0; expected 1 to 64"),
        (["up", "--rate", "2gb"], "'2gb' is no rate"),
        (["up", "--mtu", "9"], "--mtu is 9"),
        (["up", "--name", NAME], f"the name '{NAME}' is taken"),
        (["up", "--name", "A"], "'A' is no name"),
        (["status", "--name", "nobody"], "there is no testbed 'nobody'; there is"),
        (["fail", "--name", NAME, "server", "3"], "has no server '3'; there are server0 to"),
        (["fail", "--name", NAME, "nic", "0", "2"], "has no NIC '2'; there are nic0 to nic1"),
        (["exec", "--name", NAME, "--server", "x", "--", "true"], "has no server 'x'"),
    ):
        done = run("testbed", *words)
        assert done.returncode == 1
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
    nobody = bed("status", user=65534) if os.access(sys.executable, os.X_OK) else None
    if nobody is not None and "mgi testbed" in nobody.stderr:
        assert "takes root: use sudo" in nobody.stderr


@needs_kernel
def test_a_server_has_its_name_its_nics_and_its_neighbours(made: None) -> None:
    assert on(1, "hostname") == "server1\n"
    assert sorted(on(1, "ls", "/sys/class/net").split()) == ["lo", "mgmt", "nic0", "nic1"]
    assert on("server2", "cat", "/sys/class/net/nic1/mtu") == "9000\n"
    ask = "import socket; print(*(socket.gethostbyname(n) for n in ('server2', 'server0-nic1')))"
    assert on(1, sys.executable, "-c", ask) == "10.0.0.3 10.2.0.1\n"
    done = bed("exec", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert bed("exec", "--", "absent-program").returncode == 127


@needs_kernel
def test_any_nic_reaches_any_nic_and_bytes_leave_by_the_one_that_is_bound(made: None) -> None:
    for source, destination in ((0, 0), (0, 1), (1, 0), (1, 1)):
        before = nics()
        pair = f"10.{source + 1}.0.1=10.{destination + 1}.0.2"
        assert transfer(pair)[0] > 0
        after = nics()

        def moved(server: int, nic: int, what: str, old: Any = before, new: Any = after) -> int:
            at = (f"server{server}", f"nic{nic}")
            return new[at][what] - old[at][what]

        assert moved(0, source, "sent_bytes") > 1_000_000
        assert moved(1, destination, "received_bytes") > 1_000_000
        # Answers are bound to their address as well.
        assert moved(1, destination, "sent_bytes") > 0
        for server, other in ((0, 1 - source), (1, 1 - destination)):
            assert moved(server, other, "sent_bytes") < 20_000
            assert moved(server, other, "received_bytes") < 20_000


@needs_kernel
def test_a_nic_fails_slows_down_and_heals(made: None) -> None:
    state = nics()["server0", "nic1"]
    assert state["up"]
    assert state["rate_bits"] == state["rate_now_bits"] == 200_000_000
    fail("nic", "0", "1")
    assert not nics()["server0", "nic1"]["up"]
    assert on(0, "cat", "/sys/class/net/nic1/carrier") == "0\n"
    assert not reaches("10.2.0.1", "10.2.0.2")
    assert reaches("10.1.0.1", "10.1.0.2")
    fail("nic", "server0", "nic1", "--up")
    assert reaches("10.2.0.1", "10.2.0.2")
    fail("nic", "0", "1", "--slow", "20mbit")
    assert nics()["server0", "nic1"]["rate_now_bits"] == 20_000_000
    assert "up, slowed to 20 Mbit/s" in bed("status").stdout
    fail("nic", "0", "1", "--up")
    assert nics()["server0", "nic1"] | state == nics()["server0", "nic1"] | {
        name: state[name] for name in ("sent_bytes", "received_bytes")
    }


@needs_kernel
def test_a_server_is_cut_off_and_healed(made: None) -> None:
    fail("server", "1")
    assert {nic["up"] for (server, _), nic in nics().items() if server == "server1"} == {False}
    assert not reaches("10.1.0.1", "10.1.0.2")
    assert not reaches("10.0.0.1", "10.0.0.2")
    assert reaches("10.1.0.1", "10.1.0.3")
    fail("server", "server1", "--up")
    assert all(nic["up"] for nic in nics().values())
    assert reaches("10.1.0.1", "10.1.0.2")


@needs_kernel
def test_the_graph_of_a_server_has_its_nics(made: None) -> None:
    corrections = f"/run/mgi-testbed/{NAME}/topology.json"
    topo = [sys.executable, "-m", "mgi.cli", "topo", "--config", corrections, "--json", "-"]
    graph = json.loads(on(0, *topo))
    found = [vertex["name"] for vertex in graph["vertices"] if vertex["kind"] == "nic"]
    assert found == ["nic0", "nic1"]
    rates = [edge["gbps"] for edge in graph["edges"] if edge["to"] == "network"]
    assert rates == [0.025, 0.025]  # 200 Mbit/s


JOINS = """
import mgi, socket
with mgi.ClusterClient(timeout=30) as client:
    client.create_endpoint()
    known = sorted(server["name"] for server in client.status()["servers"])
print(mgi.job().rank, mgi.job().local_rank, client.server, socket.gethostname(), *known)
"""


@needs_kernel
@needs_control
def test_a_job_on_its_servers(made: None) -> None:
    mark = new_mark()
    words = ["-n", "4", "--servers-of-testbed", NAME, "--", sys.executable, "-c", JOINS]
    done = run("run", *words, env={**os.environ, **mark})
    assert done.returncode == 0, done.stderr
    all_three = "server0 server1 server2"
    assert sorted(done.stdout.splitlines()) == [
        f"[0] 0 0 server0 server0 {all_three}",
        f"[1] 1 1 server0 server0 {all_three}",
        f"[2] 2 0 server1 server1 {all_three}",
        f"[3] 3 0 server2 server2 {all_three}",
    ]
    assert marked(mark) == {}


# Rank 0 says by which generation a channel runs, and which table one gets that is made now; rank 1
# what the NICs of server0 can carry.
CHANNEL = """
import mgi, time
with mgi.ClusterClient(timeout=30) as client:
    client.create_endpoint()
    while len(endpoints := client.status()["endpoints"]) < 2:
        time.sleep(0.02)
    ends = [[one["id"]] for one in sorted(endpoints, key=lambda one: one["server"])]
    if mgi.job().rank == 0:
        first = client.create_channel(*ends)
        generation = first["generation"]
    while True:
        if mgi.job().rank == 0:
            for event in client.events():
                if event["event"] == "plan" and event["channel"] == first["channel"]:
                    generation = event["generation"]
            new = client.create_channel(*ends)
            client.delete_channel(new["channel"])
            client.check_channel(first["channel"])
            print(generation, new["table"].hex(), flush=True)
        else:
            server = [s for s in client.status()["servers"] if s["name"] == "server0"][0]
            out = {l["from"]: l["gbps"] for l in server["links"] if l["to"] == "network"}
            print(out.get("nic0", 0), out.get("nic1", 0), flush=True)
        time.sleep(0.05)
"""


@needs_kernel
@needs_control
def test_a_nic_that_fails_makes_plans_without_it(made: None) -> None:
    mark = new_mark()
    words = ["-n", "2", "--servers-of-testbed", NAME, "--", sys.executable, "-c", CHANNEL]
    said: Queue[list[str]] = Queue()
    with subprocess.Popen(
        [sys.executable, "-m", "mgi.cli", "run", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **mark},
    ) as job:
        out = job.stdout
        assert out is not None
        Thread(target=lambda: [said.put(line.split()) for line in out], daemon=True).start()

        def plan(right: Callable[[int, str], bool]) -> tuple[int, str]:
            """What rank 0 says once it is right."""
            end = time.monotonic() + PATIENCE
            while True:
                rank, generation, table = said.get(timeout=max(end - time.monotonic(), 0))
                if rank == "[0]" and right(int(generation), table):
                    return int(generation), table

        def shown(nic0: float, nic1: float) -> None:
            """Waits until the status has it so."""
            end = time.monotonic() + PATIENCE
            while True:
                rank, *rates = said.get(timeout=max(end - time.monotonic(), 0))
                if rank == "[1]" and [float(rate) for rate in rates] == [nic0, nic1]:
                    return

        try:
            before, whole = plan(lambda _, table: True)
            fail("nic", "0", "1")
            shown(0.025, 0)
            without, _ = plan(lambda generation, table: generation > before and table != whole)
            fail("nic", "0", "1", "--up")
            shown(0.025, 0.025)
            plan(lambda generation, table: generation > without and table == whole)
        finally:
            job.terminate()
            fail("nic", "0", "1", "--up")
    wait_for("the end of all processes", lambda: not marked(mark))


@needs_kernel
def test_a_failure_on_a_server_ends_the_job(made: None) -> None:
    mark = new_mark()
    script = '[ "$MGI_SERVER" = server2 ] && exit 5; sleep 1000'
    words = ["--no-cluster", "--servers-of-testbed", NAME, "--", "sh", "-c", script]
    done = run("run", *words, env={**os.environ, **mark})
    assert done.returncode == 5
    assert "rank 2 (server2, pid" in done.stderr
    assert marked(mark) == {}


@needs_kernel
def test_down_ends_everything_and_may_come_again() -> None:
    name, mark = f"{NAME}b", new_mark()
    done = run("testbed", "up", "--name", name, "--mtu", "1500")
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "mgi.cli", "testbed", "exec", "--name", name, "--server", "1"]
    script = "trap '' TERM HUP INT; setsid sleep 1000 & echo ready; wait"
    with subprocess.Popen(
        [*command, "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, **mark},
    ) as inside:
        assert inside.stdout is not None
        assert inside.stdout.readline() == b"ready\n"
        done = run("testbed", "down", "--name", name)
        assert (done.returncode, done.stdout) == (0, f"testbed '{name}' is gone\n"), done.stderr
    wait_for("the end of all processes", lambda: not marked(mark))
    done = run("testbed", "down", "--name", name)
    assert (done.returncode, done.stdout) == (0, f"no testbed '{name}'\n")
    assert not Path("/run/mgi-testbed", name).exists()


@needs_kernel
def test_what_a_crash_left_is_taken_away() -> None:
    name = f"{NAME}c"
    for space in ("switch", "server0"):
        subprocess.run(["ip", "netns", "add", f"mgi-{name}-{space}"], check=True)
    assert "is taken" in run("testbed", "up", "--name", name).stderr
    assert run("testbed", "down", "--name", name).returncode == 0
    assert not [path for path in Path("/run/netns").iterdir() if f"-{name}-" in path.name]
