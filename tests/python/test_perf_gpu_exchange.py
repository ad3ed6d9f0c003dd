"""``mgi perf gpu-exchange``, with a program in place of mgi_gpu_bench."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from pathlib import Path

import pytest
from gpu_support import LIBRARY, driver_library
from test_perf_gpu import Perf

RESULT = {
    "name": "contest",
    "gpus": 2,
    "processes": 1,
    "pattern": "exchange",
    "theta": 1.0,
    "layout": "rows",
    "row_bytes": 32,
    "rows": 1000,
    "rounds": 9,
    "blocks": 264,
    "gbps_median": 1100.0,
    "gbps_best": 1200.0,
    "gbps_nccl": 700.0,
    "gbps_nccl_read": 600.0,
    "gbps_ucx": None,
    "gbps_ucx_read": None,
    "gbps_copy_engines": 1400.0,
    "gbps_reference": 1250.0,
    "ratio_to_nccl": 1.57,
    "ratio_to_ucx": None,
    "ratio_to_copy_engines": 0.79,
    "ratio_to_reference": 0.88,
    "create_us": 600.0,
    "delete_us": 60.0,
    "launch_us": 30.0,
    "no_ucx": "no UCX (libucp.so.0)",
    "exact": True,
}

pytestmark = pytest.mark.skipif(
    driver_library() is None, reason=f"needs build/release/{LIBRARY} (cmake --preset release)"
)


def test_words_figures_and_a_chart(tmp_path: Path) -> None:
    perf = Perf(tmp_path, [RESULT])
    figures, chart = tmp_path / "figures.json", tmp_path / "chart.svg"
    ended = perf.run(
        *("gpu-exchange", "--gpus", "2", "--dist", "zipf:1", "--rows", "1k"),
        *("--peers", "nccl,ucx,copy", "--json", str(figures), "--chart", str(chart)),
    )
    assert ended.returncode == 0, ended.stderr
    words, _ = json.loads(perf.calls.read_text())
    assert words[:2] == ["--only", "contest"]
    assert words[2:-2] == [
        *("gpus=2", "processes=0", "pattern=exchange", "theta=1.0", "layout=rows"),
        *("row_bytes=32", "rows=1000", "rounds=9", "peers=nccl,ucx,copy"),
    ]
    lines = ended.stdout.splitlines()
    assert "MGI, read on arrival       1100.0" in ended.stdout
    nccl = next(line for line in lines if line.startswith("NCCL, nothing read"))
    assert nccl.split()[3:5] == ["700.0", "1.57"]
    assert not any(line.startswith("UCX") for line in lines)
    assert "without ucx: no UCX (libucp.so.0)" in lines
    assert lines[-1] == "every row exact: yes"
    written = json.loads(figures.read_text())
    assert written["dist"] == "zipf:1"
    assert written["gbps_ucx"] is None
    assert written["exact"] is written["verified"] is True
    picture = xml.etree.ElementTree.fromstring(chart.read_text())
    bars = [tag for tag in picture if tag.tag.endswith("rect") and "rx" in tag.attrib]
    assert len(bars) == 5  # those that ran
    longest = max(bars, key=lambda bar: float(bar.attrib["width"]))
    assert float(longest.attrib["width"]) == 380


def test_wrong_rows_and_errors_fail(tmp_path: Path) -> None:
    wrong = Perf(tmp_path, [RESULT | {"exact": False}]).run("gpu-exchange")
    assert wrong.returncode == 1
    assert "every row exact: NO" in wrong.stdout
    late = [{"name": "contest", "error": "a block passed its deadline"}]
    ended = Perf(tmp_path, late).run("gpu-exchange")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "mgi perf gpu-exchange: a block passed its deadline\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--gpus", "99"], "--gpus is 99, and there are"),
        (["--gpus", "1", "--processes"], "--processes is between GPUs"),
        (["--gpus", "1", "--pattern", "one-to-one"], "one-to-one is between 2 GPUs"),
        (["--peers", "mpi"], "there is no peer 'mpi'"),
        (["--dist", "zipf:0"], "'zipf:0' is no distribution"),
        (
            ["--chart", "/no/such/folder/chart.svg"],
            "--chart /no/such/folder/chart.svg: there is no such folder",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, words: list[str], why: str) -> None:
    ended = Perf(tmp_path, [RESULT]).run("gpu-exchange", *words)
    assert ended.returncode == 2
    assert why in ended.stderr
