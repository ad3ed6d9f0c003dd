"""Ctrl-C in the middle of calls that wait, the GIL, and memory that foreign threads give back."""

from __future__ import annotations

import ctypes
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import mgi
import numpy as np
import pytest

PREPARE = """
import sys, threading, time
import mgi
import numpy as np

runtime = mgi.Runtime.local()
source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
channel = runtime.create_channel(
    [source], [destination], {"key": "int64"}, mgi.Partition("key"), gone_limit=100
)
rows = np.arange(3_000_000)

def say(text):
    print(text, flush=True)
"""


def interrupted(code: str) -> tuple[int, str]:
    """Runs a program, sends it Ctrl-C once it says "waiting"; its exit status and its output."""
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARE + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process.returncode, output


@pytest.mark.parametrize(
    "call",
    [
        "channel.send(rows)",
        "channel.send(np.zeros(3_000_000, np.dtype([('key', 'i8')])))",
        "channel.recv()",
        "(channel.send(rows, timeout=0), channel.flush())",
        "list(channel.batches())",
    ],
)
def test_ctrl_c_ends_a_call(call):
    status, output = interrupted(
        f"""
        say("waiting")
        started = time.monotonic()
        try:
            {call}
        except KeyboardInterrupt:
            say(f"interrupted {{time.monotonic() - started < 5}}")
        """
    )
    assert (status, output.splitlines()[-1]) == (0, "interrupted True")


def test_ctrl_c_ends_calls_of_other_threads_too():
    status, output = interrupted(
        """
        channel = runtime.create_channel(
            [source], [source, destination], {"key": "int64"}, mgi.Partition("key"), name="both"
        )

        def receive():
            try:
                channel.recv(destination)
            except mgi.Interrupted as error:
                say(f"{error.code}: {error}")

        other = threading.Thread(target=receive)
        other.start()
        say("waiting")
        try:
            channel.recv(source)
        except KeyboardInterrupt:
            other.join()
            say("interrupted")
        """
    )
    first, second = (line for line in output.splitlines() if " mgi " not in line)
    assert status == 0
    assert first.startswith("Interrupted: channel 'both'")
    assert "Ctrl-C" in first
    assert second == "interrupted"


def test_ctrl_c_in_a_block_deletes_its_channel():
    status, output = interrupted(
        """
        def receive():
            try:
                for batch in channel.batches():
                    pass
            except (mgi.Deleted, mgi.Interrupted):
                say("ended")

        other = threading.Thread(target=receive)
        other.start()
        say("waiting")
        try:
            with channel:
                while True:
                    channel.send(rows)
        except KeyboardInterrupt:
            other.join()
            say("interrupted")
        """
    )
    lines = [line for line in output.splitlines() if " mgi " not in line]
    assert (status, lines) == (0, ["ended", "interrupted"])


def test_ctrl_c_not_caught_ends_the_program():
    status, output = interrupted('say("waiting")\nchannel.recv()')
    assert status in (-signal.SIGINT, 128 + signal.SIGINT, 1)
    assert "KeyboardInterrupt" in output


@pytest.mark.parametrize(
    "call",
    [
        "mgi.join(table, table, on='key', endpoints=2)",
        "mgi.exchange(endless, 'key', endpoints=2)",
        "mgi.group_by(endless, 'n', [('count', None, 'rows')], endpoints=2)",
    ],
)
def test_ctrl_c_ends_an_operator(call):
    # Each does its work again and again; the join makes nine million rows of it.
    status, output = interrupted(
        f"""
        table = {{"key": np.zeros(3000, "i8"), "n": np.arange(3000)}}
        endless = {{"key": np.arange(2_000_000), "n": np.arange(2_000_000)}}
        say("waiting")
        started = time.monotonic()
        try:
            while True:
                {call}
        except KeyboardInterrupt:
            say(f"interrupted {{time.monotonic() - started < 10}}")
        table = mgi.exchange({{"key": np.arange(10)}}, "key", endpoints=2)
        say(sum(part.num_rows for part in table))
        """
    )
    assert (status, output.splitlines()[-2:]) == (0, ["interrupted True", "10"])


def test_a_signal_handler_runs_while_a_call_waits(runtime):
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel([endpoint], [endpoint], {"n": "int64"}, mgi.Broadcast())
    seen = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(mgi.Timeout):
            channel.recv(timeout=0.4)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [signal.SIGALRM]
    assert channel.send(np.arange(3)) == 3, "a handler that raises nothing stops nothing"


def test_other_threads_run_while_a_call_waits(runtime):
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel([endpoint], [endpoint], {"n": "int64"}, mgi.Broadcast())
    ticks = 0
    stop = threading.Event()

    def tick():
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(mgi.Timeout):
        channel.recv(timeout=0.5)
    stop.set()
    thread.join()
    assert ticks > 20


class Owned(np.ndarray):
    """An array whose end can be seen."""


def test_numpy_memory_is_given_back_wherever_it_is_dropped():
    seen = []
    for _ in range(3):
        key = np.arange(100_000).view(Owned)
        seen.append(weakref.ref(key))
        parts = mgi.exchange({"key": key}, "key", endpoints=2)
        assert sum(part.num_rows for part in parts) == 100_000
        del key
    gc.collect()
    deadline = time.monotonic() + 20
    while any(ref() is not None for ref in seen) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(ref() is None for ref in seen)


def test_arrays_are_released_without_the_gil(runtime):
    """As a query engine's own threads do: ctypes lets the GIL go and calls the C callback."""
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [endpoint], [endpoint], {"n": "int64"}, mgi.Broadcast(), receive_limit=0, segment_rows=64
    )
    channel.send(np.arange(64))
    batch = channel.recv(timeout=60)
    _, capsule = batch.__arrow_c_array__()
    del batch
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    array = pointer(capsule, b"arrow_array")
    release_at = 64  # of struct ArrowArray
    release = ctypes.cast(array + release_at, ctypes.POINTER(ctypes.c_void_p))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release[0])
    thread = threading.Thread(target=call, args=(array,))
    thread.start()
    thread.join()
    assert not release[0]
    # The segment is back: a lane of few slots takes many segments' rows again.
    channel.send(np.arange(6400), timeout=0)
    assert channel.recv(timeout=60).num_rows == 64


def test_a_program_may_end_with_everything_alive():
    code = PREPARE + textwrap.dedent(
        """
        channel.send(rows[:1000])
        kept = mgi.exchange({"key": rows}, "key", endpoints=2)
        threading.Thread(target=channel.recv, daemon=True).start()
        time.sleep(0.1)
        say("the end")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
