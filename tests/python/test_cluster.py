"""A cluster of processes on this machine: what it survives, and with channels intact.

One controller and eight agents, each with an application, stay up for most tests, in the order in
which they stand here; `running` is the channel over all of them that must live through everything.
MGI_BUILD names the build folder (build/release), so that the same runs under a sanitizer.
"""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import APP, CONTROL, Agent, Cluster, Controller, Wire, wait_for

SERVERS = 8


@pytest.fixture(autouse=True, scope="module")
def programs() -> None:
    for program in (CONTROL, APP):
        assert program.exists(), (
            f"no {program}: cmake --build build/release, with protobuf and OpenSSL installed"
        )


class Standing:
    """The cluster that stays up."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.controller: Controller = cluster.controller()
        self.wire: Wire = cluster.wire(self.controller.address)
        ways = [self.controller.address] * (SERVERS - 1) + [self.wire.address]
        self.agents = [cluster.agent(f"node{at}", way) for at, way in enumerate(ways)]
        self.apps = [cluster.app(agent) for agent in self.agents]
        self.endpoints = [app.endpoint() for app in self.apps]
        made = self.apps[0].call(
            "channel", name="shuffle", sources=self.endpoints, destinations=self.endpoints
        )
        self.running = made["channel"]

    def check_intact(self) -> None:
        """The running channel runs, for the controller and for every application."""
        for agent in self.agents:
            self.controller.wait_state(agent.name, "present")
        wait_for(
            "the channel's return",
            lambda: self.controller.channel(self.running)["state"] == "running",
        )
        for app in self.apps:
            assert not app.ended(self.running)
        self.apps[0].call("check", channel=self.running)

    def work(self) -> None:
        """What is new works: an endpoint, a channel between two servers, its end."""
        first, last = self.apps[0], self.apps[-1]
        ends = [first.endpoint(), last.endpoint()]
        assert min(ends) > max(self.endpoints), "ids are never given twice"
        channel = first.call("channel", name="new", sources=ends[:1], destinations=ends[1:])
        first.call("delete_channel", channel=channel["channel"])
        last.wait_event("ended", channel=channel["channel"], failed=False)
        first.call("delete_endpoint", endpoint=ends[0])
        last.call("delete_endpoint", endpoint=ends[1])


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield Standing(cluster)
    finally:
        cluster.close()
        print(cluster.logs())


def test_a_channel_over_all_servers(standing: Standing) -> None:
    assert len(set(standing.endpoints)) == SERVERS
    for app in standing.apps:
        plan = app.wait_event("plan", channel=standing.running)
        assert plan["table_bytes"] > 0
    shown = standing.controller.channel(standing.running)
    assert (shown["sources"], shown["destinations"]) == (SERVERS, SERVERS)
    assert len(shown["servers"]) == SERVERS
    standing.check_intact()
    standing.work()


def test_status_and_metrics(standing: Standing) -> None:
    controller = standing.controller
    text = standing.cluster.run("status", "--controller", controller.address)
    assert text.returncode == 0, text.stderr
    assert f"servers {SERVERS}: {SERVERS} present" in text.stdout
    assert re.search(r"^node0 +present +1 ", text.stdout, re.MULTILINE)
    assert re.search(rf"^{standing.running} +shuffle +running", text.stdout, re.MULTILINE)
    as_json = standing.cluster.run("status", "--controller", controller.address, "--json")
    assert f'"id": {standing.running}' in as_json.stdout
    assert "<!doctype html>" in controller.fetch("")
    metrics = controller.fetch("metrics")
    assert f'mgi_servers{{state="present"}} {SERVERS}\n' in metrics
    assert 'mgi_server_present{server="node0"} 1\n' in metrics


def test_controller_killed_and_started_again(standing: Standing) -> None:
    epoch = standing.controller.status()["epoch"]
    standing.controller.kill()
    for app in standing.apps:
        app.wait_event("controller", reached=False)
    standing.apps[0].call("check", channel=standing.running)
    standing.controller.start()
    wait_for("the next epoch", lambda: standing.controller.status()["epoch"] == epoch + 1)
    standing.check_intact()
    standing.work()


def test_agent_killed_and_started_again(standing: Standing) -> None:
    agent, others = standing.agents[3], [a for at, a in enumerate(standing.apps) if at != 3]
    killed = time.monotonic()
    agent.kill()
    told = [app.wait_event("server", server=agent.name, state="away")["at"] for app in others]
    print(f"others told that an agent was killed: {max(told) - killed:.3f} s")
    standing.apps[3].wait_event("agent", reached=False)
    agent.start()
    standing.check_intact()
    for app in others:
        app.wait_event("server", server=agent.name, state="present")
    standing.work()


def test_frozen_agent(standing: Standing) -> None:
    agent = standing.agents[4]
    agent.signal(signal.SIGSTOP)
    standing.controller.wait_state(agent.name, "away")
    agent.signal(signal.SIGCONT)
    standing.check_intact()
    standing.work()


def test_partition_and_its_healing(standing: Standing) -> None:
    agent = standing.agents[-1]
    standing.wire.cut()
    standing.controller.wait_state(agent.name, "away")
    # The other side goes on by itself, and knows that nobody is there.
    standing.apps[-1].wait_event("controller", reached=False)
    standing.apps[-1].call("check", channel=standing.running)
    standing.wire.heal()
    standing.check_intact()
    standing.work()


def test_everything_frozen_at_once(standing: Standing) -> None:
    """As when a virtual machine is moved: nobody is to blame for the time that passed."""
    everybody = [standing.controller, *standing.agents]
    for process in everybody:
        process.signal(signal.SIGSTOP)
    time.sleep(1.0)
    for process in everybody:
        process.signal(signal.SIGCONT)
    standing.check_intact()
    standing.work()


def test_bytes_that_are_no_messages(standing: Standing) -> None:
    host, port = standing.controller.address.split(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    # Noise; a preface and noise; a frame that says 16 MiB and ends early.
    for noise in (b"\0" * 4096, preface + b"\xff" * 4096, preface + b"\xff\xff\xff\0\0\0\0\0\1ab"):
        with socket.create_connection((host, int(port)), 10) as wire:
            wire.sendall(noise)
    for noise in (b"\xff" * 4096, b"\xff\xff\xff\x7f", b"\4\0\0\0ab", b"\1\0\0\0\xf6"):
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(10)
            wire.connect(str(standing.agents[0].socket))
            wire.sendall(noise)
    standing.check_intact()
    standing.work()


def test_clock_an_hour_off(standing: Standing) -> None:
    address = standing.controller.address
    late = standing.cluster.agent("late", address, "--clock-shift-ms=-3600000")
    standing.controller.wait_state("late", "present")
    shown = wait_for(
        "the clock's difference", lambda: standing.controller.server("late").get("clock_off_ms")
    )
    assert -3_660_000 < shown < -3_540_000
    assert "clock" in standing.controller.log.read_text()
    assert (
        "its clock is -3600 s off" in standing.cluster.run("status", "--controller", address).stdout
    )
    endpoint = standing.cluster.app(late).endpoint()
    channel = standing.apps[0].call(
        "channel", name="late", sources=standing.endpoints[:1], destinations=[endpoint]
    )
    standing.apps[0].call("delete_channel", channel=channel["channel"])
    assert late.stop() == 0


def test_a_name_in_use_and_a_stale_agent(standing: Standing, tmp_path: Path) -> None:
    controller, agent = standing.controller, standing.agents[5]
    # Of two agents of one name, the second is refused while the first one's lease holds...
    twin = Agent(tmp_path, agent.name, controller.address)
    try:
        wait_for("the refusal", lambda: twin.said("another agent named"))
        before = controller.server(agent.name)["incarnation"]
        # ... and takes over when that is silent. What the first one says then is stale.
        agent.signal(signal.SIGSTOP)
        now = wait_for(
            "another incarnation",
            lambda: (found := controller.server(agent.name)["incarnation"]) > before and found,
        )
        agent.signal(signal.SIGCONT)
        wait_for("the refusal of the first", lambda: agent.said("another agent named"))
        assert controller.server(agent.name)["incarnation"] == now
        twin.kill()
    finally:
        agent.signal(signal.SIGCONT)
        twin.kill()
    # The first one's applications hold what they held: it comes back with that.
    standing.check_intact()
    standing.work()


def test_server_gone_for_longer_than_the_grace(standing: Standing) -> None:
    victim, others = standing.agents[6], [a for at, a in enumerate(standing.apps) if at != 6]
    victim.kill()
    for app in others:
        app.wait_event("server", server=victim.name, state="failed")
        ended = app.wait_event("ended", channel=standing.running, failed=True)
        assert victim.name in ended["why"]
    assert standing.controller.server(victim.name)["state"] == "failed"
    refused = standing.apps[0].try_call("check", channel=standing.running)
    assert victim.name in refused["error"]
    # Back again, it is told that its channel is over.
    victim.start()
    standing.apps[6].wait_event("ended", channel=standing.running)
    standing.controller.wait_state(victim.name, "present")
    standing.work()


def test_an_application_that_dies_ends_its_channels(standing: Standing) -> None:
    ends = [app.endpoint() for app in standing.apps[:3]]
    made = standing.apps[0].call("channel", name="mortal", sources=ends, destinations=ends)
    standing.apps[2].kill()
    for app in standing.apps[:2]:
        app.wait_event("ended", channel=made["channel"], failed=True)
    status = standing.controller.status()
    assert ends[2] not in [endpoint["id"] for endpoint in status["endpoints"]]


# ---- several controllers


def test_one_controller_and_one_etcd_die(cluster: Cluster) -> None:
    etcds = cluster.etcds(3)
    members = ",".join(etcd.address for etcd in etcds)
    options = (f"--etcd={members}", "--etcd-lease=2")
    first = cluster.controller("first", *options)
    first.wait_leading()
    second = cluster.controller("second", *options)
    both = f"{second.address},{first.address}"
    agents = [cluster.agent(f"node{at}", both) for at in range(2)]
    apps = [cluster.app(agent) for agent in agents]
    ends = [app.endpoint() for app in apps]
    channel = apps[0].call("channel", name="c", sources=ends, destinations=ends)["channel"]

    wait_for("the standby's word", lambda: second.status()["leader_address"] == first.address)
    standby = cluster.run("status", "--controller", second.address)
    assert f"{first.address} leads" in standby.stdout
    assert cluster.run("status", "--controller", both).stdout.startswith(
        f"controller {first.address} leads"
    )

    epoch = first.status()["epoch"]
    first.kill()
    second.wait_leading()
    assert second.status()["epoch"] > epoch

    def intact(controller: Controller) -> None:
        for agent in agents:
            controller.wait_state(agent.name, "present")
        wait_for("the channel", lambda: controller.channel(channel)["state"] == "running")
        assert not any(app.ended(channel) for app in apps)
        apps[0].call("check", channel=channel)

    intact(second)
    new = apps[0].endpoint()
    assert new > max(ends)

    leader = wait_for("a leader of etcd", lambda: next((e for e in etcds if e.leads()), None))
    leader.kill()
    rest = [etcd for etcd in etcds if etcd is not leader]
    wait_for("another leader of etcd", lambda: any(etcd.leads() for etcd in rest))
    second.wait_leading()
    intact(second)
    # The first one comes back. Either leads: the second one lost its lease if etcd's election took
    # longer than that.
    first.start()

    def leader_and_standby() -> tuple[Controller, Controller] | None:
        words = [controller.status() for controller in (first, second)]
        known = {word["leader_address"] for word in words}
        leading = [word["leader"] for word in words]
        if len(known) != 1 or sum(leading) != 1:
            return None
        return (first, second) if leading[0] else (second, first)

    leader_now, standby_now = wait_for("one leader, known to both", leader_and_standby)
    # One that stops in good order makes room at once.
    assert leader_now.stop() == 0
    standby_now.wait_leading()
    intact(standby_now)
    assert apps[0].endpoint() > new


# ---- who gets in


def test_a_leader_that_cannot_lead_tries_again(cluster: Cluster) -> None:
    (etcd,) = cluster.etcds(1)
    wait_for("etcd", etcd.leads)
    etcd.put("/mgi/next/agent", "no number")
    controller = cluster.controller("one", f"--etcd={etcd.address}", "--etcd-lease=2")
    wait_for("the error", lambda: controller.said("/mgi/next/agent"))
    assert controller.status()["leader"] is False
    etcd.put("/mgi/next/agent", "1000")
    controller.wait_leading()
    assert controller.stop() == 0


def test_a_slow_reader_does_not_keep_the_controller_from_its_end(cluster: Cluster) -> None:
    controller = cluster.controller()
    agent = cluster.agent("node0", controller.address)
    controller.wait_state("node0", "present")
    host, port = controller.web.split(":")
    with socket.create_connection((host, int(port)), 30) as reader:
        reader.sendall(b"GET / HTTP/1.1\r\nX: ")
        controller.signal(signal.SIGTERM)
        # A byte at a time, as far as the longest header goes; then its end would prove nothing.
        for _ in range(8000):
            if controller.popen.poll() is not None:
                break
            with contextlib.suppress(OSError):
                reader.sendall(b"x")
            time.sleep(0.01)
    assert controller.popen.poll() == 0
    assert agent.popen.poll() is None


def test_as_many_open_files_as_the_system_allows(cluster: Cluster) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        controller = cluster.controller()
        agent = cluster.agent("node0", controller.address)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    controller.wait_state("node0", "present")
    for process in (controller, agent):
        assert resource.prlimit(process.popen.pid, resource.RLIMIT_NOFILE) == (hard, hard)


def issue(folder: Path) -> None:
    """ca, stranger; server and agent of the first, thief of the second: each a .pem and a .key."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for ca in ("ca", "stranger"):
        openssl("req", "-x509", *new_key, "-keyout", f"{ca}.key", "-out", f"{ca}.pem",
                "-subj", f"/CN={ca}", "-days", "2")  # fmt: skip
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:good.example\n")
    for name, ca in (("server", "ca"), ("agent", "ca"), ("thief", "stranger")):
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                "-subj", f"/CN={name}")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
                "-CAcreateserial", "-out", f"{name}.pem", "-extfile", "san")  # fmt: skip


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_certificates_and_tokens(cluster: Cluster) -> None:
    folder = cluster.folder
    issue(folder)
    for name, token in (("token", "0123456789abcdef"), ("other", "fedcba9876543210")):
        (folder / name).write_text(token + "\n")
        (folder / name).chmod(0o600)

    def options(name: str, ca: str = "ca", token: str = "token") -> list[str]:
        files = [f"--ca={folder / ca}.pem", f"--cert={folder / name}.pem"]
        return [*files, f"--key={folder / name}.key", f"--token-file={folder / token}"]

    controller = cluster.controller("controller", *options("server"))
    cluster.agent("good", controller.address, *options("agent"))

    def status(*security: str) -> subprocess.CompletedProcess[str]:
        return cluster.run("status", "--controller", controller.address, *security)

    def good_is_there() -> bool:
        return "good     present" in re.sub(
            " +present", "     present", status(*options("agent")).stdout
        )

    wait_for("the good agent", good_is_there)
    # What is refused says why, to mgi status and in the agent's log.
    refusals = {
        "no certificate": ([], "--ca, --cert and --key"),
        "another CA": (options("thief", ca="stranger"), "stranger.pem signed"),
        "a thief's certificate": (options("thief"), controller.address),
        "another token": (options("agent", token="other"), "the token is not the controller's"),
        "no token": (options("agent")[:-1], "asks for a token"),
    }
    for what, (security, says) in refusals.items():
        answer = status(*security)
        assert answer.returncode == 1, what
        assert says in answer.stderr, what
        bad = cluster.agent(f"bad-{what.replace(' ', '-')}", controller.address, *security)
        wait_for(f"the log of {what}", lambda bad=bad, says=says: bad.said(says))
        bad.kill()
    impostor = cluster.agent("impostor", controller.address, *options("agent"))
    wait_for("its refusal", lambda: impostor.said("not for a server of the name 'impostor'"))
    impostor.kill()
    assert '"name": "impostor' not in status("--json", *options("agent")).stdout
    assert '"name": "bad' not in status("--json", *options("agent")).stdout
    # A key that does not fit is found at the start.
    mixed = [*options("agent")[:2], f"--key={folder / 'server.key'}"]
    assert "not the key of the certificate" in status(*mixed).stderr
    assert good_is_there()


