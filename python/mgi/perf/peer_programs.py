"""Other libraries that do the same exchange, as programs that were built where they were found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import mgi
from mgi.errors import Refused
from mgi.perf.servers import Servers
from mgi.perf.team import by_mgi_run

PACKAGES = {"mpi": "libopenmpi-dev openmpi-bin", "ucx": "libucx-dev", "gloo": "libgloo-dev"}
"""What they are built with, on Debian or Ubuntu."""


@dataclass(frozen=True)
class Peer:
    """A library, and its ways to do an exchange of a shape: the name of each in a report."""

    name: str
    variants: dict[str, str]

    def command(self, size: int, servers: Servers | None = None) -> list[str]:
        """What starts so many processes, here or on servers.

        Raises :class:`mgi.Refused` where it is not built.
        """
        program = _program(self.name)
        if self.name != "mpi":
            there = [] if servers is None else servers.options()
            return by_mgi_run(size, [program], "--no-cluster", *there)
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            raise Refused("there is no mpirun; on Debian or Ubuntu: apt-get install openmpi-bin")
        version = _version_of_open_mpi(mpirun)
        if servers is not None and version not in ("3", "4"):
            # The fifth names the settings of its remote shell otherwise.
            raise Refused(f"on a testbed's servers MPI is Open MPI 3 or 4, which {mpirun} is not")
        start = [mpirun, "-n", str(size)]
        if version:
            # More processes than cores, and each pins itself, as the others' do.
            start += ["--oversubscribe", "--bind-to", "none"]
        if servers is not None:
            start = servers.by_open_mpi(start)
        return [*start, program]


def peers_of(library: str, shape: str) -> Peer | None:
    """A library, None where it has nothing for a shape."""
    if shape == "broadcast":
        variants = {
            "mpi": {"MPI_Bcast": "bulk"},
            "gloo": {"Gloo broadcast": "bulk"},
        }.get(library)
    else:
        variants = {
            "mpi": {"MPI_Alltoallv": "bulk", "MPI_Isend": "pipelined"},
            "ucx": {"UCX": "pipelined"},
            "gloo": {"Gloo alltoallv": "bulk"},
        }.get(library)
    return None if variants is None else Peer(library, variants)


def _program(library: str) -> str:
    name = f"mgi-peer-{library}"
    folders = [Path(mgi.__file__).parent / "bin"]
    if given := os.environ.get("MGI_PEERS"):
        folders.insert(0, Path(given))
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    raise Refused(
        f"{name} is not part of this installation: the library was not there when it was built. "
        f"On Debian or Ubuntu: apt-get install {PACKAGES[library]}, then install the package "
        "again; or name the folder of a build that has it (MGI_PEERS)"
    )


def _version_of_open_mpi(mpirun: str) -> str:
    """Its first number, empty where it is another MPI's."""
    words = [mpirun, "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60).stdout
    found = re.search(r"Open MPI\D*(\d+)", said)
    return found[1] if found else ""
