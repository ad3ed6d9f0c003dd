"""Rates of NICs: as a user writes them, as ``tc`` takes them, as a table shows them."""

from __future__ import annotations

import re

from mgi.errors import InvalidArgument

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)([kmgt]?)bit(?:/s)?", re.IGNORECASE)
LEAST, MOST = 10**6, 4 * 10**11

_BURST_SECONDS = 0.001
_LEAST_BURST = 256 * 1024
_QUEUE_SECONDS = 0.01


def parse_rate(text: str) -> int:
    """Bits a second of ``2gbit`` or ``500 Mbit/s``."""
    match = _WRITTEN.fullmatch(text.replace(" ", ""))
    if match is None:
        raise InvalidArgument(f"'{text}' is no rate; expected one such as 2gbit or 500mbit")
    bits = round(float(match[1]) * _UNITS[match[2].lower()])
    if not LEAST <= bits <= MOST:
        raise InvalidArgument(
            f"'{text}' is no rate that can be had; expected {show_rate(LEAST)} to {show_rate(MOST)}"
        )
    return bits


def show_rate(bits: int | None) -> str:
    """``2 Gbit/s``; None is a NIC without a limit."""
    if bits is None:
        return "unshaped"
    for unit in ("", "k", "M", "G"):
        if bits < 1000 or unit == "G":
            return f"{bits:.4g} {unit}bit/s"
        bits /= 1000
    raise AssertionError


def show_bytes(count: int) -> str:
    """``1.25 GB``."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


def shape(device: str, bits: int | None, shaped: bool = False) -> list[str]:
    """The ``tc`` command that gives a device a rate for what it sends; `shaped`: it has one now.

    The burst is what is sent at once after a pause: enough for the largest packets the kernel
    hands over (64 KiB before segmentation) and for a timer that is late by a millisecond, so that
    the rate is reached, and no more, so that it is not passed. What waits beyond 10 ms is dropped,
    as a switch with a full buffer does it; a sender's own sockets stop before that.
    """
    if bits is None:
        return [f"qdisc del dev {device} root"] if shaped else []
    burst = max(_LEAST_BURST, round(bits / 8 * _BURST_SECONDS))
    limit = burst + max(_LEAST_BURST, round(bits / 8 * _QUEUE_SECONDS))
    return [f"qdisc replace dev {device} root tbf rate {bits}bit burst {burst} limit {limit}"]
