"""Loops, branches and extents that only a call decides: compiled, saved, loaded, run beside ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

import relay_layout
from relay_layout.bodies import bodies_of, run_by
from relay_layout.errors import TargetError
from relay_layout.frontend import from_onnx
from relay_layout.runtime.profiling import profile
from tests.module_operators import operators

RANDOM = np.random.default_rng(5)
HEAD = '<ir_version: 9, opset_import: ["" : 18]> case '
ROWS = RANDOM.standard_normal((2, 3)).astype("float32")


def _sizes(*numbers: int) -> list[dict[str, Any]]:
    return [{"x": ROWS, "n": np.array(number)} for number in numbers]


def _open(*sizes: int) -> list[dict[str, Any]]:
    return [{"x": RANDOM.standard_normal((size, 3)).astype("float32")} for size in sizes]


COUNTED = """(float[2,3] x, int64 n) => (float[A,B] y, float[C,D,E] z) {
    y, z = Loop <body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e, float[2,3] r) {
        d = Identity(c)  f = Cast <to=1> (i)  g = Add(a, f)  e = Add(g, x)  r = Neg(e) }> (n, , x) }"""

CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "trips_that_a_tensor_counts": (COUNTED, _sizes(3, 0, 1, 2, 7)),
    "trips_and_branches_of_bytes": (
        """(float[2,3] x, int64 n) => (float[A,B] y) <float s = {0.05}, uint8 z = {100}> {
        one = Constant <value = int64 {1}> ()  several = Greater (n, one)
        start = If (several) <then_branch = t () => (float[2,3] r) {
            q = QuantizeLinear (x, s, z)  r = DequantizeLinear (q, s, z) },
            else_branch = e () => (float[2,3] f) { f = Neg (x) }>
        y = Loop <body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e) {
            d = Identity(c)  g = Add(a, x)  h = QuantizeLinear (g, s, z)  e = DequantizeLinear (h, s, z)
            }> (n, , start) }""",
        _sizes(3, 0, 1),
    ),
    "trips_until_a_condition": (
        """(float[2,3] x, float t) => (float[A,B] y, float[C] z) {
        true = Constant <value = bool {1}> ()
        y, z = Loop <body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e, float r) {
            e = Add(a, x)  s = Abs(e)  r = ReduceMax <keepdims=0> (s)  d = Less(r, t) }> ( , true, x) }""",
        [{"x": ROWS, "t": np.array(most, "float32")} for most in (9, 0, 200)],
    ),
    "a_choice_that_reads_an_extent_as_a_number": (
        """(float[N,3] x, int64[K,1] p, bool b) => (float[N,3] y) {
        y = If (b) <then_branch = t () => (float[N,3] r) {
            one = Constant <value = float {5.0}> ()  k = Shape <end=1> (p)  m = Shape <start=1> (x)
            s = Concat <axis=0> (k, m)  u = Expand (one, s)  r = ScatterND (x, p, u) },
            else_branch = e () => (float[N,3] f) { f = Neg (x) }> }""",
        [
            {"x": ROWS, "p": np.array(rows, "int64").reshape(-1, 1), "b": np.array(taken)}
            for rows in ([1], [])
            for taken in (True, False)
        ],
    ),
    "trips_until_either": (
        """(float[2,3] x, int64 n, bool b0) => (float[A,B] y, int64[C] z) {
        y, z = Loop <body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e, int64 r) {
            four = Constant <value = int64 {4}> ()  e = Add(a, x)  r = Identity(i)  d = Less(i, four)
            }> (n, b0, x) }""",
        [
            {"x": ROWS, "n": np.array(trips), "b0": np.array(begins)}
            for trips, begins in ((2, True), (9, True), (9, False))
        ],
    ),
    "state_that_grows": (
        """(float[2,3] x, int64 n) => (float[A,B] y) {
        y = Loop <body = b (int64 i, bool c, float[N,3] a) => (bool d, float[M,3] e) {
            d = Identity(c)  e = Concat <axis=0> (a, x) }> (n, , x) }""",
        _sizes(2, 0, 5),
    ),
    "initial_state_is_handed_on_and_used_again": (
        """(float[2,3] x, int64 n) => (float[A,B] y) {
        s = Exp(x)
        t = Loop <body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e) {
            d = Identity(c)  e = Tanh(a) }> (n, , s)
        u = Sin(x)  v = MatMul(u, w)  q = Add(v, t)  y = Mul(q, s) }""",
        _sizes(0, 2),
    ),
    "nested_over_an_open_size": (
        """(float[N,3] x) => (float[A,B] y, float[C,D,E] z) {
        h = Shape(x)  k = Constant <value = int64[1] {0}> ()  l = Gather(h, k)  n = Squeeze(l)
        y, z = Loop <body = b (int64 i, bool c, float[N,3] a) => (bool d, float[N,3] e, float[Q,R] r) {
            d = Identity(c)
            g, r = Loop <body = o (int64 j, bool q, float[N,3] p) => (bool s, float[N,3] t, float[3] u) {
                s = Identity(q)  v = Gather(x, j)  m = Add(p, v)  f = Cast <to=1> (i)  t = Add(m, f)
                u = ReduceSum <keepdims=0> (t, k) }> (n, , a)
            e = Tanh(g) }> (n, , x) }""",
        _open(3, 1, 4),
    ),
    "trips_of_a_size_that_is_too_small": (
        """(float[N,3] x) => (float[A,B] y, float[C,D] z) {
        h = Shape(x)  k = Constant <value = int64[1] {0}> ()  l = Gather(h, k)  m = Squeeze(l)
        three = Constant <value = int64 {3}> ()  n = Sub(m, three)
        y, r = Loop <body = b (int64 i, bool c, float[N,3] a) => (bool d, float[N,3] e, float[3] s) {
            d = Identity(c)  e = Tanh(a)  s = ReduceSum <keepdims=0> (e, k) }> (n, , x)  z = Exp(r) }""",
        _open(5, 3, 2),
    ),
    "branches_of_two_shapes": (
        """(float[2,3] x, bool c) => (float[A,B] y) {
        y = If (c) <then_branch = t () => (float[A,B] p) { p = Concat <axis=0> (x, x) },
            else_branch = f () => (float[A,B] q) { q = MatMul(x, w) }> }""",
        [{"x": ROWS, "c": np.array(taken)} for taken in (True, False)],
    ),
    "scan_of_an_open_size_from_its_end": (
        """(float[N,3] x) => (float[A] y, float[B,C] z) {
        h = Constant <value = float[3] {0.5, -1.0, 2.0}> ()
        y, z = Scan <body = b (float[3] s, float[3] a) => (float[3] t, float[3] r) {
            u = Add(s, a)  t = Tanh(u)  r = Neg(t) }, num_scan_inputs = 1, scan_input_directions = [1],
            scan_output_directions = [1], scan_output_axes = [1]> (h, x) }""",
        _open(3, 1),
    ),
    "scan_of_a_branch_that_no_trip_may_take": (
        """(float[N,3] x) => (float[A] y, float[B,C] z) {
        h = Constant <value = float[3] {0.5, -1.0, 2.0}> ()
        m = ReduceSum <keepdims = 0> (x)  p = Greater(m, m)
        y, z = Scan <body = b (float[3] s, float[3] a) => (float[3] t, float[3] r) {
            t = Identity(s)  u = If (p) <then_branch = c () => (float[3] v) { v = Exp(h) },
                else_branch = d () => (float[3] q) { q = Sin(h) }>  r = Mul(u, a) },
            num_scan_inputs = 1> (h, x) }""",
        _open(3, 1),
    ),
}


UNTIL_LARGE = """Loop <body = u (int64 j, bool q, float[2,3] g) => (bool s, float[2,3] h) {
    h = Mul(g, g)  m = ReduceMax <keepdims=0> (h)
    most = Constant <value = float {100.0}> ()  s = Less(m, most) }>"""
"""Squares until an element is 100 or more: never, where all are less than one."""

NOT_DUE: dict[str, tuple[str, list[dict[str, Any]], dict[str, list[str]]]] = {
    "in_a_side": (
        f"""(float[2,3] x, bool c) => (float[A,B] y) {{
        true = Constant <value = bool {{1}}> ()
        y = If (c) <then_branch = t () => (float[2,3] p) {{ p = {UNTIL_LARGE} ( , true, x) }},
            else_branch = f () => (float[2,3] r) {{ r = Neg(x) }}> }}""",
        [
            {"x": np.full((2, 3), base, "float32"), "c": np.array(taken)}
            for base, taken in ((2, True), (0.5, False))
        ],
        {"y_choice": ["p_loop"], "y_choice_otherwise": [], "p_loop": []},
    ),
    "in_a_side_of_another_shape": (
        f"""(float[2,3] x, bool c) => (float[A,B] y) {{
        true = Constant <value = bool {{1}}> ()
        y = If (c) <then_branch = t () => (float[4,3] o) {{
                p = {UNTIL_LARGE} ( , true, x)  o = Concat <axis=0> (p, p) }},
            else_branch = f () => (float[2,3] r) {{ r = Neg(x) }}> }}""",
        [
            {"x": np.full((2, 3), base, "float32"), "c": np.array(taken)}
            for base, taken in ((2, True), (0.5, False))
        ],
        {"y_choice": ["p_loop"], "y_choice_otherwise": [], "p_loop": []},
    ),
    "in_no_trip": (
        f"""(float[2,3] x, int64 n) => (float[A,B] y) {{
        true = Constant <value = bool {{1}}> ()
        y = Loop <body = w (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e) {{
            d = Identity(c)  p = {UNTIL_LARGE} ( , true, x)  e = Add(a, p) }}> (n, , x) }}""",
        [{"x": np.full((2, 3), base, "float32"), "n": np.array(trips)} for base, trips in ((2, 2), (0.5, 0))],
        {"y_loop": ["p_loop"], "p_loop": []},
    ),
    # Squares of nothing, in the second trip.
    "in_a_trip_after_the_end": (
        f"""(float[2,3] x) => (float[A,B] y) {{
        true = Constant <value = bool {{1}}> ()  three = Constant <value = int64 {{3}}> ()
        y = Loop <body = w (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e) {{
            p = {UNTIL_LARGE} ( , true, a)  z = Constant <value = float {{0.0}}> ()  e = Mul(p, z)
            l = ReduceMax <keepdims=0> (e)  d = Greater(l, z) }}> (three, true, x) }}""",
        [{"x": np.full((2, 3), 2, "float32")}],
        {"y_loop": ["p_loop"], "p_loop": []},
    ),
}
"""Loops that end where they are due: models, calls, and what each body runs."""


DATA: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "sliced": (
        """(float[2,3] x, int64[1] b, int64[1] e) => (float[P,Q] y) {
        k = Constant <value = int64[1] {1}> ()  s = Slice(x, b, e, k)  y = Exp(s) }""",
        [
            {"x": ROWS, "b": np.array([begin]), "e": np.array([end])}
            for begin, end in ((1, 2), (-2, 100), (2, 1), (-100, -1), (3, 3))
        ],
    ),
    "filled_and_joined": (
        """(float[2,3] x, int64[1] b) => (float[P,Q] y) {
        k = Constant <value = int64[1] {3}> ()  s = Concat <axis=0> (b, k)  z = ConstantOfShape(s)
        y = Concat <axis=0> (z, x) }""",
        [{"x": ROWS, "b": np.array([rows])} for rows in (2, 0)],
    ),
    "resized": (
        """(float[2,3] x, int64[2] b) => (float[P,Q] y) {
        y = Resize <mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , b) }""",
        [{"x": ROWS, "b": np.array(sizes)} for sizes in ((4, 5), (1, 1))],
    ),
}
"""Extents that tensors say."""


def _model(text: str) -> Any:
    model = onnx.parser.parse_model(HEAD + text)
    weight = np.linspace(-1, 1, 9, dtype="float32").reshape(3, 3)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model


@pytest.mark.parametrize("case", CASES | DATA)
def test_agrees(case: str, tmp_path: Path) -> None:
    text, calls = (CASES | DATA)[case]
    model = _model(text)
    assert bool(bodies_of(from_onnx(model))) == (case in CASES)
    _agree(model, calls, tmp_path)


@pytest.mark.parametrize("case", NOT_DUE)
def test_loops_that_are_not_due_do_not_run(case: str, tmp_path: Path) -> None:
    text, calls, wanted = NOT_DUE[case]
    model = _model(text)
    module = from_onnx(model)
    assert {name: run_by(body) for name, body in bodies_of(module).items()} == wanted
    assert run_by(module["main"]) == [next(iter(wanted))]
    _agree(model, calls, tmp_path)


@pytest.mark.parametrize(
    ("sides", "in_main"),
    [
        ("p = Concat <axis=0> (x, x) | q = MatMul(x, w)", ["call_pure_packed"]),
        ("p = Tanh(x) | q = MatMul(x, w)", ["call_pure_packed"]),
        ("p = Tanh(x) | q = Neg(x)", ["tanh", "negative", "where"]),
    ],
)
def test_sides_that_cost_much_are_computed_where_they_are_due(sides: str, in_main: list[str]) -> None:
    one, two = sides.split("|")
    text = f"""(float[2,3] x, bool c) => (float[A,B] y) {{
        y = If (c) <then_branch = t () => (float[A,B] p) {{ {one} }},
            else_branch = f () => (float[A,B] q) {{ {two} }}> }}"""
    assert operators(from_onnx(_model(text))) == in_main


def _agree(model: Any, calls: list[dict[str, Any]], tmp_path: Path) -> None:
    from onnxruntime import InferenceSession

    relay_layout.compile(model).save(tmp_path / "model.rla")
    session = relay_layout.load(tmp_path / "model.rla", threads=2)
    other = InferenceSession(model.SerializeToString())
    names = [output.name for output in other.get_outputs()]
    for given in calls:
        found = session.run(given)
        for name, wanted in zip(names, other.run(None, given), strict=True):
            assert found[name].shape == wanted.shape
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)


def test_many_trips_nest_no_deeper_than_their_logarithm(tmp_path: Path) -> None:
    relay_layout.compile(_model(COUNTED)).save(tmp_path / "model.rla")
    session = relay_layout.load(tmp_path / "model.rla", threads=1)
    found = session.run({"x": np.zeros((2, 3), "float32"), "n": np.array(20_000)})
    assert found["z"].shape == (20_000, 2, 3)
    assert found["z"][3, 1, 2] == -6


def test_convolutions_of_a_body_have_kernels_of_their_layout() -> None:
    text = """(float[1,16,12,10] x, int64 n) => (float[A,B,C,D] y) {
        y = Loop <body = b (int64 i, bool c, float[1,16,12,10] a) => (bool d, float[1,16,12,10] e) {
            d = Identity(c)  f = Conv <pads = [1,1,1,1]> (a, k)  g = Relu(f)
            h = Conv <pads = [1,1,1,1]> (g, k)  e = Add(h, x) }> (n, , x) }"""
    model = _model(text)
    kernel = RANDOM.standard_normal((16, 16, 3, 3)).astype("float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(kernel, "k"))
    wanted = {"nn.conv2d": ["NCHW16c", "default"]}
    converted = relay_layout.convert(model, target="x86-64-v4", desired_layouts=wanted)
    assert list(converted.report["layouts"].values()) == ["NCHW16c->NCHW16c"] * 2
    assert converted.report["layout_transforms"] == 2


def test_profiles_have_the_kernels_of_each_trip_and_no_calls_around_them(tmp_path: Path) -> None:
    relay_layout.compile(_model(COUNTED)).save(tmp_path / "model.rla")
    session = relay_layout.load(tmp_path / "model.rla", threads=1)
    given = {"x": ROWS, "n": np.array(3)}
    names = [name for name, _ in profile(session, given, repeat=2).calls_of_bodies]
    assert sum("negative" in name for name in names) == 3
    assert not any(name in ("y_loop", "y_loop_body") or "_from_" in name for name in names)


def test_gpus_refuse() -> None:
    with pytest.raises(TargetError, match="runs as often as the data say, which code for processors alone"):
        relay_layout.compile(_model(COUNTED), target="cuda-sm_90")
