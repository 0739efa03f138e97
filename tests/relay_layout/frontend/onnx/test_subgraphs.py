"""Branches and loops that are written out, beside ONNX Runtime, what is left of them, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest
import tvm
from tvm import relax

from relay_layout.frontend import from_onnx
from relay_layout.ir import Constant
from tests.module_operators import operators
from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(3)
SMALL = RANDOM.uniform(-0.4, 0.4, (2, 3, 7, 5)).astype("float32")
ROWS = RANDOM.standard_normal((4, 3)).astype("float32")
"""Scanned by rows: four trips."""

NUMBERS: dict[str, Any] = {
    "zero": np.array(0),
    "one": np.array(1),
    "three": np.array(3),
    "far": np.array(2**63 - 1),
    "first": np.array([0]),
    "true": np.array(True),
    "false": np.array(False),
    "half": np.array(0.5, "float32"),
    "w": RANDOM.standard_normal((5, 5)).astype("float32"),
}


def _nodes(nodes: str, **options: Any) -> dict[str, Any]:
    return {"nodes": nodes, "constants": {**NUMBERS, **options.pop("constants", {})}, **options}


def _loop(body: str, given: str, results: str = "y", **options: Any) -> dict[str, Any]:
    """A loop that carries ``a`` on as ``e``; ``d`` says whether it goes on, ``i`` is the trip's number."""
    rows = ", ".join(f"float[] r{place}" for place in range(results.count(",")))
    head = "int64 i, bool c, float[] a"
    tail = f"bool d, float[] e{', ' if rows else ''}{rows}"
    return _nodes(f"{results} = Loop <body = b ({head}) => ({tail}) {{ {body} }}> ({given})", **options)


def _scan(body: str, head: str, tail: str, attributes: str, given: str, **options: Any) -> dict[str, Any]:
    inputs = options.pop("inputs", {"x": ROWS})
    nodes = f"y, z = Scan <body = b ({head}) => ({tail}) {{ {body} }}, {attributes}> ({given})"
    return _nodes(nodes, inputs=inputs, outputs={"y": "float32", "z": "float32"}, symbolic=False, **options)


_TWO = {"y": "float32", "z": "float32"}
_HALVES = "e = Mul(a, half)"
_LARGEST = "m = Abs(e)  l = ReduceMax <keepdims=0> (m)  d = Greater(l, half)"
"""Goes on while any element is larger than a half."""

