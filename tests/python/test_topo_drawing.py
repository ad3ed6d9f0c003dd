"""Drawings of infrastructure graphs: well-formed, nothing over anything, large ones legible."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from mgi import _mgi, topo
from mgi.cli import main
from mgi.topo_layout import Layout
from mgi.topo_svg import draw

SVG = "{http://www.w3.org/2000/svg}"
PRESETS = [name for name, _ in _mgi.presets()]


def preset(name: str, servers: int | None = None) -> dict[str, Any]:
    return topo.graph(topo.preset(name, servers))


def classes(svg: str, tag: str) -> list[str]:
    return [e.get("class", "") for e in ElementTree.fromstring(svg).iter(SVG + tag)]


@pytest.mark.parametrize("name", PRESETS)
def test_boxes_are_on_the_paper_and_over_nothing(name: str) -> None:
    layout = Layout(preset(name))
    boxes = list(layout.all_boxes())
    for box in boxes:
        assert box.x - box.width / 2 >= 0
        assert box.x + box.width / 2 <= layout.width
        assert box.top >= 0
        assert box.bottom <= layout.height
    for a, b in itertools.combinations(boxes, 2):
        apart_x = abs(a.x - b.x) >= (a.width + b.width) / 2
        apart_y = abs(a.y - b.y) >= (a.height + b.height) / 2
        assert apart_x or apart_y, (a.name, b.name)


@pytest.mark.parametrize("name", PRESETS)
def test_every_link_is_drawn_with_its_rate(name: str) -> None:
    graph = preset(name, 1)
    svg = draw(graph)
    drawn = [c for c in classes(svg, "path") if c.startswith("line ")]
    key = 4
    pairs = {frozenset((e["from"], e["to"])) for e in graph["edges"]}
    layout = Layout(graph)
    merged = sum(layout.is_merged(v["name"]) for v in graph["vertices"])
    assert len(drawn) - key >= len(pairs) - 2 * merged
    assert len(drawn) - key <= len(pairs)
    rates = {t.text for t in ElementTree.fromstring(svg).iter(SVG + "text")}
    for edge in graph["edges"]:
        rate = f"{edge['gbps']:.4g}"
        assert rate in rates or any(str(r).endswith(f" x {rate}") for r in rates), edge


def test_of_many_servers_one_of_each_shape_is_drawn() -> None:
    svg = draw(preset("hgx-h100", 100))
    assert "one of 100 servers alike" in svg
    assert classes(svg, "rect").count("panel") == 1
    assert len(svg) < 60_000
    rack = draw(preset("gb200-nvl72", 36))
    assert "one of 36 servers alike" in rack


def test_servers_that_a_path_meets_are_drawn() -> None:
    path = {
        "vertices": [
            *("h3/0000:02:00.0", "h3/pci 0000:01:00.0", "h3/nic 0000:03:00.0", "network"),
            *("h7/nic 0000:03:00.0", "h7/pci 0000:01:00.0", "h7/0000:02:00.0"),
        ],
        "gbps": 50,
    }
    svg = draw(preset("hgx-h100", 100), [path])
    assert "server 3<" in svg
    assert "server 7<" in svg
    assert "one of 98 servers alike" in svg
    # A line for each step, and one in the key.
    assert classes(svg, "path").count("path") == 6 + 1
    assert "50 GB/s: GPU 24 → " in svg


def test_ports_and_equal_nics_have_no_box_of_their_own() -> None:
    def port(name: str, device: str) -> str:
        return (
            f'<pci busid="0000:{name}:00.0" class="0x060400" link_width="8">'
            f'<pci busid="0000:{device}:00.0" class="0x020000" link_width="16">'
            f'<nic><net name="n{name}" speed="100000" gdr="1"/></nic></pci></pci>'
        )

    nics = "".join(port(f"1{i}", f"2{i}") for i in range(5))
    text = f'<system version="1"><cpu numaid="0" arch="arm64">{nics}</cpu></system>'
    graph = topo.graph(_mgi.Topology.parse("nics", text, {}))
    svg = draw(graph)
    assert "5 NICs, direct" in svg
    assert "5 x 6<" in svg, "the narrowest of a chain"
    assert "5 x 12.5<" in svg
    assert "PCIe switch" not in svg


def test_text_from_files_is_escaped() -> None:
    graph: dict[str, Any] = {
        "servers": 1,
        "warnings": [],
        "vertices": [
            {"name": "<script>&", "kind": "cpu", "server": 0, "parent": None, "note": '"<b>"'},
            {"name": "gpu<0>", "kind": "gpu", "server": 0, "parent": "<script>&", "note": ""},
        ],
        "edges": [{"from": "gpu<0>", "to": "<script>&", "gbps": 1.0, "kind": "<i>"}],
    }
    svg = draw(graph, [{"vertices": ["gpu<0>", "<script>&"], "gbps": 1}], "<title>")
    assert "<script>" not in svg
    ElementTree.fromstring(svg)


def test_the_command_writes_a_drawing_and_a_page(tmp_path: Path) -> None:
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    arguments = ["--preset", "multi-rdma", "--svg", str(svg), "--html", str(html)]
    assert main(["topo", *arguments]) == 0
    ElementTree.parse(svg)
    page = html.read_text()
    assert page.count("<svg") == 1
    assert page.count("<table>") == 3
    assert re.search(r"<td>h1/0000:02:00.0</td><td>h1/0000:03:00.0</td>", page)
    assert "2 servers, 8 GPUs, 4 NICs" in page
    assert main(["topo", "--preset", "dgx-1", "--html", str(html)]) == 0
    assert "1 server, 8 GPUs, 4 NICs" in html.read_text()


def test_a_page_of_a_cluster_has_the_flows_of_what_is_drawn(tmp_path: Path) -> None:
    html = tmp_path / "a.html"
    assert main(["topo", "--preset", "dgx-a100", "--servers", "50", "--html", str(html)]) == 0
    page = html.read_text()
    assert "h49/" not in page
    assert page.count("<tr>") == 3 + 8 + 56 + len(preset("dgx-a100")["edges"])


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "nowhere" / "a.svg"
    assert main(["topo", "--preset", "dgx-1", "--svg", str(nowhere)]) == 1
    assert str(nowhere) in capsys.readouterr().err
