"""``mgi perf groupby``, ``join`` and ``sort``: every query, checked; what cannot be asked."""

from __future__ import annotations

import importlib
import json

import pyarrow as pa
import pytest
from mgi.cli import main
from mgi.perf import check

FIELDS = {
    "pattern",
    "order",
    "types",
    "endpoints",
    "threads",
    "repeat",
    "rows_in",
    "rows_out",
    "title",
    "seconds_median",
    "seconds_min",
    "seconds_max",
    "operator_seconds",
    "python_overhead",
    "duckdb_seconds",
    "polars_seconds",
    "polars_engine",
    "speedup_duckdb",
    "speedup_polars",
    "verified",
}


@pytest.fixture(scope="session")
def tpch(tmp_path_factory):
    return str(tmp_path_factory.mktemp("tpch"))


def run(tmp_path, arguments):
    file = tmp_path / "perf.json"
    assert main(["perf", *arguments, "--repeat", "2", "--json", str(file)]) == 0
    return json.loads(file.read_text())


@pytest.mark.parametrize("pattern", ["groupby", "join"])
@pytest.mark.parametrize("order", ["random", "clustered"])
@pytest.mark.parametrize("types", ["decimal", "double"])
def test_tpch(tmp_path, tpch, capsys, pattern, order, types):
    how = ["--sf", "0.01", "--order", order, "--types", types, "--data", tpch]
    result = run(tmp_path, [pattern, *how])
    assert set(result) == FIELDS | {"sf"}
    assert (result["pattern"], result["sf"], result["order"]) == (pattern, 0.01, order)
    assert result["types"] == types
    assert result["verified"] is True
    assert result["rows_out"] == (15_000 if pattern == "groupby" else 60_175)
    assert result["seconds_min"] <= result["seconds_median"] <= result["seconds_max"]
    ratio = result["duckdb_seconds"] / result["seconds_median"]
    assert result["speedup_duckdb"] == pytest.approx(ratio)
    output = capsys.readouterr().out
    assert "DuckDB" in output
    assert "Polars" in output
    assert "equal to DuckDB's result: yes" in output


@pytest.mark.parametrize(
    ("arguments", "rows_out"),
    [
        (["groupby", "--groups", "4"], 4),
        (["groupby", "--groups", "1k", "--order", "clustered", "--types", "double"], 1000),
        (["groupby", "--groups", "1"], 1),
        (["join", "--match-rate", "1"], 20_000),
        (["join", "--match-rate", "0"], 0),
        (["join", "--match-rate", "1", "--duplicates", "10", "--order", "clustered"], 200_000),
        (["join", "--duplicates", "3", "--types", "double", "--endpoints", "3"], 60_000),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_made_up_tables(tmp_path, arguments, rows_out):
    result = run(tmp_path, [*arguments, "--rows", "20k"])
    assert result["verified"] is True
    assert result["rows_out"] == rows_out
    assert "sf" not in result


@pytest.mark.parametrize("order", ["random", "clustered"])
def test_sort(tmp_path, order):
    result = run(tmp_path, ["sort", "--rows", "20k", "--order", order])
    assert set(result) == (FIELDS | {"rows"}) - {"types"}
    assert result["verified"] is True
    assert result["rows_out"] == 20_000


def test_rows_in_another_order_are_found():
    truth = pa.table({"key": [1, 2, 2], "number": [0, 1, 2]})
    one = pa.table({"key": [1, 2], "number": [0, 2]})
    other = pa.table({"key": [2], "number": [1]})
    assert check.verify([one, other], truth, ["number"], ["key"]).ok
    verdict = check.verify([other, one], truth, ["number"], ["key"])
    assert verdict.differences == ["the rows are not in the order of key"]


def test_a_share_of_matches(tmp_path):
    result = run(tmp_path, ["join", "--match-rate", "0.3", "--rows", "20k"])
    assert result["rows_out"] == pytest.approx(6_000, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["groupby", "--sf", "0"], "--sf"),
        (["groupby", "--groups", "0"], "--groups: 0 is too small"),
        (["join", "--match-rate", "2"], "--match-rate: '2' is no share"),
        (["join", "--match-rate", "x"], "--match-rate: 'x' is no share"),
        (["join", "--order", "sorted"], "--order"),
        (["join", "--types", "int"], "--types"),
    ],
)
def test_wrong_arguments(capsys, arguments, message):
    with pytest.raises(SystemExit) as error:
        main(["perf", *arguments])
    assert error.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["groupby", "--sf", "0.1", "--groups", "4"],
        ["join", "--sf", "0.1", "--match-rate", "0.5"],
    ],
)
def test_one_kind_of_tables(capsys, arguments):
    assert main(["perf", *arguments]) == 2
    assert "give one" in capsys.readouterr().err


def test_a_missing_package_is_named(monkeypatch, capsys):
    real = importlib.import_module

    def without_polars(name, *rest):
        if name == "polars":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without_polars)
    assert main(["perf", "groupby", "--groups", "4", "--rows", "10"]) == 2
    assert "needs the Python package polars" in capsys.readouterr().err


def test_differences_are_found():
    truth = pa.table({"key": [1, 2], "total": [1.0, 2.0]})
    near = pa.table({"key": [2, 1], "total": [2.0 * (1 + 1e-12), 1.0]})
    far = pa.table({"key": [2, 1], "total": [2.001, 1.0]})
    assert check.verify([near], truth, ["key"]).ok
    assert not check.verify([near], truth, None).ok  # whole rows agree to the bit
    verdict = check.verify([far], truth, ["key"])
    assert not verdict.ok
    assert "column total differs in 1 of 2 rows" in verdict.differences[0]
    assert not check.verify([truth.slice(0, 1)], truth, None).ok
