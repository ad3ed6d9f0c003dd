"""mgi top: what it makes of a status, and how that is drawn."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from mgi.cli import main
from mgi.top.figures import figures
from mgi.top.view import Style, lines
from run_support import needs_control

PLAIN = Style(colour=False, unicode=True)
FLOW = {"rows": 0, "bytes": 0, "gbps": 0.0, "segments": 0, "in_flight": 0, "waiting": 0,
        "waits": 0, "waited_s": 0.0, "longest_wait_s": 0.0, "resends": 0}  # fmt: skip


def path(source: int | None, destination: int | None, gbps: float, **more: Any) -> dict[str, Any]:
    ends = {
        "server": 1,
        "from": source,
        "to": destination,
        "by": "reference",
        "nic": "",
        "peer": "",
    }
    return {**ends, **FLOW, "gbps": gbps, "bytes": int(gbps * 1e10), **more}


def wait(who: int, whom: list[int], since: float, what: str = "credit") -> dict[str, Any]:
    why = "2 segments are queued there and not taken"
    return {"server": 1, "who": who, "for": what, "whom": whom, "more": 0, "since_s": since,
            "why": why}  # fmt: skip


def channel(number: int, name: str, gbps: float, **more: Any) -> dict[str, Any]:
    made = {"id": number, "name": name, "state": "running", "generation": 1, "sources": 2,
            "destinations": 2, "servers": [1], "why": "", **FLOW, "gbps": gbps,
            "bytes": int(gbps * 1e10), "queued": 0, "paths": [], "more_paths": 0,
            "who_waits": [], "more_who_wait": 0}  # fmt: skip
    return made | more


def nic(name: str, out: float, into: float) -> dict[str, Any]:
    return {"name": name, "out_gbps": out, "out_capacity_gbps": 12.5, "in_gbps": into,
            "in_capacity_gbps": 12.5, "payload_gbps": out, "payload_bytes": 5, "in_flight": 3,
            "resends": 4}  # fmt: skip


STATUS: dict[str, Any] = {
    "controller": "host:7070",
    "leader": True,
    "leader_address": "host:7070",
    "epoch": 3,
    "uptime_s": 75.0,
    "servers": [
        {"id": 1, "name": "node1", "state": "present", "nics": [nic("nic0", 1, 0)]},
        {"id": 2, "name": "node2", "state": "away", "nics": [nic("nic1", 0, 11)]},
    ],
    "endpoints": [
        {"id": 5, "server": 1, "device": "cpu0", "application": "query"},
        {"id": 6, "server": 2, "device": "gpu3", "application": ""},
    ],
    "channels": [
        channel(1, "slow", 0.5, paths=[path(5, 6, 0.5)]),
        channel(2, "fast", 2.5, queued=7, paths=[path(5, 6, 2, by="wire"),
                                                 path(None, None, 2, by="wire", nic="nic0",
                                                      peer="rank 1 on server node2"),
                                                 path(6, 5, 0.5, waiting=2, waited_s=1.25)]),
        channel(3, "stuck", 0.0, who_waits=[wait(6, [5], 99, "rows"), wait(5, [6], 2.34)]),
        channel(4, "over", 9.0, state="failed"),
    ],
}  # fmt: skip


def shown(status: dict[str, Any] = STATUS, width: int = 200, height: int | None = None,
          style: Style = PLAIN, trouble: str = "") -> list[str]:  # fmt: skip
    return lines(figures(status), width, height, style, trouble)


def test_figures_are_in_the_order_of_what_matters() -> None:
    found = figures(STATUS)
    assert [c["name"] for c in found["channels"]] == ["fast", "slow", "stuck"]
    assert [(p["name"], p["from"], p["gbps"]) for p in found["paths"]] == [
        ("fast", 5, 2), ("fast", None, 2), ("fast", 6, 0.5), ("slow", 5, 0.5)]  # fmt: skip
    assert found["paths"][0]["to_place"] == "node2 gpu3"
    assert found["paths"][0]["server"] == "node1"
    assert [n["name"] for n in found["nics"]] == ["nic1", "nic0"], "the fullest first"
    assert [w["for"] for w in found["waits"]] == ["credit", "rows"], "who waits for room first"
    assert found["gbps"] == 3.0
    assert "paths" not in found["channels"][0]


def test_who_waits_for_whom_in_words() -> None:
    credit, rows = (w["text"] for w in figures(STATUS)["waits"])
    assert credit == (
        "source 5 (node1 cpu0, query) has waited 2.3 s for a credit of destination 6 "
        "(node2 gpu3): 2 segments are queued there and not taken"
    )
    assert rows.startswith("destination 6 (node2 gpu3) has waited 99.0 s for rows of source 5 (")
    status = copy.deepcopy(STATUS)
    status["channels"][2]["who_waits"] = [
        {**wait(5, [6, 9], 1), "more": 3},
        {**wait(7, [], 0.5, "mover"), "why": "the mover has not moved its segments"},
    ]
    link = figures(status | {"channels": [channel(9, "", 0, who_waits=[
        {**wait(5, [6], 1, "link"), "why": "3 segments are on their way there"}])]})  # fmt: skip
    assert link["waits"][0]["text"].endswith(
        " has waited 1.0 s for the link to destination 6 (node2 gpu3): "
        "3 segments are on their way there"
    )
    many, mover = (w["text"] for w in figures(status)["waits"])
    assert "for a credit of destinations 6, 9 and 3 more: " in many
    assert mover == "source 7 has waited 0.5 s for its mover: the mover has not moved its segments"


def test_the_whole_of_it() -> None:
    text = "\n".join(shown())
    assert text.startswith(
        "mgi top  host:7070, up 1 min 15 s: 1 of 2 servers, 3 channels, 3.00 GB/s\n"
    )
    fast = next(line for line in shown() if line.startswith("fast (2)"))
    assert "2.50 GB/s  ████████  25.0 GB" in fast
    assert fast.endswith("7")
    wire = next(line for line in shown() if "nic0" in line and line.startswith("fast"))
    assert " ".join(wire.split()).startswith("fast (2) node1 rank 1 on server node2 nic0 2.00")
    full = next(line for line in shown() if line.startswith("node2 nic1"))
    assert "██████████████▏·  11.0 GB/s of 12.5 GB/s" in full
    assert "stuck (3): source 5 (node1 cpu0, query) has waited 2.3 s" in text
    assert "over" not in text


def test_it_fits_the_terminal() -> None:
    status = copy.deepcopy(STATUS)
    status["channels"] += [channel(n, "n" * 30, 0.1) for n in range(10, 60)]
    for width in (40, 80, 137):
        for height in (8, 24, 50):
            drawn = shown(status, width, height)
            assert len(drawn) <= max(height, 8), (width, height)
            assert max(map(len, drawn)) <= width
    assert sum("more lines" in line for line in shown(status, 200, 24)) == 1
    waits = [line for line in shown(width=60) if "destination" in line or line.startswith("  ")]
    assert any("not taken" in line for line in waits), "a long sentence is wrapped, not cut off"


def test_terminals_without_colours_or_unicode() -> None:
    assert not any("\x1b" in line for line in shown())
    assert any("\x1b[1m" in line for line in shown(style=Style(colour=True, unicode=True)))
    for line in shown(width=60, style=Style(colour=False, unicode=False)):
        assert line.isascii()


def test_names_do_nothing_to_the_terminal() -> None:
    status = copy.deepcopy(STATUS)
    evil = "\x1b]0;owned\x07\n"
    status["controller"] = status["channels"][1]["name"] = evil
    status["servers"][0]["name"] = status["servers"][0]["nics"][0]["name"] = evil
    status["endpoints"][0]["application"] = evil
    status["channels"][2]["who_waits"][1]["why"] = evil
    for one in status["channels"][1]["paths"]:
        one["by"] = one["nic"] = one["peer"] = evil
    for line in shown(status, trouble=evil):
        assert line.isprintable(), line


def test_a_standby_says_who_leads() -> None:
    status = {"controller": "a:1", "leader": False, "leader_address": "b:2", "uptime_s": 1}
    assert "this controller stands by; b:2 leads" in shown(status)
    status["leader_address"] = ""
    assert "this controller stands by; none leads at the moment" in shown(status)


def test_trouble_is_said_above_what_was_known() -> None:
    assert shown(trouble="the agent is away")[1] == "the agent is away"


def test_whose_channels_they_are_is_said_where_it_is_not_all() -> None:
    assert not any("alone" in line for line in shown())
    said = shown(STATUS | {"owner": "user 1000"})[1]
    assert said.startswith("channels of user 1000 alone")
    assert "MGI_JOB_SECRET" in said
    said = shown(STATUS | {"owner": "job 12ab"})[1]
    assert said == "channels of job 12ab alone"


def test_an_idle_cluster() -> None:
    status = STATUS | {"channels": []}
    assert "none yet" in shown(status)
    unknown = nic("bond0", 0, 0) | dict.fromkeys(
        ("out_gbps", "out_capacity_gbps", "in_gbps", "in_capacity_gbps")
    )
    server = STATUS["servers"][0] | {"nics": [unknown]}
    assert any("not in the graph" in line for line in shown(STATUS | {"servers": [server]}))
    # A controller of before these figures.
    old = {k: v for k, v in channel(1, "old", 1).items() if k in ("id", "name", "state", "gbps")}
    assert any("old (1)" in line for line in shown(STATUS | {"channels": [old | {"bytes": 1}]}))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--every", "0"], "--every is 0; expected 0.1 to 3600 seconds"),
        (["--once", "--agent", "/nowhere/agent.sock"], "/nowhere/agent.sock"),
        pytest.param(["--once", "--controller", "nowhere"], "nowhere", marks=needs_control),
        (["--controller", "a:1", "--agent", "b"], "not allowed with"),
    ],
)
def test_wrong_calls(words: list[str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["top", *words])
    except SystemExit as end:
        status = end.code
    assert status in (1, 2)
    out, err = capfd.readouterr()
    assert out == ""
    assert text in err
    assert err.startswith("mgi top: ")
