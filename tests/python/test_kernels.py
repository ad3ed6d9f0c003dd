"""Kernels that are compiled when a program runs: the headers, NVRTC, and the examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mgi
import pytest
from mgi import nvrtc

ROOT = Path(__file__).resolve().parents[2]
# Each takes a compiler's minute: one where few cases are asked for.
FEW = int(os.environ.get("MGI_TEST_CASES", "100")) < 100
ARCHITECTURES = ["compute_90"] if FEW else ["compute_80", "compute_90"]


def needs_nvrtc() -> None:
    try:
        nvrtc._library()
    except mgi.NotFound:
        pytest.skip("needs NVRTC 12.8 or newer (a CUDA toolkit, or pip install nvidia-cuda-nvrtc)")


def test_include_dirs_have_the_headers() -> None:
    ours, cccl = map(Path, mgi.include_dirs())
    assert (ours / "mgi" / "device.hpp").exists()
    assert (ours / "mgi" / "device" / "backoff.inl").exists()
    assert (cccl / "cuda" / "atomic").exists()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("header", ["device.hpp", "device/c_api.hpp", "device/kernel_groups.hpp"])
def test_nvrtc_compiles_the_headers(header: str, architecture: str) -> None:
    needs_nvrtc()
    assert b".target sm_" in nvrtc.compile_ptx(f"#include <mgi/{header}>\n", architecture)


def test_nvrtc_compiles_the_calls_with_c_names() -> None:
    needs_nvrtc()
    ptx = nvrtc.compile_ptx("#include <mgi/device/c_api.hpp>\n", "compute_90", ["-rdc=true"])
    for name in ["send", "push", "flush", "recv", "release", "integer", "float", "valid"]:
        assert f"mgi_{name}(".encode() in ptx


def test_nvrtc_compiles_the_kernel_of_the_example() -> None:
    needs_nvrtc()
    text = (ROOT / "examples" / "cupy_kernel.py").read_text()
    source = text.partition('SOURCE = r"""')[2].partition('"""')[0]
    assert b".entry sum_by_customer" in nvrtc.compile_ptx(source, "compute_90")


def test_what_does_not_compile_says_where() -> None:
    needs_nvrtc()
    with pytest.raises(mgi.InvalidArgument, match=r"(?s)mine.cu does not compile.*mine.cu\(1\)"):
        nvrtc.compile_ptx("no such thing", "compute_90", name="mine.cu")


@pytest.mark.parametrize("name", ["cupy_kernel", "numba_kernel"])
def test_examples_run_or_say_why_not(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "skipped: " in ended.stdout or "every sum is right" in ended.stdout
