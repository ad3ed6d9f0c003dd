"""``mgi plan``: what it prints, writes and refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import mgi
import pytest
from mgi import _mgi
from mgi.cli import main
from mgi.plan.traffic import shares

PAIR = """<system version="1">
<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
 <pci busid="0000:0a:00.0" link_speed="16 GT/s" link_width="16"><gpu sm="80">
  <nvlink target="0000:0b:00.0" count="4" tclass="0x030200"/></gpu></pci>
 <pci busid="0000:0b:00.0" link_speed="16 GT/s" link_width="16"><gpu sm="80"/></pci>
</cpu></system>
"""


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    file = tmp_path / "pair.xml"
    file.write_text(PAIR)
    return file


def plan(tmp_path: Path, *arguments: str | Path) -> dict[str, Any]:
    out = tmp_path / "out.json"
    assert main(["plan", *map(str, arguments), "--json", str(out)]) == 0
    return json.loads(out.read_text())


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["plan", *map(str, arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mgi plan: ")
    return captured.err


def wrong_call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *map(str, arguments)])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_pair_across_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(tmp_path, "--preset", "testbed3", "--from", "gpu:0", "--to", "gpu:5")
    (only,) = found["pairs"]
    assert only["gbps"] == 100
    assert [path["gbps"] for path in only["paths"]] == [25] * 4
    assert all(path["nic_direct"] for path in only["paths"])
    assert only["paths"][0]["vertices"].count("network") == 1
    made = found["predictions"]["mgi"]
    assert made["gbps"] == pytest.approx(100, rel=2e-3)
    assert len(made["busiest"]) == 8
    assert {each["name"]: each["applies"] for each in found["optimizations"]} == {
        "pipelining": True,
        "batching": True,
        "multi-path": True,
        "nic-direct": True,
    }
    (many,) = [each["why"] for each in found["optimizations"] if each["name"] == "multi-path"]
    assert many.startswith("h0/0000:02:00.0 reaches h1/0000:05:00.0 by 4 paths: 100 GB/s")
    text = capsys.readouterr().out
    assert "gpu:0 (0000:02:00.0) to gpu:5 (h1/0000:05:00.0): 4 paths, 100 GB/s" in text
    assert "predicted  gpu:0 to gpu:5: 1 GB in 10.0 ms, 100 GB/s" in text


def test_racks_of_an_nvlink_domain_each(tmp_path: Path) -> None:
    def ways(source: str, to: str) -> list[list[str]]:
        rack = ("--preset", "gb200-nvl72", "--servers", "36")
        (pair,) = plan(tmp_path, *rack, "--from", source, "--to", to)["pairs"]
        return [path["vertices"] for path in pair["paths"]]

    bus_id = "0000:01:00.0"
    assert ways("gpu:0", "gpu:4")[0] == [bus_id, "nvlink domain", f"h1/{bus_id}"]
    assert ways("gpu:72", "gpu:76")[0] == [f"h18/{bus_id}", "nvlink domain 1", f"h19/{bus_id}"]
    assert all("network" in way for way in ways("gpu:0", "gpu:76"))


def test_replaced_nics_are_direct_where_they_are_marked(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    pair = ("--preset", "testbed3", "--from", "gpu:0", "--to", "gpu:5", "--config", config)
    graph = _mgi.Topology.preset("testbed3", None)
    nics = [v for v in graph.vertices() if v["kind"] == "nic"]

    def direct(*, marked: bool) -> set[bool]:
        added = [
            {"name": f"new {i}", "kind": "nic", "parent": nic["parent"], "gbps": 50}
            | {"network_gbps": 200, "nic_direct": marked}
            for i, nic in enumerate(nics)
        ]
        config.write_text(json.dumps({"remove": [nic["name"] for nic in nics], "add": added}))
        return {path["nic_direct"] for path in plan(tmp_path, *pair)["pairs"][0]["paths"]}

    assert direct(marked=True) == {True}
    assert direct(marked=False) == {False}


def test_a_gpu_by_its_name(tmp_path: Path, pair: Path) -> None:
    found = plan(tmp_path, pair, "--from", "0000:0a:00.0", "--to", "gpu:1")
    assert found["pairs"][0]["src"] == "0000:0a:00.0"
    assert found["pairs"][0]["gbps"] == 104
    # The other way there is no NVLink.
    assert plan(tmp_path, pair, "--to", "gpu:0")["pairs"][0]["gbps"] == 24


def test_rules_take_paths_away(tmp_path: Path) -> None:
    pair = ("--preset", "testbed2", "--from", "gpu:0", "--to", "gpu:1")
    counts = [
        len(plan(tmp_path, *pair, *rules)["pairs"][0]["paths"])
        for rules in ((), ("--no-relay",), ("--no-host-relay",), ("--no-relay", "--no-host-relay"))
    ]
    assert counts == [4, 2, 3, 1]
    far = ("--preset", "testbed3", "--from", "gpu:0", "--to", "gpu:4")
    assert plan(tmp_path, *far, "--nics", "2")["pairs"][0]["gbps"] == 50


def test_patterns(tmp_path: Path) -> None:
    def gigabytes(*arguments: str) -> float:
        return plan(tmp_path, "--preset", "testbed2", *arguments)["traffic"]["gigabytes"]

    assert gigabytes() == pytest.approx(4)
    assert gigabytes("--all-to-all", "--gigabytes", "2.5") == pytest.approx(10)
    assert gigabytes("--to", "gpu:1") == pytest.approx(3)
    assert gigabytes("--from", "gpu:1") == pytest.approx(1)
    assert gigabytes("--from", "gpu:1", "--zipf", "1.5") == pytest.approx(1)
    assert gigabytes("--from", "gpu:1", "--broadcast") == pytest.approx(3)


def test_shares_follow_zipf() -> None:
    assert shares(4, 0) == [0.25] * 4
    assert shares(3, 1) == pytest.approx([6 / 11, 3 / 11, 2 / 11])


def test_any_skew_is_fine(tmp_path: Path) -> None:
    assert shares(3, 1e9) == [1, 0, 0]
    assert sum(shares(100_000, 1)) == pytest.approx(1)
    found = plan(tmp_path, "--preset", "testbed2", "--zipf", "2000")
    assert {each["dst"] for each in found["pairs"]} == {"0000:01:00.0"}


def test_a_matrix(tmp_path: Path, pair: Path) -> None:
    matrix = tmp_path / "gigabytes.csv"
    matrix.write_text("# from a line to a column\n1, 10.4\n\n0, 3\n")
    found = plan(tmp_path, pair, "--matrix", matrix, "--partition", "0")
    assert found["traffic"]["gigabytes"] == pytest.approx(14.4)
    assert [(each["src"], each["dst"]) for each in found["pairs"]] == [
        ("0000:0a:00.0", "0000:0b:00.0")
    ]
    assert found["predictions"]["mgi"]["seconds"] == pytest.approx(0.1, rel=2e-3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n", "1 lines for 2 GPUs"),
        ("1,2,3\n4,5,6\n", "gigabytes.csv:1: 3 values for 2 GPUs"),
        ("0,1\n\n2,-3\n", "gigabytes.csv:3: column 2 is '-3'; expected gigabytes, 0 or more"),
        ("0,inf\n2,3\n", "gigabytes.csv:1: column 2 is 'inf'"),
        ("0,nan\n2,3\n", "gigabytes.csv:1: column 2 is 'nan'"),
        ("0,x\n2,3\n", "gigabytes.csv:1: column 2 is 'x'"),
        ("5,0\n0,5\n", "no GPU sends anything to another"),
        ("", "0 lines for 2 GPUs"),
        ("0,1\n1,\0\n", "gigabytes.csv"),
        ("0,1\n1,0\n0,0\n", "3 lines for 2 GPUs"),
    ],
)
def test_matrices_that_are_refused(
    tmp_path: Path, pair: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    matrix = tmp_path / "gigabytes.csv"
    matrix.write_text(text)
    assert expected in refusal(capsys, pair, "--matrix", matrix)
    matrix.write_bytes(b"\xff\xfe1,2")
    assert "is no CSV" in refusal(capsys, pair, "--matrix", matrix)


def test_a_matrix_may_have_any_name(tmp_path: Path, pair: Path) -> None:
    matrix = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))
    matrix.write_text("0, 1\n0, 0\n")
    assert plan(tmp_path, pair, "--matrix", matrix)["traffic"]["title"] == "\ufffd.csv over 2 GPUs"


def test_a_matrix_that_is_not_there(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in refusal(capsys, pair, "--matrix", "nowhere.csv")


def test_what_is_refused(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no GPU 'gpu:2'; there are gpu:0 to gpu:1" in refusal(
        capsys, pair, "--from", "gpu:2"
    )
    assert "nothing is transferred" in refusal(capsys, pair, "--from", "gpu:1", "--to", "gpu:1")
    assert "there is no preset 'dgx-9'" in refusal(capsys, "--preset", "dgx-9")
    assert "no path from gpu:0 (0000:02:00.0) to gpu:8" in refusal(
        capsys, "--preset", "testbed1", "--servers", "2"
    )
    assert "--gigabytes is 0" in refusal(capsys, pair, "--gigabytes", "0")
    assert "--servers is 0" in refusal(capsys, "--preset", "testbed1", "--servers", "0")
    assert "4194304 pairs; the model takes" in refusal(
        capsys, "--preset", "hgx-h100", "--servers", "256"
    )
    assert "no path" in refusal(
        capsys, "--preset", "pcie-only", "--no-host-relay", "--from", "gpu:0", "--to", "gpu:3"
    )


def test_wrong_calls(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected a FILE, --preset NAME, or --compare" in wrong_call(capsys)
    assert "not both" in wrong_call(capsys, pair, "--preset", "testbed1")
    assert "--matrix and --from say two things" in wrong_call(
        capsys, pair, "--matrix", "x.csv", "--from", "gpu:0"
    )
    assert "--matrix and --gigabytes" in wrong_call(
        capsys, pair, "--matrix", "x.csv", "--gigabytes", "2"
    )
    assert "--all-to-all and --to" in wrong_call(capsys, pair, "--all-to-all", "--to", "gpu:0")
    assert "--broadcast goes with --from" in wrong_call(capsys, pair, "--broadcast")
    assert "--zipf goes with" in wrong_call(capsys, pair, "--zipf", "1", "--to", "gpu:0")
    assert "--servers goes with --preset" in wrong_call(capsys, pair, "--servers", "2")
    assert "--facts goes with a FILE" in wrong_call(capsys, "--preset", "dgx-1", "--facts", "f")
    assert "--from goes with a FILE or --preset" in wrong_call(
        capsys, "--compare", "--from", "gpu:0"
    )
    assert "'-1' is no number of 0 or more" in wrong_call(capsys, pair, "--partition=-1")
    assert "'two' is no whole number" in wrong_call(capsys, pair, "--nics", "two")


def test_policies_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(tmp_path, "--preset", "dgx-1", "--from", "gpu:0", "--to", "gpu:5", "--compare")
    gbps = {policy: made["gbps"] for policy, made in found["predictions"].items()}
    # All ways out of a DGX-1's GPU; PCIe and the CPUs' link; NVLinks by another GPU.
    assert gbps["mgi"] == pytest.approx(126, rel=2e-3)
    assert gbps["ucx"] == pytest.approx(6)
    assert gbps["nccl"] == pytest.approx(40)
    assert "MGI gains" in capsys.readouterr().out


def test_a_policy_without_a_path_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    native = _mgi.predict

    def no_relays(topology: _mgi.Topology, policy: str, *rest: Any) -> dict[str, Any]:
        if policy == "ucx":
            raise mgi.InvalidArgument("no path from a to b")
        return native(topology, policy, *rest)

    monkeypatch.setattr(_mgi, "predict", no_relays)
    found = plan(tmp_path, "--preset", "testbed2", "--compare")
    assert found["predictions"]["ucx"] == {"error": "no path from a to b"}
    assert "no path from a to b" in capsys.readouterr().out


def test_tables_and_drawing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawing = tmp_path / "plan.svg"
    pair = ("--preset", "testbed3", "--from", "gpu:0", "--to", "gpu:5")
    found = plan(tmp_path, *pair, "--table", "--svg", drawing)
    assert [table["server"] for table in found["tables"]] == [0, 1]
    assert "next network via pci 0000:01:00.0 > nic 0000:03:00.0" in found["tables"][0]["text"]
    assert "forwarding table of server 1" in capsys.readouterr().out
    assert drawing.read_text().startswith("<svg")
    assert "gpu:0 to gpu:5" in drawing.read_text()


def test_json_on_the_output_is_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--preset", "testbed2", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["pairs"]) == 12


def test_the_papers_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = plan(tmp_path, "--compare")["comparison"]
    figures = {row["figure"] for row in rows}
    assert figures == {
        "10a",
        "11a",
        *(f"12{c}" for c in "abcdef"),
        *(f"13{c}" for c in "abcde"),
        "19",
    }
    for row in rows:
        assert row["over_ucx"] >= 0, row
        assert row["over_nccl"] >= 0, row
    by_row = {(row["figure"], row["pattern"]): row for row in rows}
    # 4 NICs of 25 GB/s carry two thirds of 12 GB from 3 servers; one NIC needs four times as long,
    # and each GPU's GB is partitioned at 768 GB/s before.
    exchange = by_row["11a", "exchange"]
    assert exchange["gbps"]["mgi"] == pytest.approx(12 / (8 / 300), rel=2e-3)
    assert exchange["gbps"]["ucx"] == pytest.approx(12 / (8 / 75 + 1 / 768))
    assert exchange["measured_over_nccl"] == "+355 %"
    assert by_row["13e", "exchange"]["measured_over_ucx"] is None
    # The more skew, the more a plan of all paths gains over one path.
    gains = [row["over_ucx"] for row in rows if row["figure"] == "19"]
    assert gains == sorted(gains)
    text = capsys.readouterr().out
    assert "figure" in text
    assert "up to +177 %" in text


def test_partition_can_be_told(tmp_path: Path) -> None:
    def seconds(*arguments: str) -> float:
        found = plan(tmp_path, "--preset", "testbed2", "--compare", *arguments)["predictions"]
        return found["ucx"]["seconds"]

    assert seconds("--partition", "100") - seconds("--partition", "0") == pytest.approx(0.01)
