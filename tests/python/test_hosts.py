"""Hosts files, in the forms of Open MPI, MPICH and Slurm."""

from __future__ import annotations

from pathlib import Path

import mgi
import pytest
from mgi.run.hosts import MOST_HOSTS, read_hosts
from mgi.run.places import is_this_host


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node1\n", [("node1", 1)]),
        ("node1 slots=4 max_slots=8\nme@node2 max-slots=2", [("node1", 4), ("me@node2", 1)]),
        ("localhost:4\n", [("localhost", 4)]),
        ("node[01-03,07] slots=2", [(f"node{n}", 2) for n in ("01", "02", "03", "07")]),
        ("r[1-2]n[8-9]:3", [(f"r{r}n{n}", 3) for r in (1, 2) for n in (8, 9)]),
        ("a,me@b[9-10]-ib,c:2", [("a", 1), ("me@b9-ib", 1), ("me@b10-ib", 1), ("c", 2)]),
        ("[::1] slots=2\n", [("::1", 2)]),
        ("me@[fe80::1%eth0]:3\n2001:db8::2", [("me@fe80::1%eth0", 3), ("2001:db8::2", 1)]),
        ("10.0.0.1:2 # a comment", [("10.0.0.1", 2)]),
        ("node1\nnode2\nnode1\nnode1:2", [("node1", 4), ("node2", 1)]),
        ("me@corp.example@node1 slots=2", [("me@corp.example@node1", 2)]),
        ("\ufeffone slots=2\r\ntwo\rthree", [("one", 2), ("two", 1), ("three", 1)]),
    ],
)
def test_the_forms_of_others(tmp_path: Path, text: str, hosts: list[tuple[str, int]]) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(text.encode())
    assert [(host.address, host.slots) for host in read_hosts(path)] == hosts


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("node1 user=me", "'user=me'; expected slots=N, or nothing"),
        ("node1 node2", "'node2'; expected slots=N"),
        ("node1:x", "'node1:x'; expected slots=N"),
        ("node1:2 slots=2", "both say how many"),
        ("node1 slots=99999999999999999999", "expected slots=N with N from 1"),
        ("node[3-1]", "'[3-1]' in 'node[3-1]'; expected numbers and ranges"),
        ("node[a-b]", "'[a-b]'"),
        ("node[]", "'[]'"),
        ("node[0-99999]", "'[0-99999]'"),
        ("node[0-99][0-99]", f"more than {MOST_HOSTS} hosts"),
        ("node[1-2", "'node[1-2' is no host's name"),
        ("fe80::zz", "'fe80::zz' is no host's name"),
        ("[::1]x", "'[::1]x' is no host's name"),
        ("me@-oProxyCommand=x", "is no host's name"),
        ("-l@node1", "'-l@node1' is no host's name"),
        ("node[1-2],me@node2", "node2 stands there as 'node2', too"),
        ("node1:4096,node1", "has more than 4096 slots in all"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(
    tmp_path: Path, line: str, why: str
) -> None:
    path = tmp_path / "hosts"
    path.write_text(f"# hosts\n{line}\n")
    with pytest.raises(mgi.InvalidArgument) as refused:
        read_hosts(path)
    assert str(refused.value).startswith(f"{path}:2: ")
    assert why in str(refused.value)


def test_an_address_of_this_host_needs_no_ssh(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("[::1]:2")
    assert is_this_host(read_hosts(path)[0].address)
