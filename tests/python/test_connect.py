"""Runtime.connect and ClusterClient, against a controller and agents as processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import mgi
import pyarrow as pa
import pytest
from processes import CONTROL, Agent, Cluster, Controller, wait_for


@pytest.fixture(autouse=True, scope="module")
def programs() -> None:
    assert CONTROL.exists(), f"no {CONTROL}: cmake --build build/release, with libcurl installed"


def make_channel(runtime: mgi.Runtime) -> tuple[mgi.Channel, mgi.Endpoint, mgi.Endpoint]:
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source], [destination], {"k": "int64"}, mgi.Broadcast(), name="flow"
    )
    return channel, source, destination


def carries(channel: mgi.Channel, source: mgi.Endpoint, destination: mgi.Endpoint) -> bool:
    """Whether rows get through; the channel goes on."""
    batch = pa.record_batch({"k": pa.array([1, 2, 3], pa.int64())})
    channel.send(batch, source)
    channel.push(source)
    received = channel.recv(destination, timeout=30)
    return received is not None and len(received) == 3


def test_a_connected_runtime_is_a_runtime(controller: Controller, agent: Agent) -> None:
    with mgi.Runtime.connect(agent.socket, name="query", timeout=30) as runtime:
        table = pa.table({"k": pa.array(range(10_000)), "v": pa.array(range(10_000))})
        parts = mgi.exchange(table, key="k", runtime=runtime)
        assert sum(len(part) for part in parts) == 10_000

        channel, source, destination = make_channel(runtime)
        assert channel.id > 0
        assert source.id != destination.id
        assert carries(channel, source, destination)
        seen = controller.channel(channel.id)
        assert (seen["state"], seen["sources"], seen["name"]) == ("running", 1, "flow")
        wait_for("its rows", lambda: controller.channel(channel.id)["rows"] == 3)
        applications = [e["application"] for e in controller.status()["endpoints"]]
        assert set(applications) == {"query"}
        runtime.delete_channel(channel)
        wait_for("its end", lambda: controller.channel(channel.id)["state"] != "running")
        runtime.delete_endpoint(source)
        runtime.delete_endpoint(destination)
    wait_for("the application's end", lambda: not controller.status()["endpoints"])


def test_channels_outlive_controller_and_agent(controller: Controller, agent: Agent) -> None:
    with mgi.Runtime.connect(agent.socket, timeout=30) as runtime:
        channel, source, destination = make_channel(runtime)
        controller.kill()
        assert carries(channel, source, destination)
        agent.kill()
        assert carries(channel, source, destination)
        agent.start()
        controller.start()
        wait_for(
            "the channel's return", lambda: controller.channel(channel.id)["state"] == "running"
        )
        assert carries(channel, source, destination)
        assert runtime.create_endpoint("cpu").id > max(source.id, destination.id)


def test_a_channel_that_the_cluster_ends_fails_with_its_reason(
    controller: Controller, agent: Agent
) -> None:
    with mgi.Runtime.connect(agent.socket, timeout=30) as runtime:
        channel, source, destination = make_channel(runtime)
        # Away for longer than the grace: its channels are failed, and it is told on its return.
        agent.signal(signal.SIGSTOP)
        wait_for("the end", lambda: controller.channel(channel.id)["state"] == "failed")
        assert carries(channel, source, destination)
        agent.signal(signal.SIGCONT)
        with pytest.raises(mgi.GroupFailed, match="node1"):
            channel.recv(destination, timeout=30)


def test_without_an_agent_it_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(mgi.NotFound, match="mgi agent") as raised:
        mgi.Runtime.connect(tmp_path / "nothing.sock")
    assert "nothing.sock" in str(raised.value)
    with pytest.raises(mgi.InvalidArgument, match="timeout"):
        mgi.Runtime.connect(tmp_path / "nothing.sock", timeout=0)
    with pytest.raises(mgi.InvalidArgument, match="name"):
        mgi.ClusterClient(tmp_path / "nothing.sock", name=7)  # type: ignore[arg-type]


def test_the_socket_is_found_by_the_environment(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGI_AGENT", str(agent.socket))
    with mgi.ClusterClient(timeout=30) as client:
        assert client.server == "node1"


def test_clients_plan_between_servers(cluster: Cluster, controller: Controller) -> None:
    agents = [cluster.agent(f"node{n}", controller.address) for n in range(2)]
    for made in agents:
        wait_for("the agent's socket", made.socket.exists)
    with (
        mgi.ClusterClient(agents[0].socket, timeout=30) as one,
        mgi.ClusterClient(agents[1].socket, timeout=30) as two,
    ):
        gpus = [device["name"] for device in one.devices if device["gpu"]]
        assert len(gpus) == 8
        source, destination = one.create_endpoint(gpus[3]), two.create_endpoint()
        plan = one.create_channel([source], [destination], name="between", max_nics=2)
        assert plan["generation"] == 1
        assert plan["directory"]
        assert plan["table"]
        events: list[dict[str, object]] = []
        news = {"event": "plan", "channel": plan["channel"], "generation": 1, "name": "between"}
        # It may hear of the controller before.
        wait_for("the plan", lambda: events.extend(two.events()) or news in events)
        assert [s["state"] for s in one.status()["servers"]] == ["present", "present"]
        with pytest.raises(mgi.NotFound, match="gpu99"):
            one.create_endpoint("gpu99")
        with pytest.raises(mgi.Error, match="4000000000"):
            one.create_channel([source], [4_000_000_000])
        # The other side's end is this side's, with the reason.
        two.close()
        wait_for(
            "the end", lambda: any(e["event"] == "channel_ended" for e in one.events()) or None
        )
        with pytest.raises(mgi.GroupFailed, match="between|node1|ended"):
            one.check_channel(plan["channel"])


def test_an_endpoint_of_another_runtime_is_refused(agent: Agent) -> None:
    with (
        mgi.Runtime.connect(agent.socket, timeout=30) as one,
        mgi.Runtime.connect(agent.socket, timeout=30) as two,
    ):
        mine, other = one.create_endpoint("cpu"), two.create_endpoint("cpu")
        assert mine.id != other.id
        with pytest.raises(mgi.InvalidArgument, match="another runtime"):
            one.create_channel([mine], [other], None, mgi.Direct())


def test_ctrl_c_ends_a_wait_for_the_controller(controller: Controller, agent: Agent) -> None:
    # A shell's background jobs are started with it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with mgi.ClusterClient(agent.socket, timeout=300) as client:
            controller.kill()
            timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            since = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                client.create_endpoint()
            assert time.monotonic() - since < 100
    finally:
        signal.signal(signal.SIGINT, before)
