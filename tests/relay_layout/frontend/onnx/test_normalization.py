"""Normalizations, softmax and reductions from ONNX compute what ONNX Runtime computes."""

from collections.abc import Callable
from typing import Any

import numpy as np

RANDOM = np.random.default_rng(4)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _positive(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.5, 2, shape).astype("float32")


X = _random(2, 6, 5, 4)
LOGITS = (30 * _random(3, 4, 5)).astype("float32")
INTEGERS = RANDOM.integers(-9, 9, (2, 3, 4)).astype("int32")
TIES = np.array([[[1, 3, 3], [2, 2, 2], [0, -1, -1]]], "float32")


def _nodes(nodes: str, x: np.ndarray = X, /, **options: Any) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x}, **options}


def _weights(*shape: int) -> dict[str, np.ndarray]:
    return {"s": _random(*shape), "b": _random(*shape)}


def _normalized_over_four(data: np.ndarray) -> np.ndarray:
    squares = np.pad(data**2, ((0, 0), (1, 2), (0, 0), (0, 0)))
    sums = sum(squares[:, start : start + data.shape[1]] for start in range(4))
    return data / (1 + 0.5 / 4 * sums) ** np.float32(0.75)


_STATISTICS = {**_weights(6), "m": _random(6), "v": _positive(6)}
_AXES = {"axes": np.array([-1, 1], "int64")}

