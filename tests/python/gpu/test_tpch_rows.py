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
from mgi.tpch import cpu_rows, flow
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
    col("text").head(2).is_in(["gr", "a "]) | (col("text").head(1) == "r"),
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
    values = {"start": col("text").head(2), "key": col("key")}
    made = gpu.GpuRows.uploaded(frame, 1).select(values).where([col("start") != "gr"])
    (found,) = gpu.run([made])
    assert found.on_gpu
    again = gpu.GpuRows.of(found.table_for_gpus, 1, found.means).select({"start": col("start")})
    cpu = CpuRows(frame).select(values).where([col("start") != "gr"]).table
    assert_frame_equal(host(again), cpu.select("start"))


def test_narrow_numbers_are_computed_in_64_bits_everywhere(gpu):
    frame = pl.DataFrame({"a": pl.Series([9999, -1], dtype=pl.Int16), "t": ["x", "yyyyyyyyyyyy"]})
    wide = {"a": col("a") * 2 * 1000}
    for more in ({}, {"start": col("t").head(9)}):  # by a kernel, by Polars
        (found,) = gpu.run([gpu.GpuRows.uploaded(frame, 0).select(wide | more)])
        assert found.on_gpu == (not more)
        assert host(found)["a"].to_list() == [19_998_000, -2000]


def test_nulls(gpu):
    frame = pl.DataFrame({"a": [1, None, 3], "b": [True, False, None], "t": ["x", None, "z"]})
    rows = gpu.GpuRows.uploaded(frame, 0)
    (found,) = gpu.run([rows.select({"a": col("a").or_if_null(7)})])
    assert found.on_gpu
    assert host(found)["a"].to_list() == [1, 7, 3]
    for condition in (col("a") > 1, col("t").like("%z%"), col("b")):
        (found,) = gpu.run([rows.where([condition])])
        assert not found.on_gpu
        assert_frame_equal(found.table, CpuRows(frame).where([condition]).table)
    for how in (("sum", "a"), ("count", "a")):
        (found,) = gpu.run([rows.fold([], {"x": how}, set())])
        assert_frame_equal(found.table, CpuRows(frame).fold([], {"x": how}, set()).table)


def test_what_sums_and_choices_hold(gpu):
    frame = pl.DataFrame({"a": [2**62, 2**62, 5], "m": pl.Series(["AIR"] * 3, dtype=MODES)})
    rows = gpu.GpuRows.uploaded(frame, 0)
    with pytest.raises(mgi.Error, match="'x' of a group does not fit 64 bits"):
        gpu.run([rows.fold([], {"x": ("sum", "a")}, set())])
    (found,) = gpu.run([rows.select({"x": choose(col("a") < 9, col("a") > 1, 5)})])
    assert host(found)["x"].to_list() == [5, 5, 1]
    # The least of coded texts is a text.
    (found,) = gpu.run([rows.fold([], {"x": ("min", "m")}, set())])
    assert found.table["x"].to_list() == ["AIR"]


def test_texts_of_other_numbers_are_not_compared_by_them(gpu):
    others = pl.Enum(["MAIL", "RAIL", "AIR", "SHIP"])
    frame = pl.DataFrame({"m": ["AIR", "MAIL"], "n": ["AIR", "AIR"]})
    frame = frame.with_columns(pl.col("m").cast(MODES), pl.col("n").cast(others))
    made = gpu.GpuRows.uploaded(frame, 0).select({"x": (col("m") == col("n")).to_int()})
    with pytest.raises(gpu.NotOnGpu):
        made.begin()


def test_texts_beyond_ascii(gpu):
    frame = pl.DataFrame({"t": ["über", "Ünï", "plain"]})
    (found,) = gpu.run(
        [
            gpu.GpuRows.uploaded(frame, 0)
            .where([col("t").like("%n%")])
            .select({"t": col("t").head(2)})
        ]
    )
    assert found.on_gpu
    assert host(found)["t"].to_list() == ["Ün", "pl"]


