"""``mgi topo``: files of others, systems by name, and the maximum flows over them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import mgi
import pytest
from mgi import _mgi
from mgi.cli import main

SHARED = Path(__file__).resolve().parents[3] / "shared" / "topologies"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"{SHARED} is not there: real machines' files and their flows"
)
FOLDERS = ("nccl_xml", "hwloc_xml", "nvidia_smi_topo", "classes")

PAIR = """<system version="1">
<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
 <pci busid="0000:0A:00.0" link_speed="16 GT/s" link_width="16"><gpu sm="80">
  <nvlink target="0000:0b:00.0" count="4" tclass="0x030200"/></gpu></pci>
 <pci busid="0000:0b:00.0" link_speed="16 GT/s" link_width="16"><gpu sm="80"/></pci>
 <pci busid="0000:0c:00.0" link_speed="8 GT/s" link_width="16">
  <nic><net name="mlx5_0" speed="200000"/></nic></pci>
</cpu></system>
"""


def expectations() -> list[Any]:
    found = sorted((SHARED / "expected").glob("*.json")) if SHARED.is_dir() else []
    return [pytest.param(path, id=path.stem) for path in found]


def refused() -> list[Any]:
    found = sorted((SHARED / "malformed").iterdir()) if SHARED.is_dir() else []
    return [pytest.param(path, id=path.name) for path in found]


def run(tmp_path: Path, *arguments: str | Path) -> dict[str, Any]:
    out = tmp_path / "out.json"
    assert main(["topo", *map(str, arguments), "--json", str(out)]) == 0
    return json.loads(out.read_text())


@needs_shared
@pytest.mark.parametrize("path", expectations())
def test_a_real_machines_flows_are_exact(path: Path, tmp_path: Path) -> None:
    expected = json.loads(path.read_text())
    file = next(f for folder in FOLDERS if (f := SHARED / folder / expected["file"]).exists())
    arguments: list[str | Path] = [file, "--flows"]
    if facts := expected["meta"].get("sidecar"):
        (tmp_path / "facts.json").write_text(json.dumps(facts))
        arguments += ["--facts", tmp_path / "facts.json"]
    got = run(tmp_path, *arguments)

    names = {}
    for gpu in expected["gpus"]:
        name = gpu.get("busid") or gpu["id"].split("/")[1]
        names[gpu["id"]] = name if gpu["host"] == "h0" else f"{gpu['host']}/{name}"
    assert list(got) == ["gpu_pairs", "network", "warnings"]
    assert {(p["src"], p["dst"]): p for p in got["gpu_pairs"]} == {
        (names[p["src"]], names[p["dst"]]): {
            "src": names[p["src"]],
            "dst": names[p["dst"]],
            "maxflow": p["maxflow"],
            "no_relay": p["no_relay"],
        }
        for p in expected["gpu_pairs"]
    }
    keys = ("out", "in", "out_no_relay", "in_no_relay")
    assert {n["gpu"]: [n[key] for key in keys] for n in got["network"]} == {
        names[n["gpu"]]: [n[key] for key in keys] for n in expected["network"]
    }
    assert len(got["gpu_pairs"]) == len(expected["gpu_pairs"])
    assert len(got["network"]) == len(expected["network"])


@needs_shared
@pytest.mark.parametrize("path", refused())
def test_a_malformed_file_is_refused_by_name(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", str(path), "--flows"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"mgi topo: {path}")
    assert len(output.err) > len(f"mgi topo: {path}: ") + 20


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    path = tmp_path / "pair.xml"
    path.write_text(PAIR)
    return path


def test_flows_are_the_documented_json(pair: Path, tmp_path: Path) -> None:
    a, b = "0000:0a:00.0", "0000:0b:00.0"
    ways = {"out": 12.0, "in": 12.0, "out_no_relay": 12.0, "in_no_relay": 12.0}
    assert run(tmp_path, pair, "--flows") == {
        "gpu_pairs": [
            {"src": a, "dst": b, "maxflow": 104.0, "no_relay": 104.0},
            {"src": b, "dst": a, "maxflow": 24.0, "no_relay": 24.0},
        ],
        "network": [{"gpu": a, **ways}, {"gpu": b, **ways}],
        "warnings": [],
    }


def test_the_graph_is_a_tree_and_json(
    pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = run(tmp_path, pair)
    assert "gpu 0000:0a:00.0 (sm 80)  24  -> 0000:0b:00.0 80" in capsys.readouterr().out
    assert graph["format"] == "nccl"
    assert {v["kind"] for v in graph["vertices"]} == {"cpu", "gpu", "nic", "network"}
    edge = {"from": "nic 0000:0c:00.0", "to": "network", "gbps": 25.0, "kind": "network"}
    assert edge in graph["edges"]


def test_json_may_go_to_the_output(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", str(pair), "--flows", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["gpu_pairs"]) == 2
    assert main(["topo", str(pair), "--flows"]) == 0
    assert "no relay" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("{", "is no JSON"),
        ('{"sm": ' + "9" * 5000 + "}", "is no JSON: Exceeds the limit"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "is no JSON object"),
        ('{"gpu": 90}', "there is no fact 'gpu'; there are: sm"),
        ('{"sm": "ninety"}', 'facts.json: sm is "ninety"; expected compute capability'),
        ('{"sm": true}', "sm is true"),
        ('{"sm": 80.5}', "sm is 80.5"),
        ('{"sm": -1}', "sm is -1; expected 1 to 999"),
        ('{"pcie_gen": 7}', "pcie_gen is 7; expected 1 to 6"),
        ('{"nic_gbps": 0}', "nic_gbps"),
        ('{"nic_gbps": {"mlx5_0": NaN}}', "nic_gbps of mlx5_0"),
        ('{"nic_gbps": {"mlx5_0": "fast"}}', 'facts.json: nic_gbps of mlx5_0 is "fast"'),
        ('{"cpu": "pentium"}', "there is no cpu 'pentium'"),
    ],
)
def test_facts_that_cannot_be_are_refused(
    facts: str, words: str, pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.json"
    path.write_text(facts)
    assert main(["topo", str(pair), "--facts", str(path)]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["topo", "plan"])
def test_names_that_are_no_utf8_are_refused(
    command: str, pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.xml")
    Path(name).write_text(pair.read_text())
    for arguments in ([name], ["--preset", name], [str(pair), "--config", name]):
        assert main([command, *arguments]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"mgi {command}: ")
        assert "a\\udcff.xml' is no UTF-8" in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["topo", "plan"])
@pytest.mark.parametrize("output", ["pipe", "full"])
def test_an_output_that_ends(command: str, output: str) -> None:
    arguments = [sys.executable, "-m", "mgi.cli", command, "--preset", "dgx-1"]
    if output == "pipe":
        end, out = os.pipe()
        os.close(end)
    else:
        out = os.open("/dev/full", os.O_WRONLY)
    ended = subprocess.run(
        arguments, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=300
    )
    os.close(out)
    assert ended.returncode == 1
    full = f"mgi {command}: the output: No space left on device\n"
    assert ended.stderr == ("" if output == "pipe" else full)


def test_files_that_are_not_there_are_named(
    pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "nowhere"
    for arguments in ([nowhere], [pair, "--facts", nowhere], [pair, "--json", nowhere / "out"]):
        assert main(["topo", *map(str, arguments)]) == 1
        error = capsys.readouterr().err
        assert str(nowhere) in error
        assert "No such file" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["a.xml", "--preset", "dgx-1"],
        ["a.xml", "--servers", "2"],
        ["--preset", "dgx-1", "--facts", "f"],
    ],
)
def test_a_wrong_call_is_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["topo", *arguments])


CLASSES = {
    "pcie-only": "a",
    "pcie-nvlink": "b",
    "pcie-numa": "c",
    "pcie-nvlink-numa": "d",
    "nvlink-numa": "e",
    "hybrid-cube-mesh": "f",
    "nvswitch": "g",
    "multi-ethernet": "h",
    "multi-rdma": "i",
    "multi-nvswitch-rdma": "j",
    "dgx-1": "f",
    "gb200-nvl72": "k",
}


@needs_shared
@pytest.mark.parametrize("name", CLASSES)
def test_a_preset_has_the_flows_of_its_class(name: str, tmp_path: Path) -> None:
    path = next((SHARED / "classes").glob(f"{CLASSES[name]}_*.xml"))
    theirs = run(tmp_path, path, "--flows")
    arguments = ["--servers", "2"] if name == "gb200-nvl72" else []
    assert run(tmp_path, "--preset", name, *arguments, "--flows") == theirs


@needs_shared
@pytest.mark.parametrize("name", CLASSES)
def test_a_preset_is_the_graph_of_its_class(name: str, tmp_path: Path) -> None:
    theirs = run(tmp_path, next((SHARED / "classes").glob(f"{CLASSES[name]}_*.xml")))
    arguments = ["--servers", "2"] if name == "gb200-nvl72" else []
    ours = run(tmp_path, "--preset", name, *arguments)

    def shape(graph: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        keys = ("name", "kind", "server", "parent", "nic_direct")
        vertices = [tuple(str(v.get(key)) for key in keys) for v in graph["vertices"]]
        edges = [tuple(str(value) for value in edge.values()) for edge in graph["edges"]]
        return sorted(vertices), sorted(edges)

    assert shape(ours) == shape(theirs)


@pytest.mark.parametrize("name", [name for name, _ in _mgi.presets()])
def test_servers_of_a_preset_are_alike(name: str, tmp_path: Path) -> None:
    found = run(tmp_path, "--preset", name, "--servers", "3", "--flows")
    gpus = [row["gpu"] for row in found["network"]]
    assert len(gpus) % 3 == 0
    by_server = [gpus[i * len(gpus) // 3 : (i + 1) * len(gpus) // 3] for i in range(3)]
    assert by_server[1] == [f"h1/{gpu}" for gpu in by_server[0]]
    assert by_server[2] == [f"h2/{gpu}" for gpu in by_server[0]]
    assert all(pair["maxflow"] >= pair["no_relay"] > 0 for pair in found["gpu_pairs"])
    assert found["warnings"] == []


def test_an_nvlink_domain_has_18_servers(tmp_path: Path) -> None:
    graph = run(tmp_path, "--preset", "gb200-nvl72", "--servers", "19")
    domains = [v["name"] for v in graph["vertices"] if v["name"].startswith("nvlink domain")]
    assert domains == ["nvlink domain", "nvlink domain 1"]
    joined = {e["from"] for e in graph["edges"] if e["to"] == "nvlink domain 1"}
    assert joined == {f"h18/0000:0{bus}:00.0" for bus in (1, 3, 5, 7)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--preset", "dgx-9"], "there is no preset 'dgx-9'; there are: pcie-only, pcie-nvlink"),
        (["--preset", "dgx-1", "--servers", "0"], "--servers is 0; expected 1 or more"),
        (["--preset", "dgx-1", "--servers", "-1"], "--servers is -1"),
        (["--preset", "dgx-1", "--servers", "99999"], "99999 servers of dgx-1; expected 1 to"),
        (["--preset", "dgx-1", "--servers", str(2**40)], "--servers is 1099511627776"),
    ],
)
def test_presets_that_cannot_be_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", *arguments]) == 1
    assert words in capsys.readouterr().err


def test_this_machine_has_a_graph(tmp_path: Path) -> None:
    graph = run(tmp_path)
    assert graph["format"] == "machine"
    assert any(vertex["kind"] == "cpu" for vertex in graph["vertices"])


def test_a_config_file_corrects_any_graph(tmp_path: Path, pair: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "facts": {"cpu": "amd"},
                "add": [{"name": "gpu9", "kind": "gpu", "parent": "cpu0", "gbps": 24}],
                "links": [{"from": "gpu9", "to": "cpu0", "gbps": 7}],
                "gpus": ["gpu9"],
            }
        )
    )
    for arguments in ([], [pair], ["--preset", "dgx-1"]):
        graph = run(tmp_path, *arguments, "--config", config)
        assert [v["name"] for v in graph["vertices"] if v["kind"] == "gpu"] == ["gpu9"]
        assert {e["gbps"] for e in graph["edges"] if e["from"] == "gpu9"} == {7.0}


def test_facts_of_a_config_file_are_behind_those_given(tmp_path: Path, pair: Path) -> None:
    text = pair.read_text().replace('speed="200000"', "")
    assert text != pair.read_text()
    file, config, facts = (tmp_path / name for name in ("nic.xml", "config.json", "facts.json"))
    file.write_text(text)
    config.write_text('{"facts": {"nic_gbps": 80}}')
    facts.write_text('{"nic_gbps": 160}')

    def to_network(*arguments: str | Path) -> set[float]:
        return {e["gbps"] for e in run(tmp_path, file, *arguments)["edges"] if e["to"] == "network"}

    assert to_network() == {1.25}
    assert to_network("--config", config) == {10}
    assert to_network("--config", config, "--facts", facts) == {20}


def test_a_config_file_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"links": [{"from": "cpu0", "to": "gpu7", "gbps": 1}]}')
    for arguments in ([], ["--preset", "dgx-1"]):
        assert main(["topo", *arguments, "--config", str(config)]) == 1
        assert f'{config}: links[0].to is "gpu7", and the graph' in capsys.readouterr().err
    assert main(["topo", "--config", str(tmp_path / "nowhere")]) == 1
    assert "cannot be opened" in capsys.readouterr().err


def random_arcs(dice: random.Random, vertices: int) -> list[tuple[int, int, int]]:
    count = dice.randrange(5 * vertices)
    return [
        (dice.randrange(vertices), dice.randrange(vertices), dice.randrange(1000))
        for _ in range(count)
    ]


def test_flows_of_random_graphs_agree_with_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    dice = random.Random(int(os.environ.get("MGI_TEST_SEED", "0")))
    for _ in range(int(os.environ.get("MGI_TEST_GRAPHS", "300"))):
        vertices = dice.randrange(2, 40)
        arcs = random_arcs(dice, vertices)
        theirs = networkx.DiGraph()
        theirs.add_nodes_from(range(vertices))
        for source, sink, capacity in arcs:
            there = theirs.get_edge_data(source, sink, {"capacity": 0})["capacity"]
            theirs.add_edge(source, sink, capacity=there + capacity)
        value, paths = _mgi.max_flow(vertices, arcs, 0, vertices - 1)
        assert value == networkx.maximum_flow_value(theirs, 0, vertices - 1), arcs
        assert value == sum(capacity for _, capacity in paths)
        for path, capacity in paths:
            assert capacity > 0
            assert len(set(path)) == len(path)
            assert (path[0], path[-1]) == (0, vertices - 1)


def test_a_graph_that_cannot_be_is_refused() -> None:
    for arcs in ([(0, 2, 1)], [(0, 1, -1)]):
        with pytest.raises(mgi.InvalidArgument):
            _mgi.max_flow(2, arcs, 0, 1)
