"""Tables of random types, nested ones too, with garbage below nulls, and what comes of them.

    python tests/python/drawn.py [--cases 10000] [--first 0]

draws so many, alone or as a process of `mgi run -n N -- python tests/python/drawn.py`, and says
which seed failed.
"""

from __future__ import annotations

import argparse
import collections
import decimal
import random
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import mgi
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Values = Callable[[random.Random], Any]


def digits(count: int) -> Values:
    return lambda r: r.choice([0, 1, -1, r.randrange(-(10**count) + 1, 10**count)])


def scaled(count: int, scale: int) -> Values:
    integer = digits(count)
    context = decimal.Context(prec=100)
    return lambda r: decimal.Decimal(integer(r)).scaleb(-scale, context)


def whole(bits: int, signed: bool = True) -> Values:
    least = -(1 << (bits - 1)) if signed else 0
    return lambda r: r.choice([least, 0, 1, r.randrange(least, least + (1 << bits))])


def text(r: random.Random) -> str:
    return "".join(r.choice("aé\0ж𝄞 ") for _ in range(r.choice([0, 3, 12, 13, 40])))


def blob(r: random.Random) -> bytes:
    return text(r).encode()


def number(r: random.Random) -> float:
    return r.choice([0.0, 1.5, -2.25, float("inf"), 1024.0])


FLAT: dict[pa.DataType, Values] = {
    pa.bool_(): lambda r: r.random() < 0.5,
    pa.int8(): whole(8),
    pa.int16(): whole(16),
    pa.int32(): whole(32),
    pa.int64(): whole(64),
    pa.uint8(): whole(8, False),
    pa.uint16(): whole(16, False),
    pa.uint32(): whole(32, False),
    pa.uint64(): whole(64, False),
    pa.float16(): lambda r: np.float16(number(r)),
    pa.float32(): number,
    pa.float64(): number,
    pa.date32(): whole(16),
    pa.date64(): lambda r: 86_400_000 * r.randrange(-1000, 1000),
    pa.time32("ms"): lambda r: r.randrange(86_400_000),
    pa.time64("us"): lambda r: r.randrange(86_400_000_000),
    pa.timestamp("s"): whole(32),
    pa.timestamp("us"): whole(48),
    pa.timestamp("ms", "Europe/Berlin"): whole(38),
    pa.duration("us"): whole(40),
    pa.month_day_nano_interval(): lambda r: (r.randrange(3), r.randrange(3), r.randrange(9)),
    pa.decimal32(9, 2): scaled(9, 2),
    pa.decimal64(18, 0): scaled(18, 0),
    pa.decimal128(38, 10): scaled(38, 10),
    pa.decimal256(30, 2): scaled(30, 2),
    pa.decimal256(76, 5): scaled(76, 5),
    pa.binary(3): lambda r: r.randbytes(3),
    pa.binary(16): lambda r: r.randbytes(16),
    pa.string(): text,
    pa.large_string(): text,
    pa.string_view(): text,
    pa.binary(): blob,
    pa.large_binary(): blob,
    pa.binary_view(): blob,
}
KINDS = list(FLAT)


def draw_type(r: random.Random, depth: int = 3) -> pa.DataType:
    """Any of Arrow's types, nested so deep at most."""
    if depth == 0 or r.random() < 0.45:
        return r.choice([*KINDS, pa.null(), pa.uuid(), pa.bool8()])

    def inner(name: str = "item") -> pa.Field:
        kind = draw_type(r, depth - 1)
        return pa.field(name, kind, nullable=pa.types.is_null(kind) or r.random() < 0.8)

    kind = r.randrange(11)
    if kind < 4:
        return [pa.list_, pa.large_list, pa.list_view, pa.large_list_view][kind](inner())
    if kind == 4:
        return pa.list_(inner(), r.randrange(1, 4))  # pyarrow crashes at 0
    if kind == 5:
        key = pa.field("key", r.choice(KINDS), nullable=False)
        return pa.map_(key, inner("value"))
    if kind == 6:
        fields = [inner(f"f{i}") for i in range(r.randrange(1, 3))]
        codes = r.sample(range(20), len(fields))
        return (pa.dense_union if r.random() < 0.5 else pa.sparse_union)(fields, codes)
    if kind == 7:
        return pa.dictionary(r.choice([pa.int8(), pa.uint16(), pa.int32()]), r.choice(KINDS))
    if kind == 8:
        return pa.run_end_encoded(r.choice([pa.int16(), pa.int32()]), r.choice(KINDS))
    return pa.struct([inner(f"f{i}") for i in range(r.randrange(4))])


