"""``mgi controller``, ``mgi agent`` and ``mgi status``: a program that comes with the package."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = Path(__file__).parent / "bin" / "mgi-control"

MISSING = """\
mgi {command}: this installation has no control plane: something was missing when it was built.
From a clone of MGI, `tools/setup.sh control` installs what is missing and builds it. Elsewhere, on
Debian or Ubuntu: apt-get install libprotobuf-dev protobuf-compiler libcurl4-openssl-dev \
libssl-dev libfmt-dev libcli11-dev prometheus-cpp-dev,
then install the package again."""


def main(command: str, arguments: Sequence[str]) -> int:
    """Becomes the program; returns only where there is none: 1."""
    if not os.access(PROGRAM, os.X_OK):
        print(MISSING.format(command=command), file=sys.stderr)
        return 1
    sys.stdout.flush()
    sys.stderr.flush()
    return os.execv(PROGRAM, ["mgi", command, *arguments])
