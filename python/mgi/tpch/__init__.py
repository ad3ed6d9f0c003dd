"""``mgi tpch``: TPC-H's queries over endpoints, beside DuckDB."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

PACKAGES = ("duckdb", "numpy", "polars", "pyarrow")


def main(argv: list[str]) -> int:
    """Runs the command and returns its exit status: 1 where a result is not DuckDB's."""
    import mgi
    from mgi.tpch import options

    given = options.parse(argv)
    missing = " ".join(name for name in PACKAGES if find_spec(name) is None)
    if missing:
        raise mgi.NotFound(
            f"mgi tpch needs Python packages that are missing: run '{sys.executable} -m pip "
            f"install {missing}'"
        )
    # Polars looks at it once, when it is imported.
    os.environ.setdefault("POLARS_MAX_THREADS", str(own_cores()))
    from mgi.tpch.run import run

    return run(given)


def own_cores() -> int:
    """Cores whose time this process may use, where the processes of a server share them."""
    import mgi
    from mgi import _mgi

    cores, beside = _mgi.usable_cores(), mgi.job().local_size
    bound = cores * beside <= (os.cpu_count() or 1)
    return cores if bound else max(1, cores // beside)
