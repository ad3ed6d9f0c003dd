"""The demo's data: made once, whole or not at all; loaded, and dealt out without loss."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mgi.demo import data
from mgi.demo.errors import DemoError
from mgi.demo.progress import Step


def _generator(folder: Path, monkeypatch, script: str) -> None:
    program = folder / "generator"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(data, "_find_generator", lambda: str(program))


def test_data_is_made_once(tmp_path):
    first = data.make(tmp_path / "data", "0.001", Step(""))
    stamp = first["lineitem"].stat().st_mtime_ns
    assert data.make(tmp_path / "data", "0.001", Step("")) == first
    assert first["lineitem"].stat().st_mtime_ns == stamp
    assert pq.read_metadata(first["orders"]).num_rows == 1500
    assert not list((tmp_path / "data").glob(".*part*"))


def test_more_tables_replace_fewer(tmp_path):
    data.make(tmp_path, "0.001", Step(""))
    files = data.make(tmp_path, "0.001", Step(""), data.ALL_TABLES)
    assert pq.read_metadata(files["region"]).num_rows == 5
    stamp = files["lineitem"].stat().st_mtime_ns
    assert data.make(tmp_path, "0.001", Step(""))["lineitem"].stat().st_mtime_ns == stamp


def test_damaged_and_left_over_data_is_made_again(tmp_path):
    folder = tmp_path / "data"
    (folder / "sf0.001").mkdir(parents=True)
    (folder / "sf0.001" / "lineitem.parquet").write_bytes(b"half a fi")
    (folder / ".sf0.001.part-old").mkdir()
    files = data.make(folder, "0.001", Step(""))
    assert pq.read_metadata(files["lineitem"]).num_rows > 0
    assert not (folder / ".sf0.001.part-old").exists()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo the reason >&2; exit 3", "status 3: the reason"),
        ("echo 'IO error: No space left on device (os error 28)'; exit 1", "full"),
        ("exit 0", "no readable tables"),
    ],
)
def test_a_failing_generator_leaves_nothing_behind(tmp_path, monkeypatch, script, expected):
    _generator(tmp_path, monkeypatch, script)
    with pytest.raises(DemoError, match=re.escape(expected)):
        data.make(tmp_path / "data", "0.001", Step(""))
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".sf0.001.lock"]


def test_ctrl_c_stops_the_generator(tmp_path, monkeypatch):
    _generator(tmp_path, monkeypatch, "exec sleep 600")
    monkeypatch.setattr(data.time, "sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        data.make(tmp_path / "data", "0.001", Step(""))
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".sf0.001.lock"]


def test_two_demos_share_one_generation(tmp_path):
    failures = []

    def work():
        try:
            data.make(tmp_path / "data", "0.002", Step(""))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert (tmp_path / "data" / "sf0.002" / "lineitem.parquet").is_file()


def test_full_disk_is_foreseen(tmp_path, monkeypatch):
    usage = data.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(data.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DemoError, match="no room"):
        data.make(tmp_path, "1", Step(""))


def test_missing_generator_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(data.shutil, "which", lambda *_, **__: None)
    with pytest.raises(DemoError, match="pip install tpchgen-cli"):
        data.make(tmp_path, "0.001", Step(""))


def test_too_little_memory_is_foreseen(monkeypatch):
    monkeypatch.setattr(data, "available_memory", lambda: 1e9)
    data.check_memory(0.1)
    with pytest.raises(DemoError, match="try --sf 0"):
        data.check_memory(1)


@pytest.mark.parametrize("hands", [1, 3, 16])
def test_dealing_loses_no_row(hands):
    table = pa.table({"a": np.arange(1000), "s": [f"text {i}" for i in range(1000)]})
    parts = data.deal(table, hands, seed=5)
    assert len(parts) == hands
    assert {part.num_rows for part in parts} <= {1000 // hands, 1000 // hands + 1}
    assert all(column.num_chunks == 1 for part in parts for column in part.columns)
    whole = pa.concat_tables(parts)
    assert not whole.equals(table)
    assert whole.sort_by("a").combine_chunks().equals(table)
    again = data.deal(table, hands, seed=5)
    assert all(a.equals(b) for a, b in zip(parts, again, strict=True))


def test_files_that_vanish_while_they_are_counted(tmp_path):
    (tmp_path / "there").write_bytes(b"12345")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert data._bytes_in(tmp_path) == 5


def test_loaded_types(tmp_path):
    files = data.make(tmp_path, "0.001", Step(""))
    schema = data.load(files["lineitem"]).schema
    assert len(schema) == 16
    assert schema.field("l_quantity").type == pa.decimal128(15, 2)
    assert schema.field("l_comment").type == pa.string()
    assert schema.field("l_shipdate").type == pa.date32()
