"""Files of parameters, byte by byte."""

import base64
import struct

import numpy as np
import pytest
from hypothesis import given
from relay_files import damaged_bytes
from relay_trees import constants

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import Constant, read_params, read_tensor, write_params
from relay_layout.relay.syntax.tensor_blob import write_blob

WEIGHTS = {
    "conv.weight": np.arange(24, dtype="float32").reshape(2, 3, 4),
    "scale": np.array(0.5, "float64"),
    "é": np.array([True, False]),
    "": np.zeros((0, 3), "int8"),
}


def test_params_read_back() -> None:
    again = read_params(write_params(WEIGHTS))
    assert list(again) == list(WEIGHTS)
    for name, array in WEIGHTS.items():
        assert again[name].dtype == array.dtype and again[name].flags.writeable
        np.testing.assert_array_equal(again[name], array)


def test_layout_of_the_file() -> None:
    header = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, 1)
    name = struct.pack("<Q1s", 1, b"w")
    tensor = struct.pack("<QQiiiBBHqq", 0xDD5E40F096B4A13F, 0, 1, 0, 1, 0, 16, 1, 2, 4) + struct.pack(
        "<hh", 1, -1
    )
    assert write_params({"w": np.array([1, -1], "int16")}) == header + name + struct.pack("<Q", 1) + tensor


@given(constants())
def test_tensors_read_back(constant: Constant) -> None:
    again = read_tensor(write_blob(constant.data))
    assert again.dtype == constant.data.dtype and again.shape == constant.data.shape
    assert again.tobytes() == constant.data.tobytes()


def test_tensor_that_relay_wrote() -> None:
    blob = base64.b64decode("P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAAAAAAIgAQAEAAAAAAAAAAAAgD8=")
    assert read_tensor(blob) == 1 and read_tensor(blob).dtype == "float32"
    assert write_blob(np.array(1, "float32")) == blob


def test_arrays_of_other_byte_order_and_stride() -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    np.testing.assert_array_equal(read_tensor(write_blob(array)), array)


def tensor(shape: tuple[int, ...], code: int = 2, bits: int = 32, lanes: int = 1, size: int = 0) -> bytes:
    """A tensor without data."""
    header = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, len(shape), code, bits, lanes)
    return header + struct.pack(f"<{len(shape)}qq", *shape, size)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"",
            "byte 0: expected the header of a tensor of 32 bytes, found 0; the file is truncated or damaged",
        ),
        (b"\0" * 40, "byte 0: expected a tensor, found other data"),
        (
            tensor(())[:-1],
            "byte 32: expected the size of a tensor of 8 bytes, found 7; the file is truncated or damaged",
        ),
        (
            tensor((1 << 40, 1 << 40)),
            f"byte 0: expected a shape whose tensor can exist, found [{1 << 40}, {1 << 40}]",
        ),
        (
            tensor((0, 1 << 40, 1 << 40)),
            f"byte 0: expected a shape whose tensor can exist, found [0, {1 << 40}, {1 << 40}]",
        ),
        (tensor((-1,)), "byte 0: expected a shape of zero or more per dimension, found [-1]"),
        (tensor((1,) * 40), "byte 0: expected a tensor of at most 32 dimensions, found 40"),
        (
            tensor((1 << 40,), size=4 << 40),
            f"byte 48: expected the data of a tensor of {4 << 40} bytes, found 0; "
            "the file is truncated or damaged",
        ),
        (
            tensor((2,), size=4),
            "byte 0: expected 8 bytes for shape [2] of float32, found 4 declared",
        ),
        (
            tensor((), code=3, bits=64),
            "byte 0: expected a tensor of a known data type, found code 3, 64 bits, 1 lanes",
        ),
        (
            tensor((), lanes=4),
            "byte 0: expected a tensor of a known data type, found code 2, 32 bits, 4 lanes",
        ),
        (
            tensor((), code=0, bits=4),
            "byte 0: tensors of int4 are not supported; store the tensor as float32 or int8",
        ),
        (write_blob(np.array(1)) + b"\0", "byte 48: expected the end of the tensor, found 1 more bytes"),
    ],
)
def test_wrong_tensor(data: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_tensor(data, "w.bin")
    assert str(caught.value) == f"w.bin: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0" * 40, "byte 0: expected a file written by relay.save_param_dict, found other data"),
        (
            struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, 1 << 60),
            f"byte 16: expected {1 << 60} names, found 0 bytes for them",
        ),
        (
            struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 1, 1 << 60),
            f"byte 32: expected the name of a parameter of {1 << 60} bytes, found 0; "
            "the file is truncated or damaged",
        ),
        (
            struct.pack("<QQQQsQ", 0xF7E58D4F05049CB7, 0, 1, 1, b"\xff", 1),
            "byte 24: expected the name of a parameter in UTF-8, found other data",
        ),
        (
            struct.pack("<QQQQsQs", 0xF7E58D4F05049CB7, 0, 2, 1, b"w", 1, b"w"),
            "byte 33: parameter 'w' is there twice",
        ),
        (
            struct.pack("<QQQQsQ", 0xF7E58D4F05049CB7, 0, 1, 1, b"w", 2),
            "byte 33: expected as many tensors as names: 1, found 2",
        ),
        (write_params({}) + b"\0", "byte 32: expected the end of the file, found 1 more bytes"),
    ],
)
def test_wrong_file(data: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_params(data, "net.params")
    assert str(caught.value) == f"net.params: {message}"


def test_data_types_that_cannot_be_stored() -> None:
    with pytest.raises(ModelError, match=r"^parameter 'w': a tensor of complex64 cannot be stored; known "):
        write_params({"w": np.zeros(1, "complex64")})


def test_damaged_files() -> None:
    data = write_params(WEIGHTS)
    for seed in range(500):
        try:
            read_params(damaged_bytes(data, seed))
        except ModelError as error:
            assert "\n" not in str(error)
        except Exception as error:
            pytest.fail(f"read_params(damaged_bytes(write_params(WEIGHTS), {seed})): {error!r}")
