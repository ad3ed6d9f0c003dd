"""Commands whose standard streams are closed, full or broken, and whose folders are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mgi import warden

MGI = f"{sys.executable} -m mgi.cli"
RUN = f"{MGI} run --no-cluster -n 2 --"
PATIENCE = 60


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a shell script; what hangs is an error."""
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_what_is_closed_is_as_if_nobody_wanted_it(closed: str, tmp_path: Path) -> None:
    inside = "sh -c 'echo out; echo err >&2; echo there >> ranks'"
    ended = shell(f"{RUN} {inside} {closed}", tmp_path)
    assert ended.returncode == 0
    assert (tmp_path / "ranks").read_text() == "there\n" * 2
    assert ended.stdout.count("out") == (0 if ">&-" in closed.replace("2>&-", "") else 2)
    assert ended.stderr.count("err") == (0 if "2>&-" in closed else 2)
    ended = shell(f"{MGI} topo --preset dgx-1 {closed}", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", ["topo --preset dgx-1", "--help", "topo --help", "perf exchange --rows 1000"]
)
def test_a_full_output_is_named(command: str, tmp_path: Path) -> None:
    ended = shell(f"{MGI} {command} >/dev/full", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith(": the output: No space left on device\n")
    assert ended.stderr.count("\n") == 1


def test_a_full_error_output_changes_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "matrix").write_text("GPU0 GPU1\nGPU0 X NV2\nGPU1 NV2 X\n")
    ended = shell(f"{MGI} topo matrix 2>/dev/full", tmp_path)
    assert ended.returncode == 0
    assert "gpu0" in ended.stdout
    assert shell(f"{MGI} topo absent 2>/dev/full", tmp_path).returncode == 1
    assert shell(f"{MGI} nonsense 2>/dev/full", tmp_path).returncode == 2


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    ended = shell(f"{{ {MGI} topo --preset dgx-1; echo $? >&2; }} | true", tmp_path)
    assert ended.stderr in ("0\n", "1\n")


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = "mkdir gone && cd gone && rmdir ../gone &&"
    ended = shell(f"{gone} {RUN} true", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == (
        "mgi run: the current folder, in which processes are started: No such file or directory; "
        "go to one that is there (cd)\n"
    )
    ended = shell(f"{gone} {MGI} topo --preset dgx-1", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_where_no_private_folder_can_be_made_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(warden, "_BASES", (str(tmp_path / "absent"), str(tmp_path)))
    assert warden.private_base() == tmp_path
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "absent"))
    assert warden.private_base() == tmp_path
    monkeypatch.setattr(warden, "_BASES", (str(tmp_path / "absent"),))
    with pytest.raises(OSError, match="absent; set XDG_RUNTIME_DIR"):
        warden.private_base()
