"""Files and folders that other users must not be able to lead astray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mgi import warden
from mgi.top import sources


@pytest.fixture(autouse=True)
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_folder_of_others_is_not_private(tmp_path: Path) -> None:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    assert warden.is_private(folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not warden.is_private(link)
    assert not warden.is_private(tmp_path / "none")
    for mode in (0o770, 0o702):
        folder.chmod(mode)
        assert not warden.is_private(folder)
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
        assert not warden.is_private(folder)


def test_what_the_environment_names_must_be_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warden, "_LONGEST_BASE", 4096)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    assert warden.private_base() == tmp_path
    tmp_path.chmod(0o777)
    assert warden.private_base() == Path("/tmp")
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(link))
    assert warden.private_base() == Path("/tmp")


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "token").symlink_to(precious)
    warden.write_private(tmp_path, "token", "secret")
    assert precious.read_text() == "kept"
    token = tmp_path / "token"
    assert not token.is_symlink()
    assert token.read_text() == "secret"
    assert token.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "token"]
    for name in ("../precious", "a/b", "", ".."):
        with pytest.raises(ValueError, match="no name of a file"):
            warden.write_private(tmp_path, name, "secret")


def test_a_warden_keeps_its_folder_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warden, "private_base", lambda: tmp_path)
    made = warden.Warden(0, 1, 1.0)
    assert warden.is_private(made._folder)
    assert made._folder.stat().st_mode & 0o777 == 0o700


# Root may connect to any socket, and would believe what it is told there.
def test_top_looks_at_jobs_of_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(sources, "private_base", lambda: tmp_path)
    monkeypatch.setattr(sources, "AgentSource", lambda path: asked.append(path) or _Quiet())
    for name, mode in (("mgi-run-mine", 0o700), ("mgi-run-theirs", 0o777)):
        (tmp_path / name).mkdir(mode=mode)
        (tmp_path / name / "agent.sock").touch()
    if os.geteuid() == 0:
        (tmp_path / "mgi-run-others").mkdir(mode=0o700)
        (tmp_path / "mgi-run-others" / "agent.sock").touch()
        os.chown(tmp_path / "mgi-run-others", 12345, 12345)
    assert sources._job() is not None
    assert asked == [tmp_path / "mgi-run-mine" / "agent.sock"]


class _Quiet:
    def ask(self) -> dict[str, object]:
        return {"controller": "here", "epoch": 1}

    def close(self) -> None:
        pass