def test_a_flow_to_a_cpu_and_a_gpu(gpu, monkeypatch):
    monkeypatch.setattr(flow, "SEGMENT_ROWS", 256)
    frame = rows(5000).drop("text", "share")
    fold = (["mode"], FOLDS, {"net"})
    values = {"mode": col("mode"), "price": col("price"), "net": col("price") * 2}
    with mgi.Runtime.local() as runtime:
        sources, ends = ([runtime.create_endpoint("cpu") for _ in range(2)] for _ in range(2))
        consumers = [flow.Consumer(ends[0], None), flow.Consumer(ends[1], 1)]
        made = flow.Flow(runtime, sources, sources, ends, consumers, 30.0)
        parts = [flow.FlowRows(made, CpuRows(frame.slice(at, 2500))) for at in (0, 2500)]
        parts = [p.where([col("key") > 5]).select(values).fold(*fold) for p in parts]
        first, second = flow.run(parts)
    assert second.height == 0
    assert made.shares["cuda:1"] + made.shares["cpu:0"] == 5000
    assert set(made.shares) == {"cpu:0", "cuda:1"}
    merged = {name: ("sum" if how == "count" else how, name) for name, (how, _) in FOLDS.items()}
    found = first.fold(["mode"], merged, {"net", "total"}).table
    cpu = CpuRows(frame).where([col("key") > 5]).select(values).fold(*fold).table
    assert_frame_equal(found, cpu.cast({"mode": pl.String}), check_row_order=False)


def test_keys_that_are_not_coded_are_not_folded(gpu):
    made = gpu.GpuRows.uploaded(rows(10), 0)
    assert made.fold(["key"], FOLDS, set()) is None
    assert made.select({"mode": col("mode").like("%A%")}).fold(["mode"], FOLDS, set()) is None


@pytest.mark.parametrize("down", [True, False])
def test_the_first_rows(gpu, down, monkeypatch):
    from mgi.tpch import gpu_first

    monkeypatch.setattr(gpu_first, "_SORTED_ON_GPU", 100)
    frame = rows(3000)
    chosen = {name: col(name) for name in ("price", "key", "mode", "day")}
    made = gpu.GpuRows.uploaded(frame, 0).select(chosen).first(["price", "key"], [down, True], 7)
    (found,) = gpu.run([made])
    cpu = CpuRows(frame).select(chosen).first(["price", "key"], [down, True], 7)
    assert_frame_equal(found.table, cpu.table, check_dtypes=False)


def test_what_no_kernel_does_polars_does(gpu):
    frame = rows(100)
    values = {"start": col("text").head(9), "key": col("key")}
    made = [gpu.GpuRows.uploaded(frame, at).where([col("key") > 9]).select(values) for at in (0, 1)]
    found = gpu.run(made)
    assert not any(part.on_gpu for part in found)
    wanted = cpu_rows.run([CpuRows(frame).where([col("key") > 9]).select(values)])[0]
    for part in found:
        assert_frame_equal(part.table, wanted.table, check_dtypes=False)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_by_offsets_of_all_widths(gpu, kind):
    schema = pa.schema([pa.field("text", kind, False), pa.field("key", pa.int64(), False)])
    texts = pa.table([pa.array(TEXTS * 50, kind), pa.array(range(300))], schema=schema)
    made = gpu.GpuRows.of(mgi.GpuTable.from_host(texts, "cuda:0"), 0, {})
    (found,) = gpu.run([made.where([col("text").like("%green%")]).select({"key": col("key")})])
    assert found.on_gpu
    wanted = [row for row in range(300) if "green" in TEXTS[row % len(TEXTS)]]
    assert host(found)["key"].to_list() == wanted


def test_columns_of_mgis_tables_come_back(gpu):
    frame = rows(500)
    made = gpu.GpuRows.uploaded(frame, 0)
    table = made.table_for_gpus
    assert table["text"].type in ("string", "large_string")
    again = gpu.GpuRows.of(table, 0, made.means)
    assert_frame_equal(host(again), frame, check_dtypes=False)
