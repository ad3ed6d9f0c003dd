"""An exchange over processes: mgi run -n 3 -- python examples/processes.py."""

from concurrent.futures import ThreadPoolExecutor

import mgi
import pyarrow as pa

ROWS = 100_000

job = mgi.job()
with mgi.Runtime.connect(timeout=30) as runtime, ThreadPoolExecutor(1) as receiver:
    mine = runtime.create_endpoint("cpu")
    everybody = runtime.gather_endpoints([mine])
    channel = runtime.create_channel(
        everybody, everybody, {"key": "int64", "rank": "int32"}, mgi.Partition("key"), name="rows"
    )
    batches = receiver.submit(lambda: list(channel.batches(mine, timeout=60)))
    keys = pa.array(range(job.rank * ROWS, (job.rank + 1) * ROWS), pa.int64())
    ranks = pa.array([job.rank] * ROWS, pa.int32())
    channel.send(pa.record_batch({"key": keys, "rank": ranks}), mine, timeout=60)
    channel.flush(mine, timeout=60)
    table = pa.Table.from_batches(pa.record_batch(batch) for batch in batches.result())
    runtime.delete_channel(channel)  # others may still receive: it goes on for them
    print(f"rank {job.rank} of {job.size} has {len(table)} rows")
