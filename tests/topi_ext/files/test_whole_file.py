"""Files that are read to their end, or written whole or not at all."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from topi_ext.files import whole_file
from topi_ext.files.whole_file import opened, replaced

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: str, text: bytes = b"new", mode: int | None = None) -> None:
    with replaced(path, mode) as file:
        file.write(text)


def test_what_was_there_is_there_until_the_end() -> None:
    Path("file").write_bytes(b"old")
    with replaced("file") as file:
        file.write(b"new")
        file.flush()
        assert Path("file").read_bytes() == b"old"
    assert Path("file").read_bytes() == b"new"
    assert os.listdir() == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_an_error_leaves_what_was_there(error: type[BaseException]) -> None:
    Path("file").write_bytes(b"old")
    with pytest.raises(error), replaced("file") as file:
        file.write(b"half")
        raise error
    assert Path("file").read_bytes() == b"old"
    assert os.listdir() == ["file"]


KILLED = """
import os, signal
from topi_ext.files.whole_file import opened, replaced
with replaced("file") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def left_by_a_killed_process() -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    (draft,) = set(os.listdir()) - {"file"}
    whole_file._remove_left.cache_clear()
    return draft


def test_what_a_killed_process_left_goes_with_the_next_one() -> None:
    Path("file").write_bytes(b"old")
    os.utime(left_by_a_killed_process(), (1, 1))
    assert Path("file").read_bytes() == b"old"
    write("other")
    assert sorted(os.listdir()) == ["file", "other"]


def test_what_is_new_stays() -> None:
    draft = left_by_a_killed_process()
    write("other")
    assert sorted(os.listdir()) == sorted([draft, "other"])


def test_what_is_being_written_stays() -> None:
    with replaced("file") as file:
        file.write(b"new")
        file.flush()
        (draft,) = os.listdir()
        os.utime(draft, (1, 1))
        whole_file._remove_left.cache_clear()
        write("other")
    assert Path("file").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_errors_of_a_full_disk_name_the_file(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError) as raised:
        write("file")
    assert (raised.value.filename, raised.value.filename2) == ("file", None)
    assert os.listdir() == []


def test_an_error_of_another_file_names_that_one() -> None:
    with pytest.raises(OSError) as raised, replaced("file") as file:
        file.write(Path("other").read_bytes())
    assert raised.value.filename == "other"
    assert os.listdir() == []


def test_a_link_stays_a_link() -> None:
    Path("link").symlink_to("file")
    write("link")
    assert Path("link").is_symlink() and Path("file").read_bytes() == b"new"


def test_permissions() -> None:
    before = os.umask(0o027)
    try:
        write("plain")
        write("tool", mode=0o755)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in ("plain", "tool")] == [0o640, 0o755]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".", "it is a directory"),
        ("pipe", "it is not a regular file"),
        ("none/file", "the folder {folder}/none does not exist"),
        ("line\nend/file", "the folder '{folder}/line\\nend' does not exist"),
    ],
)
def test_places_that_take_no_file(path: str, reason: str, tmp_path: Path) -> None:
    os.mkfifo("pipe")
    with pytest.raises(OSError) as raised:
        write(path)
    assert raised.value.strerror == reason.format(folder=tmp_path.resolve())
    assert raised.value.filename == path
    assert os.listdir() == ["pipe"]


def test_what_is_no_device_is_read() -> None:
    Path("file").write_bytes(b"text")
    with opened("file") as file:
        assert file.read() == b"text"


def test_a_device_is_not_read_for_it_may_never_end() -> None:
    with pytest.raises(OSError) as raised:
        opened("/dev/null")
    assert (raised.value.strerror, raised.value.filename) == ("it is a device, not a file", "/dev/null")
