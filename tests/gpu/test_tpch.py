"""TPC-H's queries on real GPUs, compared with DuckDB in full.

python3 -m pytest tests/gpu/test_tpch.py        (with CuPy, DuckDB, Polars and tpchgen-cli)
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")

import mgi
import pytest
from mgi.cli import main

for _library in ("cupy", "duckdb", "polars"):
    pytest.importorskip(_library)
GPUS = mgi._mgi.gpus()
pytestmark = pytest.mark.skipif(GPUS == 0, reason="needs a GPU")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tpch")


@pytest.mark.parametrize("gpus", sorted({1, min(2, GPUS), GPUS} - {0}))
@pytest.mark.parametrize("sf", ["0.001", "0.1", "1"])
def test_all_queries(folder: Path, sf: str, gpus: int) -> None:
    file = folder / "tpch.json"
    given = ["--sf", sf, "--data", str(folder), "--repeat", "1", "--json", str(file)]
    assert main(["tpch", *given, "--queries", "all", "--gpus", str(gpus)]) == 0
    found: list[dict[str, Any]] = json.loads(file.read_text())
    assert [one["query"] for one in found] == list(range(1, 23))
    for one in found:
        assert one["verified"]
        assert one["devices"] == [f"cuda:{gpu}" for gpu in range(gpus)]
        assert one["endpoints"] == gpus


def test_more_gpus_than_there_are(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    given = ["--sf", "0.001", "--data", str(folder), "--gpus", str(GPUS + 1)]
    assert main(["tpch", *given]) == 1
    assert f"--gpus is {GPUS + 1}, and there are {GPUS}" in capsys.readouterr().err
