"""``mgi tpch``: TPC-H's queries over endpoints, beside DuckDB."""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Runs the command and returns its exit status: 1 where a result is not DuckDB's."""
    from mgi.tpch import options

    given = options.parse(argv)
    # Polars and pyarrow are imported behind this: they look at the environment once.
    from mgi.tpch.run import run

    return run(given)
