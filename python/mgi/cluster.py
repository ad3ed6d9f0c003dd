"""A cluster without a runtime: ids, plans, word of what has ended, through the server's agent."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from typing import Any

from mgi import _mgi
from mgi.closing import Closing
from mgi.errors import InvalidArgument


class ClusterClient(Closing):
    """An application's place in a cluster, for engines that move their bytes themselves.

    Its endpoints may be on any device of this server, and its channels lead to other servers'; what
    it gets is plans. :meth:`Runtime.connect` is for rows. When it is closed or dropped, its
    endpoints are given back and their channels end. Safe to use from several threads; calls wait
    for agent and controller at most `timeout` seconds.
    """

    def __init__(
        self,
        agent: str | os.PathLike[str] | None = None,
        name: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._native = _mgi.ClusterClient(*cluster_options(agent, name, timeout))

    @property
    def server(self) -> str:
        """This server's name in the cluster."""
        return self._native.server

    @property
    def devices(self) -> list[dict[str, Any]]:
        """CPUs and GPUs of this server: ``vertex``, ``name``, ``gpu`` of each."""
        return self._native.devices()

    def create_endpoint(self, device: str | None = None) -> int:
        """An endpoint's id; on a device by name, or on the one with the fewest, GPUs first."""
        return self._native.create_endpoint(device or "")[0]

    def delete_endpoint(self, endpoint: int) -> None:
        """Deletes an endpoint that no channel uses."""
        self._native.delete_endpoint(endpoint)

    def create_channel(
        self,
        sources: Iterable[int],
        destinations: Iterable[int],
        name: str = "",
        relay_gpus: bool = True,
        relay_host: bool = True,
        max_nics: int | None = None,
        schema: bytes = b"",
        options: bytes = b"",
    ) -> dict[str, Any]:
        """A channel between endpoints of any servers, once each of these has its plan.

        Returns ``channel`` (its id), ``generation``, and as bytes ``directory`` and ``table``, both
        empty on a server without endpoints of it. Other GPUs and host memory may relay unless
        `relay_gpus` or `relay_host` say no; `max_nics` bounds how many NICs of a server are used.
        `schema` and `options` reach every server as they are.
        """
        return self._native.create_channel(
            name,
            list(sources),
            list(destinations),
            relay_gpus,
            relay_host,
            max_nics or 0,
            schema,
            options,
        )

    def delete_channel(self, channel: int) -> None:
        """Ends a channel on every server."""
        self._native.delete_channel(channel)

    def check_channel(self, channel: int) -> None:
        """Raises the reason if a channel that this client created has ended otherwise."""
        self._native.check_channel(channel)

    def status(self) -> dict[str, Any]:
        """The cluster: servers, endpoints, channels, failures (docs/control.md)."""
        return json.loads(self._native.status())

    def events(self) -> list[dict[str, Any]]:
        """What happened since the last call, oldest first; ``event`` names the kind.

        ``plan``, ``channel_ended``, ``endpoint_lost``, ``server``, ``controller``, ``agent``. The
        latest thousand are kept.
        """
        return self._native.events()

    def close(self) -> None:
        """Gives everything back."""
        self._native.close()


def cluster_options(
    agent: str | os.PathLike[str] | None, name: str | None, timeout: float
) -> tuple[str, str, int]:
    """Arguments that every way into a cluster takes, as the compiled module has them."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise InvalidArgument(f"timeout is {timeout!r}: give seconds")
    if not 0 < timeout < math.inf:
        raise InvalidArgument(f"timeout is {timeout!r}: give seconds, more than 0")
    if name is not None and not isinstance(name, str):
        raise InvalidArgument(f"name is {name!r}: give a text")
    return "" if agent is None else os.fspath(agent), name or "", max(round(timeout * 1000), 1)
