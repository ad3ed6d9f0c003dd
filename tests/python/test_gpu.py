"""What the package does with GPUs, which are made up.

A process finds its driver once, so the tests run in processes of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gpu_support import LIBRARY, driver_environment, driver_library

FOLDER = Path(__file__).parent / "gpu"


@pytest.mark.skipif(
    driver_library() is None, reason=f"needs build/release/{LIBRARY} (cmake --preset release)"
)
@pytest.mark.parametrize("module", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_on_gpus_that_are_made_up(module: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / module)]
    ended = subprocess.run(
        command, env=driver_environment(), timeout=300, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
