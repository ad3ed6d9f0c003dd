"""The planner over named systems: paths, tables, optimizations; and ``mgi perf plan``."""

from __future__ import annotations

import json

import mgi
import pytest
from mgi import _mgi
from mgi.cli import main


def over(name: str, servers: int | None = None) -> tuple[_mgi.Planner, list[dict], list[int]]:
    topology = _mgi.Topology.preset(name, servers)
    vertices = topology.vertices()
    gpus = [v for v, vertex in enumerate(vertices) if vertex["kind"] == "gpu"]
    return _mgi.Planner.over(topology), vertices, gpus


def test_paths_and_tables_of_two_servers() -> None:
    planner, vertices, gpus = over("hgx-h100", 2)
    assert planner.servers == 2
    assert planner.shapes == 1
    paths = planner.paths(gpus[0], gpus[-1], {})
    assert [len(path["vertices"]) for path in paths] == sorted(
        len(path["vertices"]) for path in paths
    )
    for path in paths:
        assert path["vertices"][0] == gpus[0]
        assert path["vertices"][-1] == gpus[-1]
        assert any(vertices[v]["kind"] == "network" for v in path["vertices"])
    one_nic = planner.paths(gpus[0], gpus[-1], {"max_nics": 1})
    assert sum(p["gbps"] for p in one_nic) < sum(p["gbps"] for p in paths)
    plan = planner.plan(gpus, gpus, {})
    assert len(plan["servers"]) == 2
    assert plan["servers"][0]["bytes"] == plan["servers"][1]["bytes"]
    table = plan["servers"][1]["table"]
    assert {vertices[v["vertex"]]["kind"] for v in table["vertices"]} <= {"cpu", "gpu"}
    assert {a["destination"] for a in table["arrivals"]} == set(gpus[8:])
    assert "other servers, by the network" in plan["servers"][0]["text"]


def test_servers_of_one_nvlink_domain_use_it() -> None:
    planner, vertices, gpus = over("gb200-nvl72")
    paths = planner.paths(gpus[0], gpus[-1], {})
    assert [vertices[v]["kind"] for v in paths[0]["vertices"]] == ["gpu", "switch", "gpu"]
    plan = planner.plan(gpus, gpus, {})
    assert "by the nvlink domain" in plan["servers"][0]["text"]
    assert len({server["bytes"] for server in plan["servers"]}) == 1


def test_optimizations_say_why() -> None:
    planner, _, gpus = over("hgx-h100", 2)
    found = {o["name"]: o for o in planner.optimizations(gpus, gpus, {})}
    assert [o["number"] for o in found.values()] == [1, 2, 3, 4]
    assert all(o["applies"] and o["why"] for o in found.values())
    one, _, gpus = over("hgx-h100", 1)
    found = {o["name"]: o for o in one.optimizations(gpus, gpus, {})}
    assert not found["nic-direct"]["applies"]


def test_what_cannot_be_is_refused() -> None:
    planner, vertices, gpus = over("hgx-h100", 2)
    network = next(v for v, vertex in enumerate(vertices) if vertex["kind"] == "network")
    nic = next(v for v, vertex in enumerate(vertices) if vertex["kind"] == "nic")
    for place in (network, nic, 9999):
        with pytest.raises(mgi.InvalidArgument, match="vertex|endpoint"):
            planner.paths(gpus[0], place, {})
    with pytest.raises(mgi.InvalidArgument, match="without a source"):
        planner.plan([], gpus, {})
    with pytest.raises(mgi.InvalidArgument, match="max_nics"):
        planner.plan(gpus, gpus, {"max_nics": -1})


@pytest.mark.parametrize(("gpus", "shapes", "found"), [(20, 1, 1), (40, 2, 2), (24, 0, 3)])
def test_perf_plan_writes_its_figures(tmp_path, capsys, gpus, shapes, found) -> None:
    out = tmp_path / "plan.json"
    argv = ["perf", "plan", "--gpus", str(gpus), "--shapes", str(shapes), "--repeat", "2"]
    assert main([*argv, "--per-server", "8", "--json", str(out)]) == 0
    assert "pairs verified: " in capsys.readouterr().out
    written = json.loads(out.read_text())
    assert set(written) == {
        "gpus",
        "shapes",
        "create_ms_median",
        "create_ms_warm_median",
        "create_ms_baseline_ek",
        "table_bytes",
        "sampled_pairs_verified",
        "speedup",
        "repeat",
    }
    assert written["shapes"] == found
    assert written["sampled_pairs_verified"] > 0
    assert written["create_ms_median"] > 0


@pytest.mark.parametrize("name", [name for name, _ in _mgi.presets()])
def test_paths_of_named_systems_sum_up_to_their_flows(name) -> None:
    topology = _mgi.Topology.preset(name, 1)
    planner = _mgi.Planner.over(topology)
    number = {vertex["name"]: v for v, vertex in enumerate(topology.vertices())}
    flows = topology.flows(0)
    gpus = [number[gpu] for gpu in flows.gpus]
    for i, source in enumerate(gpus):
        for j, (relayed, direct) in enumerate(flows.pairs(i)):
            for rules, most in (({}, relayed), ({"relay_gpus": False}, direct)):
                paths = planner.paths(source, gpus[j], rules)
                assert sum(path["gbps"] for path in paths) == pytest.approx(most)


#: The paper's Table 2.
OPTIMIZATIONS = {
    "pcie-only": [1, 2],
    "pcie-nvlink": [1, 2, 3],
    "pcie-numa": [1, 2],
    "pcie-nvlink-numa": [1, 2, 3],
    "nvlink-numa": [1, 2, 3],
    "hybrid-cube-mesh": [1, 2, 3],
    "nvswitch": [1, 2, 3],
    "multi-ethernet": [1, 2],
    "multi-rdma": [1, 2, 4],
    "multi-nvswitch-rdma": [1, 2, 3, 4],
}


@pytest.mark.parametrize("name", OPTIMIZATIONS)
def test_optimizations_are_those_of_the_paper(name) -> None:
    planner, _, gpus = over(name)
    found = planner.optimizations(gpus, gpus, {})
    assert [o["number"] for o in found if o["applies"]] == OPTIMIZATIONS[name]
