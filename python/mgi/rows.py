"""What batches and tables have in common, in whatever memory they lie."""

from __future__ import annotations

from typing import Any

from mgi.schema import Schema


class Rows:
    """Rows of one schema; immutable."""

    __slots__ = ("_native", "_schema")

    def __init__(self, native: Any, schema: Schema | None = None) -> None:
        self._native = native
        self._schema = schema

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._native.rows

    @property
    def nbytes(self) -> int:
        """Payload: fixed-width values, characters, one bit a row for bool and validity."""
        return self._native.nbytes()

    @property
    def schema(self) -> Schema:
        """The columns."""
        if self._schema is None:
            self._schema = Schema._of(self._native.schema)
        return self._schema

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"<mgi.{type(self).__name__} of {self._text()}: {self.schema._native.text()}>"

    def _text(self) -> str:
        return f"{self.num_rows} rows"
