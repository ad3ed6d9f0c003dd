"""Strangers at the port where a process awaits wires from other servers."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path

from .grounds import Bed, inside
from .kinds import Case

LISTENING = "0A"
PATIENCE = 20.0
"""Seconds until a process listens, and until a stranger is refused, which takes 2 s at most."""


def ports_of(pid: int) -> list[tuple[str, int]]:
    """Where a process listens in its own network."""
    mine = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                mine.add(str(entry.readlink()))
    found = []
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            host, port = words[1].split(":")
            if words[3] == LISTENING and f"socket:[{words[9]}]" in mine:
                address = socket.inet_ntoa(struct.pack("<I", int(host, 16)))
                found.append((address, int(port, 16)))
    return found


def _hello(case: Case) -> bytes:
    """The first words of a wire of another link (src/transport/wire/handshake.cpp)."""
    link, number = case.random.randbytes(16), case.random.randbytes(32)
    return b"MGIw" + struct.pack("<I16sIIQ", 1, link, 0, 0, 1) + number


def _words(case: Case, manner: str) -> bytes:
    if manner == "random bytes":
        return case.random.randbytes(case.random.randrange(1, 5000))
    if manner == "half a handshake":
        hello = _hello(case)
        return hello[: case.random.randrange(1, len(hello))]
    if manner == "another link's handshake":
        return _hello(case) + case.random.randbytes(32)
    return b""


def strangers(case: Case) -> str:
    """They come from the switch, which reaches all NICs."""
    case.lossless = True
    victim = case.random.randrange(case.setup.size)
    when = case.await_phase(case.random.choice(("joined", "created", "moving", "flushed")), victim)
    manner = case.random.choice(
        ["random bytes", "half a handshake", "another link's handshake", "silence"]
    )
    count = case.random.randrange(1, 300 if manner == "silence" else 20)
    process = case.job.processes[victim]
    end = time.monotonic() + PATIENCE
    while not (doors := ports_of(process.pid)):
        if process.poll() is not None or time.monotonic() > end:
            return f"{when} rank {victim} awaits nobody"
        time.sleep(0.005)
    assert isinstance(case.ground, Bed)
    calls = [(case.random.choice(doors), _words(case, manner)) for _ in range(count)]
    answers = inside(case.ground.testbed.switch, lambda: _call(calls))
    if wrong := answers - {"refused"}:
        case.complaints.append(f"strangers at rank {victim}: {', '.join(sorted(wrong))}")
    return f"{count} strangers with {manner} at rank {victim} {when}"


def _call(calls: list[tuple[tuple[str, int], bytes]]) -> set[str]:
    """Says all that is to be said, then hears what comes of it."""
    answers = set()
    with contextlib.ExitStack() as closing:
        there = []
        for door, words in calls:
            # A process that has ended refuses as well.
            with contextlib.suppress(OSError):
                stranger = closing.enter_context(socket.create_connection(door, 5))
                there.append(stranger)
                stranger.sendall(words)
        end = time.monotonic() + PATIENCE
        for stranger in there:
            stranger.settimeout(max(end - time.monotonic(), 0.01))
            try:
                heard = stranger.recv(1000)
                answers.add(f"one was answered {heard.hex()}" if heard else "refused")
            except TimeoutError:
                answers.add(f"one was not refused in {PATIENCE:.0f} s")
            except OSError:
                answers.add("refused")
    return answers
