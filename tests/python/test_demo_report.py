"""The demo's page: it stands alone, it is well-formed, its pictures stay legible."""

from __future__ import annotations

import dataclasses
import re

import pytest
from mgi.demo import graph_picture, heat_map, options, report, run
from mgi.demo.operations import Operation
from mgi.demo.verify import Verdict


def _graph(devices: int, switches: int = 0) -> dict:
    vertices = [
        {"id": i, "name": f"cpu:{i}", "kind": "cpu", "managed": True} for i in range(devices)
    ]
    edges = [
        {"from": i, "to": j, "gbps": 20.0 + (i == j), "kind": "memory"}
        for i in range(devices)
        for j in range(devices)
    ]
    for switch in range(switches):
        key = devices + switch
        vertices.append({"id": key, "name": f"nic:{switch}", "kind": "nic", "managed": False})
        for i in range(switch, devices, switches):
            edges.append({"from": i, "to": key, "gbps": 31.5, "kind": "pcie"})
            edges.append({"from": key, "to": i, "gbps": 25.0, "kind": "pcie"})
    return {"vertices": vertices, "edges": edges}


@pytest.mark.parametrize("switches", [0, 1, 2, 4])
@pytest.mark.parametrize("devices", range(1, 17))
def test_graph_boxes_and_labels_do_not_overlap(devices, switches):
    graph = _graph(devices, switches)
    endpoints = [run.Endpoint(i, f"cpu:{i % devices}") for i in range(16)]
    drawn = graph_picture.graph_picture(graph, endpoints)
    rooms = []
    for attributes in re.findall(r'<rect ([^>]*class="(?:vertex|plate)[^>]*)/>', drawn):
        found = dict(re.findall(r'(\w+)="([\d.-]+)"', attributes))
        if "y" in found and float(found["width"]) > 20:
            x, y, width, height = (float(found[k]) for k in ("x", "y", "width", "height"))
            rooms.append((x + 0.2, y + 0.2, x + width - 0.2, y + height - 0.2))
    assert len(rooms) >= devices + switches
    width, height = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn).groups())
    for i, a in enumerate(rooms):
        assert a[0] >= 0
        assert a[1] >= 0
        assert a[2] <= width
        assert a[3] <= height
        for b in rooms[i + 1 :]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])
    for endpoint in endpoints:
        assert re.search(rf'mark-text"[^>]*>{endpoint.id}<', drawn)


def _channel(sources: int, destinations: int) -> dict:
    lanes = [
        {
            "source": s,
            "destination": d,
            "rows": 10 * s + d,
            "bytes": 1000 * (10 * s + d),
            "segments": 2,
            "waits": 0,
        }
        for s in range(sources)
        for d in range(destinations)
    ]
    total = sum(lane["bytes"] for lane in lanes)
    return {
        "name": "rows of <lineitem>",
        "rows": total // 1000,
        "bytes": total,
        "segments": len(lanes) * 2,
        "lanes": lanes,
        "queues": [],
        "memory_bytes": 1 << 20,
    }


@pytest.mark.parametrize(("sources", "destinations"), [(1, 1), (4, 4), (16, 16), (2, 5), (40, 40)])
def test_heat_map_has_every_lane(sources, destinations):
    drawn = heat_map.heat_map(_channel(sources, destinations))
    assert drawn.count('class="heat"') == sources * destinations
    for tint in re.findall(r"fill-opacity:([\d.]+)", drawn):
        assert 0 < float(tint) <= 0.5
    assert "nan" not in drawn


def _report(outcome_ok: bool = True) -> run.Report:
    operation = Operation(
        name="Exchange",
        says="Rows & keys <move>.",
        inputs={},
        call=lambda *_: [],
        queries=[],
        compared_with="one scan",
        compared_sql="SELECT a < b",
        truth="",
        keys=["k"],
    )
    differences = [] if outcome_ok else ["column s: '<script>'"]
    entries = [{"destination": 0, "next": 0, "path": [], "gbps": 20.0}]
    plan = {
        "segment_bytes": 65536,
        "segment_rows": 512,
        "slots": 4,
        "transfer": "by reference",
        "lanes": 16,
        "tables": [{"vertex": 0, "entries": entries}],
    }
    outcome = run.Outcome(
        operation,
        1000,
        10**8,
        [0.1, 0.2, 0.15],
        [0.3, 0.3, 0.4],
        {"channels": [_channel(4, 4)], "plans": [plan]},
        1000,
        Verdict(outcome_ok, 1000, 4, differences),
    )
    return run.Report(
        options.parse(["--sf", "0.1"]),
        [outcome],
        [run.Endpoint(i, "cpu:0") for i in range(4)],
        _graph(1),
        [("Processor", "a & b")],
        12.3,
    )


def test_page_stands_alone_and_is_escaped():
    page = report.page(_report())
    assert "<script" not in page
    assert not re.search(r"https?://|\ssrc=|\shref=|@import|url\(", page)
    assert "Rows &amp; keys &lt;move&gt;." in page
    assert "&lt;lineitem&gt;" in page
    assert "by reference" in page
    assert "Forwarding tables, 1 entry" in page
    assert "inside the device" in page
    assert "equal DuckDB" in page
    _assert_balanced(page)


def test_page_shows_what_differs():
    page = report.page(_report(outcome_ok=False))
    assert "Differs from DuckDB: Exchange" in page
    assert "&lt;script&gt;" in page
    assert "equal DuckDB" not in page
    _assert_balanced(page)


def test_page_copes_with_missing_stats():
    bare = _report()
    outcome = dataclasses.replace(bare.outcomes[0], stats={})
    page = report.page(dataclasses.replace(bare, outcomes=[outcome]))
    _assert_balanced(page)


def _assert_balanced(page: str) -> None:
    open_tags = []
    for closing, name, rest in re.findall(r"<(/?)([a-z][a-z0-9]*)([^>]*)>", page):
        if name in ("meta", "br") or rest.endswith("/"):
            continue
        if not closing:
            open_tags.append(name)
        else:
            assert open_tags.pop() == name
    assert open_tags == []
