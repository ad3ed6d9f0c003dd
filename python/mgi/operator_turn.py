"""An operator's whole call, of which the other processes hear where it cannot even begin."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from mgi import _mgi
from mgi.declining import declining
from mgi.endpoint import Endpoint, pairs_of
from mgi.errors import Error
from mgi.runtime import _milliseconds

_PATIENCE = 60_000


@contextlib.contextmanager
def operator_turn(what: str, endpoints: Any, runtime: Any, patience: Any) -> Iterator[None]:
    """What its block raises before the operator has begun is told to the operator's others.

    The operator itself tells what fails in it. The arguments may be wrong: then it is not known
    which processes the others are.
    """
    turn = _turn_at(endpoints, runtime)

    def decline(code: str, text: str) -> None:
        if turn is not None:
            turn.decline(what, code, text, _limit(patience))

    with declining(decline):
        yield


def _turn_at(endpoints: Any, runtime: Any) -> _mgi.OperatorTurn | None:
    """None where the call is this process' alone."""
    if not isinstance(endpoints, Sequence) or isinstance(endpoints, str):
        return None
    if not any(isinstance(one, Endpoint) and one.device == "elsewhere" for one in endpoints):
        return None
    with contextlib.suppress(Exception):
        pairs = pairs_of(endpoints, "endpoints", runtime._number)
        return _mgi.OperatorTurn(runtime._native, pairs)
    return None


def _limit(patience: Any) -> int:
    """In milliseconds; the operators' own where the caller's is what is wrong."""
    with contextlib.suppress(Error):
        return _milliseconds("patience", patience) or _PATIENCE
    return _PATIENCE
