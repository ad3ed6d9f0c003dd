#!/usr/bin/env python3
"""Run a command with a time limit; when it hangs, show where every thread stands, then fail.

    run_with_stacks.py [--limit SECONDS] [--silence SECONDS] [--] COMMAND [ARGUMENT...]

The command hangs when it runs longer than --limit, or says nothing for --silence seconds. Then, for
it and each of its descendants, gdb prints the stacks of all threads; a Python process prints its
Python stacks too (through faulthandler). After that everything is killed and the exit status is
124. Otherwise the exit status is the command's own (128 + N where signal N ended it).

Only the standard library is used, so that any Python 3.10 runs this.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HUNG = 124
PR_SET_PTRACER = 0x59616D61
PR_SET_CHILD_SUBREAPER = 36
GDB_SECONDS = 120


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=600, help="seconds the command may run")
    parser.add_argument(
        "--silence",
        type=float,
        default=0,
        help="seconds it may say nothing (0: as long as it likes)",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.command[:1] == ["--"]:
        del arguments.command[0]
    if not arguments.command:
        parser.error("no command given")
    return arguments


def prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def before_start() -> None:
    """In the child: lets gdb attach where the kernel restricts that (Yama); and lets Ctrl-C end
    what tests send it to, also where a shell started all this with SIGINT ignored."""
    prctl(PR_SET_PTRACER, ctypes.c_ulong(-1).value)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children_of(parent: int) -> list[int]:
    """All living descendants of a process, parents before their children."""
    by_parent: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                by_parent.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    pending = [parent]
    while pending:
        for child in by_parent.get(pending.pop(), []):
            found.append(child)
            pending.append(child)
    return found


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    return "?"


def is_python(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").resolve().name.startswith("python")
    return False


def print_kernel_state(pid: int) -> None:
    """What /proc knows of each thread, for machines without a usable gdb."""
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        with contextlib.suppress(OSError):
            status = (task / "status").read_text()
            state = next(line for line in status.splitlines() if line.startswith("State:"))
            where = (task / "wchan").read_text().strip()
            print(f"  thread {task.name}: {state}, in the kernel at {where or '?'}")


def print_stacks(pid: int) -> None:
    print(f"\n==== stacks of process {pid}: {command_line(pid)}", flush=True)
    gdb = shutil.which("gdb")
    if gdb:
        command = [gdb, "-p", str(pid), "-batch", "-nx"]
        for setting in ("pagination off", "print thread-events off", "debuginfod enabled off"):
            command += ["-ex", f"set {setting}"]
        command += ["-ex", "thread apply all bt 40"]
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=GDB_SECONDS
            )
        except subprocess.TimeoutExpired:
            print(f"gdb took longer than {GDB_SECONDS} s")
        else:
            lines = [line for line in result.stdout.splitlines() if not line.startswith("[New LWP")]
            print("\n".join(lines), flush=True)
            if "#0" in result.stdout:
                return
            print(f"gdb could not attach: {result.stderr.strip().splitlines()[-1:]}")
    else:
        print("gdb is not installed")
    print_kernel_state(pid)
    sys.stdout.flush()


def report_and_kill(process: subprocess.Popen[bytes], reason: str) -> None:
    print(f"\n==== HANG: {reason}: {' '.join(process.args)}", flush=True)
    # This process is the reaper of orphans (see main), so that all of them are found below it.
    pids = children_of(os.getpid())
    for pid in pids:
        print_stacks(pid)
    for pid in filter(is_python, pids):
        print(f"\n==== Python stacks of process {pid}", flush=True)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGABRT)
        time.sleep(1)
    for pid in children_of(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    print("==== end of the stacks; everything was killed", flush=True)


def main() -> int:
    arguments = parse_arguments()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    watched = arguments.silence > 0
    process = subprocess.Popen(
        arguments.command,
        stdout=subprocess.PIPE if watched else None,
        stderr=subprocess.STDOUT if watched else None,
        preexec_fn=before_start,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    last_output = time.monotonic()

    def pump() -> None:
        nonlocal last_output
        while block := os.read(process.stdout.fileno(), 1 << 16):
            last_output = time.monotonic()
            sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()

    reader = threading.Thread(target=pump, daemon=True) if watched else None
    if reader:
        reader.start()

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)

    start = time.monotonic()
    while True:
        try:
            status = process.wait(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if now - start > arguments.limit:
                report_and_kill(process, f"no end after {arguments.limit:g} s")
                return HUNG
            if watched and now - last_output > arguments.silence:
                report_and_kill(process, f"no output for {arguments.silence:g} s")
                return HUNG
    if reader:
        reader.join(timeout=5)
    if status < 0:
        print(f"==== ended by signal {-status} ({signal.Signals(-status).name})", flush=True)
        return 128 - status
    return status


if __name__ == "__main__":
    sys.exit(main())
