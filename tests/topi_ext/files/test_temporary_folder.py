"""Folders for temporary files."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from topi_ext.errors import RelayLayoutError
from topi_ext.files import temporary_folder
from topi_ext.files.temporary_folder import PREFIX, TemporaryFolder

KILLED = """
import os, signal
from topi_ext.files.temporary_folder import TemporaryFolder
with TemporaryFolder() as folder:
    open(os.path.join(folder, "half"), "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of temporary files; no process has looked there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary_folder._remove_left.cache_clear()
    return tmp_path


def aged(folder: Path) -> Path:
    os.utime(folder, (1, 1))
    return folder


def test_it_is_gone_with_the_block(place: Path) -> None:
    with TemporaryFolder() as folder:
        assert Path(folder).parent == place
        assert Path(folder).name.startswith(PREFIX)
    assert list(place.iterdir()) == []


def test_it_is_gone_with_the_last_reference(place: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    kept = TemporaryFolder()
    with pytest.warns(ResourceWarning, match="Implicitly cleaning up"):
        del kept
    assert list(place.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_what_a_killed_process_left_goes_with_the_next_one(place: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = place.iterdir()
    aged(left)
    with TemporaryFolder() as folder:
        assert list(place.iterdir()) == [Path(folder)]


def test_what_a_process_uses_stays(place: Path) -> None:
    with TemporaryFolder() as folder:
        aged(Path(folder))
        temporary_folder._remove_left.cache_clear()
        with TemporaryFolder():
            assert Path(folder).is_dir()


@pytest.mark.parametrize("name", [f"{PREFIX}new", "of-another-program"])
def test_what_is_new_or_of_others_stays(place: Path, name: str) -> None:
    (place / name).mkdir()
    if not name.startswith(PREFIX):
        aged(place / name)
    with TemporaryFolder():
        assert (place / name).is_dir()


def test_a_link_is_not_followed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (place / f"{PREFIX}link").symlink_to(aged(elsewhere))
    with TemporaryFolder():
        assert elsewhere.is_dir()


def test_no_place_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "gone"))
    with pytest.raises(RelayLayoutError) as raised:
        TemporaryFolder()
    assert str(raised.value) == (
        f"there is no place for temporary files ({place}/gone: no such file); set $TMPDIR to a folder that "
        "takes some"
    )


def test_a_disk_that_becomes_full_is_told_of(place: Path) -> None:
    with pytest.raises(RelayLayoutError, match=r" \(No space left on device\); set"), TemporaryFolder():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(place.iterdir()) == []


def test_other_errors_of_the_block_stay(place: Path) -> None:
    with pytest.raises(PermissionError), TemporaryFolder():
        raise PermissionError(errno.EACCES, "no")


def test_too_little_room_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=999))
    with pytest.raises(RelayLayoutError, match=r"^there is no place .*: No space left on device\); set"):
        TemporaryFolder(1000)
    assert list(place.iterdir()) == []
