"""Text files as people and other systems write them."""

from __future__ import annotations

from pathlib import Path

import mgi
import pytest
from mgi.texts import read_text
from mgi.topo import read_facts


def test_texts_are_the_same_whoever_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    assert read_text(path) == "one\ntwo\nthree\n"
    path.write_bytes("one".encode("utf-16"))
    with pytest.raises(mgi.InvalidArgument, match="is in UTF-16; expected UTF-8"):
        read_text(path)
    path.write_bytes(b"one\ntw\xff\n")
    with pytest.raises(mgi.InvalidArgument, match="text:2: a byte that is no UTF-8"):
        read_text(path)


def test_facts_may_have_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(b'\xef\xbb\xbf{"sm":\r\n 90}')
    assert read_facts(path) == {"sm": 90}
