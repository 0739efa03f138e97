"""The cached folder of an emulated board: where it is, and when it is used again."""

from pathlib import Path

import pytest

from tests.board import root
from tests.board.root import PROGRAMS, BoardUnavailable, cache_folder, check_programs, contents, is_whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As set-up leaves one."""
    folder = tmp_path / "board"
    (folder / "site").mkdir(parents=True)
    (folder / "site/module.py").write_text("1")
    (folder / "recipe").write_text(contents(folder))
    return folder


def test_a_folder_is_used_again(folder: Path) -> None:
    (folder / "site/__pycache__").mkdir()
    (folder / "site/__pycache__/module.pyc").write_text("compiled")
    assert is_whole(folder)


@pytest.mark.parametrize("damage", ["missing", "shorter", "unfinished", "none"])
def test_a_damaged_folder_is_not(folder: Path, damage: str) -> None:
    match damage:
        case "missing":
            (folder / "site/module.py").unlink()
        case "shorter":
            (folder / "site/module.py").write_text("")
        case "unfinished":
            (folder / "recipe").unlink()
        case _:
            folder = folder / "nowhere"
    assert not is_whole(folder)


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RELAY_LAYOUT_BOARD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "relay-layout"
    monkeypatch.setenv("RELAY_LAYOUT_BOARD_CACHE", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere"


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "_path_of", lambda program: None)
    monkeypatch.setattr("shutil.which", lambda program: "/usr/bin/apt-get")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(BoardUnavailable) as caught:
        check_programs(PROGRAMS, lambda line: None)
    assert str(caught.value) == (
        "it takes root to run apt-get install "
        "qemu-user-static debootstrap gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    )