def test_wrong_calls(cluster: Cluster) -> None:
    taken = cluster.controller("taken")
    taken.wait_leading()
    for arguments, says in (
        (["controller", "--listen", taken.address, "--state", cluster.folder / "s"], "--listen"),
        (["controller", "--state", cluster.folder / "taken"], "another controller"),
        (["controller", "--listen", "0.0.0.0:1", "--state", cluster.folder / "s"], "--insecure"),
        (["controller", "--http", "0.0.0.0:1", "--state", cluster.folder / "s"], "--insecure"),
        (["controller", "--listen", "here", "--state", cluster.folder / "s"], "not host:port"),
        (["controller", "--ca", "ca.pem", "--state", cluster.folder / "s"], "--cert is missing"),
        (["controller", "--lease-ms", "1", "--state", cluster.folder / "s"], "lease"),
        (["agent", "--preset", "no-such"], "no-such"),
        (["agent", "--topology", cluster.folder / "none.xml"], "none.xml"),
        (["status", "--controller", f"127.0.0.1:{1}"], "cannot be reached"),
    ):
        answer = cluster.run(*arguments)
        assert answer.returncode == 1, (arguments, answer)
        assert says in answer.stderr, (arguments, answer.stderr)
    assert cluster.run("status", "--wach").returncode == 2
    assert cluster.run().returncode == 2
    assert cluster.run("--version").stdout.startswith("mgi ")


def test_an_application_needs_an_agent(tmp_path: Path) -> None:
    answer = subprocess.run(
        [APP, tmp_path / "none.sock", "app"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert "none.sock" in answer.stdout
    assert "mgi agent" in answer.stdout
