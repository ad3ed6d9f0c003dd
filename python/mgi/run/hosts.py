"""Which server has which ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mgi.errors import InvalidArgument

MOST_SLOTS = 4096
_HOST = re.compile(r"[A-Za-z0-9_.@:\[\]-]+")


@dataclass(frozen=True)
class Host:
    """A line of a hosts file: how ssh calls it, and how many processes it takes."""

    address: str
    slots: int

    @property
    def name(self) -> str:
        """The server's name: the address without the user."""
        return self.address.rpartition("@")[2]


def read_hosts(path: Path) -> list[Host]:
    """Reads ``host slots=N`` lines; # starts a comment, and slots are 1 if not given."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: is no UTF-8 text: {error.reason}") from None
    hosts: list[Host] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host = _host(words, f"{path}:{number}")
        if host.name in (known.name for known in hosts):
            raise InvalidArgument(f"{path}:{number}: {host.name} stands there twice; add its slots")
        hosts.append(host)
    if not hosts:
        raise InvalidArgument(f"{path}: names no host; expected lines such as 'node1 slots=4'")
    return hosts


def _host(words: list[str], where: str) -> Host:
    address, slots = words[0], 1
    # What starts with a dash would be an option of ssh.
    if address.startswith("-") or _HOST.fullmatch(address) is None:
        raise InvalidArgument(f"{where}: '{address}' is no host's name")
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key != "slots" or not value.isdecimal() or not 1 <= int(value) <= MOST_SLOTS:
            raise InvalidArgument(
                f"{where}: '{word}'; expected slots=N with N from 1 to {MOST_SLOTS}"
            )
        slots = int(value)
    return Host(address, slots)


def fill_slots(hosts: list[Host], count: int | None) -> list[int]:
    """How many ranks each host has, the first hosts filled first; None: all slots."""
    total = sum(host.slots for host in hosts)
    if count is None:
        return [host.slots for host in hosts]
    if count > total:
        raise InvalidArgument(f"-n is {count}, and the hosts have {total} slots; give them more")
    shares = []
    for host in hosts:
        shares.append(min(host.slots, count))
        count -= shares[-1]
    return shares


def share_evenly(servers: int, count: int) -> list[int]:
    """How many ranks each of some servers has, the first ones one more where it does not divide."""
    return [count // servers + (server < count % servers) for server in range(servers)]
