#!/usr/bin/env python3
"""A job beside strangers who attack its controller: what its steps take, and what memory is left.

A controller with a token, its page and an agent on this machine; a job that makes a channel over
two endpoints, sends rows through it and deletes it, again and again. First alone, then beside
strangers of six kinds, then alone again. Needs an installed `mgi` package with the control plane.

    .venv/bin/python bench/control/strangers.py --seconds 600 --json strangers.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import secrets
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import mgi
import pyarrow as pa
from mgi.control import PROGRAM

TOKEN = secrets.token_hex(32)
PATIENCE_S = 20.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=1)


def silent(ports: list[int]) -> None:
    """Connections that say nothing, as many as there may be."""
    held: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            held.append(connection(random.choice(ports)))
        if len(held) > 300:
            held.pop(random.randrange(len(held))).close()


def slow(ports: list[int]) -> None:
    """A byte now and then, of what begins like a request or a handshake."""
    words = b"GET / HTTP/1.1\r\nX: " + b"x" * 10_000
    held: list[tuple[socket.socket, int]] = []
    while True:
        with contextlib.suppress(OSError):
            while len(held) < 100:
                held.append((connection(random.choice(ports)), 0))
        left: list[tuple[socket.socket, int]] = []
        for one, sent in held:
            with contextlib.suppress(OSError):
                one.send(words[sent : sent + 1])
                left.append((one, sent + 1))
        held = left
        time.sleep(0.05)


def large(ports: list[int]) -> None:
    """As much as is taken."""
    block = b"X: " + b"x" * 65_000 + b"\r\n"
    while True:
        with contextlib.suppress(OSError), connection(random.choice(ports)) as one:
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            for _ in range(1000):
                one.sendall(block)


def many(ports: list[int]) -> None:
    """One connection after another, as fast as they come."""
    while True:
        with contextlib.suppress(OSError):
            connection(random.choice(ports)).close()


def malformed(ports: list[int]) -> None:
    """Bytes of any kind, some of which begin like a TLS handshake."""
    while True:
        with contextlib.suppress(OSError), connection(random.choice(ports)) as one:
            start = random.choice([b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
            one.sendall(start + random.randbytes(random.randrange(4000)))
            one.recv(100)


def wrong_token(ports: list[int]) -> None:
    """Requests for the page with tokens that are none."""
    while True:
        with contextlib.suppress(OSError), connection(ports[-1]) as one:
            word = secrets.token_hex(32)
            one.sendall(
                f"GET /status.json HTTP/1.1\r\nAuthorization: Bearer {word}\r\n\r\n".encode()
            )
            one.recv(4096)


def attack(kind: Callable[[list[int]], None], ports: list[int]) -> None:
    """From another machine, as it were: no core of the job's is taken for it."""
    os.nice(19)
    kind(ports)


KINDS: list[Callable[[list[int]], None]] = [silent, slow, large, many, malformed, wrong_token]


def resident_mib(process: subprocess.Popen[bytes]) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def page_s(port: int) -> float:
    """How long the page's JSON takes; all of the patience where it does not come."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/status.json", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE_S:
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5) as answer:
            json.loads(answer.read())
            break
    return time.monotonic() - start


def work(agent: str, seconds: float, page: int, log: Path) -> dict[str, float]:
    """The job's steps, and the page between them."""
    rows = pa.record_batch({"key": pa.array(range(1000), pa.int64())})
    steps, pages = [], []
    with mgi.Runtime.connect(agent=agent, timeout=PATIENCE_S) as runtime:
        ends = [runtime.create_endpoint("cpu") for _ in range(2)]
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            start = time.monotonic()
            channel = runtime.create_channel(ends[:1], ends[1:], rows.schema, mgi.Partition("key"))
            channel.send(rows, ends[0])
            channel.flush(ends[0])
            got = sum(len(batch) for batch in channel.batches(ends[1], timeout=PATIENCE_S))
            if got != len(rows):
                raise SystemExit(f"{got} rows of {len(rows)} came")
            runtime.delete_channel(channel)
            steps.append(time.monotonic() - start)
            if len(steps) % 20 == 1:
                pages.append(page_s(page))
    return {
        "steps": len(steps),
        "step_ms_median": statistics.median(steps) * 1e3,
        "step_ms_most": max(steps) * 1e3,
        "page_ms_median": statistics.median(pages) * 1e3,
        "page_ms_most": max(pages) * 1e3,
        "log_lines": len(log.read_bytes().splitlines()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="beside strangers")
    parser.add_argument("--alone", type=float, default=15, help="seconds before, and after")
    parser.add_argument("--json", type=Path, help="write what was found there, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as ends:
        folder = Path(name)
        token, log = folder / "token", folder / "log"
        token.touch(0o600)
        token.write_text(TOKEN + "\n")
        port, page = free_port(), free_port()
        agent = str(folder / "agent.sock")

        def start(*words: str) -> subprocess.Popen[bytes]:
            with log.open("ab") as errors:
                made = subprocess.Popen(
                    [str(PROGRAM), *words, "--token-file", str(token)],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, "MGI_LOG": "warn"},
                )
            ends.callback(made.wait)
            ends.callback(made.terminate)
            assert made.stdout is not None
            if not made.stdout.readline():
                raise SystemExit(log.read_text())
            return made

        state, address = str(folder / "state"), f"127.0.0.1:{port}"
        pages = f"127.0.0.1:{page}"
        controller = start("controller", "--listen", address, "--http", pages, "--state", state)
        server = start("agent", "--controller", address, "--name", "node1", "--socket", agent)
        found: dict[str, object] = {"seconds": options.seconds, "kinds": len(KINDS)}
        found["alone"] = work(agent, options.alone, page, log)
        before = resident_mib(controller), resident_mib(server)
        strangers = [
            multiprocessing.Process(target=attack, args=(kind, [port, page]), daemon=True)
            for kind in KINDS
        ]
        for stranger in strangers:
            stranger.start()
        found["beside"] = work(agent, options.seconds, page, log)
        found["controller_mib"] = [before[0], resident_mib(controller)]
        found["agent_mib"] = [before[1], resident_mib(server)]
        for stranger in strangers:
            stranger.kill()
            stranger.join()
        found["after"] = work(agent, options.alone, page, log)
    text = json.dumps(found, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
