"""A testbed's servers as places of an exchange between processes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mgi.errors import InvalidArgument
from mgi.testbed import Testbed


@dataclass(frozen=True)
class Servers:
    """The servers that processes are shared out to, and their NICs."""

    testbed: str
    count: int
    nics: int
    """Of each server."""
    rates: tuple[float | None, ...]
    """By server: GB/s of its NICs as they are now; None: not limited."""
    processes: int

    @classmethod
    def of(cls, testbed: str, processes: int) -> Servers:
        """Those of a testbed that so many processes need; raises if they do not fill them alike."""
        bed = Testbed.existing(testbed)
        count = min(bed.server_count(), processes)
        if processes % count != 0:
            raise InvalidArgument(
                f"{processes} processes are not shared out evenly to {count} servers"
            )
        nics = [nic for nic in bed.nics() if nic.port.nic is not None]
        rates: list[float | None] = []
        for server in range(count):
            own = [nic for nic in nics if nic.port.server == server and nic.up]
            now = [nic.rate_now if nic.rate_now is not None else nic.rate for nic in own]
            limited = [rate for rate in now if rate is not None]
            rates.append(sum(limited) / 8e9 if len(limited) == len(now) else None)
        of_one = sum(nic.port.server == 0 for nic in nics)
        return cls(testbed, count, of_one, tuple(rates), processes)

    def options(self) -> list[str]:
        """What ``mgi run`` is told."""
        # UCX would take the management network as well, and the memory that the "servers" share.
        ucx = ["--env", f"UCX_NET_DEVICES={self._interfaces()}", "--env", "UCX_TLS=tcp,self"]
        return ["--servers-of-testbed", self.testbed, *ucx]

    def by_open_mpi(self, mpirun: list[str]) -> list[str]:
        """The command, over TCP and all NICs of the servers; ranks are shared out as ours are."""
        each = self.processes // self.count
        settings = {
            "plm_rsh_agent": sys.executable,
            "plm_rsh_args": f"-m mgi.testbed.remote_shell {self.testbed}",
            "oob_tcp_if_include": "mgmt",
            "pml": "ob1",
            "btl": "tcp,self",
            "btl_tcp_if_include": self._interfaces(),
        }
        switch = ["testbed", "exec", "--name", self.testbed, "--server", "switch", "--"]
        hosts = ",".join(f"server{server}:{each}" for server in range(self.count))
        words = [word for item in settings.items() for word in ("--mca", *item)]
        return [sys.executable, "-m", "mgi.cli", *switch, *mpirun, "--host", hosts, *words]

    def _interfaces(self) -> str:
        return ",".join(f"nic{number}" for number in range(self.nics))

    def line_rate(self, sent: list[int], received: list[int], *, to_all: bool) -> float | None:
        """Rows delivered, in GB/s for rows of a byte, when the busiest NICs are never idle.

        From the rows that each process sends and receives: each source's rows go to destinations in
        the proportion in which all rows do, or all of them to each. What stays on a server takes no
        time, and neither do headers. With rows of n bytes as many GB/s of rows' bytes.
        """
        if None in self.rates:
            return None
        total = sum(received)
        out, into = [0.0] * self.count, [0.0] * self.count
        for source, rows in enumerate(sent):
            for destination, got in enumerate(received):
                if got == 0 or (here := self._server(source)) == (
                    there := self._server(destination)
                ):
                    continue
                moved = rows if to_all else rows * got / total
                out[here] += moved
                into[there] += moved
        busiest = max(
            max(out[server], into[server]) / rate
            for server, rate in enumerate(self.rates)
            if rate is not None
        )
        return None if busiest == 0 else total / busiest

    def _server(self, rank: int) -> int:
        return rank * self.count // self.processes
