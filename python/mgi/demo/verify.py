"""Compares a distributed result with the truth in full: every row, every column."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mgi.demo import units

#: How many differing rows a verdict shows.
SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a comparison found. `differences` holds a line per finding, first rows first."""

    ok: bool
    rows: int
    columns: int
    differences: list[str]

    def text(self) -> str:
        """One line for tables."""
        if self.ok:
            return f"{units.count(self.rows)} rows {units.TIMES} {self.columns} columns equal"
        return "differs"


def compare(
    parts: list[pa.Table],
    truth: pa.Table,
    keys: list[str],
    owner: list[str] | None = None,
    same_types: bool = False,
    tolerance: float = 0.0,
) -> Verdict:
    """Compares the multiset of rows of all `parts` with that of `truth`.

    `keys` are integer columns that identify a row of `truth`; both sides are put in their order
    and compared column by column. `owner` names columns whose equal values must stand in one
    part only. `same_types` demands equal column types (string and string view are one type);
    otherwise only the kind of type and a decimal's scale must agree. Floats that are no keys may
    differ by `tolerance` times their size.
    """
    findings = _schema_differences(parts, truth, same_types)
    if findings:
        return Verdict(False, truth.num_rows, truth.num_columns, findings)
    actual = pa.concat_tables([part.cast(parts[0].schema) for part in parts])
    actual_keys, true_keys = _integers(actual, keys), _integers(truth, keys)
    actual_order, true_order = np.lexsort(actual_keys[::-1]), np.lexsort(true_keys[::-1])
    findings = _key_differences(actual, truth, keys, actual_order, true_order)
    if not findings and owner:
        findings = _owner_differences(parts, _integers(actual, owner), owner, actual_order)
    if not findings:
        findings = _value_differences(actual, truth, keys, actual_order, true_order, tolerance)
    return Verdict(not findings, truth.num_rows, truth.num_columns, findings)


def _schema_differences(parts: list[pa.Table], truth: pa.Table, same: bool) -> list[str]:
    findings = []
    for place, part in enumerate(parts):
        if part.column_names != truth.column_names:
            findings.append(
                f"endpoint {place}: columns are {part.column_names}, not {truth.column_names}"
            )
            continue
        for field, true_field in zip(part.schema, truth.schema, strict=True):
            if _kind(field.type, same) != _kind(true_field.type, same):
                findings.append(
                    f"endpoint {place}: column {field.name} is {field.type}, not {true_field.type}"
                )
    return findings[:SHOWN] if parts else ["the result has no tables"]


def _kind(type_: pa.DataType, same: bool) -> str:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "string"
    if pa.types.is_string_view(type_):
        return "string"
    if not same and pa.types.is_integer(type_):
        return "integer"
    if not same and pa.types.is_decimal(type_):
        return f"decimal with scale {type_.scale}"
    return str(type_)


def _common_type(type_: pa.DataType) -> pa.DataType:
    kind = _kind(type_, same=False)
    if kind == "string":
        return pa.large_string()  # a whole column of strings may pass 2 GiB
    if kind == "integer":
        return pa.int64()
    return pa.decimal128(38, type_.scale) if kind.startswith("decimal") else type_


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    column = column.cast(_common_type(column.type)).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # what older pyarrow returns for an empty column
        column = pa.concat_arrays(column.chunks) if column.num_chunks else column.type
    return column


def _integers(table: pa.Table, names: list[str]) -> list[np.ndarray]:
    # A null key would be no key: it becomes the smallest number and so shows as a difference.
    smallest = np.iinfo(np.int64).min
    return [_column(table, name).fill_null(smallest).to_numpy() for name in names]


