"""Local steps of ``mgi tpch`` on GPUs, compared with Polars: kernels run on the host here."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from typing import Any

import mgi
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from fake_cupy import FakeCupy
from gpu_support import Driver
from mgi.tpch import cpu_rows
from mgi.tpch.cpu_rows import CpuRows
from mgi.tpch.expr import choose, col, literal
from polars.testing import assert_frame_equal

MODES = pl.Enum(["AIR", "MAIL", "RAIL", "SHIP"])
TEXTS = ["", "green", "forest green", "a special (red) requests", "requests special", "Ünï%code"]


@pytest.fixture(scope="module")
def gpu(driver: Driver) -> Any:
    sys.modules["cupy"] = FakeCupy(driver)  # type: ignore[assignment]
    from mgi.tpch import gpu_rows

    yield gpu_rows
    del sys.modules["cupy"]


def rows(count: int, seed: int = 1) -> pl.DataFrame:
    numbers = np.random.default_rng(seed)
    days = [date(1992, 1, 1) + timedelta(int(d)) for d in numbers.integers(-9000, 9000, count)]
    return pl.DataFrame(
        {
            "key": pl.Series(numbers.integers(0, 100, count), dtype=pl.Int32),
            "price": pl.Series(numbers.integers(-(2**40), 2**40, count), dtype=pl.Int64),
            "discount": pl.Series(numbers.integers(0, 11, count), dtype=pl.Int8),
            "share": pl.Series(numbers.random(count)),
            "day": pl.Series(days, dtype=pl.Date),
            "mode": pl.Series(numbers.choice(MODES.categories.to_list(), count), dtype=MODES),
            "text": pl.Series(numbers.choice(TEXTS, count), dtype=pl.String),
        }
    )


CONDITIONS = [
    col("price") * (100 - col("discount") * 1) > 0,
    col("day").within(date(1990, 2, 28), date(1999, 12, 31)),
    ~(col("day").year() == 1996) & (col("key") != 3),
    col("mode") == "MAIL",
    col("mode").is_in(["SHIP", "TRUCK"]),
    col("mode").like("%AI%") | (col("share") < 0.25),
    col("text").like("%green%"),
    col("text").like("forest%"),
    col("text").like("%requests"),
    ~col("text").like("%special%requests%"),
    col("text").like("a%(red)%ts"),
    col("text").like("%ï%%"),
    col("text").head(2).is_in(["gr", "a "]) | (col("text").head(8) == "requests"),
    col("key").is_in([1, 2, 50]),
    literal(0) == literal(0),
    col("key") < 0,
]
VALUES = {
    "key": col("key"),
    "net": col("price") * (100 - col("discount")),
    "year": col("day").year(),
    "mean": col("price").to_float() / 3,
    "late": col("day") > date(1995, 1, 1),
    "fast": (col("mode") == "AIR").to_int() + 1,
    "some": choose(col("mode").like("%AIL"), col("price"), 0),
    "day": col("day"),
    "mode": col("mode"),
}


def host(found: Any) -> pl.DataFrame:
    return found.on_host().rows.collect()


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.how)
def test_rows_that_a_condition_lets_through(gpu, condition):
    frame = rows(5000)
    cpu = CpuRows(frame).where([condition]).select(VALUES)
    made = gpu.GpuRows.uploaded(frame, 1).where([condition]).select(VALUES)
    (found,) = gpu.run([made])
    assert found.on_gpu
    assert found.height == cpu.table.height
    assert_frame_equal(host(found), cpu.table, check_dtypes=False)


@pytest.mark.parametrize("count", [0, 1, 31, 4095, 4096, 4097, 9000])
def test_all_sizes(gpu, count):
    frame = rows(count, seed=count)
    steps = [VALUES, {"late": col("late"), "twice": col("net") + col("net"), "day": col("day")}]
    for conditions in ([], [col("price") > 0], [col("price") > 0, col("mode") == "RAIL"]):
        cpu, made = CpuRows(frame), gpu.GpuRows.uploaded(frame, 0)
        for values in steps:
            cpu = (cpu.where(conditions) if conditions else cpu).select(values)
            made = (made.where(conditions) if conditions else made).select(values)
            conditions = [~col("late")] if conditions else []
        (found,) = gpu.run([made])
        assert_frame_equal(host(found), cpu.table, check_dtypes=False)


FOLDS = {
    "total": ("sum", "net"),
    "prices": ("sum", "price"),
    "least": ("min", "price"),
    "most": ("max", "price"),
    "lines": ("count", None),
}


@pytest.mark.parametrize("keys", [[], ["mode"], ["mode", "other"]])
@pytest.mark.parametrize("count", [0, 1, 3000])
def test_few_groups(gpu, keys, count):
    frame = rows(count).with_columns(other=pl.col("mode"))
    # Beyond 64 bits in all.
    big = col("price") * 2**14
    values = {"mode": col("mode"), "other": col("other"), "price": col("price"), "net": big}
    where = [col("key") > 5]
    cpu = CpuRows(frame).where(where).select(values).fold(keys, FOLDS, {"net"})
    made = gpu.GpuRows.uploaded(frame, 0).where(where).select(values).fold(keys, FOLDS, {"net"})
    (found,) = gpu.run([made])
    assert not found.on_gpu
    wanted = cpu.table.cast(dict.fromkeys(keys, pl.String))
    if keys:
        assert_frame_equal(found.table, wanted, check_row_order=False)
    else:
        assert_frame_equal(found.table, wanted)


def test_short_texts_are_numbers(gpu):
    frame = rows(2000).filter(pl.col("text") != TEXTS[-1])
    values = {"start": col("text").head(4), "key": col("key")}
    made = gpu.GpuRows.uploaded(frame, 1).select(values).where([col("start") != "gree"])
    (found,) = gpu.run([made])
    assert found.on_gpu
    again = gpu.GpuRows.of(found.table, 1, found.means).select({"start": col("start")})
    cpu = CpuRows(frame).select(values).where([col("start") != "gree"]).table
    assert_frame_equal(host(again), cpu.select("start"))


def test_keys_that_are_not_coded_are_not_folded(gpu):
    made = gpu.GpuRows.uploaded(rows(10), 0)
    assert made.fold(["key"], FOLDS, set()) is None
    assert made.select({"mode": col("mode").like("%A%")}).fold(["mode"], FOLDS, set()) is None


@pytest.mark.parametrize("down", [True, False])
def test_the_first_rows(gpu, down, monkeypatch):
    monkeypatch.setattr(gpu, "_SORTED_ON_GPU", 100)
    frame = rows(3000)
    chosen = {name: col(name) for name in ("price", "key", "mode", "day")}
    made = gpu.GpuRows.uploaded(frame, 0).select(chosen).first(["price", "key"], [down, True], 7)
    (found,) = gpu.run([made])
    cpu = CpuRows(frame).select(chosen).first(["price", "key"], [down, True], 7)
    assert_frame_equal(found.table, cpu.table)


def test_what_no_kernel_does_polars_does(gpu):
    frame = rows(100)
    values = {"start": col("text").head(9), "key": col("key")}
    made = [gpu.GpuRows.uploaded(frame, at).where([col("key") > 9]).select(values) for at in (0, 1)]
    found = gpu.run(made)
    assert not any(part.on_gpu for part in found)
    wanted = cpu_rows.run([CpuRows(frame).where([col("key") > 9]).select(values)])[0]
    for part in found:
        assert_frame_equal(part.table, wanted.table)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_by_offsets_of_all_widths(gpu, kind):
    texts = pa.table({"text": pa.array(TEXTS * 50, kind), "key": list(range(300))})
    made = gpu.GpuRows.of(mgi.GpuTable.from_host(texts, "cuda:0"), 0, {})
    (found,) = gpu.run([made.where([col("text").like("%green%")]).select({"key": col("key")})])
    assert found.on_gpu
    wanted = [row for row in range(300) if "green" in TEXTS[row % len(TEXTS)]]
    assert host(found)["key"].to_list() == wanted


def test_columns_of_mgis_tables_come_back(gpu):
    frame = rows(500)
    made = gpu.GpuRows.uploaded(frame, 0)
    table = made.table
    assert table["text"].type in ("string", "large_string")
    again = gpu.GpuRows.of(table, 0, made.means)
    assert_frame_equal(host(again), frame)
