"""The ``mgi`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mgi.errors import Error
from mgi.streams import OUTPUT, complain, drop_output, name_output, open_missing

USAGE = """usage: mgi COMMAND [OPTION...]

  mgi demo            TPC-H tables exchanged, grouped and joined, checked against DuckDB
  mgi tpch            TPC-H's queries over endpoints, beside DuckDB
  mgi perf exchange   GB/s of payload from kernels to kernels
  mgi perf groupby    a group-by beside DuckDB and Polars
  mgi perf join       a join beside DuckDB and Polars
  mgi perf sort       a sort beside DuckDB and Polars
  mgi perf gpu-...    what a GPU does: gpu-send, gpu-exchange, ... (mgi perf --help names them)
  mgi topo            the graph and the maximum flows of this machine, a file, a known system
  mgi plan            paths between GPUs, their forwarding tables, predicted throughput
  mgi run             starts the processes of a program: here, on servers, in a testbed
  mgi testbed         servers and NICs made of network namespaces, with rates and failures
  mgi controller      the control plane of a cluster: knows every server's graph, plans channels
  mgi agent           speaks for a server and its applications
  mgi status          servers, channels and failures of a cluster
  mgi top             what channels, paths and NICs do now, and who waits for whom
  mgi --version

mgi COMMAND --help says more about a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0 is fine, 2 a wrong call, 130 Ctrl-C."""
    open_missing()
    name_output()
    arguments = list(sys.argv[1:] if argv is None else argv)
    status = 0

    def work() -> None:
        nonlocal status
        status = _run(arguments)

    try:
        return guarded("mgi", work) or status
    except SystemExit:  # help was printed, or what is wrong with a call
        if guarded("mgi", lambda: None) != 0:
            raise SystemExit(1) from None
        raise


def _run(arguments: list[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if command in ("-V", "--version"):
        from mgi import __version__

        print(f"mgi {__version__}")
        return 0
    if command == "demo":
        from mgi.demo.run import main as demo

        return demo(rest)
    if command == "perf":
        from mgi.perf import main as perf

        return perf(rest)
    if command == "tpch":
        from mgi.tpch import main as tpch

        return tpch(rest)
    if command == "topo":
        from mgi.topo import main as topo

        return topo(rest)
    if command == "plan":
        from mgi.plan import main as plan

        return plan(rest)
    if command == "run":
        from mgi.run import main as run

        return run(rest)
    if command == "testbed":
        from mgi.testbed import main as testbed

        return testbed(rest)
    if command == "top":
        from mgi.top import main as top

        return top(rest)
    if command in ("controller", "agent", "status"):
        from mgi.control import main as control

        return control(command, rest)
    what = f"there is no command '{command}'" if command else "which command?"
    complain(f"mgi: {what}\n\n{USAGE}")
    return 2


def split_program(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """A command's own arguments, and the program behind ``--`` with its own, if there is one."""
    arguments = list(argv)
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def guarded(program: str, work: Callable[[], None]) -> int:
    """Runs a command and returns its exit status; what is refused is 1, and one line says why."""
    try:
        work()
        sys.stdout.flush()
    except Error as error:
        complain(f"{program}: {error}")
        return 1
    except OSError as error:
        where = error.filename
        if where == OUTPUT:
            drop_output()
        elif where is None and _is_folder_gone():
            where = "the current folder"
        # A reader that has closed the output has enough.
        if where != OUTPUT or not isinstance(error, BrokenPipeError):
            complain(": ".join(filter(None, (program, where, error.strerror or str(error)))))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except OSError:
        return True
    return False


class Parser(argparse.ArgumentParser):
    """Reports a wrong call in one line, with where to look."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Exits with status 2."""
        self.exit(2, f"{self.prog}: {message}\n({self.prog} --help says more)\n")


if __name__ == "__main__":
    sys.exit(main())
