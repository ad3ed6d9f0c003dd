"""The tests of this folder run on GPUs that are made up; tests/python/test_gpu.py starts them."""

from __future__ import annotations

import mgi
import pytest
from gpu_support import Driver


@pytest.fixture(scope="session")
def driver() -> Driver:
    made = Driver()
    assert mgi._mgi.gpus() == 2
    return made
