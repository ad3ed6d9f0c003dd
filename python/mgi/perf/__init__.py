"""``mgi perf``: measurements, one module a pattern."""

from mgi.perf.run import main

__all__ = ["main"]
