"""Where a channel's rows go."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from mgi import _mgi
from mgi.errors import InvalidArgument
from mgi.table import TableLike, as_table

#: A column, or a column and its direction.
SortKeyLike = str | tuple[str, str]

_DIRECTIONS = {"asc": False, "ascending": False, "desc": True, "descending": True}


class Routing:
    """A rule that gives each row of a channel its destination; one of the classes below."""

    _name = ""
    _keys: tuple[str, ...] = ()
    _hash = "murmur3"
    _owners: tuple[int, ...] = ()
    _order: tuple[tuple[str, bool, bool], ...] = ()
    _splitters: _mgi.Table | None = None


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


class Range(Routing):
    """Destination *i* gets the rows at or behind splitter *i* - 1 and before splitter *i*.

    `by` and `nulls` are the order, as in :func:`mgi.sort`. `splitters` is a table with the columns
    of `by`, of the channel's types, whose rows are in that order: one fewer than destinations.
    Equal ones leave nothing for the destinations between them. :meth:`Channel.send_to` names a
    destination whatever the keys.

        mgi.Range("day", {"day": np.array([10, 20])})  # below 10, 10 to 19, 20 and above
    """

    _name = "range"

    def __init__(
        self,
        by: str | Sequence[SortKeyLike],
        splitters: TableLike,
        nulls: Literal["last", "first"] = "last",
    ) -> None:
        self._order = sort_keys(by, nulls)
        self._splitters = as_table(splitters)

    def __repr__(self) -> str:
        return f"Range(by={[key[0] for key in self._order]!r})"


def sort_keys(by: Any, nulls: str) -> tuple[tuple[str, bool, bool], ...]:
    """Keys as (column, descending, nulls first)."""
    if nulls not in ("last", "first"):
        raise InvalidArgument(f"nulls is {nulls!r}: give 'last' or 'first'")
    if not isinstance(by, str | Sequence):
        raise InvalidArgument(f"by is {by!r}: give a column, or a list of columns")
    if isinstance(by, tuple) and len(by) == 2 and by[1] in _DIRECTIONS:
        raise InvalidArgument(f"by is {by!r}: give [{by!r}] for a column and its direction")
    keys = []
    for item in (by,) if isinstance(by, str) else by:
        column, direction = (item, "asc") if isinstance(item, str) else _pair(item)
        if direction not in _DIRECTIONS:
            raise InvalidArgument(
                f"by holds {item!r}: a direction is 'asc' (or 'ascending') or 'desc' (or "
                "'descending')"
            )
        keys.append((column, _DIRECTIONS[direction], nulls == "first"))
    if not keys:
        raise InvalidArgument("by is empty: give at least one column")
    return tuple(keys)


def _pair(item: Any) -> tuple[str, str]:
    wrong = not isinstance(item, list | tuple) or len(item) != 2
    if wrong or not all(isinstance(part, str) for part in item):
        raise InvalidArgument(
            f"by holds {item!r}: give a column or (column, direction), e.g. ('price', 'desc')"
        )
    return item[0], item[1]


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
