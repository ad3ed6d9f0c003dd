"""``mgi perf exchange --processes``: MGI between processes, beside the limit and its peers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from marks import marked, new_mark
from mgi.cli import main
from mgi.control import PROGRAM
from mgi.errors import Refused
from mgi.perf import processes
from mgi.perf.peer_programs import peers_of
from processes import BUILD, PATIENCE, wait_for

pytestmark = pytest.mark.skipif(
    not os.access(PROGRAM, os.X_OK), reason="this package was built without the control plane"
)

SMALL = ["perf", "exchange", "--rows", "20k", "--repeat", "2"]
FIELDS = {
    "pattern",
    "shape",
    "processes",
    "layout",
    "endpoints",
    "rows",
    "bytes",
    "row_bytes",
    "dist",
    "repeat",
    "groups",
    "threads",
    "by_reference",
    "gbps_median",
    "gbps_min",
    "gbps_max",
    "gbps_one_process",
    "ratio_to_one_process",
    "limit_processes_gbps",
    "ratio_to_processes_limit",
    "peers",
    "best_peer",
    "ratio_to_best_peer",
    "verified",
}


@pytest.mark.parametrize(
    ("shape", "extra"),
    [
        ("exchange", ["--processes", "3"]),
        ("exchange", ["--processes", "2", "--by-copy", "--layout", "rows", "--row-bytes", "40"]),
        ("many-to-one", ["--processes", "2", "--dist", "zipf:1.0"]),
        ("one-to-many", ["--processes", "2", "--groups", "2"]),
        ("one-to-one", ["--processes", "2"]),
        ("broadcast", ["--processes", "2"]),
    ],
)
def test_every_shape_is_verified(
    shape: str, extra: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "perf.json"
    assert main([*SMALL, "--shape", shape, *extra, "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert set(result) == FIELDS
    assert result["verified"] is True
    copies = result["processes"] if shape == "broadcast" else 1
    assert result["bytes"] == result["rows"] * result["row_bytes"] * copies
    assert 0 < result["gbps_min"] <= result["gbps_median"] <= result["gbps_max"]
    assert result["ratio_to_one_process"] > 0
    assert (result["ratio_to_processes_limit"] is None) == (shape == "broadcast")
    assert (result["peers"], result["best_peer"], result["ratio_to_best_peer"]) == ([], None, None)
    output = capsys.readouterr().out
    assert processes.OURS in output
    assert "every run verified: yes" in output


def test_peers_take_their_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGI_PEERS", str(BUILD))
    built = []
    for library in ("mpi", "ucx", "gloo"):
        peer = peers_of(library, "exchange")
        assert peer is not None
        try:
            peer.command(2)
            built.append(library)
        except Refused as error:
            why = str(error)
    if not built:
        pytest.skip(why)
    file = tmp_path / "perf.json"
    words = ["--processes", "2", "--peers", ",".join(built), "--json", str(file)]
    assert main([*SMALL, *words]) == 0
    result = json.loads(file.read_text())
    assert result["verified"] is True
    names = [peer["name"] for peer in result["peers"]]
    assert len(names) == len(built) + ("mpi" in built)
    assert result["best_peer"] in names
    ratios = {peer["name"]: peer["ratio"] for peer in result["peers"]}
    assert result["ratio_to_best_peer"] == ratios[result["best_peer"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--processes", "1"], "--processes is 1; expected 2 to 256"),
        (["--processes", "3", "--shape", "one-to-one"], "one-to-one is between 2 processes"),
        (["--processes", "2", "--staged"], "--staged is not for --processes"),
        (["--processes", "2", "--rows", "1000g"], "give fewer --rows"),
        (["--shape", "broadcast"], "give --processes N"),
        (["--peers", "mpi"], "give --processes N"),
    ],
)
def test_what_cannot_be_measured(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_library_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*SMALL, "--processes", "2", "--peers", "nccl"])
    assert "there is no peer 'nccl'; give some of mpi, ucx, gloo" in capsys.readouterr().err


def test_ctrl_c_leaves_nothing() -> None:
    mark = new_mark()
    words = [*SMALL, "--processes", "2", "--rows", "200k", "--repeat", "100000"]
    started = subprocess.Popen(
        [sys.executable, "-m", "mgi.cli", *words],
        env=os.environ | mark,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell's background jobs are started with it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        # Two of MGI's, one alone, two of the limit's, and the mgi run of each of the three.
        wait_for(
            "all processes",
            lambda: sum("member" in said for said in marked(mark).values()) == 2 + 1 + 2 + 3,
        )
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=PATIENCE)
        assert (started.returncode, errors) == (130, b"mgi perf exchange: stopped by Ctrl-C\n")
        wait_for("the end of all processes", lambda: not marked(mark))
    finally:
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started.communicate()
