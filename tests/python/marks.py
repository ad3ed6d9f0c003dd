"""Finds processes by a mark in their environment, which everything inherits that they start."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

NAME = "MGI_TEST_MARK"


def new_mark() -> dict[str, str]:
    """An environment variable that no other process has."""
    return {NAME: uuid.uuid4().hex}


def marked(mark: dict[str, str]) -> dict[int, str]:
    """Living processes that have the mark: pid and command line."""
    wanted = f"{NAME}={mark[NAME]}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    found[int(entry.name)] = b" ".join(words).decode(errors="replace").strip()
    return found
