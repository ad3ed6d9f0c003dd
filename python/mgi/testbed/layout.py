"""What a testbed is made of: names and addresses, all of them following from numbers.

Each testbed has its own namespaces, so all have the same addresses inside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mgi.errors import InvalidArgument

DEFAULT = "testbed"
MOST_SERVERS, MOST_NICS = 64, 32
MANAGEMENT_RATE = 10**9
"""Servers' management network; slow enough that nobody mistakes it for a NIC."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,30}")
_SWITCH = re.compile(r"mgi-([a-z0-9][a-z0-9_]{0,30})-switch")
_PORT = re.compile(r"s(\d+)(?:n(\d+)|m)")


def check_name(name: str) -> str:
    """A testbed's name; raises if it is none."""
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(
            f"'{name}' is no name of a testbed; expected up to 31 of a-z, 0-9 and _"
        )
    return name


def switch_space(name: str) -> str:
    """The switch's namespace. There is a testbed if there is this."""
    return f"mgi-{name}-switch"


def server_space(name: str, server: int) -> str:
    """A server's namespace."""
    return f"mgi-{name}-server{server}"


def testbeds_among(spaces: list[str]) -> list[str]:
    """Names of the testbeds that these namespaces belong to."""
    return [match[1] for space in spaces if (match := _SWITCH.fullmatch(space))]


def spaces_of(name: str, spaces: list[str]) -> list[str]:
    """A testbed's namespaces among others, the switch last."""
    server = re.compile(rf"mgi-{re.escape(name)}-server\d+")
    mine = [space for space in spaces if server.fullmatch(space)]
    return mine + [space for space in spaces if space == switch_space(name)]


@dataclass(frozen=True)
class Port:
    """Where a NIC's cable is plugged into the switch; `nic` is None for management."""

    server: int
    nic: int | None

    @classmethod
    def of(cls, device: str) -> Port | None:
        """The port that a device of the switch's namespace is."""
        match = _PORT.fullmatch(device)
        if match is None:
            return None
        return cls(int(match[1]), None if match[2] is None else int(match[2]))

    @property
    def device(self) -> str:
        """In the switch's namespace."""
        return f"s{self.server}" + ("m" if self.nic is None else f"n{self.nic}")

    @property
    def interface(self) -> str:
        """The NIC in the server's namespace."""
        return "mgmt" if self.nic is None else f"nic{self.nic}"

    def bridge(self, chain: bool) -> str:
        """The bridge that joins the same NIC of all servers.

        In a chain of two servers: 0 and 1, 2 and 3 if the NIC's number is even, else 1 and 2.
        """
        if self.nic is None:
            return "mgmt"
        return f"rail{self.nic}" + (f"-{(self.server + self.nic % 2) // 2}" if chain else "")

    @property
    def network(self) -> str:
        """The rail's network, less its last number."""
        return f"10.{0 if self.nic is None else self.nic + 1}.0"

    @property
    def address(self) -> str:
        """The NIC's address."""
        return f"{self.network}.{self.server + 1}"

    @property
    def gateway(self) -> str:
        """The switch's address on the rail."""
        return f"{self.network}.254"


CONTROL_ADDRESS = Port(0, None).gateway
"""Where the switch's namespace is reached from all servers: the place of a controller."""


def ports(servers: int, nics: int) -> list[Port]:
    """All ports, by server, management last."""
    return [Port(server, nic) for server in range(servers) for nic in [*range(nics), None]]


def hosts_text(servers: int, nics: int) -> str:
    """/etc/hosts of every server: a server's name is its management address."""
    lines = ["127.0.0.1 localhost", f"{CONTROL_ADDRESS} switch"]
    for port in ports(servers, nics):
        name = f"server{port.server}"
        lines.append(f"{port.address} {name}" + ("" if port.nic is None else f"-{port.interface}"))
    return "\n".join(lines) + "\n"


def switch_commands(
    name: str, servers: int, nics: int, rates: dict[str, int], mtu: int, chain: bool
) -> list[str]:
    """``ip`` commands of the switch's namespace; `rates` are written down by port's device."""
    lines = ["link set dev lo up"]
    gateways = {port.bridge(chain): port.gateway for port in ports(servers, nics)}
    for bridge, gateway in gateways.items():
        lines += [
            f"link add name {bridge} mtu {mtu} type bridge stp_state 0 mcast_snooping 0",
            f"addr add {gateway}/24 dev {bridge}",
            f"link set dev {bridge} up",
        ]
    for port in ports(servers, nics):
        peer = f"peer name {port.interface} mtu {mtu} netns {server_space(name, port.server)}"
        lines += [
            f"link add name {port.device} mtu {mtu} type veth {peer}",
            f"link set dev {port.device} master {port.bridge(chain)} up",
        ]
        if port.device in rates:
            lines.append(f"link set dev {port.device} alias {rates[port.device]}bit")
    return lines


def server_commands(server: int, nics: int) -> list[str]:
    """``ip`` commands of a server's namespace.

    A NIC's address has a table of its own, in which all leaves by that NIC: its rail directly,
    other rails through the switch. A rule sends there whatever has the address for its source.
    """
    lines = ["link set dev lo up"]
    for port in ports(servers=server + 1, nics=nics):
        if port.server != server:
            continue
        lines += [
            f"addr add {port.address}/24 dev {port.interface}",
            f"link set dev {port.interface} up",
        ]
        if port.nic is None:
            continue
        table, source = 100 + port.nic, f"src {port.address}"
        lines += [
            f"route add {port.network}.0/24 dev {port.interface} {source} table {table}",
            f"route add default via {port.gateway} dev {port.interface} {source} table {table}",
            f"rule add from {port.address} table {table} priority {table}",
        ]
    return lines


SERVER_SETTINGS = {
    # A NIC answers for its own address alone, and asks by it.
    "net/ipv4/conf/*/arp_ignore": 1,
    "net/ipv4/conf/*/arp_announce": 2,
    # An answer may come by another NIC than the main table would take to its sender.
    "net/ipv4/conf/*/rp_filter": 2,
    "net/ipv4/conf/*/accept_redirects": 0,
    # A NIC without carrier keeps its routes: what is bound to it does not leave by another one.
    "net/ipv4/conf/*/ignore_routes_with_linkdown": 0,
    "net/ipv6/conf/*/disable_ipv6": 1,
}


def switch_settings(rails: bool) -> dict[str, int]:
    """The switch joins rails to each other, unless they are `rails` and nothing more."""
    return {
        "net/ipv4/ip_forward": 0 if rails else 1,
        "net/ipv4/conf/*/rp_filter": 0,
        "net/ipv4/conf/*/send_redirects": 0,
        "net/ipv6/conf/*/disable_ipv6": 1,
    }
