"""Products by packed matrices compute what ONNX Runtime computes."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(19)


def _bytes(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape).astype("uint8")


def _scale(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-0.1, 0.1, shape).astype("float32")


def _case(attributes: str, inputs: str, rows: int, /, **constants: np.ndarray) -> dict[str, Any]:
    return {
        "nodes": f"y = com.microsoft.MatMulNBits <N=5, {attributes}> (x, w, s{inputs})",
        "inputs": {"x": RANDOM.standard_normal((2, 3, rows)).astype("float32")},
        "constants": constants,
        "domains": {"com.microsoft": 1},
        "atol": 1e-5,
    }


def _codes(kind: int, rows: int, columns: int) -> dict[str, Any]:
    """A product by codes of four bits in blocks that run through rows; a byte may be of two rows."""
    case = _case(
        f"K={rows}", "", rows, w=_bytes(-(-rows * columns // 2)), s=np.abs(_scale(-(-rows * columns // 16)))
    )
    nodes = (
        f"y = com.microsoft.MatMulBnb4 <K={rows}, N={columns}, block_size=16, quant_type={kind}> (x, w, s)"
    )
    return {**case, "nodes": nodes}


def _table(attributes: str, points: np.ndarray | None, table: np.ndarray) -> dict[str, Any]:
    """Rows of a table whose rows are of three blocks."""
    given = {} if points is None else {"z": points}
    return {
        "nodes": f"y = com.microsoft.GatherBlockQuantized <block_size=16{attributes}> "
        f"(w, x, s{', z' if given else ''})",
        "inputs": {"x": np.array([[0, 2, -1], [1, 1, 4]])},
        "constants": {"w": table, "s": _scale(5, 3), **given},
        "domains": {"com.microsoft": 1},
    }


def _given(
    attributes: str, rows: int, *, points: np.ndarray | None = None, **given: np.ndarray
) -> dict[str, Any]:
    """A product by a matrix that is an input."""
    more = {} if points is None else {"z": points}
    case = _case(f"K={rows}, {attributes}", ", z" if more else "", rows)
    return {**case, "inputs": {**case["inputs"], **given, **more}, "symbolic": False}


CASES: dict[str, dict[str, Any]] = {
    "given": _given("bits=4, block_size=16", 40, w=_bytes(5, 3, 8), s=_scale(15)),
    "given_with_points": _given(
        "bits=4, block_size=16", 40, w=_bytes(5, 3, 8), s=_scale(15), points=_bytes(10)
    ),
    "given_bytes": _given("bits=8, block_size=32", 64, w=_bytes(5, 2, 32), s=_scale(10), points=_bytes(10)),
    "fp4": _codes(0, 32, 5),
    "nf4": _codes(1, 17, 3),
    "table_of_bytes": _table(", bits=8", _bytes(5, 3), _bytes(5, 40)),
    "table_of_packed_bytes": _table("", None, _bytes(5, 20)),
    "table_of_packed_bytes_with_points": _table(", bits=4", _bytes(5, 2), _bytes(5, 20)),
    "table_of_four_bits": _table(
        ", gather_axis=1", _bytes(5, 3).astype(ml_dtypes.int4), _bytes(5, 40).astype(ml_dtypes.int4)
    ),
    "4_bits": _case("K=32, bits=4, block_size=16", "", 32, w=_bytes(5, 2, 8), s=_scale(10)),
    "last_block_is_short": _case(
        "K=37, bits=4, block_size=16", ", z", 37, w=_bytes(5, 3, 8), s=_scale(15), z=_bytes(10)
    ),
    "8_bits_and_bias": _case(
        "K=48, bits=8, block_size=16",
        ", z, , b",
        48,
        w=_bytes(5, 3, 16),
        s=_scale(15),
        z=_bytes(15),
        b=_scale(5),
    ),
    "2_bits": _case("K=32, bits=2, block_size=16", "", 32, w=_bytes(5, 2, 4), s=_scale(10)),
    "real_zero_points": _case(
        "K=32, bits=4, block_size=16",
        ", z",
        32,
        w=_bytes(5, 2, 8),
        s=_scale(10),
        z=RANDOM.uniform(0, 15, (5, 2)).astype("float32"),
    ),
    "groups_out_of_order": _case(
        "K=32, bits=4, block_size=16",
        ", , g",
        32,
        w=_bytes(5, 2, 8),
        s=_scale(10),
        g=RANDOM.integers(0, 2, 32).astype("int32"),
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.parametrize(
    ("attributes", "inputs", "message"),
    [
        ("K=33, N=1", "x, w, s", "multiplies [2,32] by a matrix of 33 rows"),
        ("K=32, N=1, bits=3", "x, w, s", "has bits=3 and block_size=16; bits of [2,4,8] are supported"),
        (
            "K=32, N=2",
            "x, w, s",
            "has a matrix of 16 bytes and 2 scales for 2 columns of 32 elements in blocks of 16",
        ),
        (
            "K=32, N=1",
            "x, w, s, z, g",
            "has zero points and g_idx, which is not supported; quantize the matrix without g_idx",
        ),
        (
            "K=32, N=1",
            "x, v, s, , g",
            "has bits=4 or g_idx for a matrix that is no constant, which is not supported",
        ),
        (
            "K=32, N=3",
            "x, v, s",
            "multiplies [2,32] by a matrix [1,2,8] and scales [2] for 3 columns of 32 elements in "
            "blocks of 16",
        ),
    ],
)
def test_what_is_refused(attributes: str, inputs: str, message: str) -> None:
    tensors = ", ".join(
        [
            f"uint8[1,2,8] w = {{{', '.join(['7'] * 16)}}}",
            "float[2] s = {1, 2}",
            "uint8[1] z = {1}",
            f"int32[32] g = {{{', '.join(['0'] * 32)}}}",
        ]
    )
    found = refusal(
        f"(float[2,32] x, uint8[1,2,8] v) => (float[a,b] y) <{tensors}>"
        f" {{ y = com.microsoft.MatMulNBits <{attributes}, block_size=16> ({inputs}) }}"
    )
    assert found == f"node 'y' (MatMulNBits) {message}"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("quant_type=0, transB=0", "has transB=0, which is not supported: quantize the matrix transposed"),
        (
            "quant_type=2",
            "has a matrix of 8 bytes and 1 factors of quant_type 2 for 1 columns of 16 elements "
            "in blocks of 16",
        ),
    ],
)
def test_codes_that_are_refused(attributes: str, message: str) -> None:
    found = refusal(
        "(float[2,16] x) => (float[a,b] y) "
        f"<uint8[8] w = {{{', '.join(['7'] * 8)}}}, float[1] s = {{1}}> "
        f"{{ y = com.microsoft.MatMulBnb4 <K=16, N=1, block_size=16, {attributes}> (x, w, s) }}"
    )
    assert found == f"node 'y' (MatMulBnb4) {message}"