def _key_differences(
    actual: pa.Table,
    truth: pa.Table,
    keys: list[str],
    actual_order: np.ndarray,
    true_order: np.ndarray,
) -> list[str]:
    actual_keys = [key[actual_order] for key in _integers(actual, keys)]
    true_keys = [key[true_order] for key in _integers(truth, keys)]
    if actual.num_rows == truth.num_rows and all(map(np.array_equal, actual_keys, true_keys)):
        return []
    findings = [
        f"the result has {units.count(actual.num_rows)} rows, "
        f"DuckDB's {units.count(truth.num_rows)}"
    ]
    # Number every distinct key, then count how often each side has it.
    both = [np.concatenate(pair) for pair in zip(actual_keys, true_keys, strict=True)]
    order = np.lexsort(both[::-1])
    fresh = np.zeros(len(order), dtype=bool)
    for key in both:
        key = key[order]
        fresh[1:] |= key[1:] != key[:-1]
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(fresh)
    distinct = int(number.max()) + 1
    ours = np.bincount(number[: actual.num_rows], minlength=distinct)
    theirs = np.bincount(number[actual.num_rows :], minlength=distinct)
    differing = np.flatnonzero(ours != theirs)
    findings.append(
        f"keys that do not stand equally often on both sides: {units.count(len(differing))}"
    )
    representative = np.empty(distinct, dtype=np.int64)
    representative[number] = np.arange(len(order))
    for key_number in differing[:SHOWN]:
        values = [int(key[representative[key_number]]) for key in both]
        name = ", ".join(f"{k}={v}" for k, v in zip(keys, values, strict=True))
        findings.append(
            f"  {name}: {ours[key_number]} times in the result, {theirs[key_number]} in DuckDB's"
        )
        side = actual if ours[key_number] else truth
        findings.append(f"    the row: {_first_row(side, keys, values)}")
    return findings


def _first_row(table: pa.Table, keys: list[str], values: list[int]) -> str:
    found = None
    for key, value in zip(keys, values, strict=True):
        hit = pc.equal(table.column(key).cast(pa.int64()), value)
        found = hit if found is None else pc.and_(found, hit)
    # Not filter(): pyarrow cannot pick rows of string views, only slice them.
    places = np.flatnonzero(pc.fill_null(found, False).to_numpy(zero_copy_only=False))
    if not len(places):
        return "(has null keys)"
    row = table.slice(int(places[0]), 1).to_pylist()[0]
    return ", ".join(f"{name}={value}" for name, value in row.items())


def _owner_differences(
    parts: list[pa.Table], values: list[np.ndarray], owner: list[str], order: np.ndarray
) -> list[str]:
    sizes = [part.num_rows for part in parts]
    place = np.repeat(np.arange(len(parts)), sizes)[order]
    split = place[1:] != place[:-1]
    for value in values:
        value = value[order]
        split &= value[1:] == value[:-1]
    rows = np.flatnonzero(split)
    if not len(rows):
        return []
    findings = [f"keys stand on two endpoints, {units.count(len(rows))} times"]
    for row in rows[:SHOWN]:
        name = ", ".join(f"{k}={v[order][row]}" for k, v in zip(owner, values, strict=True))
        findings.append(f"  {name}: on endpoints {place[row]} and {place[row + 1]}")
    return findings


def _value_differences(
    actual: pa.Table,
    truth: pa.Table,
    keys: list[str],
    actual_order: np.ndarray,
    true_order: np.ndarray,
    tolerance: float,
) -> list[str]:
    findings: list[str] = []
    sorted_already = np.array_equal(true_order, np.arange(len(true_order)))
    for name in truth.column_names:
        if name in keys:
            continue  # equal, or _key_differences would have spoken
        ours = _column(actual, name).take(pa.array(actual_order))
        theirs = _column(truth, name)
        if not sorted_already:
            theirs = theirs.take(pa.array(true_order))
        if ours.equals(theirs):
            continue
        unequal = pc.not_equal(ours, theirs)
        if tolerance and pa.types.is_floating(ours.type):
            room = pc.multiply(pc.abs(theirs), tolerance)
            unequal = pc.greater(pc.abs(pc.subtract(ours, theirs)), room)
        differs = pc.or_(pc.xor(ours.is_valid(), theirs.is_valid()), pc.fill_null(unequal, False))
        rows = np.flatnonzero(differs.to_numpy(zero_copy_only=False))
        if not len(rows):
            continue
        findings.append(
            f"column {name} differs in {units.count(len(rows))} of {units.count(len(ours))} rows"
        )
        for row in rows[:SHOWN]:
            place = ", ".join(
                f"{key}={truth.column(key)[int(true_order[row])].as_py()}" for key in keys
            )
            findings.append(f"  {place}: {ours[row].as_py()!r}, DuckDB has {theirs[row].as_py()!r}")
    return findings
