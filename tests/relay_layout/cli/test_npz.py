"""Files of named arrays."""

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.cli import npz
from relay_layout.cli.npz import read_arrays, write_arrays
from relay_layout.errors import InputError


def error_of(path: str) -> str:
    with pytest.raises(InputError) as caught:
        read_arrays(path)
    return str(caught.value)


def test_there_and_back() -> None:
    arrays: dict[str, Any] = {
        "input:0": np.arange(6, dtype=np.int8).reshape(2, 3),
        "file": np.array(3.5, dtype=np.float32),
        "a/b.npy": np.zeros((0, 4), dtype=bool),
        "transposed": np.arange(6.0).reshape(2, 3).T,
    }
    write_arrays("a.npz", arrays)
    with np.load("a.npz") as stored:
        by_numpy = {name: stored[name] for name in stored.files if name != "a/b"}
    for found in (read_arrays("a.npz"), by_numpy):
        for name, array in found.items():
            np.testing.assert_array_equal(array, arrays[name])
            assert array.dtype == arrays[name].dtype
    assert read_arrays("a.npz").keys() == arrays.keys()


def test_reads_what_numpy_wrote() -> None:
    np.savez_compressed("a.npz", x=np.arange(1000))
    np.testing.assert_array_equal(read_arrays("a.npz")["x"], np.arange(1000))


def test_files_that_are_none() -> None:
    Path("empty").write_bytes(b"")
    Path("text").write_text("hello\n")
    np.save("one.npy", np.zeros(3))
    Path("folder").mkdir()
    assert error_of("gone") == "gone: no such file"
    assert error_of("empty") == "empty: not a readable .npz file: File is not a zip file"
    assert error_of("text") == "text: not a readable .npz file: File is not a zip file"
    assert error_of("folder") == "folder: not a file"
    assert error_of("one.npy") == (
        "one.npy: a single array; save it with its name: numpy.savez(path, NAME=array)"
    )


def test_python_objects_are_not_loaded() -> None:
    np.savez("a.npz", x=np.array([{}, []], dtype=object))
    assert error_of("a.npz").startswith("a.npz: array 'x' cannot be read: Object arrays cannot be loaded")


def test_a_member_that_is_no_array() -> None:
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    assert error_of("a.npz").startswith("a.npz: array 'notes.txt' cannot be read: ")


def test_every_truncation_and_every_flipped_byte_is_one_error_or_harmless() -> None:
    np.savez("a.npz", x=np.arange(4, dtype=np.float32))
    whole = Path("a.npz").read_bytes()
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 0x5A]) + whole[i + 1 :] for i in range(len(whole))]
    refused = 0
    for data in damaged:
        Path("b.npz").write_bytes(data)
        try:
            read_arrays("b.npz")
        except InputError as error:
            refused += 1
            assert str(error).startswith("b.npz: ")
    assert refused > len(damaged) / 2


def test_an_array_too_large_for_memory() -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert error_of("a.npz").startswith("a.npz: array 'x' cannot be read: Unable to allocate")


def test_a_write_that_fails_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.npz").write_bytes(b"old")

    def fail(file: Any, arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(npz, "_write", fail)
    with pytest.raises(InputError, match=r"^a\.npz: cannot be written: No space left on device$"):
        write_arrays("a.npz", {})
    assert Path("a.npz").read_bytes() == b"old"
    assert [path.name for path in Path().iterdir()] == ["a.npz"]


def test_a_device_is_not_replaced() -> None:
    os.mkfifo("pipe")
    with pytest.raises(InputError, match=r"^pipe: cannot be written: it is not a regular file$"):
        write_arrays("pipe", {})
    assert Path("pipe").is_fifo()


def test_a_link_stays_a_link() -> None:
    Path("a.npz").symlink_to("b.npz")
    write_arrays("a.npz", {"x": np.zeros(1)})
    assert Path("a.npz").is_symlink()
    assert read_arrays("b.npz").keys() == {"x"}
