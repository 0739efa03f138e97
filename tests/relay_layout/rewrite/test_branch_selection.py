"""Choices as selections: beside ONNX Runtime, and which of them stay."""

from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.bodies import bodies_of
from relay_layout.frontend import from_onnx
from relay_layout.rewrite.branch_selection import with_selections
from relay_layout.rewrite.canonicalize import canonicalize
from tests.module_operators import operators

ROWS = np.random.default_rng(7).standard_normal((4, 3)).astype("float32")

CHOICE = """(float[N,3] x, bool c, bool k) => (float[A,B] y, float[C,D] z) {
    e = Exp(x)  y, z = If (c) <
        then_branch = t () => (float[A,B] p, float[C,D] o) { p = MatMul(e, w)  o = Identity(e) },
        else_branch = f () => (float[A,B] q, float[C,D] r) { q = INNER  r = Identity(e) }> }"""

NESTED = """If (k) <then_branch = u () => (float[A,B] l) { a = MatMul(x, w)  l = Tanh(a) },
    else_branch = g () => (float[A,B] m) { m = Neg(e) }>"""

LOOP = """Loop <body = b (int64 i, bool d, float[N,3] g) => (bool s, float[N,3] h) {
    h = Add(g, g)  v = ReduceMax <keepdims=0> (h)  t = ReduceSum <keepdims=0> (w)
    s = Less(v, t) }> (, c, x)"""


def _model(inner: str) -> Any:
    text = '<ir_version: 9, opset_import: ["" : 18]> case ' + CHOICE.replace("INNER", inner)
    model = onnx.parser.parse_model(text)
    weight = np.linspace(-1, 2, 9, dtype="float32").reshape(3, 3)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model


@pytest.mark.parametrize("inner", ["Neg(x)", NESTED])
def test_selections_agree_with_onnx_runtime(inner: str) -> None:
    from onnxruntime import InferenceSession

    model = _model(inner)
    module = from_onnx(model)
    assert bodies_of(module)
    selecting = canonicalize(with_selections(module))
    assert not bodies_of(selecting)
    machine = relax.VirtualMachine(tvm.compile(selecting, "llvm"), tvm.cpu())
    session = InferenceSession(model.SerializeToString())
    for c, k in ((True, True), (False, True), (False, False)):
        given = {"x": ROWS, "c": np.array(c), "k": np.array(k)}
        given = {each.name: given[each.name] for each in session.get_inputs()}
        found = machine["main"](*map(tvm.runtime.tensor, (ROWS, np.array(c), np.array(k))))
        for one, wanted in zip(found, session.run(None, given), strict=True):
            np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_what_both_sides_leave_as_it_is_needs_no_selection() -> None:
    found = operators(canonicalize(with_selections(from_onnx(_model("Neg(x)")))))
    assert sorted(found) == ["exp", "matmul", "negative", "where"]


@pytest.mark.parametrize("inner", [LOOP, "Concat <axis=0> (x, x)"])
def test_loops_and_two_shapes_stay_choices(inner: str) -> None:
    module = from_onnx(_model(inner))
    assert bodies_of(with_selections(module)).keys() == bodies_of(module).keys()


def test_targets_without_branches_select() -> None:
    def choices(target: str) -> list[str]:
        return list(bodies_of(relay_layout.convert(_model("Neg(x)"), target=target).module))

    assert choices("cuda-sm_90") == []
    assert choices("x86-64-v3") == ["y_choice", "y_choice_otherwise"]
