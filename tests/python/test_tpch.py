"""``mgi tpch``: every query against DuckDB, in one process and several; what cannot be asked."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mgi
import polars as pl
import pyarrow as pa
import pytest
from mgi.cli import main
from mgi.demo import data
from mgi.demo.progress import Step
from mgi.tpch import answer, flow, queries
from mgi.tpch.cpu_rows import CpuRows
from mgi.tpch.expr import Expr, col
from mgi.tpch.fixed import fixed
from run_support import MGI, Runner, needs_control

FIELDS = {
    "query",
    "sf",
    "devices",
    "endpoints",
    "processes",
    "seconds_median",
    "seconds_best",
    "duckdb_seconds",
    "speedup_duckdb",
    "bytes_moved",
    "phases",
    "floor_seconds",
    "verified",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("tpch")
    data.make(made, "0.01", Step(""), data.ALL_TABLES)
    return made


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    file = folder / "tpch.json"
    given = ["--sf", "0.01", "--data", str(folder), "--repeat", "1", "--json", str(file)]
    assert main(["tpch", *given, *arguments]) == 0
    return json.loads(file.read_text())


@pytest.mark.parametrize("endpoints", [1, 3])
def test_all_queries_give_what_duckdb_gives(folder, endpoints, capsys):
    page = folder / "tpch.html"
    found = run(folder, "--queries", "all", "--endpoints", str(endpoints), "--html", str(page))
    assert [one["query"] for one in found] == list(range(1, 23))
    for one in found:
        assert set(one) == FIELDS
        assert one["verified"]
        assert one["endpoints"] == endpoints
        assert one["seconds_median"] > one["floor_seconds"] > 0
        assert {phase["kind"] for phase in one["phases"]} <= {
            "local",
            "join",
            "group_by",
            "sort",
            "exchange",
        }
    said = capsys.readouterr().out
    assert "Geometric mean" in said
    drawn = page.read_text()
    assert drawn.count("<title>The plan of Q") == 22
    assert "All 22 results equal DuckDB" in drawn


def test_the_papers_queries_are_the_default(folder):
    assert tuple(one["query"] for one in run(folder)) == queries.PAPER


def test_scale_factors_that_leave_results_empty(tmp_path):
    file = tmp_path / "tpch.json"
    given = ["--sf", "0.0005", "--data", str(tmp_path), "--repeat", "1", "--json", str(file)]
    assert main(["tpch", *given, "--queries", "all", "--endpoints", "2"]) == 0
    assert all(one["verified"] for one in json.loads(file.read_text()))


@pytest.mark.parametrize("endpoints", [1, 3])
def test_lines_flow_to_whoever_has_room(folder, endpoints):
    given = ["--queries", "1,6", "--endpoints", str(endpoints), "--flow"]
    first, _ = run(folder, *given)
    phase = first["phases"][0]
    assert (phase["kind"], phase["says"]) == ("exchange", "to who has room: cpu:0 60,175")
    assert first["bytes_moved"] >= phase["bytes"] > 60_175 * 30


@pytest.mark.parametrize("fewest", [0, 1])
def test_a_consumer_that_fails_ends_the_query(folder, monkeypatch, capsys, fewest):
    fold = CpuRows.fold

    def fails(rows: CpuRows, *given: Any) -> CpuRows:
        if rows.height >= fewest:
            raise mgi.Error("out of luck")
        return fold(rows, *given)

    monkeypatch.setattr(CpuRows, "fold", fails)
    monkeypatch.setattr(flow, "SEGMENT_ROWS", 1000)
    given = ["--sf", "0.01", "--data", str(folder), "--repeat", "1", "--queries", "1", "--flow"]
    assert main(["tpch", *given]) == 1
    assert "out of luck" in capsys.readouterr().err


@needs_control
def test_lines_flow_between_processes(runner: Runner, folder: Path) -> None:
    file = folder / "flow.json"
    program = [*MGI, "tpch", "--sf", "0.01", "--data", str(folder), "--repeat", "1", "--flow"]
    started = runner.start("-n", "2", "--", *program, "--queries", "1", "--json", str(file))
    out, err = (text.decode() for text in started.communicate(timeout=300))
    assert started.returncode == 0, err + out
    (found,) = json.loads(file.read_text())
    assert found["verified"]
    assert found["processes"] == 2


@needs_control
def test_four_processes(runner: Runner, folder: Path) -> None:
    file = folder / "four.json"
    program = [*MGI, "tpch", "--sf", "0.01", "--data", str(folder), "--repeat", "1"]
    started = runner.start("-n", "4", "--", *program, "--queries", "all", "--json", str(file))
    out, err = (text.decode() for text in started.communicate(timeout=300))
    assert started.returncode == 0, err + out
    found = json.loads(file.read_text())
    assert [one["query"] for one in found] == list(range(1, 23))
    assert all(one["verified"] and one["processes"] == 4 for one in found)


@needs_control
def test_too_few_endpoints_for_the_processes(runner: Runner, folder: Path) -> None:
    program = [*MGI, "tpch", "--sf", "0.01", "--data", str(folder), "--endpoints", "1"]
    started = runner.start("-n", "2", "--", *program)
    out, err = (text.decode() for text in started.communicate(timeout=120))
    assert started.returncode != 0
    assert "2 processes share 1 endpoints" in err + out


@pytest.mark.parametrize("text", ["23", "0", "x", "1,,3", ""])
def test_a_query_that_is_not_there_is_named(text, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["tpch", "--queries", text])
    assert leaving.value.code == 2
    assert "there is no query" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_known_at_once(tmp_path, capsys):
    given = ["tpch", "--sf", "0.01", "--data", str(tmp_path), "--html", str(tmp_path / "no" / "x")]
    assert main(given) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_too_much_for_the_memory_says_how_much_is_needed(tmp_path, capsys):
    assert main(["tpch", "--sf", "90000", "--data", str(tmp_path)]) == 1
    assert "needs about" in capsys.readouterr().err


def test_products_and_sums_are_exact():
    frame = CpuRows(pl.DataFrame({"price": [10_000_001], "discount": [7], "tax": [8]}))
    value = fixed("price") * (1 - fixed("discount")) * (1 + fixed("tax"))
    assert value.scale == 6
    found = frame.select({"x": value.expr, "y": (fixed("price") + fixed("tax")).expr})
    table = found.table.to_arrow()
    row = answer.as_decimals(table, {"x": 6, "y": 2}).to_pylist()[0]
    assert row == {"x": Decimal("100440.010044"), "y": Decimal("100000.09")}


@pytest.mark.skipif(mgi._mgi.gpus() > 0, reason="of machines without a GPU")
def test_no_gpu(tmp_path, capsys):
    given = ["tpch", "--sf", "0.001", "--data", str(tmp_path), "--gpus", "1"]
    assert main(given) == 1
    assert "--gpus needs a GPU" in capsys.readouterr().err


def test_a_flow_without_q1(capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["tpch", "--queries", "3,6", "--flow"])
    assert leaving.value.code == 2
    assert "--flow is about Q1" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "x", "-1"])
def test_numbers_of_gpus(text, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["tpch", "--gpus", text])
    assert leaving.value.code == 2
    assert "a number of GPUs" in capsys.readouterr().err


def test_processes_share_a_servers_gpus(monkeypatch):
    from mgi.tpch.cluster import own_gpus

    monkeypatch.setattr(mgi._mgi, "gpus", lambda: 4)
    here = SimpleNamespace(getDeviceCount=lambda: 4)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=here))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    job = mgi.Job("", rank=1, size=2, local_rank=1, local_size=2, server="", launcher="")
    assert own_gpus(4, job) == [2, 3]
    assert own_gpus(3, job) == [1, 2]
    with pytest.raises(mgi.InvalidArgument, match="2 processes of a server share 1 GPUs"):
        own_gpus(1, job)
    with pytest.raises(mgi.NotFound, match="--gpus is 5, and there are 4"):
        own_gpus(5, job)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(mgi.NotFound, match="pip install cupy"):
        own_gpus(4, job)


def test_numbers_of_other_scales_are_compared_by_value():
    frame = CpuRows(pl.DataFrame({"a": [100, 150, 200], "b": [1, 2, 2]}))

    def of(value: Expr) -> list[bool]:
        return frame.select({"x": value}).table["x"].to_list()

    assert of(fixed("a") < 2) == [True, True, False]
    assert of(fixed("a") >= fixed("b", 0)) == [True, False, True]
    assert of(fixed("a").between(1.5, 2)) == [False, True, True]


@pytest.mark.parametrize(
    ("pattern", "fit"),
    [
        ("%b%", ["abc", "b", "b.b"]),
        ("b%", ["b", "b.b"]),
        ("%b", ["b", "b.b"]),
        ("a%c", ["abc", "a\nc"]),
        ("%b%b%", ["b.b"]),
        ("b.b", ["b.b"]),
        ("%.%", ["b.b"]),
    ],
)
def test_like(pattern, fit):
    frame = CpuRows(pl.DataFrame({"a": ["abc", "b", "b.b", "bxb "[:2], "a\nc", ""]}))
    found = frame.where([col("a").like(pattern)]).table["a"].to_list()
    assert [text for text in found if text != "bx"] == fit


SQL = "SELECT name, total FROM (SELECT 1 ORDER BY x LIMIT 2) ORDER BY total DESC LIMIT 3"


def result(*rows: tuple[str, float]) -> pa.Table:
    return pa.table({"name": [row[0] for row in rows], "total": [row[1] for row in rows]})


def test_what_order_by_names():
    assert answer.order_of(SQL) == ["total"]
    assert answer.order_of("SELECT 1") == []
    assert answer.order_of(queries.query(3).SQL) == ["revenue", "o_orderdate"]


def test_ties_may_come_in_any_order():
    truth = result(("a", 2.0), ("b", 1.0), ("c", 1.0))
    assert answer.compare(result(("a", 2.0), ("c", 1.0), ("b", 1.0 + 1e-12)), truth, SQL).ok


@pytest.mark.parametrize(
    "rows",
    [
        [("b", 1.0), ("a", 2.0), ("c", 1.0)],
        [("a", 2.0), ("b", 1.0)],
        [("a", 2.0), ("b", 1.0), ("d", 1.0)],
        [("a", 2.0), ("b", 1.0), ("c", 1.001)],
    ],
)
def test_what_differs_is_found(rows):
    truth = result(("a", 2.0), ("b", 1.0), ("c", 1.0))
    verdict = answer.compare(result(*rows), truth, SQL)
    assert not verdict.ok
    assert verdict.differences


def test_a_wrong_result_is_the_exit_status(folder, monkeypatch, capsys):
    wrong = answer.as_decimals
    monkeypatch.setattr(answer, "as_decimals", lambda table, scales: wrong(table.slice(1), scales))
    given = ["tpch", "--sf", "0.01", "--data", str(folder), "--repeat", "1", "--queries", "12"]
    assert main(given) == 1
    assert "Q12 differs from DuckDB" in capsys.readouterr().err


def test_examples_are_the_queries():
    folder = Path(__file__).parents[2] / "examples" / "tpch"
    names = sorted(path.name for path in folder.glob("q*.py"))
    assert names == [f"q{number:02}.py" for number in range(1, 23)]
    assert all(len((folder / name).read_text().splitlines()) < 80 for name in names)


def test_an_order_by_what_is_no_column_is_refused():
    with pytest.raises(ValueError, match="t.total"):
        answer.compare(result(("a", 1.0)), result(("a", 1.0)), "SELECT 1 ORDER BY t.total")
