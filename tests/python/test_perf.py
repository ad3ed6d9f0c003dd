"""``mgi perf exchange`` and the command line around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import mgi
import pytest
from mgi.cli import main

SMALL = ["perf", "exchange", "--rows", "20k", "--endpoints", "3", "--repeat", "2"]

FIELDS = {
    "pattern",
    "layout",
    "endpoints",
    "rows",
    "bytes",
    "row_bytes",
    "dist",
    "fanout",
    "repeat",
    "groups",
    "threads",
    "by_reference",
    "staged",
    "gbps_median",
    "gbps_min",
    "gbps_max",
    "limit_memcpy_gbps",
    "limit_partition_gbps",
    "ratio_to_partition_limit",
    "create_ms_median",
    "pool_bytes",
    "resident_bytes",
    "verified",
}
STAGED_FIELDS = {"collective_gbps_median", "staged_cost"}


@pytest.mark.parametrize(
    "extra",
    [
        [],
        ["--by-copy"],
        ["--layout", "rows", "--row-bytes", "40"],
        ["--dist", "zipf:1.0", "--row-bytes", "8"],
        ["--dist", "zipf:0.5", "--groups", "2", "--threads", "2"],
        ["--staged", "--row-bytes", "24"],
        ["--staged", "--by-copy", "--layout", "rows", "--groups", "2", "--threads", "2"],
        ["--rows", "1"],
        ["--fanout", "2"],
        ["--fanout", "20", "--layout", "rows", "--limit-threads", "3"],
    ],
    ids=" ".join,
)
def test_every_way_is_verified(tmp_path, capsys, extra):
    file = tmp_path / "perf.json"
    assert main([*SMALL, *extra, "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert set(result) == FIELDS | (STAGED_FIELDS if "--staged" in extra else set())
    assert result["verified"] is True
    assert result["bytes"] == result["rows"] * result["row_bytes"]
    assert 0 < result["gbps_min"] <= result["gbps_median"] <= result["gbps_max"]
    assert result["limit_memcpy_gbps"] > 0
    assert result["limit_partition_gbps"] > 0
    assert result["ratio_to_partition_limit"] > 0
    fanout = int(extra[1]) if "--fanout" in extra else 3
    assert (result["endpoints"], result["fanout"], result["repeat"]) == (3, fanout, 2)
    output = capsys.readouterr().out
    assert "GB/s" in output
    assert "every run verified: yes" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--endpoints", "0"], "--endpoints: 0 is too small"),
        (["--rows", "many"], "--rows: 'many' is no whole number"),
        (["--row-bytes", "12"], "--row-bytes: 12 is no multiple of 8"),
        (["--dist", "normal"], "--dist: 'normal' is no distribution"),
        (["--dist", "zipf:0"], "--dist: 'zipf:0' is no distribution"),
        (["--dist", "zipf:x"], "--dist: 'zipf:x' is no distribution"),
        (["--layout", "diagonal"], "--layout"),
        (["--repeat", "-1"], "--repeat"),
        (["--what"], "--what"),
    ],
)
def test_wrong_arguments(capsys, arguments, message):
    with pytest.raises(SystemExit) as error:
        main([*SMALL, *arguments])
    assert error.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "1000g"], "give fewer rows"),
        (["--endpoints", "5000"], "endpoints is 5000"),
        (["--row-bytes", "8k"], "row_bytes is 8000"),
        (["--staged", "--row-bytes", "800"], "row_bytes is 800"),
        (["--json", "/no/such/folder/x.json"], "no such folder"),
    ],
)
def test_what_cannot_be_measured(capsys, arguments, message):
    assert main([*SMALL, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_ctrl_c():
    command = [sys.executable, "-m", "mgi.cli", "perf", "exchange", "--rows", "1m"]
    process = subprocess.Popen(
        [*command, "--repeat", "10000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"MGI_LOG": "off"},
    )
    try:
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    except BaseException:
        process.kill()
        process.wait()
        raise
    assert (process.returncode, errors) == (130, "mgi perf exchange: stopped by Ctrl-C\n")


def test_the_command_line(capsys):
    assert main(["--help"]) == 0
    assert "mgi perf exchange" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mgi {mgi.__version__}\n"
    assert main(["dance"]) == 2
    assert "no command 'dance'" in capsys.readouterr().err
    assert main([]) == 2
