"""Testbeds of tests: whether this machine can have any, and the commands that they are made by."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mgi.control import PROGRAM
from processes import PATIENCE

NAME = f"test{os.getpid()}"
"""Of the testbed of this process' tests, one module's at a time."""


def why_not() -> str:
    """Why this machine has no testbed; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    if not (shutil.which("ip") and shutil.which("tc")):
        return "there is no iproute2"
    space = f"mgi-{NAME}-probe"
    probe = f"ip netns add {space} && tc -n {space} qdisc add dev lo root tbf rate 1gbit burst 64k \
              limit 64k && ip netns exec {space} true"
    done = subprocess.run(["sh", "-c", probe], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
    return "" if done.returncode == 0 else f"no namespaces or no tbf here: {done.stderr.strip()}"


reason = why_not()
needs_kernel = pytest.mark.skipif(bool(reason), reason=reason)
needs_control = pytest.mark.skipif(
    not os.access(PROGRAM, os.X_OK), reason="this package was built without the control plane"
)


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs an mgi command."""
    command = [sys.executable, "-m", "mgi.cli", *words]
    given = {"capture_output": True, "text": True, "timeout": PATIENCE, "check": False, **options}
    return subprocess.run(command, **given)


def bed(command: str, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command of this test's testbed."""
    return run("testbed", command, "--name", NAME, *words, **options)


@contextmanager
def standing(*words: str) -> Iterator[None]:
    """This test's testbed, made with options of ``mgi testbed up`` and taken away."""
    done = bed("up", *words)
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        assert bed("down").returncode == 0


def fail(*words: str) -> None:
    done = bed("fail", *words)
    assert done.returncode == 0, done.stderr
