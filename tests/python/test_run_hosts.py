"""mgi run: other hosts, by ssh."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from marks import marked
from mgi.control import PROGRAM
from mgi.run import main
from mgi.run.hosts import Host
from mgi.run.places import on_host
from processes import free_port, wait_for
from run_support import JOINS, SSH, Runner, needs_control


@needs_control
def test_hosts_by_ssh(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1 slots=2  # a comment\n\nme@node2\nnode3 slots=9\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "-n", "3", "--env", f"PYTHONPATH={_path()}")
    status, out, err = runner.run(*words, "--", sys.executable, "-c", JOINS)
    assert status == 0, err
    assert sorted(out.splitlines()) == [
        "[0] 0 3 node1 mgi run node1 node2",
        "[1] 1 3 node1 mgi run node1 node2",
        "[2] 2 3 node2 mgi run node1 node2",
    ]
    wait_for("the end of all processes", lambda: not marked(runner.mark))


def _path() -> str:
    return os.environ.get("PYTHONPATH", "")


def test_a_failure_on_another_host_ends_all(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1\nnode2\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "--no-cluster", "--", "sh", "-c")
    status, _, err = runner.run(*words, '[ "$MGI_SERVER" = node2 ] && exit 9; sleep 1000')
    assert status == 9
    assert "rank 1 (node2, pid" in err
    wait_for("the end of all processes", lambda: not marked(runner.mark))


def test_a_host_that_cannot_be_reached(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1\nunreachable\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "--no-cluster", "--", "true")
    status, _, err = runner.run(*words)
    assert status == 1
    assert "ssh: Could not resolve hostname unreachable" in err
    assert "mgi run: unreachable: processes cannot be started there" in err
    wait_for("the end of all processes", lambda: not marked(runner.mark))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("node1 slots=0\n", "hosts:1: 'slots=0'"),
        ("node1\nme@node1 slots=2\n", "hosts:2: node1 stands there as 'node1', too"),
        ("# nobody\n", "names no host"),
        ("-oProxyCommand=x\n", "is no host's name"),
        ("node1 slots=2\n", "-n is 3, and the hosts have 2 slots"),
    ],
)
def test_bad_hosts_files(
    tmp_path: Path, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts").write_text(text)
    words = ["-n", "3", "--hosts", str(tmp_path / "hosts"), "--no-cluster", "--", "true"]
    assert main(words) == 1
    assert why in capsys.readouterr().err


BY_SSH = ("--hosts", "hosts", "--ssh", SSH, "--no-cluster", "--", "sh", "-c")


def test_each_host_has_a_connection_of_its_own() -> None:
    words = on_host(Host("me@node1", 1), "ssh -p 2222").ssh
    assert words[:3] == ("ssh", "-p", "2222")
    assert words[-1] == "me@node1"
    for option in ("BatchMode=yes", "ControlMaster=no", "ControlPath=none"):
        assert words[words.index(option) - 1] == "-o"


def test_another_user_of_this_host_is_reached_by_ssh(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("me@localhost\n")
    assert runner.run(*BY_SSH, 'echo "${HOME-by ssh}"') == (0, "[0] by ssh\n", "")


def test_a_shell_that_greets_is_refused(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("greets\n")
    status, _, err = runner.run(*BY_SSH, "true")
    assert status == 1
    assert "mgi run: greets: processes cannot be started there" in err
    assert "something prints where the way there should be silent ('Hello, welcome to" in err
    wait_for("the end of all processes", lambda: not marked(runner.mark))


def test_a_way_that_breaks_after_it_was_there(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("breaks\n")
    status, _, err = runner.run(*BY_SSH, "sleep 1000")
    assert status == 1
    assert "rank 0 (breaks) was lost" in err
    wait_for("the end of all processes", lambda: not marked(runner.mark))


@needs_control
def test_a_port_that_is_taken_on_a_host(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "--env", f"PYTHONPATH={_path()}")
    taken = runner.folder / "taken"
    taken.touch()
    env = {"FAKE_SSH_TAKEN": str(taken)}
    status, out, err = runner.run(*words, "--", sys.executable, "-c", JOINS, **env)
    assert status == 0, err
    assert out == "[0] 0 1 node1 mgi run node1\n"
    assert "remote port forwarding failed" in err
    assert not taken.exists()


@needs_control
def test_a_cluster_of_another_login_does_not_count(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "--env", f"PYTHONPATH={_path()}")
    env = {"FAKE_SSH_LOGIN": "MGI_CA=/nowhere/ca.pem"}
    status, _, err = runner.run(*words, "--", sys.executable, "-c", JOINS, **env)
    assert status == 0, err


@needs_control
def test_agents_of_other_hosts_have_the_controller_s_secret(runner: Runner) -> None:
    secret = runner.folder / "secret"
    secret.write_text("s" * 64 + "\n")
    secret.chmod(0o600)
    address = f"127.0.0.1:{free_port()}"
    words = ["--listen", address, "--http", "none", "--state", str(runner.folder / "state")]
    controller = subprocess.Popen(
        [PROGRAM, "controller", *words, "--token-file", str(secret)], env=runner.env
    )
    try:
        (runner.folder / "hosts").write_text("node1\n")
        given = ("--hosts", "hosts", "--ssh", SSH, "--controller", address)
        program = (f"--env=PYTHONPATH={_path()}", "--", sys.executable, "-c", JOINS)
        status, out, err = runner.run(*given, *program, MGI_TOKEN_FILE=str(secret))
        assert status == 0, err
        assert out == "[0] 0 1 node1 mgi run node1\n"
    finally:
        controller.kill()
        controller.wait()
