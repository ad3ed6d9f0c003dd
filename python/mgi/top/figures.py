"""The part of a cluster's status that `mgi top` is about, in the order in which it is shown."""

from __future__ import annotations

from typing import Any

Figures = dict[str, Any]
"""What ``mgi top --json`` prints (docs/control.md)."""

Status = dict[str, Any]

_LIVE = ("running", "preparing", "recovering")


def figures(status: Status) -> Figures:
    """The busiest first; waits for room before waits for rows, the longest first."""
    servers = {server["id"]: server["name"] for server in status.get("servers", [])}
    ends = {end["id"]: _place(end, servers) for end in status.get("endpoints", [])}
    channels = [c for c in status.get("channels", []) if c["state"] in _LIVE]
    channels.sort(key=lambda channel: (-channel["gbps"], -channel["bytes"], channel["id"]))
    paths = [
        {**path, "channel": channel["id"], "name": channel["name"],
         "server": servers.get(path["server"], ""),
         "from_place": ends.get(path["from"], ""), "to_place": ends.get(path["to"], "")}
        for channel in channels
        for path in channel.get("paths", [])
    ]  # fmt: skip
    paths.sort(key=lambda path: (-path["gbps"], -path["bytes"]))
    waits = [
        {**wait, "channel": channel["id"], "name": channel["name"],
         "server": servers.get(wait["server"], ""), "text": wait_text(wait, ends)}
        for channel in channels
        for wait in channel.get("who_waits", [])
    ]  # fmt: skip
    waits.sort(key=lambda wait: (wait["for"] == "rows", -wait["since_s"]))
    nics = [
        {**nic, "server": server["name"], "share": _share(nic)}
        for server in status.get("servers", [])
        for nic in server.get("nics", [])
    ]
    nics.sort(key=lambda nic: (-nic["share"], nic["server"], nic["name"]))
    own = ("paths", "who_waits", "more_paths", "more_who_wait")
    return {
        "controller": status.get("controller", ""),
        "leader": status.get("leader", True),
        "leader_address": status.get("leader_address", ""),
        "owner": status.get("owner", ""),
        "epoch": status.get("epoch", 0),
        "uptime_s": status.get("uptime_s", 0.0),
        "servers": len(servers),
        "servers_present": sum(s["state"] == "present" for s in status.get("servers", [])),
        "gbps": sum(channel["gbps"] for channel in channels),
        "channels": [{k: v for k, v in c.items() if k not in own} for c in channels],
        "paths": paths,
        "more_paths": sum(channel.get("more_paths", 0) for channel in channels),
        "nics": nics,
        "waits": waits,
        "more_waits": sum(channel.get("more_who_wait", 0) for channel in channels),
    }


def wait_text(wait: dict[str, Any], places: dict[int, str]) -> str:
    """``source 3 (node1 cpu0, query) has waited 2.3 s for a credit of destination 7: why``."""
    is_source = wait["for"] != "rows"
    who = _end("source" if is_source else "destination", wait["who"], places)
    if wait["for"] == "mover":
        what = "its mover"
    else:
        ids, more = wait["whom"], wait["more"]
        role = "destination" if is_source else "source"
        if len(ids) == 1 and not more:
            whom = _end(role, ids[0], places)
        else:
            whom = f"{role}s {', '.join(map(str, ids))}" + (f" and {more} more" if more else "")
        kinds = {"credit": "a credit of", "link": "the link to", "rows": "rows of"}
        what = f"{kinds.get(wait['for'], wait['for'])} {whom}"
    return f"{who} has waited {wait['since_s']:.1f} s for {what}: {wait['why']}"


def _end(role: str, number: int, places: dict[int, str]) -> str:
    place = places.get(number)
    return f"{role} {number} ({place})" if place else f"{role} {number}"


def _place(end: dict[str, Any], servers: dict[int, str]) -> str:
    name = f"{servers.get(end['server'], '?')} {end['device']}"
    return f"{name}, {end['application']}" if end.get("application") else name


def _share(nic: dict[str, Any]) -> float:
    """Of what it can carry, in the direction that is fuller."""
    shares = [
        nic[f"{way}_gbps"] / nic[f"{way}_capacity_gbps"]
        for way in ("out", "in")
        if nic[f"{way}_capacity_gbps"]
    ]
    return max(shares, default=0.0)
