"""A textbook simplex in exact fractions: what optimizers of the package are checked against."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def maximize(
    objective: Sequence[Fraction], rows: Sequence[Sequence[Fraction]], limits: Sequence[Fraction]
) -> Fraction:
    """The most of ``objective * x`` with ``rows * x <= limits``, ``x >= 0`` and limits >= 0.

    Bland's rule, so that it ends. The problem must have a bound.
    """
    count, width = len(rows), len(objective)
    table = [
        [*map(Fraction, row), *(Fraction(i == j) for j in range(count)), Fraction(limit)]
        for i, (row, limit) in enumerate(zip(rows, limits, strict=True))
    ]
    costs = [*(-Fraction(value) for value in objective), *[Fraction(0)] * (count + 1)]
    basis = list(range(width, width + count))
    while (column := next((j for j, cost in enumerate(costs[:-1]) if cost < 0), None)) is not None:
        ratios = [
            (row[-1] / row[column], basis[i], i) for i, row in enumerate(table) if row[column] > 0
        ]
        _, _, pivot = min(ratios)
        basis[pivot] = column
        scale = table[pivot][column]
        table[pivot] = [value / scale for value in table[pivot]]
        for i, row in enumerate(table):
            if i != pivot and row[column]:
                factor = row[column]
                table[i] = [a - factor * b for a, b in zip(row, table[pivot], strict=True)]
        factor = costs[column]
        costs = [a - factor * b for a, b in zip(costs, table[pivot], strict=True)]
    return costs[-1]
