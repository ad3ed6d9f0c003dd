"""``mgi perf gpu-...``, with a program in place of mgi_gpu_bench."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_support import LIBRARY, driver_environment, driver_library

RESULTS = [
    {
        "name": "mgi_send",
        "row_bytes": 16,
        "keys": "uniform",
        "best_gbps": 1234.56,
        "median_gbps": 1200.0,
        "floor_gbps": 2100.0,
        "share_of_floor": 0.588,
        "exact": True,
    },
    {"name": "mgi_send", "row_bytes": 64, "keys": "zipf", "error": "out of memory"},
]
FAKE = """#!{python}
import json, os, sys
open({calls!r}, "w").write(json.dumps([sys.argv[1:], os.environ["CUDA_MODULE_LOADING"]]))
if {results!r} is None:
    sys.exit("no such GPU")
open(sys.argv[sys.argv.index("--json") + 1], "w").write(json.dumps({results!r}))
"""


class Perf:
    """``mgi perf`` on a GPU that is made up, with a program that is, too."""

    def __init__(self, folder: Path, results: object) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        program = folder / "mgi_gpu_bench"
        program.write_text(
            FAKE.format(python=sys.executable, calls=str(self.calls), results=results)
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.program = program

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = driver_environment() | {"MGI_GPU_BENCH": str(self.program)}
        return subprocess.run(
            [sys.executable, "-m", "mgi.cli", "perf", *words],
            env=environment,
            timeout=60,
            capture_output=True,
            text=True,
        )


pytestmark = pytest.mark.skipif(
    driver_library() is None, reason=f"needs build/release/{LIBRARY} (cmake --preset release)"
)


def test_a_table_for_people_and_figures_in_a_file(tmp_path: Path) -> None:
    perf = Perf(tmp_path, RESULTS[:1])
    file = tmp_path / "figures.json"
    ended = perf.run("gpu-send", "--quick", "--json", str(file))
    assert ended.returncode == 0, ended.stderr
    words, loading = json.loads(perf.calls.read_text())
    assert words[:2] == ["--only", "mgi_send"]
    assert words[2] == "--quick"
    assert loading == "EAGER"
    heads, row = ended.stdout.splitlines()[1:]
    assert heads.split() == ["row_bytes", "keys", "GB/s", "median", "floor", "share"]
    assert row.split() == ["16", "uniform", "1234.6", "1200.0", "2100.0", "59", "%"]
    assert json.loads(file.read_text()) == {
        "quick": True,
        "results": RESULTS[:1],
        "verified": True,
    }


def test_errors_and_wrong_rows_fail(tmp_path: Path) -> None:
    ended = Perf(tmp_path, RESULTS).run("gpu-send")
    assert ended.returncode == 1
    assert "error: out of memory" in ended.stdout
    assert "a benchmark failed" in ended.stderr
    wrong = Perf(tmp_path, [RESULTS[0] | {"exact": False}]).run("gpu-endpoints")
    assert wrong.returncode == 1
    assert "WRONG ROWS" in wrong.stdout
    assert json.loads((tmp_path / "calls").read_text())[0][:2] == ["--only", "mgi_exchange"]


def test_several_benchmarks_of_a_pattern(tmp_path: Path) -> None:
    perf = Perf(tmp_path, RESULTS[:1])
    assert perf.run("gpu-append").returncode == 0
    assert json.loads(perf.calls.read_text())[0][:4] == [
        "--only",
        "atomics",
        "--only",
        "coalescing",
    ]
    assert perf.run("gpu-all").returncode == 0
    assert json.loads(perf.calls.read_text())[0][0] == "--json"


def test_one_line_says_what_is_wrong(tmp_path: Path) -> None:
    perf = Perf(tmp_path, None)
    ended = perf.run("gpu-floors")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines() == [
        f"mgi perf gpu-floors: {perf.program} gave no results: no such GPU"
    ]
    perf.program.unlink()
    assert "which is no program" in perf.run("gpu-floors").stderr


def test_without_a_gpu(tmp_path: Path) -> None:
    environment = os.environ | {"MGI_CUDA_LIBRARY": "libno-such-driver.so.1"}
    ended = subprocess.run(
        [sys.executable, "-m", "mgi.cli", "perf", "gpu-exchange"],
        env=environment,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "mgi perf gpu-exchange: this needs a GPU: no NVIDIA driver (libno-such-driver.so.1 not "
        "found)\n"
    )
