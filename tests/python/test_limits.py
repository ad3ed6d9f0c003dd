"""Limits of the process itself, set for real: what fits works, and an error names the limit."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")

EXCHANGE = """
import mgi
import pyarrow as pa
table = pa.table({"k": list(range(1000)), "x": ["text"] * 1000})
for _ in range(5):
    parts = mgi.exchange(table, "k", endpoints=2)
    assert sum(part.num_rows for part in parts) == 1000
joined = mgi.join(table, table, "k", endpoints=2)
assert sum(part.num_rows for part in joined) == 1000
assert sum(part.num_rows for part in mgi.sort(table, "k", endpoints=2)) == 1000
print("done")
"""


def under(limits: str, program: str) -> subprocess.CompletedProcess[str]:
    """The program under what a shell's ulimit says."""
    words = ["sh", "-c", f'{limits}; exec "$0" -c "$1"', sys.executable, program]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "limits",
    ["ulimit -v 2000000; ulimit -n 64; ulimit -l 0", "ulimit -d 2000000", "ulimit -v 8000000"],
)
def test_operators_within(limits: str) -> None:
    done = under(limits, EXCHANGE)
    assert done.stdout == "done\n", done.stderr


def test_too_few_addresses_are_named() -> None:
    program = """
import resource
import mgi
import pyarrow as pa
table = pa.table({"k": [1, 2]})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)
try:
    mgi.exchange(table, "k", endpoints=2, receive_limit=8 << 30)
except mgi.OutOfMemory as error:
    print(error)
else:
    print("fits")
"""
    done = under("true", program)
    # All that there is was taken, or it is said which limit was in the way.
    assert done.stdout == "fits\n" or "ulimit -v" in done.stdout, done.stdout + done.stderr
    assert "slots" not in done.stdout


def test_a_runtime_is_bounded_by_what_the_process_may_have() -> None:
    program = """
import mgi
with mgi.Runtime.local() as runtime:
    ends = [runtime.create_endpoint("cpu")]
    try:
        runtime.create_channel(ends, ends, {"k": "int64"}, mgi.Partition("k"), slots=1024,
                               segment_bytes=8 << 20)
    except mgi.OutOfMemory as error:
        print(error)
"""
    done = under("ulimit -v 4000000", program)
    assert "what ulimit -v allows" in done.stdout, done.stdout + done.stderr
