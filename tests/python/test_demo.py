"""The demo: its options, what the terminal shows, the exit status, the whole of it."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path

import pytest
from mgi.demo import options, run, truth, units
from mgi.demo.progress import Progress


@pytest.mark.parametrize("text", ["0", "-1", "abc", "", "nan", "inf", "1e-9", "1000000"])
def test_bad_scale_factor_is_named(text, capsys):
    with pytest.raises(SystemExit) as leaving:
        options.parse([f"--sf={text}"])
    assert leaving.value.code == 2
    said = capsys.readouterr().err
    assert "--sf" in said
    assert text in said


@pytest.mark.parametrize("text", ["0", "-4", "four", "2.5", "", "1000000"])
def test_bad_number_of_endpoints_is_named(text, capsys):
    with pytest.raises(SystemExit) as leaving:
        options.parse([f"--endpoints={text}"])
    assert leaving.value.code == 2
    assert f"'{text}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "spelling"),
    [("1", "1"), ("1.0", "1"), ("0.10", "0.1"), ("1e-2", "0.01"), ("10", "10"), ("1e2", "100")],
)
def test_scale_factors_have_one_spelling(text, spelling):
    assert options.parse([f"--sf={text}"]).sf == spelling


def test_command_repeats_the_run():
    given = ["--sf", "0.1", "--endpoints", "3", "--seed", "7", "--repeat", "1", "--by-copy"]
    first = options.parse(given)
    assert options.parse(first.command().split()[2:]) == first


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_a_log_gets_whole_lines():
    stream = io.StringIO()
    progress = Progress(stream)
    with progress.step("working") as step:
        step.detail = f"3 {units.TIMES} 4"
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("working  3 x 4 ok")
    assert "\x1b" not in lines[0]


def test_a_terminal_gets_a_live_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    stream = _Terminal()
    with Progress(stream).step("a title much longer than the terminal is wide"):
        threading.Event().wait(0.25)
    frames = stream.getvalue().split("\r\x1b[2K")
    assert len(frames) > 2
    assert all(len(re.sub(r"\x1b\[\d+m", "", frame)) <= 30 for frame in frames[:-1])


def test_a_failed_step_says_so():
    stream = io.StringIO()
    progress = Progress(stream)
    with pytest.raises(ValueError, match="no"), progress.step("one"):
        raise ValueError("no")
    with pytest.raises(KeyboardInterrupt), progress.step("two"):
        raise KeyboardInterrupt
    with progress.step("three") as step:
        step.failed = True
    assert re.search("one FAILED\n.*two stopped\n.*three FAILED\n", stream.getvalue())


def test_numbers_are_readable():
    assert units.size(1012873742) == "1.01 GB"
    assert units.size(999) == "999 B"
    assert units.seconds(0.0421) == "42.1 ms"
    assert units.seconds(75.2) == "1 min 15 s"
    assert units.rate(1.5e9, 0.5) == "3.00"
    assert units.gbps(20.0) == "20 GB/s"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


def _demo(folder: Path, *more: str) -> int:
    given = ["--sf", "0.01", "--data", str(folder / "data"), "--repeat", "1"]
    return run.main([*given, "--report", str(folder / "report.html"), *more])


@pytest.mark.parametrize("by_copy", [False, True])
@pytest.mark.parametrize("endpoints", [1, 4])
def test_demo(folder, capsys, endpoints, by_copy):
    more = ["--by-copy"] if by_copy else []
    assert _demo(folder, "--endpoints", str(endpoints), *more) == 0
    said = capsys.readouterr().out
    assert re.search(r"Exchange +60,175 .*60,175 rows . 16 columns equal", said)
    assert re.search(r"GroupBy +60,175 .*15,000 rows . 4 columns equal", said)
    assert re.search(r"Join +75,175 .*60,175 rows . 12 columns equal", said)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count(f"rows {units.TIMES} ") >= 3
    assert page.count('class="heat"') >= 3 * endpoints * endpoints
    assert "nan" not in page


def test_demo_fails_where_a_result_differs(folder, capsys, monkeypatch):
    answer = truth.Truth.answer

    def wrong(self, query):
        table = answer(self, query)
        return table.slice(1) if "JOIN" in query else table

    monkeypatch.setattr(truth.Truth, "answer", wrong)
    assert _demo(folder) == 1
    said = capsys.readouterr()
    assert "verification failed: Join" in said.err
    assert "1 times in the result, 0 in DuckDB's" in said.err
    assert "Differs from DuckDB: Join" in (folder / "report.html").read_text(encoding="utf-8")


def test_demo_interrupted(folder, capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(truth.Stopwatch, "seconds", stop)
    (folder / "report.html").unlink(missing_ok=True)
    assert _demo(folder) == 130
    assert "Ctrl-C" in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_report_place_is_checked_first(folder, capsys):
    assert run.main(["--report", str(folder)]) == 2
    assert "is a folder" in capsys.readouterr().err
