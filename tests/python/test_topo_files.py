"""Topology files from the field that gave wrong rates, or guesses without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mgi import _mgi
from mgi.topo import flows, graph, read

FILES = Path(__file__).with_name("topologies")


def read_file(name: str, **facts: Any) -> _mgi.Topology:
    return read(FILES / name, facts)


def pair(topology: _mgi.Topology) -> dict[str, Any]:
    """The flow between the first two GPUs."""
    return flows(topology)["gpu_pairs"][0]


def to_network(topology: _mgi.Topology) -> list[float]:
    return [row["out"] for row in flows(topology)["network"]]


def names(topology: _mgi.Topology, kind: str) -> list[str]:
    return [vertex["name"] for vertex in topology.vertices() if vertex["kind"] == kind]


def rates(topology: _mgi.Topology, kind: str) -> set[tuple[str, str, float]]:
    return {(e["from"], e["to"], e["gbps"]) for e in topology.edges() if e["kind"] == kind}


def warning(topology: _mgi.Topology, words: str) -> str:
    """The one with these words."""
    found = [text for text in topology.warnings if words in text]
    assert len(found) == 1, topology.warnings
    return found[0]


def test_a_merged_nic_is_those_that_it_is_made_of() -> None:
    topology = read_file("merged_nic.xml")
    assert to_network(topology) == [25, 25, 25, 25]
    assert len(names(topology, "nic")) == 4
    assert topology.servers == 2
    for line in (8, 17):
        assert "left out" in warning(topology, f'"mlx5_0+mlx5_1">, line {line}')


def test_nics_go_to_the_cpus_of_the_affinity_columns() -> None:
    topology = read_file("gb200.txt", pcie_gen=5, sm=100, nic_gbps=400, cpu="arm")
    assert names(topology, "cpu") == ["cpu0", "cpu1"]
    assert warning(topology, "at which CPU").endswith("NIC0, NIC1, NIC2, NIC3")
    up = {(e["from"], e["to"]) for e in topology.edges()}
    assert {("pix mlx5_0", "cpu0"), ("pix mlx5_2", "cpu1")} <= up


def test_logical_gpus_share_the_links_of_their_device() -> None:
    topology = read_file("hwloc_partitioned_gpus.xml")
    assert pair(topology)["no_relay"] == 163.0154


@pytest.mark.parametrize(("device", "gbps"), [("efa2", 25), ("efa3", 50)])
def test_nics_have_the_rate_of_their_model(device: str, gbps: float) -> None:
    text = (FILES / "hwloc_efa2_rate.xml").read_text().replace("efa2", device)
    text = text.replace("31.507692", "63.015385")
    topology = _mgi.Topology.parse("file", text, {})
    assert to_network(topology) == [gbps]
    assert topology.warnings == []


def test_the_rate_of_nvlinks_of_an_unknown_gpu_is_said_to_be_assumed() -> None:
    topology = read_file("nccl_nvlink_no_sm.xml")
    assert pair(topology)["maxflow"] == 408
    assert warning(topology, "no sm") == (
        "GPU 0000:01:00.0 and 1 other: no sm; 20 GB/s assumed for each NVLink (fact: sm)"
    )
    assert "(sm" not in topology.tree()
    assert read_file("nccl_nvlink_no_sm.xml", sm=90).warnings == []


def test_two_cpus_of_one_number_are_named() -> None:
    topology = read_file("nccl_duplicate_numaid.xml")
    assert names(topology, "cpu") == ["cpu0", "cpu0#2"]
    assert '<cpu numaid="0">, line 5' in warning(topology, "a second CPU of this number")


def test_a_cpu_is_a_numa_node_whoever_wrote_the_file() -> None:
    hwloc, nccl = read_file("snc_hwloc.xml"), read_file("snc_nccl.xml")
    assert names(hwloc, "cpu") == names(nccl, "cpu") == ["cpu0", "cpu1", "cpu2", "cpu3"]
    assert rates(hwloc, "cpu") == rates(nccl, "cpu")
    assert ("cpu0", "cpu1", 22) in rates(hwloc, "cpu"), "within a socket as between sockets"
    for topology, link in ((hwloc, 63.0154), (nccl, 48)):
        # Both are what the GPU's own link carries, which hwloc writes more exactly.
        assert pair(topology)["no_relay"] == link
        assert topology.warnings == []


@pytest.mark.parametrize("path", sorted(FILES.iterdir()), ids=lambda path: path.name)
def test_marks_and_line_ends_of_other_systems_change_nothing(path: Path) -> None:
    text = path.read_text()
    plain = _mgi.Topology.parse("file", text, {})
    for other in ("\ufeff" + text, text.replace("\n", "\r\n"), text.replace("\n", "\r")):
        same = _mgi.Topology.parse("file", other, {})
        assert graph(same) == graph(plain)
