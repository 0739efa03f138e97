"""Functions that models bring along, beside what their operators compute."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx

X = np.random.default_rng(3).standard_normal((2, 3)).astype("float32")
_IF = (
    "s = ReduceSum <keepdims=0> (x)  z = Constant <value_float=0.0> ()  c = Greater(s, z)  y = If (c) <"
    "then_branch = t () => (float[2,3] o) { THEN },"
    " else_branch = e () => (float[2,3] o) { w = Exp(x)  o = Neg(w) }>"
)


def _model(nodes: str, *functions: str, opset: int = 18) -> str:
    """Functions are ``opset | head => outputs | nodes``."""
    text = f'<ir_version: 10, opset_import: ["" : {opset}, "own" : 1]> g (float[2,3] x) => (y) {{ {nodes} }}'
    for function in functions:
        own, head, body = function.split(" | ")
        text += f' <domain: "own", opset_import: ["" : {own}, "own" : 1]> {head} {{ {body} }}'
    return text


def _leaky(data: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(data < 0, data * np.float32(alpha), data)


CASES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    # The call of ``f`` in ``g`` refers to an attribute that nothing gives: it has its own default then.
    "a default behind a reference": (
        _model(
            "y = own.g(x)",
            "18 | g <slope> (x) => (y) | y = own.f <alpha: float = @slope> (x)",
            "18 | f <alpha: float = 0.5> (x) => (y) | y = LeakyRelu <alpha: float = @alpha> (x)",
        ),
        lambda x: _leaky(x, 0.5),
    ),
    "an operator's default behind a reference": (
        _model("y = own.g(x)", "18 | g <slope> (x) => (y) | y = LeakyRelu <alpha: float = @slope> (x)"),
        lambda x: _leaky(x, 0.01),
    ),
    "a reference in a branch": (
        _model(
            "y = own.g <slope = 0.25> (x)",
            "18 | g <slope> (x) => (y) | " + _IF.replace("THEN", "o = LeakyRelu <alpha: float = @slope> (x)"),
        ),
        lambda x: _leaky(x, 0.25) if x.sum() > 0 else -np.exp(x),
    ),
    "names that the graph has as well": (
        _model("w = Abs(x)  v = own.f(w)  y = Add(v, w)", "18 | f (x) => (y) | w = Neg(x)  y = Exp(w)"),
        lambda x: np.exp(-np.abs(x)) + np.abs(x),
    ),
    "inputs and outputs that are left out": (
        _model(
            "u, , w = own.f(x, , x)  y = Add(u, w)",
            "18 | f (x, q, p) => (u, v, w) | u = Neg(x)  v = Clip(x, q, q)  w = Mul(p, v)",
        ),
        lambda x: x * x - x,
    ),
    "a call in a branch": (
        _model(_IF.replace("THEN", "o = own.f(x)"), "18 | f (x) => (y) | w = Neg(x)  y = Abs(w)"),
        lambda x: np.abs(x) if x.sum() > 0 else -np.exp(x),
    ),
    # What ``f`` takes is another function's result, and ``g`` calls one of a third opset.
    "opsets of functions that read others' results": (
        _model(
            "a = own.f(x)  b = own.f(a)  y = own.g(b)",
            "15 | f (x) => (y) | y = LeakyRelu <alpha = 2.0> (x)",
            "13 | g (x) => (y) | a = own.f(x)  y = ReduceMax <axes = [1], keepdims = 0> (a)",
        ),
        lambda x: _leaky(x, 8).max(1),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sign", [1, -1])
def test_functions(case: str, sign: int, tmp_path: Path) -> None:
    text, reference = CASES[case]
    data = np.abs(X) - 0.5 if "branch" in case else X
    relay_layout.compile(from_onnx(parser.parse_model(text)), threads=1).save(tmp_path / "f.rla")
    session = relay_layout.load(tmp_path / "f.rla", threads=1)
    (result,) = session.run({"x": sign * data}).values()
    np.testing.assert_allclose(result, reference(sign * data), rtol=1e-6)


def test_functions_that_call_themselves() -> None:
    text = _model("y = own.f(x)", "18 | f (x) => (y) | a = Neg(x)  y = own.f(a)")
    with pytest.raises(ModelError, match="is not a valid ONNX model: its functions call themselves"):
        from_onnx(parser.parse_model(text))


def test_more_inputs_than_a_function_has() -> None:
    text = _model("y = own.f(x, x)", "18 | f (x) => (y) | y = Neg(x)")
    with pytest.raises(ModelError, match=r"node 'y' \(f\) gives the function more inputs, "):
        from_onnx(parser.parse_model(text))


def test_functions_whose_operators_no_converter_writes() -> None:
    text = _model("y = own.f(x)", "18 | f (x) => (y) | y = Mish(x)", opset=13)
    with pytest.raises(ModelError, match="is of opset 18, and Mish in it cannot be converted"):
        from_onnx(parser.parse_model(text))
