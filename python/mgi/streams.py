"""Standard input, output and error output, which may be closed, full or read by nobody."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

OUTPUT = "the output"
"""What errors call it."""


def open_missing() -> None:
    """Opens what is closed of the three, as if it led to or came from ``/dev/null``.

    Else the next files and pipes that are opened would have their numbers, and be written to.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


class _Output(io.FileIO):
    """Standard output whose errors say that they are its own."""

    def write(self, data: Any) -> int | None:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = OUTPUT
            raise


def name_output() -> None:
    """Has errors of the output name it, as those of files name these."""
    old = sys.stdout
    if old is not sys.__stdout__:
        return  # that is another's, or named already
    old.flush()
    raw = _Output(old.fileno(), "w", closefd=False)
    unbuffered = isinstance(old.buffer, io.RawIOBase)  # python -u
    sys.stdout = io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),  # type: ignore[arg-type]
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.line_buffering,
        write_through=old.write_through,
    )


def drop_output() -> None:
    """Throws away what is still to be written; else Python would try at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """Writes a line to the error output; where that takes none, nobody is there to be told."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
