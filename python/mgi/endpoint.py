"""Endpoints: uniquely numbered producers and consumers on devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from mgi.errors import InvalidArgument


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Names an endpoint; :meth:`Runtime.create_endpoint` makes them."""

    id: int
    """Unique in the runtime, never used twice."""
    device: str
    """Where it lives: ``cpu:0``; ``elsewhere`` in another process."""
    _place: int = dataclasses.field(repr=False)
    _runtime: int = dataclasses.field(repr=False)

    @property
    def _pair(self) -> tuple[int, int]:
        return self.id, self._place


def pair_of(endpoint: Endpoint, what: str, runtime: int) -> tuple[int, int]:
    """An endpoint of this runtime as the compiled module takes it; `what` names the argument."""
    if not isinstance(endpoint, Endpoint):
        raise InvalidArgument(
            f"{what} is {endpoint!r}: give an Endpoint, as Runtime.create_endpoint returns"
        )
    if endpoint._runtime != runtime:
        raise InvalidArgument(f"{what}: endpoint {endpoint.id} belongs to another runtime")
    return endpoint._pair


def pairs_of(endpoints: Iterable[Endpoint], what: str, runtime: int) -> list[tuple[int, int]]:
    """The same for several."""
    if isinstance(endpoints, Endpoint) or not isinstance(endpoints, Iterable):
        raise InvalidArgument(f"{what} is {endpoints!r}: give a list of endpoints")
    return [pair_of(endpoint, what, runtime) for endpoint in endpoints]
