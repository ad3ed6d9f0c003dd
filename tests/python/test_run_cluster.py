"""mgi run: the control plane that a job gets."""

from __future__ import annotations

import os
import signal
import sys
import time

from marks import marked
from run_support import JOINS, MGI, Runner, changed, needs_control


@needs_control
def test_processes_find_their_cluster(runner: Runner) -> None:
    status, out, err = runner.run("-n", "2", "--", sys.executable, "-c", JOINS)
    assert status == 0, err
    host = os.uname().nodename
    assert sorted(out.splitlines()) == [f"[{r}] {r} 2 {host} mgi run {host}" for r in range(2)]
    runner.wait_until_gone()


@needs_control
def test_an_agent_that_runs_is_used(runner: Runner) -> None:
    # A job in a job: MGI_AGENT leads to the outer one's agent.
    inner = [*MGI, "run", "-n", "2", "--", "sh", "-c", 'echo "$MGI_AGENT"']
    status, out, err = runner.run("--no-tag", "--", "sh", "-c", 'echo "$MGI_AGENT"; exec "$@"',
                                  "sh", *inner)  # fmt: skip
    assert status == 0, err
    outer, *tagged = out.splitlines()
    assert sorted(tagged) == [f"[0] {outer}", f"[1] {outer}"]


@needs_control
def test_a_killed_agent_is_reported_and_the_job_goes_on(runner: Runner) -> None:
    script = "echo >> ready; while [ ! -e go ]; do sleep 0.05; done"
    started = runner.start("-n", "1", "--", "sh", "-c", script)
    runner.wait_for_file("ready")
    agent = [pid for pid, words in marked(runner.mark).items() if words.startswith("mgi agent")]
    agent = agent or [p for p, words in marked(runner.mark).items() if " agent " in words]
    os.kill(agent[0], signal.SIGKILL)
    time.sleep(0.2)
    (runner.folder / "go").touch()
    status, _, err = runner.finish(started)
    assert status == 0
    assert "was killed by SIGKILL; the job goes on" in err
    runner.wait_until_gone()


def test_ctrl_c_while_services_start(runner: Runner) -> None:
    slow = runner.folder / "mgi-control"
    slow.write_text("#!/bin/sh\necho >> ready\nexec sleep 1000\n")
    slow.chmod(0o755)
    runner.command = changed(f"import mgi.run.cluster as c; c.PROGRAM = {str(slow)!r}")
    started = runner.start("--", "true")
    runner.wait_for_file("ready")
    started.send_signal(signal.SIGINT)
    status, _, err = runner.finish(started)
    assert status == 130
    assert err == "mgi run: SIGINT; nothing was started yet\n"
    runner.wait_until_gone()
