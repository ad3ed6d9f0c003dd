"""Which server has which ranks."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mgi.errors import InvalidArgument
from mgi.texts import read_text

MOST_SLOTS = 4096
MOST_HOSTS = 4096
EXPECTED = "host, host:4, host slots=4, node[01-03,07] or [::1], each with user@ before it or not"
_USER = r"(?:[A-Za-z0-9_][A-Za-z0-9_.+@-]*@)?"
_NAME = re.compile(_USER + r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ADDRESS = re.compile(_USER + r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?")
_BRACKETED = re.compile(r"((?:[^\[]+@)?)\[([^\[\]]*:[^\[\]]*)\](.*)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Host:
    """A host of a hosts file: how ssh calls it, and how many processes it takes."""

    address: str
    slots: int

    @property
    def name(self) -> str:
        """The server's name: the address without the user."""
        return self.address.rpartition("@")[2]


def read_hosts(path: Path) -> list[Host]:
    """Reads hosts as Open MPI, MPICH and Slurm write them; # starts a comment.

    Slots are 1 where a line does not say how many.
    """
    hosts: dict[str, Host] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        words = line.partition("#")[0].split()
        for host in _hosts(words, f"{path}:{number}") if words else ():
            where = f"{path}:{number}: {host.name}"
            before = hosts.get(host.name)
            if before is not None:
                hosts[host.name] = _together(before, host, where)
                continue
            if len(hosts) == MOST_HOSTS:
                raise InvalidArgument(f"{where} is one more than {MOST_HOSTS} hosts")
            hosts[host.name] = host
    if not hosts:
        raise InvalidArgument(f"{path}: names no host; expected lines such as 'node1 slots=4'")
    return list(hosts.values())


def _together(before: Host, more: Host, where: str) -> Host:
    """A host that has several lines, as PBS writes one for each slot."""
    if before.address != more.address:
        raise InvalidArgument(f"{where} stands there as '{before.address}', too")
    slots = before.slots + more.slots
    if slots > MOST_SLOTS:
        raise InvalidArgument(f"{where} has more than {MOST_SLOTS} slots in all")
    return Host(before.address, slots)


def _hosts(words: list[str], where: str) -> Iterator[Host]:
    """Those of a line."""
    told = _slots(words[1:], where)
    for item in _items(words[0], where):
        address, beside = _address(item, where)
        if told is not None and beside is not None:
            raise InvalidArgument(f"{where}: '{words[0]}' and slots= both say how many; give one")
        yield Host(address, told or beside or 1)


def _slots(words: list[str], where: str) -> int | None:
    """What is said behind a host. Beyond its slots it gets no process: max_slots change nothing."""
    slots = None
    for word in words:
        key, _, value = word.partition("=")
        if key not in ("slots", "max_slots", "max-slots"):
            raise InvalidArgument(f"{where}: '{word}'; expected slots=N, or nothing")
        count = _count(value, word, where)
        if key == "slots":
            slots = count
    return slots


def _count(text: str, word: str, where: str) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_SLOTS))
    if not digits or not 1 <= int(text) <= MOST_SLOTS:
        raise InvalidArgument(f"{where}: '{word}'; expected slots=N with N from 1 to {MOST_SLOTS}")
    return int(text)


def _items(text: str, where: str) -> Iterator[str]:
    """The hosts of a list such as ``a,node[01-03,07]``."""
    for item in re.split(r",(?![^\[]*\])", text):
        if _BRACKETED.fullmatch(item) is not None:
            yield item
        else:
            yield from _expanded(item, where)


def _expanded(item: str, where: str) -> Iterator[str]:
    """Slurm's ``node[01-03,07]`` as names; digits are as many as the first has."""
    choices: list[list[str]] = []
    for at, part in enumerate(re.split(r"\[([^\[\]]*)\]", item)):
        choices.append(_numbers(part, item, where) if at % 2 else [part])
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MOST_HOSTS:
        raise InvalidArgument(f"{where}: '{item}' are more than {MOST_HOSTS} hosts")
    for parts in itertools.product(*choices):
        yield "".join(parts)


def _numbers(ranges: str, item: str, where: str) -> list[str]:
    found: list[str] = []
    for text in ranges.split(","):
        match = _RANGE.fullmatch(text)
        first = match[1] if match else ""
        last = (match[2] or first) if match else ""
        in_order = match is not None and len(last) <= 9 and int(first) <= int(last)
        if not in_order or int(last) - int(first) >= MOST_HOSTS:
            raise InvalidArgument(
                f"{where}: '[{ranges}]' in '{item}'; expected numbers and ranges such as [01-03,07]"
            )
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return found


def _address(item: str, where: str) -> tuple[str, int | None]:
    """How ssh calls a host, and the slots behind its colon."""
    if bracketed := _BRACKETED.fullmatch(item):
        address, rest = bracketed[1] + bracketed[2], bracketed[3]
        if rest and not rest.startswith(":"):
            raise InvalidArgument(f"{where}: '{item}' is no host's name; expected {EXPECTED}")
        slots = rest[1:] if rest else None
    elif item.count(":") == 1:
        address, _, slots = item.partition(":")
    else:
        address, slots = item, None
    # What starts with a dash would be an option of ssh.
    is_name = not address.startswith("-") and (
        _is_ipv6(address) if ":" in address else _NAME.fullmatch(address) is not None
    )
    if not is_name:
        raise InvalidArgument(f"{where}: '{item}' is no host's name; expected {EXPECTED}")
    return address, None if slots is None else _count(slots, item, where)


def _is_ipv6(address: str) -> bool:
    if _ADDRESS.fullmatch(address) is None:
        return False
    try:
        ipaddress.IPv6Address(address.rpartition("@")[2].partition("%")[0])
    except ValueError:
        return False
    return True


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
