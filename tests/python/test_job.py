"""mgi.job(), and the parts of mgi run that need no process."""

from __future__ import annotations

import os

import mgi
import pytest
from mgi.run.hosts import Host, fill_slots, share_evenly
from mgi.run.output import MOST_LINE, Tagger, is_coloured, tag_of
from mgi.warden import Frames, frame

LAUNCHERS = ("MGI_", "SLURM_", "PMI_", "OMPI_", "MPI_", "RANK", "WORLD_SIZE", "LOCAL_RANK")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(LAUNCHERS):
            monkeypatch.delenv(name)


def test_a_process_of_its_own() -> None:
    job = mgi.job()
    assert (job.rank, job.size, job.local_rank, job.local_size) == (0, 1, 0, 1)
    assert job.server == os.uname().nodename
    assert job.launcher == ""


def test_a_process_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("RANK", "5"),
        ("WORLD_SIZE", "8"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "4"),
    ):
        monkeypatch.setenv(name, value)
    job = mgi.job()
    assert (job.rank, job.size, job.local_rank, job.local_size) == (5, 8, 1, 4)
    assert job.launcher == "torchrun"


def test_contradictions_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGI_RANK", "2")
    with pytest.raises(mgi.InvalidArgument, match="MGI_RANK is set and MGI_SIZE is not"):
        mgi.job()
    monkeypatch.setenv("MGI_SIZE", "2")
    with pytest.raises(mgi.InvalidArgument, match="MGI_RANK is 2 and MGI_SIZE is 2"):
        mgi.job()


def test_lines_get_tags_in_whatever_pieces_they_come() -> None:
    text = b"one\ntwo\n\nthree"
    for size in range(1, len(text) + 1):
        tagger = Tagger(b"# ")
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        made = b"".join(tagger.add(piece) for piece in pieces) + tagger.rest()
        assert made == b"# one\n# two\n# \n# three\n"


def test_a_line_without_an_end_is_broken() -> None:
    tagger = Tagger(b"# ")
    assert tagger.add(b"x" * (MOST_LINE - 1)) == b""
    assert len(tagger.add(b"x")) == MOST_LINE + 3
    assert tagger.rest() == b""


def test_tags_have_colours_on_terminals_alone() -> None:
    assert tag_of(3, 12, coloured=False) == b"[ 3] "
    assert tag_of(3, 12, coloured=True).startswith(b"\x1b[")
    terminal, other = os.openpty()
    try:
        assert is_coloured(other, {"TERM": "xterm"})
        assert not is_coloured(other, {"TERM": "xterm", "NO_COLOR": "1"})
        assert not is_coloured(other, {"TERM": "dumb"})
    finally:
        os.close(terminal)
        os.close(other)


def test_slots_are_filled_in_order() -> None:
    hosts = [Host("a", 2), Host("me@b", 4)]
    assert fill_slots(hosts, None) == [2, 4]
    assert fill_slots(hosts, 1) == [1, 0]
    assert fill_slots(hosts, 5) == [2, 3]
    assert hosts[1].name == "b"
    with pytest.raises(mgi.InvalidArgument, match="have 6 slots"):
        fill_slots(hosts, 7)


def test_servers_share_evenly() -> None:
    assert share_evenly(3, 7) == [3, 2, 2]
    assert share_evenly(3, 2) == [1, 1, 0]


def test_frames_come_whole_from_any_pieces() -> None:
    stream = frame(b"O", 1, b"abc") + frame(b"X", 2) + frame(b"E", 3, b"\0" * 70_000)
    frames = Frames(b"OXE", 70_000)
    got = [m for at in range(0, len(stream), 999) for m in frames.add(stream[at : at + 999])]
    assert got == [(b"O", 1, b"abc"), (b"X", 2, b""), (b"E", 3, b"\0" * 70_000)]