CASES: dict[str, dict[str, Any]] = {
    "loop": _loop(f"d = Identity(c)  {_HALVES}", "three, true, x", ours=["multiply"] * 3),
    "loop_without_condition": _loop(f"d = Identity(c)  {_HALVES}", "three, , x", ours=["multiply"] * 3),
    "loop_of_no_trip": _loop(f"d = Identity(c)  {_HALVES}", "zero, true, x", ours=[]),
    "loop_that_is_over": _loop(f"d = Identity(c)  {_HALVES}", "three, false, x", ours=[]),
    "loop_by_its_number": _loop(
        "f = Cast <to=1> (i)  e = Add(a, f)  d = Identity(c)", "three, true, x", ours=["add"] * 3
    ),
    "loop_until_its_number": _loop(f"{_HALVES}  d = Less(i, one)", "far, true, x", ours=["multiply"] * 2),
    "loop_without_a_number": _loop(f"{_HALVES}  d = Less(i, one)", ", true, x", ours=["multiply"] * 2),
    "loop_with_rows": _loop(
        f"d = Identity(c)  {_HALVES}  r0 = Neg(e)  r1 = Cast <to=1> (i)",
        "three, true, x",
        "y, z, n",
        outputs={**_TWO, "n": "float32"},
    ),
    "rows_alone": _loop(f"d = Identity(c)  {_HALVES}  r0 = Neg(e)", "three, true, x", "v, y"),
    "rows_of_no_trip": _nodes(
        "v, r = Loop <body = b (int64 i, bool c, float[] a)"
        " => (bool d, float[] e, float[3] q)"
        " { d = Identity(c)  e = Neg(a)  q = ConstantOfShape(s) }> (zero, true, x)"
        "  n = Shape(r)  f = Cast <to=1> (n)  k = ReduceSum <keepdims=0> (f)  y = Add(v, k)",
        constants={"s": np.array([3])},
    ),
    # The tensor that is carried grows.
    "loop_that_appends": _loop("d = Identity(c)  e = Concat <axis=1> (a, x)", "three, true, x"),
    "loop_of_a_sequence": _nodes(
        "e = SequenceEmpty()  s = Loop <body = b (int64 i, bool c, seq(float) a) => (bool d, seq(float) t)"
        " { d = Identity(c)  f = Cast <to=1> (i)  p = Add(x, f)  t = SequenceInsert(a, p) }>"
        " (three, true, e)  y = ConcatFromSequence <axis=1> (s)"
    ),
    "loop_over_a_sequence": _nodes(
        "o = Neg(x)  s = SequenceConstruct(x, o, x)  n = SequenceLength(s)"
        "  v = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e)"
        " { d = Identity(c)  p = SequenceAt(s, i)  q = Mul(p, half)  e = Add(a, q) }> (n, true, x)"
        "  y = Neg(v)"
    ),
    "loop_in_a_loop": _loop(
        "d = Identity(c)  e = Loop <body = u (int64 j, bool k, float[] g)"
        " => (bool l, float[] h) { l = Identity(k)  p = Add(i, j)  f = Cast <to=1> (p)"
        " o = Mul(g, half)  h = Add(o, f) }> (three, true, a)",
        "three, true, x",
    ),
    "branch_in_a_loop": _loop(
        "d = Identity(c)  n = Equal(i, one)  e = If <then_branch = t () => (float[] p) { p = Exp(a) },"
        " else_branch = f () => (float[] q) { q = Sin(a) }> (n)",
        "three, true, x",
        ours=["exp", "sin", "sin"],
    ),
    # What does not depend on the trip is computed once.
    "loop_with_a_part_for_all": _loop(
        "d = Identity(c)  p = Exp(x)  q = Mul(p, half)  e = Add(a, q)",
        "three, true, x",
        ours=["add"] * 3 + ["exp", "multiply"],
    ),
    "loop_of_products": _loop("d = Identity(c)  p = MatMul(a, w)  e = Tanh(p)", "three, true, x"),
    # What a graph calls its own values is nothing to the graph around it, which uses the name later.
    "names_of_the_graph_within": _loop(
        "d = Identity(c)  h = Loop <body = u (int64 j, bool k, float[] g) => (bool l, float[] o)"
        " { l = Identity(k)  p = Mul(g, half)  o = Add(p, p) }> (three, true, a)  p = Exp(x)  e = Add(p, h)",
        "three, true, x",
    ),
    "weights_of_the_graph_within": _nodes(
        "y = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e) <float f = {1.5}>"
        " { d = Identity(c)  e = Mul(a, f) }> (three, true, x)",
        ours=["multiply"] * 3,
    ),
    "number_in_one_dimension": _nodes(
        "y, r = Loop <body = b (int64[1] i, bool c, float[] a) => (bool d, float[] e, int64[] q)"
        " { d = Identity(c)  e = Neg(a)  q = Concat <axis=0> (i, i) }> (three, true, x)",
        outputs={"y": "float32", "r": "int64"},
    ),
    "condition_in_one_dimension": _nodes(
        "m = Abs(x)  l = ReduceMax <keepdims=0> (m)  s = Less(l, half)  g = Unsqueeze(s, first)"
        "  y = Loop <body = b (int64 i, bool[] c, float[] a) => (bool[] d, float[] e)"
        " { d = Identity(c)  e = Mul(a, half) }> (three, g, x)",
        symbolic=False,
    ),
    "loop_that_turns_around": _loop("d = Not(c)  e = Neg(a)", "far, true, x", ours=["negative"]),
    "loop_without_a_number_that_may_end": _nodes(
        "v, n = Loop <body = b (int64 i, bool c, float[] a, int64 k) => (bool d, float[] e, int64 o)"
        f" {{ {_HALVES}  o = Add(k, one)  m = Abs(e)  l = ReduceMax <keepdims=0> (m)  u = Greater(l, half)"
        "  h = Less(o, three)  d = And(u, h) }> (, true, x, zero)  f = Cast <to=1> (n)  y = Add(v, f)",
        symbolic=False,
    ),
    "shapes_chosen_at_run_time": _nodes(
        "s = ReduceSum <keepdims=0> (x)  g = Greater(s, half)"
        "  h = If <then_branch = t () => (int64[n] p) { p = Shape(x) },"
        " else_branch = f () => (int64[n] q) { o = Exp(x)  q = Shape(o) }> (g)  n = Neg(x)  y = Reshape(n, h)"
    ),
    "loop_that_may_end": _loop(f"{_HALVES}  {_LARGEST}", "three, true, x", symbolic=False),
    # As scripts of PyTorch have them: a counter that is carried, and no number of trips that ends the loop.
    "loop_that_may_end_by_a_counter": _nodes(
        "v, n = Loop <body = b (int64 i, bool c, float[] a, int64 k) => (bool d, float[] e, int64 o)"
        f" {{ {_HALVES}  o = Add(k, one)  m = Abs(e)  l = ReduceMax <keepdims=0> (m)  u = Greater(l, tenth)"
        "  h = Less(o, three)  g = And(u, h)  d = And(g, c) }> (far, true, x, zero)"
        "  f = Cast <to=1> (n)  y = Add(v, f)",
        constants={"tenth": np.array(0.1, "float32")},
        symbolic=False,
    ),
    "loop_that_may_be_over_before_its_counter": _nodes(
        "v, n = Loop <body = b (int64 i, bool c, float[] a, int64 k) => (bool d, float[] e, int64 o)"
        f" {{ {_HALVES}  o = Add(k, one)  m = Abs(e)  l = ReduceMax <keepdims=0> (m)  u = Less(l, half)"
        "  h = Equal(o, three)  z = Or(h, u)  d = Not(z) }> (far, true, x, zero)"
        "  f = Cast <to=1> (n)  y = Add(v, f)",
        symbolic=False,
    ),
    "loop_that_ends_at_once": _loop(
        f"{_HALVES}  {_LARGEST}", "three, true, x", inputs={"x": SMALL}, symbolic=False
    ),
    "loop_that_may_not_begin": _nodes(
        "m = Abs(x)  l = ReduceMax <keepdims=0> (m)  g = Less(l, half)"
        "  v = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e)"
        " { d = Identity(c)  e = Mul(a, half) }> (three, g, x)  y = Neg(v)",
        symbolic=False,
    ),
    "loop_that_begins": _nodes(
        "m = Abs(x)  l = ReduceMax <keepdims=0> (m)  g = Greater(l, half)"
        "  v = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e)"
        " { d = Less(i, one)  e = Mul(a, half) }> (three, g, x)  y = Neg(v)",
        symbolic=False,
    ),
    "branch_at_run_time": _nodes(
        "s = ReduceSum <keepdims=0> (x)  g = Greater(s, half)"
        "  y = If <then_branch = t () => (float[] p) { p = Exp(x) },"
        " else_branch = f () => (float[] q) { q = Sin(x) }> (g)",
        symbolic=False,
    ),
    "branch_at_run_time_the_other_way": _nodes(
        "s = ReduceSum <keepdims=0> (x)  g = Less(s, half)"
        "  y, z = If <then_branch = t () => (float[] p, float[] o) { p = Exp(x)  o = Neg(x) },"
        " else_branch = f () => (float[] q, float[] r) { q = Sin(x)  r = Identity(x) }> (g)",
        outputs=_TWO,
        symbolic=False,
    ),
    "branches_that_agree": _nodes(
        "s = ReduceSum <keepdims=0> (x)  g = Greater(s, half)"
        "  y = If <then_branch = t () => (float[] p) { p = Identity(x) },"
        " else_branch = f () => (float[] q) { q = Identity(x) }> (g)",
        ours=["greater", "sum"],
        symbolic=False,
    ),
    "scan": _scan(
        "e = Add(a, v)  r = Mul(e, half)",
        "float[3] a, float[3] v",
        "float[3] e, float[3] r",
        "num_scan_inputs=1",
        "init, x",
        constants={"init": np.ones(3, "float32")},
    ),
    "scan_of_columns": _scan(
        "e = Add(a, v)  r = Mul(e, half)",
        "float[4] a, float[4] v",
        "float[4] e, float[4] r",
        "num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1]",
        "init, x",
        constants={"init": np.ones(4, "float32")},
    ),
    "scan_backwards": _scan(
        "p = Sub(v, a)  e = Mul(p, half)  r = Exp(e)",
        "float[3] a, float[3] v",
        "float[3] e, float[3] r",
        "num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1]",
        "init, x",
        constants={"init": np.ones(3, "float32")},
    ),
    "scan_of_two": _scan(
        "p = Sub(v, u)  e = Mul(p, a)  r = Exp(e)",
        "float[3] a, float[3] v, float[3] u",
        "float[3] e, float[3] r",
        "num_scan_inputs=2, scan_input_directions=[0, 1]",
        "init, x, x",
        constants={"init": np.ones(3, "float32")},
    ),
    "scan_of_a_constant": _scan(
        "e = Add(a, x)  r = Mul(v, half)",
        "float[] a, float[3] v",
        "float[] e, float[3] r",
        "num_scan_inputs=1",
        "x, k",
        constants={"k": ROWS},
        ours=["add"] * 4,
    ),
    # Nothing is carried: one batch of all trips, of which each takes all rows that are passed on.
    "scan_of_distances": _scan(
        "e = Identity(a)  p = Sub(a, v)  q = Mul(p, p)  r = ReduceSum <keepdims=0> (q, last)",
        "float[4,3] a, float[3] v",
        "float[4,3] e, float[4] r",
        "num_scan_inputs=1, scan_output_axes=[1]",
        "x, k",
        constants={"k": ROWS[::2] + 1, "last": np.array([-1])},
        ours=["multiply", "permute_dims", "subtract", "sum"],
    ),
    "scan_of_a_batch_backwards": _scan(
        "e = Identity(a)  m = ReduceMax <keepdims=0> (v)  t = ReduceSum <keepdims=1> (v, first)"
        "  p = Mul(a, m)  q = Add(p, t)  r = Min(q, u)",
        "float[4,3] a, float[4] v, float[3] u",
        "float[4,3] e, float[4,3] r",
        "num_scan_inputs=2, scan_input_axes=[1, 0], scan_input_directions=[1, 0], scan_output_axes=[2],"
        " scan_output_directions=[1]",
        "x, x, k",
        constants={"k": ROWS[:3] * 2},
        ours=[
            "add",
            *["expand_dims"] * 2,
            "flip",
            "flip",
            "max",
            "minimum",
            "multiply",
            *["permute_dims"] * 2,
            "sum",
        ],
    ),
    "scan_that_swaps_what_it_carries": _nodes(
        "y, n, z = Scan <body = b (float[3] a, float[3] c, float[3] v)"
        " => (float[3] e, float[3] d, float[3] r) { e = Identity(c)  d = Identity(a)  r = Mul(a, v) },"
        " num_scan_inputs=1> (init, row, x)",
        inputs={"x": ROWS},
        outputs={"y": "float32", "n": "float32", "z": "float32"},
        constants={"init": np.ones(3, "float32"), "row": ROWS[0]},
        symbolic=False,
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


def test_a_loop_s_weights_are_one_constant() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> case (float[2,2] x) => (float[2,2] y)
        <int64 three = {3}, float[2,2] w = {1, 2, 3, 4}> {
        y = Loop <body = b (int64 i, bool c, float[2,2] a) => (bool d, float[2,2] e) {
            d = Identity(c)  v = Neg(w)  p = MatMul(a, v)  e = Tanh(p) }> (three, , x) }"""
    )
    module = from_onnx(model)
    weights: list[Any] = []

    def visit(found: Any) -> None:
        if isinstance(found, Constant) and not any(map(found.same_as, weights)):
            weights.append(found)

    relax.analysis.post_order_visit(module["main"], visit)
    assert operators(module).count("matmul") == 3
    assert len(weights) == 1


def _may_end(rows: str) -> Any:
    """Halves until no element is larger than a half, five times at most, with a row for each time."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> case (float[3] x) => (float[n,3] y, float[3] z)
        <int64 five = {{5}}, bool true = {{1}}, float half = {{0.5}}> {{
        z, y = Loop <body = b (int64 i, bool c, float[3] a) => (bool d, float[3] e, float[3] r) {{
            e = Mul(a, half)  {_LARGEST}  {rows} }}> (five, true, x) }}"""
    )
    return model


@pytest.mark.parametrize(("largest", "trips"), [(0.5, 1), (1.5, 2), (3.0, 3), (100.0, 5)])
def test_rows_are_as_many_as_trips(largest: float, trips: int) -> None:
    from onnxruntime import InferenceSession

    model = _may_end("r = Neg(e)")
    x = np.array([0.25, -largest, 0.125], "float32")
    wanted = InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert wanted[0].shape == (trips, 3)
    machine = relax.VirtualMachine(tvm.compile(from_onnx(model), "llvm"), tvm.cpu())
    results = machine["main"](tvm.runtime.tensor(x))
    for result, array in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result.numpy(), array)


@pytest.mark.parametrize(
    ("nodes", "inputs", "message"),
    [
        (
            "y = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e)"
            " { p = Gather(x, i)  e = Add(a, p)  d = Less(e, o) }> (k3, t, h)",
            "float[2] x, float o",
            "(Gather) picks elements of axis 0 of [2] that do not exist "
            "(in trip 2 of a loop that may end before, from 0)",
        ),
        (
            "y = If <then_branch = t () => (float[] p) { p = Abs(x) },"
            " else_branch = e () => (float[] q) { q = Neg(x) }> (c)",
            "float[2] x, bool[3] c",
            "(If) has a condition of shape [3], where one element is due",
        ),
        (
            "y = Loop <body = b (int64 i, bool c, float a) => (bool d, float e)"
            " { d = Identity(c)  e = Neg(a) }> (, , x)",
            "float x",
            "(Loop) goes on for ever, once it has begun: give it a number of trips or a condition",
        ),
        (
            "v, y = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e, "
            "float[] r) { d = Identity(c)  e = Concat <axis=0> (a, x)  r = Neg(e) }> (k, , x)",
            "float[2] x",
            "(Loop) joins results of float32[4] and of float32[6] of its trips, which is not supported: "
            "let each trip give a tensor of one shape",
        ),
        (
            "v, y = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e, "
            "float[] r) { d = Identity(c)  e = Neg(a)  r = Exp(e) }> (z, , x)",
            "float[2] x",
            "(Loop) takes no trip, and the file does not say what 'r' would be",
        ),
        (
            "y = If <then_branch = t () => (float[] p) { p = Abs(x) },"
            " else_branch = e () => (float[] q) { q = ReduceSum <keepdims=0> (x) }> (c)",
            "float[2] x, bool c",
            "(If) chooses at run time between float32[2] and float32[], which is not supported: "
            "let both branches give the same rank and element type",
        ),
        (
            "y = Loop <body = b (int64 i, bool c, float[] a) => (bool d, float[] e)"
            " { d = Identity(c)  e = Unsqueeze(a, k1) }> (n, t, x)",
            "float[2] x, int64 n",
            "(Loop) carries float32[2] into a trip that leaves float32[1,2], which is not supported: "
            "let each trip leave tensors of the rank and type that it takes",
        ),
        (
            "y, v = Scan <body = b (float a, float w, float u) => (float e, float r)"
            " { e = Add(a, w)  r = Neg(u) }, num_scan_inputs=2> (h, x, o)",
            "float[2] x, float[3] o",
            "(Scan) scans 2 and 3 elements at once",
        ),
    ],
)
def test_refused(nodes: str, inputs: str, message: str) -> None:
    found = refusal(
        f"({inputs}) => (float[] y)"
        " <bool t = {1}, float h = {0.5}, int64 k = {2}, int64 z = {0}, int64 k0 = {1}, int64 k3 = {3},"
        " int64[1] k1 = {0}> "
        f"{{ {nodes} }}"
    )
    node = "p" if "Gather(x, i)" in nodes else "v" if " v, y = " in f" {nodes}" else "y"
    assert found == f"node '{node}' {message}"
