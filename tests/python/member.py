"""A process of a job, for test_processes.py: `python member.py WHAT [ARGUMENT...]`.

What it found out goes to standard output as one line of JSON; an error of MGI's as its class and
text.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mgi
import pyarrow as pa

SCHEMA = {"key": "int64", "rank": "int32", "text": "string"}
ROWS = 6_000
LIMIT = 120
"""Seconds that nothing here takes on any machine."""

job = mgi.job()


def text_of(key: int) -> str:
    return f"the text of row {key}" * (key % 3)


def rows(first: int, count: int) -> pa.RecordBatch:
    keys = range(first, first + count)
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.int64()),
            "rank": pa.array([job.rank] * count, pa.int32()),
            "text": pa.array([text_of(key) for key in keys]),
        }
    )


def routing(name: str) -> mgi.Routing:
    made = {"broadcast": mgi.Broadcast(), "direct": mgi.Direct(), "balance": mgi.Balance()}
    return made.get(name) or mgi.Partition("key")


def meet(runtime: mgi.Runtime) -> tuple[mgi.Endpoint, list[mgi.Endpoint]]:
    mine = runtime.create_endpoint("cpu")
    return mine, runtime.gather_endpoints([mine])


def total(batches: list[pa.RecordBatch]) -> dict[int, list[int]]:
    """Rows, and sums of their keys, by the rank that sent them; their texts must be theirs."""
    found = {rank: [0, 0] for rank in range(job.size)}
    for batch in batches:
        for row in batch.to_pylist():
            assert row["text"] == text_of(row["key"]), row
            sums = found[row["rank"]]
            sums[0] += 1
            sums[1] += row["key"]
    return found


def exchange(*without: str) -> Any:
    """Every routing but some, by reference and by copy, over one endpoint of each process."""
    found: dict[str, Any] = {}
    kept = []
    with mgi.Runtime.connect(timeout=LIMIT) as runtime, ThreadPoolExecutor(1) as pool:
        mine, all_of_them = meet(runtime)
        for name in ("partition", "broadcast", "direct", "balance", "ordered broadcast"):
            if name in without:
                continue
            for by_reference in (True, False):
                channel = runtime.create_channel(
                    all_of_them,
                    all_of_them,
                    SCHEMA,
                    routing(name.split()[-1]),
                    by_reference=by_reference,
                    ordered=name.startswith("ordered"),
                    name=name,
                )
                batches = pool.submit(lambda c=channel: list(c.batches(mine, timeout=LIMIT)))
                batch = rows(job.rank * ROWS, ROWS)
                if name == "direct":
                    for part, to in enumerate(all_of_them):
                        share = batch.slice(part * ROWS // job.size, ROWS // job.size)
                        channel.send_to(to, share, mine, timeout=LIMIT)
                else:
                    channel.send(batch, mine, timeout=LIMIT)
                channel.flush(mine, timeout=LIMIT)
                # Arrow's now; they outlive the channel and the runtime.
                arrow = [pa.record_batch(batch) for batch in batches.result()]
                runtime.delete_channel(channel)
                kept.append((f"{name} {by_reference}", arrow))
    for name, arrow in kept:
        found[name] = total(arrow)
    return found


def stream(folder: str) -> Any:
    """Sends for ever, or until there is a file `stop`; says in a file when rows move."""
    with mgi.Runtime.connect(timeout=LIMIT) as runtime, ThreadPoolExecutor(1) as pool:
        mine, all_of_them = meet(runtime)
        channel = runtime.create_channel(
            all_of_them, all_of_them, SCHEMA, mgi.Partition("key"), name="stream"
        )

        def receive() -> int:
            count = 0
            for batch in channel.batches(mine, timeout=LIMIT):
                if count == 0:
                    Path(folder, f"moves-{job.rank}").write_text(str(channel.id))
                count += len(batch)
            return count

        batch = rows(0, 1000)
        try:
            # Rows move where this process has sent some, too.
            sent = channel.send(batch, mine, timeout=LIMIT)
            received = pool.submit(receive)
            while not Path(folder, "stop").exists():
                sent += channel.send(batch, mine, timeout=LIMIT)
            channel.flush(mine, timeout=LIMIT)
            return {"sent": sent, "received": received.result()}
        finally:
            runtime.delete_channel(channel)


def wait_for(path: Path) -> None:
    end = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.01)


def absent(folder: str) -> Any:
    """The last process meets the others, and does not create the channel."""
    with mgi.Runtime.connect(timeout=2 if job.rank == 0 else LIMIT) as runtime:
        _, all_of_them = meet(runtime)
        try:
            if job.rank == 0:
                runtime.create_channel(all_of_them, all_of_them, SCHEMA, mgi.Broadcast())
        finally:
            Path(folder, f"done-{job.rank}").touch()
        wait_for(Path(folder, "done-0"))


def differ() -> Any:
    """Processes that do not ask for the same; they go on with another channel."""
    with mgi.Runtime.connect(timeout=LIMIT) as runtime:
        mine, all_of_them = meet(runtime)
        found = []
        for options in ({"slots": 2 + 2 * job.rank}, {"name": "x" * (job.rank + 1)}):
            try:
                runtime.create_channel(all_of_them, all_of_them, SCHEMA, mgi.Broadcast(), **options)
            except mgi.InvalidArgument as error:
                found.append(str(error))
        types = {"key": "int64" if job.rank == 0 else "int32"}
        try:
            runtime.create_channel(all_of_them, all_of_them, types, mgi.Broadcast())
        except mgi.InvalidArgument as error:
            found.append(str(error))
        # What one of them finds wrong, all of them hear.
        key = "nothing" if job.rank == 1 else "key"
        try:
            runtime.create_channel(all_of_them, all_of_them, SCHEMA, mgi.Partition(key))
        except mgi.InvalidArgument as error:
            found.append(str(error))
        channel = runtime.create_channel(all_of_them, all_of_them, SCHEMA, mgi.Broadcast())
        channel.flush(mine, timeout=LIMIT)
        assert channel.recv(mine, timeout=LIMIT) is None
        return found


def leave() -> Any:
    """The last process leaves before it has flushed."""
    with mgi.Runtime.connect(timeout=LIMIT) as runtime:
        mine, all_of_them = meet(runtime)
        channel = runtime.create_channel(all_of_them, all_of_them, SCHEMA, mgi.Broadcast())
        if job.rank == job.size - 1:
            runtime.delete_channel(channel)
            return "left"
        return channel.recv(mine, timeout=LIMIT)


def main(what: str, *arguments: str) -> None:
    call: Callable[..., Any] = globals()[what]
    try:
        found = call(*arguments)
    except mgi.Error as error:
        found = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
