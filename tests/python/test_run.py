"""mgi run: places, output, and what is refused."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from marks import marked
from mgi.run import main
from mgi.warden import cores_of_share
from processes import PATIENCE, wait_for
from run_support import SHOW, Runner, in_shell


def test_each_process_has_its_place_and_its_tag(runner: Runner) -> None:
    status, out, err = runner.shell(3, f"{SHOW}; echo bad >&2", "--job", "q1")
    host = os.uname().nodename
    assert status == 0
    assert sorted(out.splitlines()) == [f"[{r}] {r}/3 {r}/3 {host} q1" for r in range(3)]
    assert sorted(err.splitlines()) == ["[0] bad", "[1] bad", "[2] bad"]
    runner.wait_until_gone()


def test_without_tags_output_is_as_it_was(runner: Runner) -> None:
    assert runner.shell(1, "printf 'a\\nb'; printf c >&2", "--no-tag") == (0, "a\nb", "c")


def test_lines_without_an_end_get_one(runner: Runner) -> None:
    status, out, _ = runner.shell(2, "printf 'first\\nsecond'")
    assert status == 0
    assert sorted(out.splitlines()) == ["[0] first", "[0] second", "[1] first", "[1] second"]


def test_a_child_s_last_line_comes_too(runner: Runner) -> None:
    script = """
        sh -c "trap 'printf last; exit 0' TERM; printf first; echo > ready; sleep 1000 & wait" &
        while [ ! -e ready ]; do sleep 0.05; done
        echo done"""
    status, out, _ = runner.shell(1, script)
    assert status == 0
    assert out.splitlines() == ["[0] firstdone", "[0] last"]


def test_much_output_comes_whole(runner: Runner) -> None:
    script = "head -c 50000000 /dev/zero | tr '\\0' x | fold -w 999; echo; echo the end"
    started = runner.start("-n", "2", "--no-cluster", "--", "sh", "-c", script)
    assert started.stdout is not None
    counts, ends = {b"0": 0, b"1": 0}, 0
    for line in started.stdout:
        rank, text = line[1:2], line[4:-1]
        assert line[:4] == b"[%c] " % rank
        if text == b"the end":
            ends += 1
        else:
            assert text.strip(b"x") == b""
            counts[rank] += len(text)
    assert started.wait() == 0
    assert ends == 2
    assert counts == {b"0": 50_000_000, b"1": 50_000_000}


def test_the_job_ends_when_nobody_reads(runner: Runner) -> None:
    started = runner.start("-n", "2", "--no-cluster", "--", "yes")
    assert started.stdout is not None
    assert started.stdout.readline() in (b"[0] y\n", b"[1] y\n")
    started.stdout.close()
    assert started.wait(PATIENCE) == 128 + signal.SIGPIPE
    assert started.stderr is not None
    assert started.stderr.read() == b""
    runner.wait_until_gone()


def test_ctrl_c_twice_ends_a_job_whose_reader_sleeps(runner: Runner) -> None:
    started = runner.start("-n", "1", "--no-cluster", "--", "sh", "-c", "echo >> ready; exec yes")
    runner.wait_for_file("ready")
    time.sleep(0.5)  # until all pipes are full
    started.send_signal(signal.SIGINT)
    wait_for("the end of yes", lambda: "yes" not in marked(runner.mark).values())
    started.send_signal(signal.SIGINT)
    assert started.wait(PATIENCE) == 130
    runner.wait_until_gone()


def test_a_job_is_not_ended_by_a_reader_that_sleeps_but_by_sigterm(runner: Runner) -> None:
    words = (
        "-n",
        "1",
        "--no-cluster",
        "--grace",
        "0.3",
        "--",
        "sh",
        "-c",
        "echo > ready; exec yes",
    )
    started = runner.start(*words)
    runner.wait_for_file("ready")
    time.sleep(0.5)  # until all pipes are full
    assert started.poll() is None
    started.send_signal(signal.SIGTERM)
    assert started.wait(PATIENCE) == 143
    assert started.stderr is not None
    assert started.stderr.read() == b"mgi run: SIGTERM; all 1 processes have ended\n"
    runner.wait_until_gone()


def test_output_that_cannot_be_written_ends_the_job(runner: Runner) -> None:
    runner.command = in_shell('exec "$@" > /dev/full')
    status, _, err = runner.shell(2, "echo lost; sleep 1000")
    assert status == 1
    assert err == (
        "mgi run: the output cannot be written: No space left on device; all processes have ended\n"
    )
    runner.wait_until_gone()


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["-n", "0", "--", "true"], 1, "-n is 0; expected 1 to 4096"),
        (["--grace", "-1", "--", "true"], 1, "--grace is -1"),
        (["--env", "ABSENT_VARIABLE", "--", "true"], 1, "there is no such variable"),
        (["--hosts", "absent", "--", "true"], 1, "absent: No such file"),
        (["--servers-of-testbed", "a b", "--", "true"], 1, ""),
        (["-n", "2"], 2, "expected a program behind --"),
        (["-n", "2", "--"], 2, "expected a program behind --"),
    ],
)
def test_wrong_calls(
    words: list[str], status: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if status == 2:
        with pytest.raises(SystemExit) as exit_:
            main(words)
        assert exit_.value.code == 2
    else:
        assert main(words) == status
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == status


def test_processes_share_their_machine_s_cores(runner: Runner) -> None:
    show = [sys.executable, "-c", "import os; print(*sorted(os.sched_getaffinity(0)))"]
    tag = len("[0] ")  # so lines come whole
    cores = sorted(os.sched_getaffinity(0))

    def sets(count: int, *options: str) -> list[list[int]]:
        args = ("-n", str(count), "--no-cluster", *options, "--", *show)
        status, out, _ = runner.run(*args)
        assert status == 0
        return [[int(core) for core in line[tag:].split()] for line in out.splitlines()]

    count = min(len(cores), 4)
    own = sorted(core for some in sets(count) for core in some)
    assert own == cores, "each core is one process'"
    assert sets(count, "--no-bind") == [cores] * count
    if len(cores) < 9:
        assert sets(9) == [cores] * 9, "there are too few"


def test_a_share_of_cores() -> None:
    cores = range(100, 108)  # which no machine here says anything of
    assert [cores_of_share(cores, i, 3) for i in range(3)] == [
        {100, 101},
        {102, 103, 104},
        {105, 106, 107},
    ]
    assert cores_of_share(cores, 8, 9) == set(cores)
