"""What is asked of the kernel: iproute2's commands, and system calls that Python lacks."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mgi.errors import Error, Refused

NAMESPACES = Path("/run/netns")
"""Where iproute2 keeps namespaces by name."""

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWNET = 0x00020000, 0x04000000, 0x40000000
_MS_BIND, _MS_MOVE, _MS_REC, _MS_SLAVE = 4096, 8192, 16384, 1 << 19


def check_privileges() -> None:
    """Raises unless namespaces can be made and iproute2 is there."""
    if os.geteuid() != 0:
        raise Refused("a testbed is made of network namespaces, which takes root: use sudo")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise Refused(f"there is no '{tool}' here: apt-get install iproute2")


def run(*words: str, lines: Iterable[str] = ()) -> str:
    """Runs ``ip`` or ``tc``; `lines` are what a batch does. Its output; raises what it said."""
    text = "\n".join(lines)
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        if text and "Command failed -:" in done.stderr:
            number = int(done.stderr.rsplit("Command failed -:", 1)[1].split()[0])
            said += f" ('{text.splitlines()[number - 1]}')"
        raise Error(f"{' '.join(words)}: {said or f'exit status {done.returncode}'}")
    return done.stdout


def batch(tool: str, namespace: str, lines: Iterable[str]) -> None:
    """Runs commands of a tool in a namespace, all in one process."""
    given = list(lines)
    if given:
        run(tool, "-n", namespace, "-batch", "-", lines=given)


def query(tool: str, namespace: str, *words: str) -> list[dict[str, Any]]:
    """What a tool says in JSON, with counters."""
    return json.loads(run(tool, "-n", namespace, "-s", "-j", *words) or "[]")


def namespaces() -> list[str]:
    """Names of all network namespaces."""
    return sorted(path.name for path in NAMESPACES.glob("*"))


def inside(namespace: str, work: Callable[[], None]) -> None:
    """Does something in a namespace, by a child process; this one stays where it is."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            join(namespace)
            work()
            status = 0
        except BaseException as error:
            os.write(2, f"{namespace}: {error}\n".encode())
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise Error(f"namespace {namespace} could not be prepared; the line above says why")


def enter(namespace: str, host: str, hosts: Path, staging: Path) -> None:
    """Makes this process one of a server: its network, its NICs in /sys, its name, its /etc/hosts.

    `staging` is a folder where /sys is put together. There is no way back: for processes that are
    about to run a program.
    """
    join(namespace)
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWUTS)
    # Mounts that others make stay visible here, ours are not visible there.
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("sysfs", str(staging), "sysfs", 0)
    if os.path.ismount("/sys/fs/cgroup"):
        _mount("/sys/fs/cgroup", f"{staging}/fs/cgroup", None, _MS_BIND | _MS_REC)
    _mount(str(staging), "/sys", None, _MS_MOVE)
    if Path("/etc/hosts").exists():
        _mount(str(hosts), "/etc/hosts", None, _MS_BIND)
    name = host.encode()
    _call("sethostname", name, ctypes.c_size_t(len(name)))


def processes_in(names: Iterable[str]) -> list[int]:
    """Processes whose network is one of these namespaces."""
    wanted = set()
    for name in names:
        status = (NAMESPACES / name).stat()
        wanted.add((status.st_dev, status.st_ino))
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "ns/net").stat()
            except OSError:  # it has ended
                continue
            if (status.st_dev, status.st_ino) in wanted:
                found.append(int(entry.name))
    return found


def join(namespace: str) -> None:
    """Takes the calling thread, alone, to a namespace's network."""
    descriptor = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", descriptor, _CLONE_NEWNET)
    finally:
        os.close(descriptor)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    _call(
        "mount",
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        None,
        about=f"mount {target}",
    )


def _call(name: str, *arguments: Any, about: str = "") -> None:
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), about or name)