def draw_array(r: random.Random, kind: pa.DataType, rows: int, nullable: bool = True) -> pa.Array:
    """With anything below nulls, and before and behind the rows."""
    front, behind = r.choice([0, 0, 3]), r.choice([0, 0, 2])
    share = r.choice([0.0, 0.2, 0.9]) if nullable else 0.0
    whole = front + rows + behind
    return ArrayOf(r, whole, share).draw(kind).slice(front, rows)


class ArrayOf:
    """Draws arrays of so many rows, of which such a share is null."""

    def __init__(self, r: random.Random, rows: int, nulls: float) -> None:
        self.r, self.rows, self.nullable = r, rows, nulls > 0
        self.null = [r.random() < nulls for _ in range(rows)]
        self.mask = pa.array(self.null, pa.bool_())

    def draw(self, kind: pa.DataType) -> pa.Array:
        types, r, rows = pa.types, self.r, self.rows
        if isinstance(kind, pa.BaseExtensionType):
            storage = self.draw(kind.storage_type)
            if kind == pa.bool8():
                storage = pc.if_else(pc.less(storage, 0), 0, 1).cast(pa.int8())
            return pa.ExtensionArray.from_storage(kind, storage)
        if types.is_null(kind):
            return pa.nulls(rows)
        if types.is_dictionary(kind):
            values = self.of(kind.value_type, 1 + r.randrange(5), False)
            indices = [None if none else r.randrange(len(values)) for none in self.null]
            return pa.DictionaryArray.from_arrays(pa.array(indices, kind.index_type), values)
        if types.is_run_end_encoded(kind):
            ends = sorted({*r.sample(range(1, rows + 1), rows // 2), rows} - {0})
            values = self.of(kind.value_type, len(ends), self.nullable)
            return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind.run_end_type), values)
        if types.is_struct(kind):
            return self.struct(kind)
        if types.is_union(kind):
            return self.union(kind)
        if types.is_fixed_size_list(kind):
            values = self.of(kind.value_type, rows * kind.list_size, kind.value_field.nullable)
            array = pa.FixedSizeListArray.from_arrays(values, type=kind)
            return with_validity(array, self.null)
        if types.is_nested(kind):
            return self.lists(kind)
        return self.flat(kind)

    def of(self, kind: pa.DataType, rows: int, nullable: bool) -> pa.Array:
        return draw_array(self.r, kind, rows, nullable)

    def flat(self, kind: pa.DataType) -> pa.Array:
        few = [FLAT[kind](self.r) for _ in range(4)]
        array = pa.array([self.r.choice(few) for _ in range(self.rows)], kind)
        return with_validity(array, self.null)

    def lists(self, kind: pa.DataType) -> pa.Array:
        r = self.r
        sizes = [r.choice([0, 1, 2, 5]) for _ in range(self.rows)]
        starts, at = [], r.randrange(3)
        views = is_view(kind)
        for size in sizes:
            starts.append(at)
            at += size + (r.randrange(2) if views else 0)
        wide = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
        of_offsets = pa.int64() if wide else pa.int32()
        if pa.types.is_map(kind):
            keys = self.of(kind.key_type, at, False)
            items = self.of(kind.item_type, at, kind.item_field.nullable)
            values = pa.StructArray.from_arrays([keys, items], fields=list(kind.field(0).type))
        else:
            values = self.of(kind.value_type, at + 1, kind.value_field.nullable)
        offsets = pa.array(starts if views else [*starts, at], of_offsets).buffers()[1]
        buffers = [None, offsets]
        if views:
            buffers.append(pa.array(sizes, of_offsets).buffers()[1])
        array = pa.Array.from_buffers(kind, self.rows, buffers, children=[values])
        return with_validity(array, self.null)

    def struct(self, kind: pa.DataType) -> pa.Array:
        if kind.num_fields == 0:
            return pa.array([None if none else {} for none in self.null], kind)
        children = [self.of(field.type, self.rows, field.nullable) for field in kind]
        array = pa.Array.from_buffers(kind, self.rows, [None], children=children)
        return with_validity(array, self.null)

    def union(self, kind: pa.DataType) -> pa.Array:
        r, rows = self.r, self.rows
        which = [r.randrange(kind.num_fields) for _ in range(rows)]
        codes = pa.array([kind.type_codes[child] for child in which], pa.int8()).buffers()[1]
        dense = kind.mode == "dense"
        counts = [which.count(child) if dense else rows for child in range(kind.num_fields)]
        children = [
            self.of(field.type, count, field.nullable)
            for field, count in zip(kind, counts, strict=True)
        ]
        buffers = [None, codes]
        if dense:
            seen: collections.Counter[int] = collections.Counter()
            offsets = []
            for child in which:
                offsets.append(seen[child])
                seen[child] += 1
            buffers.append(pa.array(offsets, pa.int32()).buffers()[1])
        return pa.Array.from_buffers(kind, rows, buffers, children=children)


def with_validity(array: pa.Array, null: list[bool]) -> pa.Array:
    """The same values, of which some are null, with what they were below."""
    if not any(null):
        return array
    bits = pa.array([not none for none in null], pa.bool_()).buffers()[1]
    own = array.buffers()
    count = own_buffers(array.type, own)
    children = children_of(array)
    return pa.Array.from_buffers(
        array.type, len(array), [bits, *own[1:count]], offset=array.offset, children=children
    )


def is_view(kind: pa.DataType) -> bool:
    return pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)


