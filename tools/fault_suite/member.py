"""A process of the exchange: `python member.py SETUP`, a Setup as JSON.

Says in lines of JSON how far it is, what it has received by sender, or which error it got.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import resource
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mgi
import numpy as np
from counted import mixed

BATCH = 4096
SCHEMA = {"key": "int64", "rank": "int32", "mixed": "uint64"}

job = mgi.job()


def say(phase: str, **more: Any) -> None:
    """One line, at once."""
    sys.stdout.write(json.dumps({"rank": job.rank, "phase": phase, **more}) + "\n")
    sys.stdout.flush()


class Received:
    """Counts and sums by sender; every row must be one that was sent, and new."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._seen = np.zeros(rows * job.size, bool)
        self._sums = [[0, 0] for _ in range(job.size)]

    def add(self, batch: mgi.RecordBatch) -> None:
        columns = batch.to_numpy()
        keys, values = columns["key"], columns["mixed"]
        assert (columns["rank"] == keys // self._rows).all(), "a row of nobody"
        assert (values == mixed(keys)).all(), "a row with other contents"
        assert not self._seen[keys].any(), "a row came twice"
        assert len(np.unique(keys)) == len(keys), "a row came twice"
        self._seen[keys] = True
        for rank in range(job.size):
            theirs = values[columns["rank"] == rank]
            sums = self._sums[rank]
            sums[0] += len(theirs)
            sums[1] = (sums[1] + int(theirs.sum(dtype=np.uint64))) % 2**64

    def sums(self) -> list[list[int]]:
        return self._sums


def send(channel: mgi.Channel, mine: mgi.Endpoint, setup: dict[str, Any]) -> None:
    first, rows = job.rank * setup["rows"], setup["rows"]
    for number, start in enumerate(range(first, first + rows, BATCH)):
        keys = np.arange(start, min(start + BATCH, first + rows), dtype=np.int64)
        ranks = np.full(len(keys), job.rank, np.int32)
        batch = {"key": keys, "rank": ranks, "mixed": mixed(keys)}
        if setup["routing"] == "direct":
            to = channel.destinations[(number + job.rank) % job.size]
            channel.send_to(to, batch, mine)
        else:
            channel.send(batch, mine)
        time.sleep(setup["pace"])
    channel.flush(mine)
    say("flushed")


def or_fail(channel: mgi.Channel, work: Callable[..., Any], *arguments: Any) -> Any:
    """Half of an exchange; when it fails, so does the other half, which would wait for it."""
    try:
        return work(channel, *arguments)
    except BaseException:
        with contextlib.suppress(mgi.Error):
            channel.delete()
        raise


def receive(channel: mgi.Channel, mine: mgi.Endpoint, setup: dict[str, Any]) -> list[list[int]]:
    received, kept = Received(setup["rows"]), []
    for number, batch in enumerate(channel.batches(mine)):
        if number == 0:
            say("moving")
        received.add(batch)
        if setup["keeps"] and number % 10 == 0:
            kept.append(batch)
    return received.sums()


def limit(setup: dict[str, Any], phase: str) -> None:
    """Takes descriptors or memory away from this process, if it is its turn."""
    limits = setup["limits"]
    if limits.get("at") != phase or job.rank not in limits["ranks"]:
        return
    if "descriptors" in limits:
        now = len(list(Path("/proc/self/fd").iterdir()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (now + limits["descriptors"],) * 2)
    if "address_space" in limits:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        now = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + limits["address_space"],) * 2)


def exchange(setup: dict[str, Any], pool: ThreadPoolExecutor) -> None:
    routings = {"broadcast": mgi.Broadcast, "direct": mgi.Direct, "balance": mgi.Balance}
    routing = routings.get(setup["routing"], lambda: mgi.Partition("key"))()
    memory = setup["limits"].get("memory") if job.rank in setup["limits"]["ranks"] else None
    limit(setup, "started")
    with mgi.Runtime.connect(timeout=setup["timeout"], memory_limit=memory) as runtime:
        mine = runtime.create_endpoint("cpu")
        everybody = runtime.gather_endpoints([mine])
        say("joined")
        limit(setup, "joined")
        with runtime.create_channel(
            everybody,
            everybody,
            SCHEMA,
            routing,
            by_reference=setup["by_reference"],
            segment_rows=setup["segment_rows"],
            gone_limit=setup["gone_limit"],
            name="counted",
        ) as channel:
            say("created")
            limit(setup, "created")
            received = pool.submit(or_fail, channel, receive, mine, setup)
            try:
                or_fail(channel, send, mine, setup)
            except mgi.Deleted:
                received.result()  # who has failed first says why
                raise
            say("received", sums=received.result())
        say("left")


def main(text: str) -> None:
    # What the suite asks of one that does not end.
    faulthandler.register(signal.SIGUSR1)
    # Python's own start of a thread may hang without memory, so that it comes before the faults.
    pool = ThreadPoolExecutor(1)
    pool.submit(say, "started").result()
    try:
        exchange(json.loads(text), pool)
    except AssertionError as error:
        say("wrong", text=str(error))
    except Exception as error:
        say("error", kind=type(error).__name__, text=str(error))


if __name__ == "__main__":
    main(sys.argv[1])
