"""Rows whose contents follow from their keys."""

from __future__ import annotations

from typing import Any

import numpy as np


def mixed(keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a row with that key carries: all bits depend on all of the key's (splitmix64)."""
    bits = keys.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def whole(rank: int, rows: int) -> list[int]:
    """All that a sender sends: rows, and the sum of what they carry."""
    keys = np.arange(rank * rows, (rank + 1) * rows, dtype=np.int64)
    return [rows, int(mixed(keys).sum(dtype=np.uint64))]
