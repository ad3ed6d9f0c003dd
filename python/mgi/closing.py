"""What is closed at the end of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

Self = TypeVar("Self", bound="Closing")


class Closing(ABC):
    """A context manager whose block ends with `close()`."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what it holds."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