def own_buffers(kind: pa.DataType, all_of_them: list[Any]) -> int:
    types = pa.types
    if types.is_struct(kind) or types.is_fixed_size_list(kind):
        return 1
    if types.is_nested(kind):
        return 3 if is_view(kind) else 2
    return len(all_of_them)


def children_of(array: pa.Array) -> list[pa.Array] | None:
    kind = array.type
    if pa.types.is_struct(kind):
        return [array.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [
            pa.StructArray.from_arrays([array.keys, array.items], fields=list(kind.field(0).type))
        ]
    return [array.values] if pa.types.is_nested(kind) else None


def is_key(kind: pa.DataType) -> bool:
    """As docs/types.md says."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_key(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return is_key(kind.value_type)
    if not pa.types.is_nested(kind):
        return True
    if pa.types.is_map(kind) or pa.types.is_union(kind):
        return False
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return all(is_key(one) and not has_floats(one) for one in inner)


def has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return has_floats(kind.value_type)
    return pa.types.is_floating(kind)


def draw_table(r: random.Random, kinds: list[pa.DataType], rows: int) -> pa.Table:
    """Columns of these kinds in chunks, behind the integers `k` and `row`."""
    chunks = []
    first = r.randrange(1000)
    schema = pa.schema(
        [("k", pa.int64()), ("row", pa.int64())]
        + [pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)]
    )
    for count in (rows // 2, rows - rows // 2):
        keys = pa.array([r.choice([None, 0, 1, 2, 3]) for _ in range(count)], pa.int64())
        order = pa.array(range(first, first + count), pa.int64())
        first += count
        arrays = [keys, order, *(draw_array(r, kind, count) for kind in kinds)]
        chunks.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(chunks, schema)


def said(value: Any) -> str:
    return repr(value)


def rows_of(tables: Iterable[pa.Table]) -> list[str]:
    return sorted(said(row) for table in tables for row in table.to_pylist())


class Case:
    """A seed's tables and calls; `options` are of all operators, `parts` shares a table out."""

    def __init__(
        self, seed: int, options: dict[str, Any], parts: Callable[[pa.Table], Any]
    ) -> None:
        self.r = random.Random(seed)
        self.options, self.parts = options, parts
        self.kinds = [draw_type(self.r) for _ in range(self.r.randrange(1, 4))]
        self.table = draw_table(self.r, self.kinds, self.r.choice([0, 1, 9, 40, 130, 200]))

    def run(self) -> list[tuple[str, list[str], list[str]]]:
        """What was done, what came of it at this process' endpoints, and what must come at all."""
        done = [self.exchange()]
        keys = [i for i, kind in enumerate(self.kinds) if is_key(kind)]
        if keys:
            key = f"c{self.r.choice(keys)}"
            done += [self.group_by(key), self.join(key)]
        return done

    def arrow(self, parts: list[mgi.Table]) -> list[pa.Table]:
        tables = [part.to_arrow() for part in parts]
        for table in tables:
            table.validate(full=True)
        return tables

    def exchange(self) -> tuple[str, list[str], list[str]]:
        keys = ["k", *(f"c{i}" for i, kind in enumerate(self.kinds) if is_key(kind))]
        key = self.r.choice(keys)
        tables = self.arrow(mgi.exchange(self.parts(self.table), key, **self.options))
        for table in tables:
            assert table.schema.equals(self.table.schema), (table.schema, self.table.schema)
        return f"exchange by {key}", rows_of(tables), rows_of([self.table])

    def group_by(self, key: str) -> tuple[str, list[str], list[str]]:
        tables = self.arrow(
            mgi.group_by(
                self.parts(self.table),
                key,
                [("count", None, "n"), ("sum", "row", "s")],
                **self.options,
            )
        )
        groups: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for row in self.table.to_pylist():
            group = groups[said(row[key])]
            group[0] += 1
            group[1] += row["row"]
        found = [
            said((said(row[key]), row["n"], row["s"]))
            for table in tables
            for row in table.to_pylist()
        ]
        return f"group by {key}", sorted(found), sorted(said((k, *g)) for k, g in groups.items())

    def join(self, key: str) -> tuple[str, list[str], list[str]]:
        left = self.table.select([key, "row"])
        right = self.table.select([key, *(n for n in self.table.column_names if n != key)])
        right = right.slice(0, 12).rename_columns(
            ["key", *(f"r{n}" for n in right.column_names[1:])]
        )
        tables = self.arrow(
            mgi.join(self.parts(left), self.parts(right), on=[(key, "key")], **self.options)
        )
        partners = collections.defaultdict(list)
        for row in right.to_pylist():
            partners[said(row["key"])].append(row)
        expected = []
        for row in left.to_pylist():
            if row[key] is None:
                continue
            for partner in partners[said(row[key])]:
                joined = {**row, **partner}
                expected.append(said([joined[name] for name in sorted(joined) if name != "key"]))
        found = [
            said([row[name] for name in sorted(row) if name != "key"])
            for table in tables
            for row in table.to_pylist()
        ]
        return f"join on {key}", sorted(found), sorted(expected)


def check_alone(seed: int) -> None:
    """Over endpoints of this process."""
    endpoints = random.Random(~seed).randrange(1, 4)
    case = Case(seed, {"endpoints": endpoints}, lambda table: table)
    for what, found, expected in case.run():
        assert found == expected, f"seed {seed}: {what} of\n{case.table.schema}"


def check_together(
    seed: int, job: mgi.Job, runtime: mgi.Runtime, endpoints: list[mgi.Endpoint]
) -> None:
    """Over endpoints of the processes of a job, each of which has its share of the rows."""
    mine = [place for place, one in enumerate(endpoints) if one.device != "elsewhere"]

    def parts(table: pa.Table) -> list[pa.Table]:
        share = len(endpoints)
        of = [table.slice(len(table) * i // share) for i in range(share)]
        cut = [
            t.slice(0, len(table) * (i + 1) // share - len(table) * i // share)
            for i, t in enumerate(of)
        ]
        return [t if i in mine else t.slice(0, 0) for i, t in enumerate(cut)]

    options = {"endpoints": endpoints, "runtime": runtime, "patience": 30}
    case = Case(seed, options, parts)
    for what, found, expected in case.run():
        # The rows of all processes, by a last exchange to rank 0's endpoint.
        all_found = gather(found, options)
        where = f"seed {seed}, rank {job.rank}: {what} of\n{case.table.schema}"
        assert job.rank != 0 or all_found == expected, where


def gather(words: list[str], options: dict[str, Any]) -> list[str]:
    """Words of all processes at the one that has endpoint 0; nothing at others."""
    endpoints = options["endpoints"]
    mine = [place for place, one in enumerate(endpoints) if one.device != "elsewhere"]
    table = pa.table(
        {"to": pa.array([0] * len(words), pa.int64()), "word": pa.array(words, pa.string())}
    )
    tables = [table if place == mine[0] else table.slice(0, 0) for place in range(len(endpoints))]
    parts = mgi.exchange(tables, "to", hash="modulo", **options)
    return sorted(w for part in parts for w in part.to_arrow()["word"].to_pylist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.cases)
    start = time.monotonic()
    job = mgi.job()
    if job.size == 1:
        for seed in seeds:
            check_alone(seed)
    else:
        with mgi.Runtime.connect(timeout=60) as runtime:
            endpoints = runtime.gather_endpoints([runtime.create_endpoint("cpu")])
            for seed in seeds:
                check_together(seed, job, runtime, endpoints)
    if job.rank == 0:
        print(
            f"{chosen.cases} cases held in {time.monotonic() - start:.0f} s, {job.size} process(es)"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
