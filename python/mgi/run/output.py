"""What processes print, line by line, with a tag that says whose line it is."""

from __future__ import annotations

import contextlib
import errno
import os
import select
from collections.abc import Callable, Mapping

MOST_LINE = 1 << 20
"""Bytes after which a line without an end is broken into two."""

_TICK = 0.1
"""Seconds after which a writer looks at what else there is to do."""
_COLOURS = (36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91)


class Ended(Exception):  # noqa: N818
    """Nobody takes the output any more; the text is empty where its reader has closed it."""


class Tagger:
    """One process' output: whole lines, each with a tag before it. An empty tag changes nothing."""

    def __init__(self, tag: bytes) -> None:
        self._tag = tag
        self._part = bytearray()

    def add(self, data: bytes) -> bytes:
        """What can be printed now that this has come."""
        if not self._tag:
            return data
        end = data.rfind(b"\n") + 1
        if end == 0:
            self._part += data
            return self.rest() if len(self._part) >= MOST_LINE else b""
        whole = bytes(self._part) + data[:end]
        self._part = bytearray(data[end:])
        return self._tag + whole[:-1].replace(b"\n", b"\n" + self._tag) + b"\n"

    def rest(self) -> bytes:
        """The last line, if it had no end."""
        if not self._part:
            return b""
        line = self._tag + bytes(self._part) + b"\n"
        self._part.clear()
        return line


def is_coloured(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Whether tags may have colours there."""
    plain = environment.get("NO_COLOR") or environment.get("TERM", "dumb") == "dumb"
    return not plain and os.isatty(descriptor)


def tag_of(rank: int, size: int, coloured: bool) -> bytes:
    """``[ 3] ``, as wide for every rank."""
    tag = f"[{rank:>{len(str(size - 1))}}]"
    if coloured:
        tag = f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{tag}\x1b[0m"
    return f"{tag} ".encode()


def write_all(descriptor: int, data: bytes, meanwhile: Callable[[], None]) -> None:
    """Writes everything, and calls `meanwhile` again and again as long as the reader sleeps.

    Raises :class:`Ended` if nobody takes it any more.
    """
    view = memoryview(data)
    try:
        while view:
            # So much goes into a pipe that has room at all, without waiting.
            if select.select([], [descriptor], [], _TICK)[1]:
                with contextlib.suppress(BlockingIOError):  # another writer was faster
                    view = view[os.write(descriptor, view[: select.PIPE_BUF]) :]
            else:
                meanwhile()
    except OSError as error:
        raise Ended("" if error.errno == errno.EPIPE else error.strerror) from None
