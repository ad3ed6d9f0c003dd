"""Facts about the machine and the software, for the report."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from mgi.demo import truth, units


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, kernel {platform.release()}"


def _memory() -> str:
    try:
        return units.size(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (OSError, ValueError):
        return "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed as a package"


def _device(device: dict[str, Any]) -> str:
    cores = device.get("cores") or []
    text = f"{len(cores)} core{'' if len(cores) == 1 else 's'}"
    if device.get("memory_bytes"):
        text += f", {units.size(device['memory_bytes'])}"
    return text


def load() -> float:
    """Threads that were running or waiting for a core during the last minute, on average."""
    return os.getloadavg()[0]


def collect(devices: list[dict[str, Any]], load: float) -> list[tuple[str, str]]:
    """Pairs of a name and a value; `devices` are the runtime's, `load` was before the run."""
    now = datetime.datetime.now().astimezone()
    facts = [
        ("When", now.strftime("%Y-%m-%d %H:%M %Z")),
        ("Processor", _processor()),
        ("Architecture", platform.machine()),
        ("Cores this run could use", f"{truth.threads()} of {os.cpu_count()}"),
        ("Load before this run", f"{load:.1f} busy threads in the last minute"),
        ("Memory", _memory()),
        ("System", _system()),
    ]
    facts += [(f"Device {device['name']}", _device(device)) for device in devices]
    facts += [
        ("Python", platform.python_version()),
        ("MGI", _version("mgi")),
        ("DuckDB", truth.version()),
        ("pyarrow", _version("pyarrow")),
        ("tpchgen-cli", _version("tpchgen-cli")),
    ]
    return facts
