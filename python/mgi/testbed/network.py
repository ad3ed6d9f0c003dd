"""A testbed as it is in the kernel: made, looked at, broken, healed and taken away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgi.errors import Error, InvalidArgument, NotFound, Refused
from mgi.testbed import kernel, layout
from mgi.testbed.layout import Port
from mgi.testbed.rates import LEAST, parse_rate, shape, show_rate
from mgi.warden import is_private, write_private

FILES = Path("/run/mgi-testbed")
UNSHAPED_GBPS = 100
"""Gigabits a second that a NIC without a limit has in the graph; memory's speed, about."""

_PATIENCE = 10.0


@dataclass(frozen=True)
class Nic:
    """A NIC's state; rates in bits a second, None for no limit; bytes as its server counts them."""

    port: Port
    up: bool
    rate: int | None
    rate_now: int | None
    sent: int
    received: int


class Testbed:
    """Servers joined by a switch, all of them network namespaces."""

    __test__ = False  # pytest takes the name for a test's

    def __init__(self, name: str) -> None:
        self.name = layout.check_name(name)
        self.switch = layout.switch_space(name)

    @classmethod
    def existing(cls, name: str) -> Testbed:
        """The testbed of that name; raises with the names there are."""
        testbed = cls(name)
        if testbed.switch not in (spaces := kernel.namespaces()):
            known = ", ".join(layout.testbeds_among(spaces))
            there = f"there is {known}" if known else "mgi testbed up makes one"
            raise NotFound(f"there is no testbed '{name}'; {there}")
        return testbed

    @classmethod
    def up(
        cls,
        name: str,
        servers: int,
        nics: int,
        rate: int | None,
        mtu: int,
        rails: bool = False,
        chain: bool = False,
    ) -> Testbed:
        """Makes a testbed; what was made goes again if something fails.

        With `rails` the switch joins NICs of one number and no others, with `chain` of these only
        one server's and the next one's.
        """
        testbed = cls(name)
        if spaces := layout.spaces_of(name, kernel.namespaces()):
            raise InvalidArgument(
                f"the name '{name}' is taken (namespace {spaces[-1]}); choose another one with "
                f"--name, or end that testbed: mgi testbed down --name {name}"
            )
        # Who makes this namespace has the name.
        kernel.run("ip", "netns", "add", testbed.switch)
        try:
            testbed._build(servers, nics, rate, mtu, rails or chain, chain)
        except BaseException:
            testbed.down()
            raise
        return testbed

    def _build(
        self, servers: int, nics: int, rate: int | None, mtu: int, rails: bool, chain: bool
    ) -> None:
        spaces = [layout.server_space(self.name, server) for server in range(servers)]
        for space in spaces:
            kernel.run("ip", "netns", "add", space)
        kernel.inside(self.switch, lambda: _set(layout.switch_settings(rails)))
        for space in spaces:
            kernel.inside(space, lambda: _set(layout.SERVER_SETTINGS))

        ports = layout.ports(servers, nics)
        rates = {port: layout.MANAGEMENT_RATE if port.nic is None else rate for port in ports}
        if not self._can_shape():
            if rate is not None:
                raise Refused(
                    "--rate needs the kernel's token bucket filter, and this kernel has none "
                    "(CONFIG_NET_SCH_TBF, modprobe sch_tbf)"
                )
            rates = {}
        written = {port.device: bits for port, bits in rates.items() if bits is not None}
        commands = layout.switch_commands(self.name, servers, nics, written, mtu, chain)
        kernel.batch("ip", self.switch, commands)
        for server, space in enumerate(spaces):
            kernel.batch("ip", space, layout.server_commands(server, nics))
            mine = [port for port in ports if port.server == server]
            self._shape({port: rates.get(port) for port in mine}, shaped=False)
        self._write_files(servers, nics, rate)

    def _can_shape(self) -> bool:
        try:
            kernel.batch("tc", self.switch, [*shape("lo", LEAST), "qdisc del dev lo root"])
        except Error:
            return False
        return True

    def _shape(self, rates: dict[Port, int | None], shaped: bool) -> None:
        """Both directions of ports of one server: what it sends, what the switch sends to it."""
        space = layout.server_space(self.name, next(iter(rates)).server)
        own = [line for port, bits in rates.items() for line in shape(port.interface, bits, shaped)]
        kernel.batch("tc", space, own)
        other = [line for port, bits in rates.items() for line in shape(port.device, bits, shaped)]
        kernel.batch("tc", self.switch, other)

    def nics(self) -> list[Nic]:
        """Every NIC's state, by server, management last."""
        now = {
            found["dev"]: found["options"]["rate"] * 8
            for found in kernel.query("tc", self.switch, "qdisc", "show")
            if found["kind"] == "tbf"
        }
        found = []
        for link in kernel.query("ip", self.switch, "link", "show"):
            port = Port.of(link["ifname"])
            if port is None:
                continue
            alias, counts = link.get("ifalias"), link["stats64"]
            found.append(
                Nic(
                    port,
                    up="UP" in link["flags"],
                    rate=parse_rate(alias) if alias else None,
                    rate_now=now.get(port.device),
                    # What comes into the switch has left the server.
                    sent=counts["rx"]["bytes"],
                    received=counts["tx"]["bytes"],
                )
            )
        last = layout.MOST_NICS
        return sorted(
            found, key=lambda n: (n.port.server, last if n.port.nic is None else n.port.nic)
        )

    def server_count(self) -> int:
        """How many servers there are."""
        return len(layout.spaces_of(self.name, kernel.namespaces())) - 1

    def server(self, text: str) -> int:
        """A server's number from ``1`` or ``server1``; raises with those there are."""
        number = text.removeprefix("server")
        count = self.server_count()
        if not number.isdecimal() or int(number) >= count:
            raise NotFound(
                f"testbed '{self.name}' has no server '{text}'; "
                f"there are server0 to server{count - 1}"
            )
        return int(number)

    def fail_nic(self, server: int, nic: str, slow: int | None, up: bool) -> None:
        """Pulls a NIC's cable (the server sees no carrier), slows it down, or heals it."""
        mine = {n.port.nic: n for n in self.nics() if n.port.server == server}
        del mine[None]
        number = nic.removeprefix("nic")
        if not number.isdecimal() or int(number) not in mine:
            raise NotFound(
                f"server{server} has no NIC '{nic}'; there are nic0 to nic{len(mine) - 1}"
            )
        found = mine[int(number)]
        if slow is not None:
            self._shape({found.port: slow}, shaped=found.rate_now is not None)
        else:
            self._plug(found, up)

    def fail_server(self, server: int, up: bool) -> None:
        """Cuts a server off from NICs' and management networks, or heals all of that."""
        for nic in self.nics():
            if nic.port.server == server:
                self._plug(nic, up)

    def _plug(self, nic: Nic, up: bool) -> None:
        state = "up" if up else "down"
        kernel.run("ip", "-n", self.switch, "link", "set", "dev", nic.port.device, state)
        if up and nic.rate_now != nic.rate:
            self._shape({nic.port: nic.rate}, shaped=nic.rate_now is not None)

    @property
    def folder(self) -> Path:
        """Files that follow from the testbed: names, and the graph's NICs."""
        return FILES / self.name

    @property
    def corrections(self) -> Path:
        """The file that tells a graph of the NICs (docs/topology.md)."""
        return self.folder / "topology.json"

    def check_files(self) -> None:
        """Raises unless what :meth:`enter` needs is there."""
        for path in (self.folder / "hosts", self.folder / "sys", self.corrections):
            if not path.exists():
                raise NotFound(f"{path} is gone; make the testbed anew (down, then up)")

    def enter(self, server: int | None) -> None:
        """Makes this process one of a server, of the switch for None, before it runs a program."""
        host = "switch" if server is None else f"server{server}"
        space = self.switch if server is None else layout.server_space(self.name, server)
        kernel.enter(space, host, self.folder / "hosts", self.folder / "sys")

    def _write_files(self, servers: int, nics: int, rate: int | None) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        # Each by itself: the mode of folders above is the umask's.
        FILES.mkdir(mode=0o755, exist_ok=True)
        if not is_private(FILES):
            raise Refused(f"others may write to {FILES}, or it is not this user's; remove it")
        for folder in (self.folder, self.folder / "sys"):
            folder.mkdir(mode=0o755)
        self._write("hosts", layout.hosts_text(servers, nics))
        corrections = json.dumps(self._graph_corrections(nics, rate), indent=1)
        self._write(self.corrections.name, corrections)

    def _write(self, name: str, text: str) -> None:
        """A file that all may read, also users to whom the testbed's processes change."""
        write_private(self.folder, name, text)
        (self.folder / name).chmod(0o644)

    def _graph_corrections(self, nics: int, rate: int | None) -> dict[str, Any]:
        """A server's NICs, which are no PCI devices; those of the machine are not its own."""
        topo = [sys.executable, "-m", "mgi.cli", "topo", "--json", "-"]
        done = subprocess.run(
            topo, capture_output=True, text=True, check=False, preexec_fn=lambda: self.enter(0)
        )
        if done.returncode != 0:
            raise Error(f"the graph of a server cannot be found: {done.stderr.strip()}")
        vertices = json.loads(done.stdout)["vertices"]
        cpus = [vertex["name"] for vertex in vertices if vertex["kind"] == "cpu"]
        gbps = UNSHAPED_GBPS if rate is None else rate / 1e9
        return {
            "facts": {"nic_gbps": gbps},  # of those that go: nobody need be told of them
            "remove": [vertex["name"] for vertex in vertices if vertex["kind"] == "nic"],
            "add": [
                {
                    "name": f"nic{nic}",
                    "kind": "nic",
                    "parent": cpus[nic % len(cpus)],
                    "gbps": max(gbps, UNSHAPED_GBPS) / 8,
                    "network_gbps": gbps,
                    "note": show_rate(rate),
                }
                for nic in range(nics)
            ],
        }

    def down(self) -> bool:
        """Ends all processes inside and takes everything away; says whether there was something."""
        spaces = layout.spaces_of(self.name, kernel.namespaces())
        if spaces:
            _end_processes(spaces)
        for space in spaces:  # the switch last: what is left of a testbed keeps its name
            kernel.run("ip", "netns", "del", space)
        there = bool(spaces) or self.folder.exists()
        shutil.rmtree(self.folder, ignore_errors=True)
        return there


def _set(settings: dict[str, int]) -> None:
    """Writes settings of the namespace; a ``*`` stands for what is and what will be."""
    for name, value in settings.items():
        for whose in ("all", "default") if "*" in name else ("",):
            path = Path("/proc/sys", name.replace("*", whose))
            if path.exists():  # a kernel without IPv6 has none of it to turn off
                path.write_text(f"{value}\n")


def _end_processes(spaces: list[str]) -> None:
    end = time.monotonic() + _PATIENCE
    while found := kernel.processes_in(spaces):
        if os.getpid() in found:
            raise Refused("mgi testbed down ends all processes inside; run it outside the testbed")
        if time.monotonic() > end:
            pids = ", ".join(f"{pid}" for pid in found)
            raise Error(f"processes {pids} do not end, although killed; try again later")
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def known_testbeds() -> dict[str, int]:
    """All testbeds with the numbers of their servers."""
    spaces = kernel.namespaces()
    return Counter(
        {name: len(layout.spaces_of(name, spaces)) - 1 for name in layout.testbeds_among(spaces)}
    )
