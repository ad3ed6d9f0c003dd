"""This process' place among those that were started together."""

from __future__ import annotations

from dataclasses import dataclass

from mgi import _mgi


@dataclass(frozen=True)
class Job:
    """A process of a job; without a launcher it is the only one of its own."""

    name: str
    """The same in all processes of the job; may be empty."""
    rank: int
    """Among all processes, from 0."""
    size: int
    """How many processes there are."""
    local_rank: int
    """Among the processes of this server, from 0."""
    local_size: int
    """How many this server has."""
    server: str
    """This server's name: in the cluster, or else the host's."""
    launcher: str
    """``mgi run``, ``torchrun``, ``Slurm`` or another (docs/running.md), or empty."""


def job() -> Job:
    """What the environment says of this process, as ``mgi run`` or another launcher set it.

    The innermost launcher's word counts. Raises :class:`mgi.InvalidArgument` that names variables
    which are incomplete or contradict each other.
    """
    return Job(**_mgi.job())