CASES: dict[str, dict[str, Any]] = {
    "batch_norm": _nodes(
        "y = BatchNormalization <epsilon=0.01> (x, s, b, m, v)", constants=_STATISTICS, ours=["nn.batch_norm"]
    ),
    **{
        f"batch_norm_opset_{opset}": _nodes(
            "y = BatchNormalization(x, s, b, m, v)",
            constants=_STATISTICS,
            opset=opset,
            ours=["nn.batch_norm"],
        )
        for opset in (7, 9, 14, 15)
    },
    "batch_norm_matrix": _nodes(
        "y = BatchNormalization(x, s, b, m, v)", _random(3, 6), constants=_STATISTICS
    ),
    "batch_norm_volume": _nodes(
        "y = BatchNormalization(x, s, b, m, v)", _random(1, 6, 2, 3, 2), constants=_STATISTICS
    ),
    "batch_norm_computed_scale": _nodes(
        "t = Add(s, b)  y = BatchNormalization(x, t, b, m, v)", constants=_STATISTICS, ours=["nn.batch_norm"]
    ),
    "instance_norm": _nodes(
        "y = InstanceNormalization <epsilon=0.01> (x, s, b)", constants=_weights(6), ours=["nn.instance_norm"]
    ),
    "instance_norm_1d": _nodes("y = InstanceNormalization(x, s, b)", _random(2, 6, 7), constants=_weights(6)),
    "group_norm_18": _nodes(
        "y = GroupNormalization <num_groups=3, epsilon=0.01> (x, s, b)",
        opset=18,
        constants=_weights(3),
        ours=["nn.group_norm"],
    ),
    "group_norm_21": _nodes(
        "y = GroupNormalization <num_groups=2> (x, s, b)",
        opset=21,
        constants=_weights(6),
        ours=["nn.group_norm"],
    ),
    "layer_norm": _nodes(
        "y = LayerNormalization <epsilon=0.01> (x, s, b)", constants=_weights(4), ours=["nn.layer_norm"]
    ),
    "layer_norm_axis": _nodes("y = LayerNormalization <axis=-3> (x, s, b)", constants=_weights(6, 5, 4)),
    "layer_norm_no_bias": _nodes("y = LayerNormalization <axis=2> (x, s)", constants={"s": _random(5, 4)}),
    "layer_norm_statistics": _nodes(
        "y, m, d = LayerNormalization <axis=2, epsilon=0.01> (x, s, b)",
        constants=_weights(5, 4),
        outputs=dict.fromkeys("ymd", "float32"),
    ),
    "layer_norm_broadcast": _nodes("y = LayerNormalization <axis=2> (x, s, b)", constants=_weights(4)),
    "rms_norm_of_one_scale": _nodes("y = RMSNormalization(x, s)", opset=23, constants={"s": _random(1)}),
    "rms_norm_broadcast": _nodes(
        "y = RMSNormalization <axis=1> (x, s)", opset=23, constants={"s": _random(6, 1, 4)}
    ),
    "rms_norm_computed_scale": {
        "nodes": "y = RMSNormalization <axis=1> (x, s)",
        "inputs": {"x": X, "s": _random(6, 1, 4)},
        "opset": 23,
    },
    "rms_norm": _nodes("y = RMSNormalization(x, s)", opset=23, constants={"s": _random(4)}),
    "lrn": _nodes("y = LRN <size=3, alpha=0.5, beta=0.6, bias=1.5> (x)"),
    "lrn_even": _nodes("y = LRN <size=4, alpha=0.5> (x)", expected=[_normalized_over_four(X)]),
    "lrn_defaults": _nodes("y = LRN <size=5> (x)"),
    "mean_variance": _nodes("y = MeanVarianceNormalization(x)", symbolic=False),
    "mean_variance_axes": _nodes("y = MeanVarianceNormalization <axes=[2, 3]> (x)"),
    "lp_norm": _nodes("y = LpNormalization <axis=1, p=2> (x)"),
    "lp_norm_of_bfloat16": _nodes(
        "b = Cast <to=16> (x)  n = LpNormalization <axis=1, p=2> (b)  y = Cast <to=1> (n)",
        expected=[X / np.linalg.norm(X, axis=1, keepdims=True)],
        rtol=0.02,
    ),
    "lp_norm_1": _nodes("y = LpNormalization <axis=-1, p=1> (x)"),
    **{
        f"{kind.lower()}_{opset}_{axis}": _nodes(
            f"y = {kind} <axis={axis}> (x)", LOGITS, opset=opset, symbolic=kind == "Softmax"
        )
        for kind in ("Softmax", "LogSoftmax")
        for opset in (11, 13)
        for axis in (0, 1, 2, -1, -2)
        if not (opset == 11 and axis in (0,))
    },
    **{
        f"{kind.lower()}_default_{opset}": _nodes(f"y = {kind}(x)", LOGITS, opset=opset)
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (11, 13)
    },
    "softmax_11_all": _nodes("y = Softmax <axis=0> (x)", LOGITS, opset=11, symbolic=False),
    "softmax_11_pooled": _nodes("y = Softmax(x)", _random(2, 6, 1, 1), opset=11, ours=["nn.softmax"]),
    "softmax_11_matrix": _nodes("y = Softmax(x)", _random(2, 6), opset=11, ours=["nn.softmax"]),
    "softmax_13_channels": _nodes("y = Softmax <axis=1> (x)", ours=["nn.softmax"]),
    # Reductions
    **{
        f"{kind.lower()}_{name}": _nodes(
            f"y = {kind} {attributes} (x{', axes' if given else ''})",
            _positive(2, 3, 4),
            opset=opset,
            **({"constants": _AXES} if given else {}),
            rtol=2e-5,
            symbolic=kind == "ReduceMean",
        )
        for kind in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
        for kind in [f"Reduce{kind}"]
        for name, attributes, given, opset in (
            ("all", "", False, 18),
            ("axes_attribute", "<axes=[1, -1]>" if kind != "ReduceSum" else "", kind == "ReduceSum", 13),
            ("axes_11", "<axes=[2]>", False, 11),
            ("axes_input", "<keepdims=0>", True, 18),
            ("kept", "<keepdims=1>", True, 18),
            ("nothing", "<noop_with_empty_axes=1>", False, 18),
        )
    },
    "reduce_mean_spatial": _nodes("y = ReduceMean <axes=[2, 3], keepdims=0> (x)", opset=13, ours=["mean"]),
    "reduce_sum_integers": _nodes("y = ReduceSum(x)", INTEGERS, outputs={"y": "int32"}),
    **{
        f"reduce_{kind.lower()}_of_booleans": _nodes(
            f"y = Reduce{kind} <keepdims=0> (x, axes)",
            RANDOM.integers(0, 2, (2, 3, 2)).astype("bool"),
            constants={"axes": np.array([-1], "int64")},
            outputs={"y": "bool"},
            opset=20,
        )
        for kind in ("Max", "Min")
    },
    "reduce_l2_integers": _nodes("y = ReduceL2 <axes=[1]> (x)", INTEGERS, outputs={"y": "int32"}),
    "reduce_log_sum_integers": _nodes(
        "s = Mul (x, x)  y = ReduceLogSum <axes=[-1]> (s)", INTEGERS, outputs={"y": "int32"}
    ),
    "reduce_max_integers": _nodes("y = ReduceMax(x)", INTEGERS, outputs={"y": "int32"}),
    **{
        f"reduce_mean_of_{dtype}": _nodes(
            "m = ReduceMean <axes=[1]> (x)  y = Add (m, x)",
            (LOGITS * 40).astype(dtype),
            opset=13,
            outputs={"y": dtype},
        )
        for dtype in ("int32", "int64")
    },
    "reduce_log_sum_exp_of_nothing": _nodes(
        "y = ReduceLogSumExp <axes=[1]> (x)",
        np.array([[-np.inf, -np.inf], [np.inf, 1.0], [-np.inf, 2.0]], "float32"),
    ),
    "reduce_log_sum_exp_large": _nodes("y = ReduceLogSumExp <axes=[1]> (x)", (LOGITS * 40).astype("float32")),
    **{
        f"{kind.lower()}_{name}": _nodes(
            f"y = {kind} <{attributes}> (x)", TIES, outputs={"y": "int64"}, opset=13, symbolic=False
        )
        for kind in ("ArgMax", "ArgMin")
        for name, attributes in (
            ("plain", "axis=0"),
            ("negative", "axis=-1"),
            ("dropped", "axis=2, keepdims=0"),
            ("last", "axis=2, select_last_index=1"),
        )
    },
    "argmax_symbolic": _nodes("y = ArgMax <axis=1> (x)", outputs={"y": "int64"}),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)
