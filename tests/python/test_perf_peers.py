"""The processes that do an exchange at somebody's word: other libraries', and bad ones."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from mgi.errors import Error, Refused
from mgi.perf import team as teams
from mgi.perf.peer_programs import PACKAGES, Peer, peers_of
from mgi.perf.team import Checksum, Team
from processes import BUILD

SHAPES = {
    "exchange": (2, 2, 0),
    "many-to-one": (2, 1, 0),
    "one-to-many": (1, 2, 0),
    "one-to-one": (1, 1, 0),
    "broadcast": (1, 2, 1),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="peers-", dir="/tmp"))  # short: there are sockets in it
    try:
        yield made
    finally:
        shutil.rmtree(made)


def built(library: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> Peer:
    monkeypatch.setenv("MGI_PEERS", str(BUILD))
    peer = peers_of(library, shape)
    if peer is None:
        pytest.skip(f"{library} has nothing for {shape}")
    try:
        peer.command(2)
    except Refused as error:
        pytest.skip(str(error))
    return peer


@pytest.mark.parametrize("library", PACKAGES)
@pytest.mark.parametrize("shape", SHAPES)
def test_peers_move_every_row(
    library: str, shape: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = built(library, shape, monkeypatch)
    sources, destinations, broadcast = SHAPES[shape]
    words = [f"sources={sources}", f"destinations={destinations}", f"broadcast={broadcast}"]
    # More than a segment's rows, and of neither layout a round number.
    layout, width = ("rows", 24) if shape == "one-to-many" else ("columns", 16)
    words += ["endpoints=2", "rows=70001", f"row_bytes={width}", f"layout={layout}"]
    team = Team(library, peer.command(2), words, 2, folder / "team")
    try:
        team.gather()
        assert team.sent.rows == 70001
        expected = team.sent + team.sent if broadcast else team.sent
        for _ in range(2):
            for variant in peer.variants.values():
                seconds, received = team.run(variant)
                assert received == expected
                assert seconds > 0
    finally:
        team.close()
    assert team.returncode is not None


def test_a_peer_that_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    peer = peers_of("ucx", "exchange")
    assert peer is not None
    with pytest.raises(Refused, match="mgi-peer-ucx is not part of this installation.*libucx-dev"):
        peer.command(2)


# Two processes that speak as the real ones do, up to a point.
FAKE = """
import os, socket, sys
driver = sys.argv[1].removeprefix("driver=")
def member(rank):
    link = socket.socket(socket.AF_UNIX)
    link.connect(driver)
    lines = link.makefile("rw")
    def say(text):
        print(text, file=lines, flush=True)
    say(f"hello {rank}")
    WHAT
    lines.read()
    os._exit(0)
if os.fork() == 0:
    member(0)
member(1)
"""


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("if rank == 1: say('error out of luck')", "fake: process 1: out of luck"),
        ("if rank == 1: os._exit(3)", "fake: a process has ended"),
        ("say('prepared')", "fake: said prepared instead of ready"),
        ("sys.stdout.write('some words'); sys.stdout.flush()", "no answer in 1 s.*some words"),
        ("say(f'gather {rank}{rank}'); say(f'error {lines.readline()}')", ": gathered 00 11"),
    ],
)
def test_processes_that_fail_are_named_and_ended(
    what: str, why: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teams, "PATIENCE", 1.0 if "no answer" in why else 60.0)
    program = [sys.executable, "-c", FAKE.replace("WHAT", what)]
    team = Team("fake", program, [], 2, folder / "team")
    try:
        with pytest.raises(Error, match=f"(?s){why}"):
            team.gather()
    finally:
        team.close()


def test_a_program_that_does_not_come(folder: Path) -> None:
    team = Team("fake", ["sh", "-c", "echo no such library >&2; exit 1"], [], 2, folder / "team")
    try:
        with pytest.raises(Error, match="(?s)did not start. It printed:\nno such library"):
            team.gather()
    finally:
        team.close()


def test_checksums_are_of_64_bits() -> None:
    whole = Checksum(1, (1 << 64) - 1, 5) + Checksum(2, 2, 4)
    assert whole == Checksum(3, 1, 1)
