"""ONNX operators that move elements, and shapes computed in the graph, work as in ONNX Runtime."""

from collections.abc import Callable
from typing import Any

import numpy as np

RANDOM = np.random.default_rng(5)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


X = _random(2, 3, 7, 5)
FAR = 2**63 - 1


def _nodes(nodes: str, x: np.ndarray = X, /, **options: Any) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x}, **options}


def _reshape(*shape: int, x: np.ndarray = X, attributes: str = "", **options: Any) -> dict[str, Any]:
    return _nodes(f"y = Reshape {attributes} (x, s)", x, constants={"s": _integers(*shape)}, **options)


def _slice(starts: Any, ends: Any, axes: Any = None, steps: Any = None, **options: Any) -> dict[str, Any]:
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    constants = {name: _integers(*numbers) for name, numbers in given.items() if numbers is not None}
    names = [name if name in constants else "" for name in given]
    return _nodes(f"y = Slice(x, {', '.join(names).rstrip(', ')})", constants=constants, **options)


CASES: dict[str, dict[str, Any]] = {
    "reshape": _reshape(2, 15, 7, ours=["reshape"], symbolic=False),
    "reshape_inferred": _reshape(-1, 105, ours=["reshape"]),
    "reshape_kept": _reshape(0, -1, ours=["reshape"]),
    "reshape_kept_inner": _reshape(0, 0, -1),
    "reshape_inferred_inner": _reshape(0, 5, -1, 3),
    "reshape_same": _reshape(-1, 3, 7, 5, ours=[]),
    "reshape_all": _reshape(-1, symbolic=True),
    "reshape_allowzero": _reshape(2, -1, attributes="<allowzero=1>", symbolic=False),
    "reshape_of_nothing": _reshape(5, 0, 3, x=_random(0, 3, 5), attributes="<allowzero=1>", symbolic=False),
    "reshape_scalar": _reshape(x=_random(1, 1), symbolic=False),
    **{f"flatten_{axis}": _nodes(f"y = Flatten <axis={axis}> (x)") for axis in (0, 1, 2, 4, -1)},
    "flatten_matrix": _nodes("y = Flatten(x)", _random(3, 4), ours=[]),
    "transpose": _nodes("y = Transpose <perm=[0, 2, 3, 1]> (x)", ours=["permute_dims"]),
    "transpose_default": _nodes("y = Transpose(x)"),
    "transpose_nothing": _nodes("y = Transpose <perm=[0, 1, 2, 3]> (x)", ours=[]),
    "squeeze": _nodes("y = Squeeze(x, a)", _random(2, 1, 3, 1), constants={"a": _integers(1, -1)}),
    "squeeze_11": _nodes("y = Squeeze <axes=[1]> (x)", _random(2, 1, 3, 1), opset=11),
    "squeeze_all": _nodes("y = Squeeze(x)", _random(2, 1, 3, 1)),
    "unsqueeze": _nodes("y = Unsqueeze(x, a)", _random(2, 3), constants={"a": _integers(-1, 1)}),
    "unsqueeze_many": _nodes("y = Unsqueeze(x, a)", _random(2, 3), constants={"a": _integers(3, 0, 1)}),
    "unsqueeze_11": _nodes("y = Unsqueeze <axes=[0, 2]> (x)", _random(2, 3), opset=11),
    "concat": _nodes(
        "y = Concat <axis=1> (x, c, x)", constants={"c": _random(2, 1, 7, 5)}, ours=["concat"], symbolic=False
    ),
    "concat_last": {"nodes": "y = Concat <axis=-1> (x, z)", "inputs": {"x": X, "z": _random(2, 3, 7, 2)}},
    "concat_of_nothing_elsewhere": {
        "nodes": "y = Concat <axis=1> (x, z, x)",
        "inputs": {"x": X[:, :, :0], "z": X[:, :1, :0]},
        "symbolic": False,
    },
    "concat_with_nothing": {
        "nodes": "y = Concat <axis=1> (x, z)",
        "inputs": {"x": X, "z": X[:, :0]},
        "symbolic": False,
    },
    "concat_of_one": _nodes("y = Concat <axis=0> (x)", ours=[]),
    "split_11": _nodes(
        "y, z = Split <axis=1, split=[1, 2]> (x)",
        opset=11,
        outputs={"y": "float32", "z": "float32"},
        ours=["split"],
    ),
    "split_equal": _nodes(
        "y, z = Split <axis=0> (x)", outputs={"y": "float32", "z": "float32"}, symbolic=False
    ),
    "split_uneven": _nodes(
        "y, z = Split <axis=-1, num_outputs=2> (x)", outputs={"y": "float32", "z": "float32"}, opset=18
    ),
    "split_given": _nodes(
        "a, y, z = Split <axis=2> (x, s)",
        constants={"s": _integers(1, 4, 2)},
        outputs={"z": "float32", "y": "float32"},
    ),
    "split_of_a_shape": _nodes(
        "s = Shape(x)  a, b = Split(s)  g = Concat <axis=0> (b, a)  y = Reshape(x, g)", ours=["reshape"]
    ),
    "split_of_one": _nodes("y = Split <axis=1> (x, s)", constants={"s": _integers(3)}, ours=[]),
    "split_with_empty_parts": _nodes(
        "a, b, c = Split <axis=2> (x, s)  y = Concat <axis=2> (c, a)",
        constants={"s": _integers(3, 0, 4)},
    ),
    "split_into_one_part_and_nothing": _nodes(
        "y, a = Split <axis=2> (x, s)  z = Shape(a)",
        constants={"s": _integers(7, 0)},
        outputs={"y": "float32", "z": "int64"},
        symbolic=False,
    ),
    # Slices
    "slice": _slice([1, 0], [3, 4], [2, 3], ours=["strided_slice"]),
    "slice_default_axes": _slice([0, 1], [1, 3], symbolic=False),
    "slice_far": _slice([1], [FAR], [1]),
    "slice_negative": _slice([-3], [-1], [2]),
    "slice_steps": _slice([0, 1], [FAR, FAR], [2, 3], [2, 3]),
    "slice_backwards": _slice([-1], [-FAR], [2], [-1], ours=["flip"]),
    "slice_backwards_steps": _slice([5, 4], [0, -FAR], [2, 3], [-2, -3]),
    "slice_backwards_from_before_the_first": _slice([-9, -1], [-FAR, -FAR], [3, 2], [-2, -3], symbolic=False),
    "slice_beyond": _slice([-100], [100], [3], ours=[]),
    "slice_empty": _slice([3], [1], [2], symbolic=False),
    "slice_batch": _slice([0], [1], [0]),
    "slice_batch_from": _slice([1], [FAR], [0]),
    "slice_batch_last": _slice([-1], [FAR], [0]),
    "slice_batch_all": _slice([0], [FAR], [0], ours=[]),
    "slice_9": _nodes("y = Slice <axes=[1, 3], starts=[0, -2], ends=[2, 100]> (x)", opset=9),
    # Picking
    "gather": _nodes("y = Gather <axis=1> (x, i)", constants={"i": _integers(2, 0, -1, -3)}, ours=["take"]),
    "gather_scalar": _nodes("y = Gather <axis=-1> (x, i)", constants={"i": np.array(-2, "int64")}),
    "gather_matrix": _nodes(
        "y = Gather <axis=2> (x, i)", constants={"i": _integers(0, 6, -7, 1).reshape(2, 2)}
    ),
    "gather_run_time": {
        "nodes": "y = Gather <axis=1> (x, i)",
        "inputs": {"x": X, "i": _integers(2, -1, 0)},
    },
    "gather_embedding": {
        "nodes": "y = Gather(w, x)",
        "inputs": {"x": RANDOM.integers(-9, 9, (2, 4)).astype("int32")},
        "constants": {"w": _random(9, 3)},
    },
    "gather_batch_run_time": {"nodes": "y = Gather(x, i)", "inputs": {"x": X, "i": np.array(-1, "int64")}},
    "gather_elements": {
        "nodes": "y = GatherElements <axis=1> (x, i)",
        "inputs": {"x": X, "i": RANDOM.integers(-3, 3, (2, 3, 7, 5))},
    },
    **{
        f"gather_nd_{opset}": {
            "nodes": "y = GatherND(x, i)",
            "inputs": {"x": X, "i": np.array([[-1, 0], [1, -2]], "int64")},
            "opset": opset,
        }
        for opset in (11, 12, 13)
    },
    "gather_nd_of_batches": {
        "nodes": "y = GatherND <batch_dims=1> (x, i)",
        "inputs": {"x": X, "i": np.array([[-1, 0], [1, -2]], "int64")},
    },
    "gather_nd": {
        "nodes": "y = GatherND(x, i)",
        "inputs": {"x": X, "i": RANDOM.integers(0, 2, (4, 2))},
        "symbolic": False,
    },
    "expand": _nodes(
        "y = Expand(x, s)", _random(3, 1), constants={"s": _integers(2, 1, 4)}, ours=["broadcast_to"]
    ),
    "expand_of_a_constant": _nodes(
        "e = Expand(c, s)  y = Add(x, e)",
        _random(17000, 2),
        constants={"c": _random(17000, 1), "s": _integers(17000, 2)},
        symbolic=False,
        ours=["add"],
    ),
    "expand_nothing": _nodes("y = Expand(x, s)", constants={"s": _integers(1, 1)}, ours=[]),
    "tile": _nodes("y = Tile(x, r)", constants={"r": _integers(1, 2, 1, 3)}, ours=["tile"]),
    "tile_nothing": _nodes("y = Tile(x, r)", constants={"r": _integers(1, 1, 1, 1)}, ours=[]),
    "cumsum": _nodes("y = CumSum(x, a)", constants={"a": np.array(1, "int64")}, ours=["cumsum"]),
    "cumprod": _nodes(
        "y = CumProd <exclusive=1> (x, a)",
        constants={"a": np.array(2, "int64")},
        opset=26,
        expected=[np.concatenate([np.ones((2, 3, 1, 5), "float32"), X[:, :, :-1]], 2).cumprod(2)],
        symbolic=False,
    ),
    "cumsum_reverse": _nodes(
        "y = CumSum <reverse=1, exclusive=1> (x, a)", constants={"a": np.array(-1, "int64")}
    ),
    "trilu": _nodes("y = Trilu <upper=0> (x)"),
    **{
        f"topk_{opset}": _nodes(
            "y, i = TopK <axis=0> (x, k)" if opset > 9 else "y, i = TopK <axis=0, k=2> (x)",
            _random(6, 5),
            constants={"k": _integers(2)} if opset > 9 else {},
            outputs={"y": "float32", "i": "int64"},
            opset=opset,
        )
        for opset in (9, 10, 11)
    },
    "topk_smallest": _nodes(
        "y, i = TopK <largest=0> (x, k)",
        constants={"k": _integers(2)},
        outputs={"y": "float32", "i": "int64"},
    ),
    "topk_none": _nodes(
        "y, i = TopK <axis=2> (x, k)", constants={"k": _integers(0)}, outputs={"y": "float32", "i": "int64"}
    ),
    "topk": _nodes(
        "y, i = TopK(x, k)", constants={"k": _integers(2)}, outputs={"y": "float32", "i": "int64"}
    ),
    "one_hot_of_floats": _nodes(
        "y = OneHot <axis=1> (x, d, v)",
        np.array([[0, 3], [-1, 4]], "float32"),
        constants={"d": np.array(5, "float32"), "v": np.array([0, 2], "float32")},
    ),
    "eye_like": _nodes("y = EyeLike <k=-1, dtype=1> (x)", np.zeros((4, 3), "int32")),
    "scatter_nd": {
        "nodes": 'y = ScatterND <reduction="max"> (x, i, u)',
        "inputs": {"x": X, "i": np.array([[0, 1], [1, -2], [0, 1]], "int64"), "u": _random(3, 7, 5)},
        "opset": 18,
    },
    "reverse_sequence": {
        "nodes": "y = ReverseSequence <batch_axis=0, time_axis=1> (x, l)",
        "inputs": {"x": X, "l": _integers(3, 0)},
    },
    "reverse_sequence_time_first": _nodes("y = ReverseSequence(x, l)", constants={"l": _integers(2, 1, 0)}),
    "one_hot": _nodes(
        "y = OneHot(x, d, v)",
        _integers(1, 0, -1, 3),
        constants={"d": np.array(4, "int64"), "v": np.array([0, 1], "float32")},
    ),
    "one_hot_numbers_of_run_time": {
        "nodes": "y = OneHot <axis=0> (x, d, v)",
        "inputs": {"x": _integers(1, 0, -1, 5), "v": np.array([3, 7], "float32")},
        "constants": {"d": np.array(4, "int64")},
    },
    "repeats_by_one_hot": _nodes(
        "s = Shape(x)  n = Gather(s, place)  v = Concat <axis=0> (one, n)"
        "  r = OneHot <axis=0> (last, five, v)  f = Squeeze(r, last)"
        "  u = Unsqueeze(x, place)  y = Tile(u, f)",
        constants={
            "place": _integers(0),
            "last": _integers(-1),
            "five": np.array(5, "int64"),
            "one": _integers(1),
        },
        opset=13,
    ),
    "identity": _nodes("a = Identity(x)  y = Relu(a)", ours=["nn.relu"]),
    "dropout_6": _nodes("y = Dropout <ratio=0.4> (x)", opset=9, ours=[]),
    "dropout_13": _nodes("y = Dropout(x, r)", constants={"r": np.array(0.5, "float32")}, opset=13, ours=[]),
    "dropout_mask": _nodes(
        "y, m = Dropout(x)", outputs={"y": "float32", "m": "bool"}, ours=[], symbolic=False
    ),
    # Shapes that the graph works out
    "shape": _nodes("y = Shape(x)", outputs={"y": "int64"}, symbolic=False, ours=[]),
    "shape_symbolic": _nodes("y = Shape(x)", outputs={"y": "int64"}),
    # Constants are folded as the file's opset has it: before 13 axes are attributes, and softmax flattens
    "shape_arithmetic_12": _nodes(
        "s = Shape(x)  n = Gather <axis=0> (s, zero)  u = Unsqueeze <axes=[0]> (n)"
        "  r = Concat <axis=0> (u, rest)  y = Reshape(x, r)",
        constants={"zero": np.array(0), "rest": np.array([-1])},
        opset=12,
        ours=["reshape"],
    ),
    "softmax_of_a_constant_12": _nodes(
        "s = Softmax <axis=1> (c)  y = Add(x, s)",
        _random(2, 3, 4),
        constants={"c": _random(2, 3, 4)},
        opset=12,
        symbolic=False,
    ),
    "shape_part": _nodes("y = Shape <start=1, end=-1> (x)", outputs={"y": "int64"}, opset=15, ours=[]),
    "largest_of_three_sizes": _nodes(
        "s = Shape(x)  a = Max(s, two, four)  b = Min(s, three, a)  c = Max(b)  y = Concat <axis=0> (a, c)",
        constants={"two": _integers(2), "three": _integers(3), "four": _integers(4)},
        outputs={"y": "int64"},
    ),
    "size": _nodes("y = Size(x)", outputs={"y": "int64"}),
    "flatten_by_shape": _nodes(
        "s = Shape(x)  n = Gather(s, zero)  u = Unsqueeze(n, axes)  g = Concat <axis=0> (u, minus)"
        "  y = Reshape(x, g)",
        constants={"zero": np.array(0, "int64"), "axes": _integers(0), "minus": _integers(-1)},
        ours=["reshape"],
    ),
    "reshape_by_shape_arithmetic": _nodes(
        "s = Shape(x)  n = Slice(s, zero, one)  c = Slice(s, one, two)  r = Slice(s, two, far)"
        "  m = Mul(n, c)  h = Div(m, three)  t = Mul(h, three)  g = Concat <axis=0> (t, r)"
        "  y = Reshape(x, g)",
        constants={
            "zero": _integers(0),
            "one": _integers(1),
            "two": _integers(2),
            "three": _integers(3),
            "far": _integers(FAR),
        },
    ),
    "channel_shuffle": _nodes(
        "s = Shape(x)  n = Gather(s, zero)  u = Unsqueeze(n, axes)"
        "  g = Concat <axis=0> (u, parts)  a = Reshape(x, g)  b = Transpose <perm=[0, 2, 1, 3, 4]> (a)"
        "  h = Concat <axis=0> (u, back)  y = Reshape(b, h)",
        _random(2, 6, 3, 4),
        constants={
            "zero": np.array(0, "int64"),
            "axes": _integers(0),
            "parts": _integers(2, 3, 3, 4),
            "back": _integers(-1, 3, 4),
        },
        ours=["permute_dims", "reshape", "reshape"],
    ),
    "expand_by_shape": _nodes(
        "s = Shape(x)  o = ConstantOfShape <value=int64[1] {1}> (four)  t = Mul(o, minus)  e = Equal(g, t)"
        "  p = Where(e, o, g)  z = Slice(s, zero, one)  q = Concat <axis=0> (z, p)  y = Expand(c, q)",
        constants={
            "four": _integers(2),
            "minus": _integers(-1),
            "g": _integers(-1, 4),
            "zero": _integers(0),
            "one": _integers(1),
            "c": _random(3, 1, 1)[:1],
        },
    ),
    "where_on_extents": _nodes(
        "s = Shape(x)  e = Equal(s, minus)  p = Where(e, ones, s)  y = Expand(c, p)",
        constants={
            "minus": _integers(-1, -1, -1, -1),
            "ones": _integers(1, 1, 1, 1),
            "c": _random(1, 1, 1, 1),
        },
    ),
    "constant_of_shape": _nodes(
        "s = Shape(x)  y = ConstantOfShape <value=float[1] {2.5}> (s)", outputs={"y": "float32"}
    ),
    "range_of_extent": _nodes(
        "s = Shape(x)  n = Gather(s, zero)  y = Range(zero, n, one)",
        constants={"zero": np.array(0, "int64"), "one": np.array(1, "int64")},
        outputs={"y": "int64"},
    ),
    "extent_as_data": _nodes(
        "s = Shape(x)  f = Cast <to=1> (s)  y = Mul(f, half)", constants={"half": np.array(0.5, "float32")}
    ),
    "mean_by_extent": _nodes(
        "t = ReduceSum(x, a)  s = Shape(x)  n = Gather(s, a)  f = Cast <to=1> (n)  y = Div(t, f)",
        constants={"a": _integers(0)},
    ),
    "branch": _nodes(
        "y = If <then_branch = t () => (float[unknown] p) { p = Relu(x) },"
        " else_branch = e () => (float[unknown] q) { q = Neg(x) }> (c)",
        constants={"c": np.array(False)},
        ours=["negative"],
    ),
    "branch_on_rank": _nodes(
        "s = Shape(x)  d = Size(s)  c = Equal(d, four)"
        "  y = If <then_branch = t () => (float[unknown] p) { r = Relu(x)  p = Neg(r) },"
        " else_branch = e () => (float[unknown] q) { q = Neg(x) }> (c)",
        constants={"four": np.array(4, "int64")},
        ours=["negative", "nn.relu"],
    ),
    "scatter_to_a_part": _nodes(
        "y = ScatterElements <axis=1> (x, i, u)",
        constants={"i": np.array([2, 0]).reshape(1, 2, 1, 1).repeat(3, 2), "u": _random(1, 2, 3, 1)},
        symbolic=False,
    ),
    "scatter_largest": _nodes(
        'y = ScatterElements <axis=-2, reduction="max"> (x, i, u)',
        opset=18,
        constants={"i": np.zeros((1, 2, 3, 1), "int64"), "u": _random(1, 2, 3, 1)},
        symbolic=False,
    ),
    # Graphs
    "input_as_output": _nodes("z = Relu(x)", outputs={"x": "float32", "z": "float32"}, ours=["nn.relu"]),
    "unused_node": _nodes("y = Relu(x)  z = Exp(x)", ours=["nn.relu"]),
    "constant_output": _nodes(
        "y = Relu(x)", constants={"c": _random(3)}, outputs={"y": "float32", "c": "float32"}, ours=["nn.relu"]
    ),
    "output_used_further": _nodes(
        "y = Relu(x)  z = Neg(y)", outputs={"z": "float32", "y": "float32"}, ours=["negative", "nn.relu"]
    ),
    "unused_input": {"nodes": "y = Relu(x)", "inputs": {"x": X, "z": X}},
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)
