"""Where a channel's rows go."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mgi.errors import InvalidArgument


class Routing:
    """A rule that gives each row of a channel its destination; one of the classes below."""

    _name = ""
    _keys: tuple[str, ...] = ()
    _hash = "murmur3"
    _owners: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, init=False)
class Partition(Routing):
    """Each row to the destination that its key names, but for :meth:`Channel.send_to`.

    ``hash="murmur3"`` takes one or more columns of any type; ``"modulo"`` takes one integer column
    and sends key ``k`` to destination ``k mod n``.

    `owners` says whose the parts are that keys fall into: as many parts as it has numbers (at most
    65535), part ``p`` going to destination ``owners[p]``. Empty: a part for each destination. So
    channels with other destinations may put the same keys together.
    """

    keys: tuple[str, ...]
    hash: str
    owners: tuple[int, ...]
    _name = "partition"

    def __init__(
        self, key: str | Sequence[str], hash: str = "murmur3", owners: Sequence[int] = ()
    ) -> None:
        object.__setattr__(self, "keys", column_names(key, "key"))
        object.__setattr__(self, "hash", hash)
        object.__setattr__(self, "owners", _numbers(owners))

    @property
    def _keys(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.keys

    @property
    def _hash(self) -> str:  # type: ignore[override]
        return self.hash

    @property
    def _owners(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.owners


@dataclasses.dataclass(frozen=True)
class Broadcast(Routing):
    """Every row to every destination, but for :meth:`Channel.send_to`."""

    _name = "broadcast"


@dataclasses.dataclass(frozen=True)
class Direct(Routing):
    """Each send names its destination: :meth:`Channel.send_to`."""

    _name = "direct"


@dataclasses.dataclass(frozen=True)
class Balance(Routing):
    """Each row to whichever destination has room; no send names one."""

    _name = "balance"


def _numbers(owners: Sequence[int]) -> tuple[int, ...]:
    found = tuple(owners)
    for owner in found:
        if isinstance(owner, bool) or not isinstance(owner, int) or not 0 <= owner < 2**16:
            raise InvalidArgument(f"owners holds {owner!r}: give places among the destinations")
    return found


def column_names(names: str | Sequence[str], what: str) -> tuple[str, ...]:
    """One or several column names as a tuple; `what` is the argument's name for the error."""
    found = (names,) if isinstance(names, str) else tuple(names)
    for name in found:
        if not isinstance(name, str):
            raise InvalidArgument(f"{what} holds {name!r}: give names of columns")
    if not found:
        raise InvalidArgument(f"{what} is empty: give at least one column")
    return found
