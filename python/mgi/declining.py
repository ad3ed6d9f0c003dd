"""What fails in this process before a call that several make together is told to the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from mgi.errors import Error, GroupFailed, OutOfMemory


@contextlib.contextmanager
def declining(decline: Callable[[str, str], None]) -> Iterator[None]:
    """Gives `decline` the kind and the text of what its block raises, and lets that go on."""
    try:
        yield
    except BaseException as error:
        # The error itself matters more than that nobody could be told.
        with contextlib.suppress(Exception):
            decline(*_described(error))
        raise


def _described(error: BaseException) -> tuple[str, str]:
    if isinstance(error, Error):
        return error.code, str(error)
    kind = OutOfMemory if isinstance(error, MemoryError) else GroupFailed
    text = str(error)
    return kind.code, f"{type(error).__name__}: {text}" if text else type(error).__name__
