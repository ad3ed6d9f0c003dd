"""TPC-H's tables: each process reads its endpoints' share, the columns that queries ask for."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mgi.tpch.frame import Cluster, Frame, Step

#: Columns of few values, which are dictionary-coded.
CODED = {
    "l_returnflag",
    "l_linestatus",
    "l_shipinstruct",
    "l_shipmode",
    "o_orderstatus",
    "o_orderpriority",
    "c_mktsegment",
    "p_mfgr",
    "p_brand",
    "p_type",
    "p_container",
    "n_name",
    "r_name",
}


class Tables:
    """Columns in memory, once they were asked for; the rows of endpoint *i* of *n* are the *i*-th
    *n*-th of the file's."""

    def __init__(self, cluster: Cluster, files: dict[str, Path], sf: float) -> None:
        self.cluster, self._files = cluster, files
        self.sf = sf
        """The scale factor."""
        self._columns: dict[str, dict[str, list[pl.Series]]] = {}
        """Of each table, by name: a series for each own endpoint."""
        self._scales: dict[str, dict[str, int]] = {}

    def read(self, table: str, *columns: str) -> Frame:
        """A table with these columns."""
        have = self._columns.setdefault(table, {})
        missing = [name for name in columns if name not in have]
        if missing:
            have.update(self._load(table, missing))
        parts = [
            pl.DataFrame([have[name][place] for name in columns]).lazy()
            for place in range(len(self.cluster.own))
        ]
        scales = {c: s for c, s in self._scales[table].items() if c in columns}
        step = Step("read", table, rows=sum(map(len, have[columns[0]])))
        step.bytes = sum(int(part.estimated_size()) for name in columns for part in have[name])
        return Frame(self.cluster, self.cluster.spread(parts), scales, step)

    def _load(self, table: str, columns: list[str]) -> dict[str, list[pl.Series]]:
        source = pl.scan_parquet(self._files[table])
        schema = source.collect_schema()
        rows = source.select(pl.len()).collect().item()
        scales = self._scales.setdefault(table, {})
        wanted = []
        for name in columns:
            column = pl.col(name)
            if isinstance(schema[name], pl.Decimal):
                scales[name] = schema[name].scale
                column = column.to_physical().cast(pl.Int64)
            elif name in CODED:
                column = column.cast(pl.Categorical)
            wanted.append(column)
        share = len(self.cluster.endpoints)
        parts: dict[str, list[pl.Series]] = {name: [] for name in columns}
        for place in self.cluster.own:
            first, end = (rows * (place + i) // share for i in (0, 1))
            part = source.slice(first, end - first).select(wanted).collect()
            for name in columns:
                parts[name].append(part[name].rechunk())
        return parts
