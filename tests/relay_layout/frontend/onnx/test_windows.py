"""Convolution, pooling and matrix products from ONNX compute what ONNX Runtime computes."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

RANDOM = np.random.default_rng(3)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


X = _random(2, 4, 9, 7)
LINE = _random(2, 3, 11)
VOLUME = _random(1, 2, 5, 6, 4)
MATRIX = _random(3, 5)


def _nodes(nodes: str, x: np.ndarray = X, /, **constants: np.ndarray) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x}, "constants": constants}


def _conv(attributes: str, *weight: int, x: np.ndarray = X, bias: bool = True) -> dict[str, Any]:
    constants = {"w": _random(*weight)}
    if bias:
        constants["b"] = _random(weight[0])
    case = _nodes(f"y = Conv <{attributes}> (x, w{', b' if bias else ''})", x, **constants)
    rank = x.ndim - 2
    return {**case, "ours": ["add"] * bias + [f"nn.conv{rank}d"], "atol": 1e-5}


def _transposed(attributes: str, *weight: int, x: np.ndarray = X, groups: int = 1) -> dict[str, Any]:
    case = _nodes(
        f"y = ConvTranspose <{attributes}> (x, w, b)", x, w=_random(*weight), b=_random(weight[1] * groups)
    )
    return {**case, "ours": ["add", f"nn.conv{x.ndim - 2}d_transpose"], "atol": 1e-5}


def _deformable(
    attributes: str, weight: tuple[int, ...], size: tuple[int, int], parts: int = 1, mask: bool = False
) -> dict[str, Any]:
    """Offsets of up to some pixels, so that taps look outside as well."""
    taps = weight[2] * weight[3] * parts
    given = {"o": 2 * _random(2, 2 * taps, *size), "m": RANDOM.random((2, taps, *size), "float32")}
    inputs = {"x": X, **{name: array for name, array in given.items() if mask or name == "o"}}
    return {
        "nodes": f"y = DeformConv <{attributes}, offset_group={parts}> (x, w, o, b{', m' if mask else ''})",
        "inputs": inputs,
        "constants": {"w": _random(*weight), "b": _random(weight[0])},
        "opset": 19,
        "atol": 1e-4,
    }


def _pool(kind: str, attributes: str, x: np.ndarray = X, **options: Any) -> dict[str, Any]:
    return {**_nodes(f"y = {kind} <{attributes}> (x)", x), **options}


_PADS = {
    "none": "",
    "even": ", pads=[1, 1, 1, 1]",
    "odd": ", pads=[1, 0, 2, 1]",
    "same_upper": ', auto_pad="SAME_UPPER"',
    "same_lower": ', auto_pad="SAME_LOWER"',
    "valid": ', auto_pad="VALID"',
}
_STEPS = {"1": "strides=[1, 1]", "2": "strides=[2, 2]", "3x2": "strides=[3, 2]"}

CASES: dict[str, dict[str, Any]] = {
    **{
        f"conv_{pads}_{steps}": _conv(f"kernel_shape=[3, 2], {_STEPS[steps]}{_PADS[pads]}", 5, 4, 3, 2)
        | {"symbolic": steps == "2"}
        for pads, steps in product(_PADS, _STEPS)
    },
    "conv_plain": {**_nodes("y = Conv(x, w)", w=_random(5, 4, 1, 1)), "ours": ["nn.conv2d"]},
    "conv_dilated": _conv("dilations=[2, 3], pads=[2, 3, 2, 3]", 5, 4, 3, 3),
    "conv_dilated_same": {
        **_conv('dilations=[2, 1], strides=[2, 2], auto_pad="SAME_UPPER"', 5, 4, 3, 4),
        "oracle": "y = Conv <dilations=[2, 1], strides=[2, 2], pads=[2, 1, 2, 2]> (x, w, b)",
    },
    "conv_grouped": _conv("group=2", 6, 2, 3, 3, bias=False),
    "conv_depthwise": _conv("group=4, pads=[1, 1, 1, 1]", 4, 1, 3, 3),
    "conv_depthwise_multiplied": _conv("group=4", 8, 1, 3, 3),
    "conv_1d": _conv("strides=[2], pads=[1, 2], dilations=[2]", 4, 3, 3, x=LINE),
    "conv_1d_same": _conv('strides=[2], auto_pad="SAME_LOWER"', 4, 3, 4, x=LINE),
    "conv_3d": _conv("strides=[2, 1, 2], pads=[1, 0, 1, 0, 1, 1]", 3, 2, 3, 2, 2, x=VOLUME),
    "conv_computed_weight": {
        **_nodes("w = Mul(a, s)  y = Conv(x, w)", a=_random(5, 4, 3, 3), s=_random(5, 1, 1, 1)),
        "ours": ["nn.conv2d"],
        "atol": 1e-5,
    },
    "conv_run_time_weight": {
        "nodes": "y = Conv <strides=[2, 2]> (x, w, b)",
        "inputs": {"x": X, "w": _random(5, 4, 3, 3), "b": _random(5)},
        "ours": ["add", "nn.conv2d", "reshape"],
        "atol": 1e-5,
    },
    "transposed": _transposed("group=1", 4, 3, 3, 2),
    "transposed_strided": _transposed("strides=[2, 3], pads=[1, 0, 2, 1]", 4, 3, 3, 4),
    "transposed_output_padding": _transposed(
        "strides=[2, 2], output_padding=[1, 0], pads=[1, 1, 1, 1]", 4, 3, 3, 3
    ),
    "transposed_dilated": _transposed("strides=[2, 2], dilations=[2, 1]", 4, 3, 3, 3),
    "transposed_grouped": _transposed("strides=[2, 2], group=2", 4, 3, 2, 2, groups=2),
    "transposed_depthwise": _transposed("strides=[2, 2], group=4, pads=[1, 1, 1, 1]", 4, 1, 4, 4, groups=4),
    "transposed_same_upper": _transposed('strides=[2, 2], auto_pad="SAME_UPPER"', 4, 3, 3, 3),
    "transposed_same_lower": _transposed('strides=[2, 2], auto_pad="SAME_LOWER"', 4, 3, 3, 3),
    "transposed_valid": _transposed('strides=[2, 2], auto_pad="VALID"', 4, 3, 3, 3),
    "transposed_output_shape": _transposed("strides=[2, 2], output_shape=[18, 14]", 4, 3, 3, 3),
    "transposed_output_shape_odd": _transposed("strides=[2, 2], output_shape=[18, 14]", 4, 3, 4, 3),
    "transposed_output_shape_far": _transposed("strides=[3, 2], output_shape=[28, 16]", 4, 3, 2, 3),
    "transposed_1d": _transposed("strides=[2], pads=[1, 0]", 3, 2, 3, x=LINE),
    "transposed_3d": _transposed("strides=[2, 1, 1]", 2, 3, 2, 2, 2, x=VOLUME),
    "deformable": _deformable("kernel_shape=[3, 3], pads=[1, 1, 1, 1]", (5, 4, 3, 3), (9, 7), mask=True),
    "deformable_strides": _deformable("strides=[2, 3], pads=[1, 0, 2, 1]", (5, 4, 3, 2), (5, 3)),
    "deformable_dilations": _deformable("dilations=[2, 1], pads=[2, 1, 2, 1]", (3, 4, 3, 3), (9, 7), parts=2),
    "deformable_groups": _deformable("group=2, pads=[0, 1, 0, 1]", (6, 2, 1, 3), (9, 7), parts=4, mask=True),
    **{
        f"max_pool_{pads}_{steps}_{'ceil' if up else 'floor'}": _pool(
            "MaxPool",
            f"kernel_shape=[3, 2], {_STEPS[steps]}, ceil_mode={up}{_PADS[pads]}",
            ours=["nn.max_pool2d"],
            symbolic=steps == "2",
        )
        for pads, steps, up in product(_PADS, _STEPS, (0, 1))
        if not (up and "auto_pad" in _PADS[pads])
    },
    "max_pool_places": {
        **_nodes(
            "y, z = MaxPool <kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2]> (x)",
            _random(2, 3, 7, 8),
        ),
        "outputs": {"y": "float32", "z": "int64"},
        "symbolic": False,
    },
    "max_pool_dilated": _pool(
        "MaxPool", "kernel_shape=[3, 2], dilations=[2, 3], strides=[2, 1], pads=[1, 0, 1, 0]"
    ),
    "max_pool_dilated_ceil": _pool(
        "MaxPool", "kernel_shape=[2, 2], dilations=[2, 2], strides=[2, 2], ceil_mode=1"
    ),
    "max_pool_wide_steps": _pool(
        "MaxPool",
        'kernel_shape=[1, 2], strides=[3, 3], auto_pad="SAME_UPPER"',
        oracle="y = MaxPool <kernel_shape=[1, 2], strides=[3, 3], pads=[0, 0, 0, 1]> (x)",
    ),
    "max_pool_last_window_in_padding": _pool(
        "MaxPool", "kernel_shape=[1, 1], strides=[3, 3], pads=[0, 0, 0, 0], ceil_mode=1", _random(1, 2, 8, 9)
    ),
    "max_pool_last_window_padded": _pool(
        "MaxPool", "kernel_shape=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1", _random(1, 2, 8, 5)
    ),
    "max_pool_larger_than_its_image": _pool(
        "MaxPool", "kernel_shape=[60, 3], strides=[60, 2], pads=[1, 0, 0, 0], ceil_mode=1"
    ),
    "max_pool_bytes": _pool(
        "MaxPool",
        "kernel_shape=[3, 3], pads=[1, 1, 1, 1]",
        RANDOM.integers(0, 255, (1, 2, 5, 5)).astype("uint8"),
        outputs={"y": "uint8"},
    ),
    "max_pool_signed_bytes": _pool(
        "MaxPool",
        "kernel_shape=[3, 3], pads=[1, 1, 1, 1]",
        RANDOM.integers(-128, 0, (1, 2, 5, 5)).astype("int8"),
        outputs={"y": "int8"},
    ),
    "max_pool_1d": _pool(
        "MaxPool", "kernel_shape=[3], strides=[2], ceil_mode=1", LINE, ours=["nn.max_pool1d"]
    ),
    "max_pool_3d": _pool("MaxPool", "kernel_shape=[2, 3, 2], pads=[0, 1, 1, 1, 1, 0]", VOLUME),
    **{
        f"average_pool_{pads}_{steps}_{'with' if include else 'without'}_pad": _pool(
            "AveragePool",
            f"kernel_shape=[3, 2], {_STEPS[steps]}, count_include_pad={include}{_PADS[pads]}",
            ours=["nn.avg_pool2d"],
            symbolic=steps == "2",
        )
        for pads, steps, include in product(_PADS, _STEPS, (0, 1))
    },
    **{
        f"average_pool_ceil_{pads}_{steps}_{'with' if include else 'without'}_pad": _pool(
            "AveragePool",
            f"kernel_shape=[3, 2], {_STEPS[steps]}, ceil_mode=1, count_include_pad={include}{_PADS[pads]}",
            opset=19,
            symbolic=steps == "2",
        )
        for pads, steps, include in product(("none", "even", "odd"), _STEPS, (0, 1))
    },
    **{
        f"average_pool_dilated_{'with' if include else 'without'}_pad": _pool(
            "AveragePool",
            f"kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 2, 1], count_include_pad={include}",
            opset=19,
        )
        for include in (0, 1)
    },
    **{
        f"average_pool_larger_than_its_image_{'with' if include else 'without'}_pad": _pool(
            "AveragePool",
            "kernel_shape=[60, 60], strides=[60, 60], pads=[1, 0, 2, 1], ceil_mode=1, "
            f"count_include_pad={include}",
            opset=19,
        )
        for include in (0, 1)
    },
    "average_pool_1d": _pool("AveragePool", "kernel_shape=[3], strides=[2], pads=[1, 1]", LINE),
    "average_pool_3d": _pool("AveragePool", "kernel_shape=[2, 2, 2], pads=[1, 0, 0, 0, 1, 1]", VOLUME),
    "lp_pool": _pool("LpPool", "kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]", opset=18),
    "lp_pool_rounded_up": _pool(
        "LpPool", "kernel_shape=[3, 2], strides=[2, 4], pads=[1, 0, 0, 1], ceil_mode=1", opset=18
    ),
    "max_unpool": {
        "nodes": "y = MaxUnpool <kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 0, 0]> (x, i)",
        "inputs": {"x": _random(2, 3, 2, 4), "i": 2 * np.arange(48).reshape(2, 3, 2, 4)},
    },
    "lp_pool_3": _pool("LpPool", "kernel_shape=[2, 2], p=3", opset=18),
    "lp_pool_same": _pool("LpPool", 'kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"', opset=18),
    "global_average_pool": {**_nodes("y = GlobalAveragePool(x)"), "ours": ["mean"]},
    "global_average_pool_3d": _nodes("y = GlobalAveragePool(x)", VOLUME),
    "global_max_pool": {**_nodes("y = GlobalMaxPool(x)"), "ours": ["max"]},
    "global_lp_pool": _nodes("y = GlobalLpPool <p=3> (x)"),
    # Matrix products
    "gemm": {
        **_nodes("y = Gemm <transB=1> (x, w, b)", MATRIX, w=_random(4, 5), b=_random(4)),
        "ours": ["add", "matmul"],
    },
    "gemm_plain": {**_nodes("y = Gemm(x, w)", MATRIX, w=_random(5, 4)), "ours": ["matmul"]},
    "gemm_scaled": {
        **_nodes(
            "y = Gemm <alpha=0.5, beta=-2.0, transB=1> (x, w, b)", MATRIX, w=_random(4, 5), b=_random(1, 4)
        ),
        "ours": ["add", "matmul"],
    },
    "gemm_zero_beta": _nodes("y = Gemm <beta=0.0> (x, w, b)", MATRIX, w=_random(5, 4), b=_random(4)),
    "gemm_scalar_bias": _nodes("y = Gemm(x, w, b)", MATRIX, w=_random(5, 4), b=_random(1)),
    "gemm_scaled_number": _nodes("y = Gemm <beta=2.0> (x, w, b)", MATRIX, w=_random(5, 4), b=_random()),
    "gemm_column_bias": {
        **_nodes("y = Gemm(x, w, b)", MATRIX, w=_random(5, 4), b=_random(3, 1)),
        "symbolic": False,
    },
    "gemm_transposed_left": {
        **_nodes("y = Gemm <transA=1, alpha=2.0> (x, w)", MATRIX, w=_random(3, 4)),
        "symbolic": False,
    },
    "gemm_run_time": {
        "nodes": "y = Gemm <alpha=0.5, beta=2.0, transA=1, transB=1> (x, w, b)",
        "inputs": {"x": MATRIX, "w": _random(4, 3), "b": _random(4)},
        "symbolic": False,
    },
    "matmul": {**_nodes("y = MatMul(x, w)", MATRIX, w=_random(5, 4)), "ours": ["matmul"]},
    "matmul_batched": {
        "nodes": "y = MatMul(x, w)",
        "inputs": {"x": _random(2, 3, 4, 5), "w": _random(3, 5, 2)},
    },
    "matmul_vector": _nodes("y = MatMul(x, w)", MATRIX, w=_random(5)),
    "matmul_of_vector": {**_nodes("y = MatMul(x, w)", _random(5), w=_random(2, 5, 3)), "symbolic": False},
    "einsum": {
        "nodes": 'y = Einsum <equation="nij,njk->nik"> (x, w)',
        "inputs": {"x": _random(2, 3, 4), "w": _random(2, 4, 5)},
    },
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)
