"""Tables of any types through exchange, group-by and join, by one process and by two.

`test_two_level.py` has those of two servers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from run_support import Runner, needs_control

drawn = pytest.importorskip("drawn")

percent = int(os.environ.get("MGI_TEST_CASES", "100"))


def test_alone() -> None:
    for seed in range(2 * percent):
        drawn.check_alone(seed)


@needs_control
def test_two_processes(runner: Runner) -> None:
    program = Path(__file__).with_name("drawn.py")
    cases = str(max(1, 40 * percent // 100))
    started = runner.start("-n", "2", "--", sys.executable, str(program), "--cases", cases)
    out, err = started.communicate(timeout=180)
    assert started.returncode == 0, err.decode()
    assert f"{cases} cases held" in out.decode()
