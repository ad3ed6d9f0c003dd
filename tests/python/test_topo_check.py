"""``mgi topo --check``, on GPUs that are made up."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from gpu_support import LIBRARY, driver_environment, driver_library

pytestmark = pytest.mark.skipif(
    driver_library() is None, reason=f"needs build/release/{LIBRARY} (cmake --preset release)"
)


def check(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = driver_environment() | {f"MGI_FAKE_CUDA_{k}": v for k, v in settings.items()}
    command = [sys.executable, "-m", "mgi.cli", "topo", "--check", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_all_pairs_are_right() -> None:
    ended = check()
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["cuda:0 -> cuda:1", "cuda:1 -> cuda:0"]
    assert all(line.endswith("right") and "GB/s" in line for line in lines)


def test_bytes_that_arrive_changed_are_an_error() -> None:
    ended = check(DEVICES="3", BROKEN="1-2", PEERS="0-1,1-2")
    assert ended.returncode == 1
    assert "between cuda:1 and cuda:2, cuda:2 and cuda:1" in ended.stderr
    assert "iommu=pt" in ended.stderr
    assert ended.stdout.count("BYTES ARRIVE CHANGED") == 2
    assert ended.stdout.count("does not reach") == 2


def test_figures_as_json() -> None:
    ended = check("--json", "-")
    assert ended.returncode == 0, ended.stderr
    peers = json.loads(ended.stdout)["peers"]
    assert [(peer["from"], peer["to"], peer["right"]) for peer in peers] == [
        (0, 1, True),
        (1, 0, True),
    ]


@pytest.mark.parametrize("words", [("--flows",), ("--preset", "dgx-a100"), ("file.xml",)])
def test_is_for_this_machine_alone(words: tuple[str, ...]) -> None:
    ended = check(*words)
    assert ended.returncode == 2
    assert "--check is for this machine" in ended.stderr


def test_one_gpu_is_too_few() -> None:
    ended = check(DEVICES="1")
    assert ended.returncode == 1
    assert "two GPUs" in ended.stderr
