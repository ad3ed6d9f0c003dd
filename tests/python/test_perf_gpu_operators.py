"""``mgi perf gpu-operators``, with a program in place of mgi_gpu_bench."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import xml.etree.ElementTree
from argparse import Namespace
from pathlib import Path

import pytest
from gpu_support import LIBRARY, driver_library
from mgi.perf import gpu_operators
from test_perf_gpu import Perf

pytestmark = pytest.mark.skipif(
    driver_library() is None, reason=f"needs build/release/{LIBRARY} (cmake --preset release)"
)

#: Says the GPUs and lines that it is called with; one GPU takes 8 ms for 60 million lines.
FAKE = """#!{python}
import json, sys
words = dict(word.split("=") for word in sys.argv if "=" in word)
gpus, lines = int(words["gpus"]), int(words["lines"])
open({calls!r}, "a").write(json.dumps(sys.argv[1:]) + "\\n")
results = [
    {{"name": "operators", "operator": name, "gpus": gpus, "processes": 1, "exact": True,
      "lines_per_gpu": lines, "ms_median": 8 * lines / 60e6 * (1 if gpus == 1 else 1.25),
      "ms_best": 1.0, "ms_nccl": 20.0}}
    for name in ("exchange", "join")
]
open(sys.argv[sys.argv.index("--json") + 1], "w").write(json.dumps(results))
"""


@pytest.fixture
def perf(tmp_path: Path) -> Perf:
    made = Perf(tmp_path, [])
    made.program.write_text(FAKE.format(python=sys.executable, calls=str(made.calls)))
    made.program.chmod(made.program.stat().st_mode | stat.S_IXUSR)
    return made


def calls_of(perf: Perf) -> list[list[str]]:
    return [json.loads(line) for line in perf.calls.read_text().splitlines()]


def test_words_figures_and_a_chart(perf: Perf) -> None:
    figures, chart = perf.folder / "figures.json", perf.folder / "chart.svg"
    ended = perf.run(
        *("gpu-operators", "--gpus", "2", "--processes", "--sf", "10", "--rounds", "5"),
        *("--peers", "nccl", "--json", str(figures), "--chart", str(chart)),
    )
    assert ended.returncode == 0, ended.stderr
    (words,) = calls_of(perf)
    assert words[:2] == ["--only", "operators"]
    assert words[2:-2] == [
        *("gpus=2", "lines=60000000", "rounds=5", "processes=1", "peers=nccl"),
    ]
    lines = ended.stdout.splitlines()
    assert lines[0] == "60,000,000 lines of each GPU, medians of 5 rounds"
    join = next(line for line in lines if line.startswith("join"))
    assert join.split() == ["join", "2", "1", "10.00", "20.00", "-", "-", "-"]
    assert lines[-1] == "every row exact: yes"
    written = json.loads(figures.read_text())
    assert written["verified"] is True
    assert [line["operator"] for line in written["results"]] == ["exchange", "join"]
    picture = xml.etree.ElementTree.fromstring(chart.read_text())
    bars = [tag for tag in picture if tag.tag.endswith("rect") and "rx" in tag.attrib]
    assert len(bars) == 4


@pytest.mark.parametrize(("scaling", "lines"), [("weak", 60_000_000), ("strong", 30_000_000)])
def test_scaling(perf: Perf, scaling: str, lines: int) -> None:
    figures = perf.folder / "figures.json"
    ended = perf.run(
        *("gpu-operators", "--gpus", "2", "--scaling", scaling, "--peers", "nccl"),
        *("--json", str(figures)),
    )
    assert ended.returncode == 0, ended.stderr
    assert [call[2:4] for call in calls_of(perf)] == [
        ["gpus=1", "lines=60000000"],
        ["gpus=2", f"lines={lines}"],
    ]
    written = json.loads(figures.read_text())["results"]
    assert [line["of_linear"] for line in written] == [1, 1, 0.8, 0.8]


def test_other_libraries_have_a_column(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "libraries.py"
    results = [
        {"name": "join.torch", "exact": True, "ms_median": 30.5},
        {"name": "group_by.torch", "groups": 15_000_000, "exact": True, "ms_median": 40.0},
        {"name": "group_by.torch", "groups": 4, "exact": True, "ms_median": 12.0},
        {"name": "join.cupy", "error": "out of memory"},
        {"name": "group_by.cupy", "groups": 4, "exact": False, "ms_median": 1.0},
    ]
    program.write_text(
        f"import sys\nopen(sys.argv[sys.argv.index('--json') + 1], 'w').write('''"
        f"{json.dumps(results)}''')\n"
    )
    monkeypatch.setattr(gpu_operators, "_LIBRARIES", program)
    options = Namespace(peers=["nccl", "torch", "cupy"], rounds=3)
    assert gpu_operators._by_libraries(1000, options) == {
        "join": {"ms_torch": 30.5},
        "group_by": {"ms_torch": 40.0},
        "group_by_4": {"ms_torch": 12.0},
    }
    assert gpu_operators._by_libraries(1000, Namespace(peers=["nccl"], rounds=3)) == {}


def test_the_program_of_other_libraries_starts(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    words = ["--lines", "1000", "--repeats", "1", "--json", str(file)]
    ended = subprocess.run(
        [sys.executable, str(gpu_operators._LIBRARIES), *words], capture_output=True, text=True
    )
    # No library is an empty list; each result names its library.
    assert file.exists(), ended.stderr
    assert all("." in line["name"] for line in json.loads(file.read_text()))


def test_more_gpus_than_there_are(perf: Perf) -> None:
    ended = perf.run("gpu-operators", "--gpus", "99")
    assert ended.returncode == 2
    assert "--gpus is 99, and there are" in ended.stderr
    assert not perf.calls.exists()


def test_a_chart_in_no_folder(perf: Perf) -> None:
    ended = perf.run("gpu-operators", "--chart", str(perf.folder / "no" / "chart.svg"))
    assert ended.returncode == 2
    assert "there is no such folder" in ended.stderr


def test_counts_of_gpus() -> None:
    assert gpu_operators._counts(4, "weak") == [1, 2, 4]
    assert gpu_operators._counts(6, "strong") == [1, 2, 4, 6]
    assert gpu_operators._counts(1, "weak") == [1]
    assert gpu_operators._counts(4, "none") == [4]
