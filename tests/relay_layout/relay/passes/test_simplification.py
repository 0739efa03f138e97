"""What passes simplify is Relay still."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from relay_layout import relay

X = relay.var("x", shape=(2, 3, 4, 5))
CASES = {
    "argmax": relay.argmax(X + relay.const(0.0), axis=1),
    "nn.lrn": relay.nn.lrn(X, size=3),
    "log2": relay.log2(relay.abs(X)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("make", [relay.transform.SimplifyExpr, relay.qnn.transform.CanonicalizeOps])
def test_operators_that_relax_lacks_are_kept(name: str, make: object) -> None:
    module = make()(tvm.IRModule.from_expr(CASES[name]))  # type: ignore[operator]
    assert relay.analysis.list_op_freqs(module)[name] == 1
    assert relay.astext(relay.fromtext(relay.astext(module))) == relay.astext(module)


def test_simplified_networks_compute_the_same() -> None:
    quantized = relay.qnn.quantize(X, relay.const(0.5), relay.const(3), out_dtype="int8")
    net = relay.argmax(relay.qnn.dequantize(quantized, relay.const(0.5), relay.const(3)), axis=1)
    module = tvm.IRModule.from_expr(relay.Function([X], net))
    data = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("float32")
    expected = np.argmax(np.clip(np.round(data * 2) + 3, -128, 127), axis=1)
    for change in (relay.transform.SimplifyExpr(), relay.qnn.transform.CanonicalizeOps()):
        result = relay.create_executor("graph", change(module)).evaluate()(data).numpy()
        np.testing.assert_array_equal(result, expected)


def test_fusing_leaves_a_module_and_says_so() -> None:
    module = tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(2,)) + relay.const(1.0)))
    with pytest.warns(UserWarning, match="FuseOps leaves modules as they are: relay.build fuses by itself"):
        fused = relay.transform.FuseOps(fuse_opt_level=2)(module)
    assert relay.astext(fused) == relay.astext(module)


def test_fake_quantization_stays_for_build_to_compute_in_integers() -> None:
    scale, zero = relay.const(0.25), relay.const(0)
    data = relay.var("data", shape=(1, 4, 6, 6), dtype="int8")
    weight = np.random.default_rng(1).integers(-9, 10, (5, 4, 3, 3)).astype("int8")
    real = [relay.qnn.dequantize(one, scale, zero) for one in (data, relay.const(weight))]
    net = relay.qnn.quantize(relay.nn.relu(relay.nn.conv2d(*real)), relay.const(2.0), relay.const(-7))
    module = tvm.IRModule.from_expr(net)
    options = {"hard_fail": True, "use_qat": True, "optional_qnn_ops": ["qnn.exp"]}
    for given in ({}, options):
        changed = relay.transform.FakeQuantizationToInteger(**given)(module)
        assert relay.astext(changed) == relay.astext(module)
    image = np.random.default_rng(2).integers(-128, 128, (1, 4, 6, 6)).astype("int8")
    windows = np.lib.stride_tricks.sliding_window_view(image.astype("float64"), (3, 3), (2, 3))
    exact = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight) / 16, 0) / 2
    expected = np.clip(np.floor(exact + 0.5) - 7, -128, 127)
    result = relay.create_executor("graph", module).evaluate()(image).numpy()
    away_from_ties = exact % 1 != 0.5
    np.testing.assert_array_equal(result[away_from_ties], expected[away_from_ties])
    assert result.dtype == "int8"


@pytest.mark.parametrize(
    "name", ["Inline", "ToANormalForm", "ToGraphNormalForm", "ToBasicBlockNormalForm", "InferType"]
)
def test_normal_forms_leave_modules_as_they_are(name: str) -> None:
    module = tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(2, 3))))
    tvm.ir.assert_structural_equal(getattr(relay.transform, name)()(module), module)
