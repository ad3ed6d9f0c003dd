"""GPUs that are made up, in several processes of a cluster: channels between them."""

from __future__ import annotations

import sys

import pytest
from gpu_support import driver_environment, driver_library
from run_support import Runner, needs_control

PROGRAM = """
import os, sys
import mgi
def say(words):
    os.write(1, f"{mgi.job().rank} {words}\\n".encode())  # in one piece
devices = sys.argv[1:]
rank = mgi.job().rank
with mgi.Runtime.connect(timeout=30) as runtime:
    mine = runtime.create_endpoint(devices[rank])
    both = runtime.gather_endpoints([mine])
    assert len(both) == 2, both
    try:
        channel = runtime.create_channel(
            both[:1],
            both[1:],
            schema=mgi.Schema([("key", "int64")]),
            routing=mgi.Partition("key"),
            name="far",
        )
    except mgi.errors.Error as error:
        say(f"refused {error}")
        sys.exit()
    say("made")
    runtime.delete_channel(channel)
"""


def run(runner: Runner, *devices: str, **env: str) -> list[str]:
    """What both processes print, in order."""
    made_up = {n: v for n, v in driver_environment().items() if "CUDA" in n}
    words = ("-n", "2", "--no-tag", "--", sys.executable, "-c", PROGRAM, *devices)
    status, out, err = runner.finish(runner.start(*words, **made_up, **env))
    assert status == 0, err
    return sorted(out.splitlines())


@needs_control
@pytest.mark.skipif(driver_library() is None, reason="the made-up driver is not built")
def test_processes_with_gpus_make_a_channel(runner: Runner) -> None:
    for devices in (("cpu:0", "cuda:0"), ("cuda:1", "cpu:0"), ("cuda:0", "cuda:1")):
        assert run(runner, *devices, MGI_GPU_IPC="off") == ["0 made", "1 made"]


@needs_control
@pytest.mark.skipif(driver_library() is None, reason="the made-up driver is not built")
def test_processes_share_memory_that_is_mapped(runner: Runner) -> None:
    assert run(runner, "cuda:0", "cuda:1") == ["0 made", "1 made"]


@needs_control
@pytest.mark.skipif(driver_library() is None, reason="the made-up driver is not built")
def test_links_do_what_cannot_be_shared(runner: Runner) -> None:
    # The made-up driver hands plain memory to its own process alone.
    assert run(runner, "cuda:0", "cuda:1", MGI_GPU_IPC="plain") == ["0 made", "1 made"]
