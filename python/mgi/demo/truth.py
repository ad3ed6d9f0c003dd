"""DuckDB: the truth every result is compared with, and the stopwatch beside MGI's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from mgi import _mgi


def threads() -> int:
    """Cores whose time this process may use: what MGI uses, and what DuckDB is given."""
    return _mgi.usable_cores()


@contextmanager
def _python_errors() -> Iterator[None]:
    """Turns what DuckDB says when it is out of memory or hit by Ctrl-C into Python's own words."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(str(error)) from error
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def _fetch(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    with _python_errors():
        return connection.sql(query).to_arrow_table()


class Truth:
    """Answers queries from the generated Parquet files, which MGI never touched.

    Reading them again, rather than the rows as dealt out, means that rows lost while loading
    or dealing would be found too. With `loaded` they become tables of its own, in memory. Not
    thread-safe.
    """

    def __init__(
        self, files: dict[str, Path], loaded: bool = False, cores: int | None = None
    ) -> None:
        self._connection = duckdb.connect(config={"threads": cores or threads()})
        self._connection.execute("SET enable_progress_bar = false")
        for table, path in files.items():
            literal = str(path).replace("'", "''")
            kind = "TABLE" if loaded else "VIEW"
            with _python_errors():
                self._connection.execute(
                    f"CREATE {kind} {table} AS SELECT * FROM read_parquet('{literal}')"
                )

    def answer(self, query: str) -> pa.Table:
        """The query's result, whole, as Arrow."""
        return _fetch(self._connection, query)


class Stopwatch:
    """Times queries over DuckDB's own in-memory tables, filled with the rows as dealt out.

    DuckDB is given every advantage it has at home: its own storage format, all cores, no
    promise to keep row order. Its rows stand in the same random order as MGI's.
    """

    def __init__(self, tables: dict[str, list[pa.Table]]) -> None:
        self._connection = duckdb.connect(config={"threads": threads()})
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET enable_progress_bar = false")
        for name, parts in tables.items():
            rows = pa.concat_tables(parts)  # no copy
            self._connection.register("rows_as_dealt", rows)
            with _python_errors():
                self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_as_dealt")
            self._connection.unregister("rows_as_dealt")

    def seconds(self, queries: list[str]) -> float:
        """Wall time of all `queries`, one after the other, each result materialized to Arrow."""
        results = []
        start = time.perf_counter()
        for query in queries:
            results.append(_fetch(self._connection, query))
        return time.perf_counter() - start

    def answer(self, query: str) -> pa.Table:
        """The result of a query over those tables, not timed."""
        return _fetch(self._connection, query)


def version() -> str:
    """DuckDB's version."""
    return duckdb.__version__
