"""Annotating memory orders, making them explicit, and back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout import models
from relay_layout.dim_orders import (
    annotate_dim_orders,
    explicit_dim_orders,
    implicit_dim_orders,
    to_dim_order,
    without_markers,
)
from relay_layout.errors import LayoutError
from relay_layout.graph.border import DECLARED
from relay_layout.ir import as_extent, operator_name
from relay_layout.rewrite.canonicalize import canonicalize
from tests.module_operators import operators
from tests.relax_modules import main_of

LAST, PLAIN = [0, 2, 3, 1], [0, 1, 2, 3]
Emit = Callable[[relax.Expr], relax.Var]


def randoms(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype="float32")


def module_of(
    build: Callable[[Emit, relax.Var], Any],
    shape: Sequence[Any] = (2, 6, 9, 7),
    inputs: Sequence[int] = LAST,
    outputs: Sequence[Sequence[int]] = (),
) -> tvm.IRModule:
    """A function of one input x that lies in memory as ``inputs`` says."""
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    attributes = dict(zip(DECLARED, ([list(inputs)], [list(order) for order in outputs]), strict=True))
    with main_of(x, attrs=attributes) as builder:
        builder.result = build(builder.emit, x)
    return relax.transform.CanonicalizeBindings()(builder.finalize())


def convolution(emit: Emit, x: relax.Var, outputs: int = 8, groups: int = 1, size: int = 3) -> relax.Var:
    channels = int(x.ty.shape.values[1])
    weight = relax.const(randoms(outputs, channels // groups, size, size))
    return emit(relax.op.nn.conv2d(x, weight, padding=size // 2, groups=groups))


def orders_of(module: tvm.IRModule) -> Mapping[str, list[int]]:
    found = module["main"].attrs["dim_orders"]
    return {str(name): [int(axis) for axis in order] for name, order in found.items()}


def bindings(module: tvm.IRModule) -> dict[str, Any]:
    return {
        str(binding.var.name): binding.value
        for block in module["main"].body.blocks
        for binding in block.bindings
    }


def extents(expression: Any) -> list[int]:
    return [int(extent) for extent in expression.ty.shape.values]


def run(module: tvm.IRModule, x: np.ndarray) -> list[np.ndarray]:
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(np.ascontiguousarray(x)))
    return [found.numpy()] if isinstance(found, tvm.runtime.Tensor) else [tensor.numpy() for tensor in found]


def assert_round_trip(module: tvm.IRModule, x: np.ndarray | None = None) -> tvm.IRModule:
    """Explicit and back is the module itself without its markers; the numbers are the same on the way."""
    plain = relax.transform.CanonicalizeBindings()(without_markers(module))
    explicit = explicit_dim_orders(annotate_dim_orders(module))
    assert program(implicit_dim_orders(explicit)) == program(plain)
    assert set(orders_of(explicit)) >= set(bindings(explicit)) - {"gv"} - tuples(explicit)
    if x is not None:
        inputs, outputs = (explicit["main"].attrs[f"{side}_memory_orders"] for side in ("input", "output"))
        order = [int(axis) for axis in inputs[0]]
        found = run(explicit, x.transpose(order) if order else x)
        for place, (output, expected) in enumerate(zip(found, run(plain, x), strict=True)):
            lying = [int(axis) for axis in outputs[place]] if len(outputs) else []
            wanted = expected.transpose(lying) if lying else expected
            np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)
    return explicit


def program(module: tvm.IRModule) -> list[tuple[Any, ...]]:
    """Every call, sorted: its operator, its attributes, and the shapes that it reads and gives."""
    return sorted(
        (operator_name(value), str(value.attrs), [str(argument.ty) for argument in value.args], str(value.ty))
        for block in module["main"].body.blocks
        for value in (binding.value for binding in block.bindings)
        if operator_name(value)
    )


def tuples(module: tvm.IRModule) -> set[str]:
    return {name for name, value in bindings(module).items() if isinstance(value.ty, relax.TupleType)}


def test_values_follow_what_they_read() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return relax.op.nn.relu(convolution(emit, emit(relax.op.add(x, relax.const(randoms(1, 6, 1, 1))))))

    annotated = annotate_dim_orders(module_of(build))
    assert orders_of(annotated) == {"x": LAST, "lv": LAST, "lv1": LAST, "gv": LAST}
    assert annotate_dim_orders(annotated)["main"].attrs["dim_orders"] == annotated["main"].attrs["dim_orders"]
    plain = annotate_dim_orders(module_of(build, inputs=()))
    assert orders_of(plain) == {"x": PLAIN, "lv": PLAIN, "lv1": PLAIN, "gv": PLAIN}


def test_weights_of_depthwise_convolutions_lie_in_hwcm() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return convolution(emit, convolution(emit, x, 12, groups=6), 5)

    annotated = annotate_dim_orders(module_of(build))
    attributes = annotated["main"].attrs
    assert dict(attributes["weight_layouts"]) == {"lv": "HWCM", "gv": "OHWI"}
    assert [int(axis) for axis in attributes["weight_dim_orders"]["lv"]] == [2, 3, 0, 1]
    found = bindings(explicit_dim_orders(annotated)).values()
    calls = [value for value in found if operator_name(value) == "nn.conv2d"]
    assert [str(call.attrs.kernel_layout) for call in calls] == ["HWOI", "OHWI"]
    assert [extents(call.args[1]) for call in calls] == [[3, 3, 12, 1], [5, 3, 3, 12]]


def test_weights_that_are_dequantized_are_stored_in_their_order() -> None:
    """Nothing is moved at run time, and each element is dequantized by the scale of its channel."""

    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        scales, points = relax.const(randoms(12) ** 2 + 0.1), relax.const(np.arange(12, dtype="int8"))
        integers = relax.const((randoms(12, 1, 3, 3) * 50).astype("int8"))
        weight = emit(relax.op.dequantize(integers, scales, points, axis=0))
        depthwise = emit(relax.op.nn.conv2d(x, weight, padding=1, groups=6))
        square = relax.const((randoms(12, 12, 1, 1) * 50).astype("int8"))
        shared = emit(relax.op.dequantize(square, scales, points, axis=0))
        return relax.Tuple([emit(relax.op.nn.conv2d(depthwise, shared)), shared])

    module = module_of(build)
    assert orders_of(annotate_dim_orders(module)) == {
        "x": LAST, "lv": [2, 3, 0, 1], "lv1": LAST, "lv2": PLAIN, "lv3": LAST
    }  # fmt: skip
    explicit = assert_round_trip(module, randoms(2, 6, 9, 7))
    found = bindings(explicit)
    assert (extents(found["lv"]), int(found["lv"].attrs.axis)) == ([3, 3, 12, 1], 2)
    assert "lv_transformed" not in found, "what the depthwise convolution reads is a constant in its order"


def test_attributes_follow() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        made = convolution(emit, x)
        joined = emit(relax.op.concat([made, emit(relax.op.nn.relu(made))], axis=1))
        summed = emit(relax.op.sum(joined, axis=[1, 3], keepdims=True))
        return relax.Tuple([summed, emit(relax.op.nn.softmax(joined, axis=1))])

    explicit = assert_round_trip(module_of(build), randoms(2, 6, 9, 7))
    calls = {operator_name(value): value for value in bindings(explicit).values()}
    assert int(calls["concat"].attrs.axis) == 3
    assert sorted(int(axis) for axis in calls["sum"].attrs.axis) == [2, 3]
    assert int(calls["nn.softmax"].attrs.axis) == 3


def test_a_permutation_moves_nothing_but_the_order() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        turned = emit(relax.op.permute_dims(convolution(emit, x), [0, 2, 3, 1]))
        return emit(relax.op.nn.relu(turned))

    explicit = assert_round_trip(module_of(build), randoms(2, 6, 9, 7))
    assert operators(explicit) == ["nn.conv2d", "nn.relu"]


def test_changes_become_transforms() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        plain = emit(to_dim_order(convolution(emit, x), PLAIN))
        return emit(to_dim_order(emit(relax.op.nn.relu(plain)), LAST))

    module = module_of(build, outputs=[LAST])
    explicit = assert_round_trip(module, randoms(2, 6, 9, 7))
    assert operators(explicit) == ["nn.conv2d", "permute_dims", "nn.relu", "permute_dims"]
    assert [extents(value) for value in bindings(explicit).values()][:4] == [
        [2, 9, 7, 8],
        [2, 8, 9, 7],
        [2, 8, 9, 7],
        [2, 9, 7, 8],
    ]
    assert list(orders_of(explicit).values()).count(PLAIN) == 2


def test_what_cannot_follow_runs_in_plain_order() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        flat = emit(relax.op.reshape(convolution(emit, x), (2, 72, 7, 1)))
        return emit(relax.op.nn.relu(flat))

    explicit = assert_round_trip(module_of(build), randoms(2, 6, 9, 7))
    assert operators(explicit) == ["nn.conv2d", "permute_dims", "reshape", "nn.relu"]


@pytest.mark.parametrize("shape", [(2, 1, 5, 4), (1, 8, 1, 1), (1, 1, 1, 1), (3, 4, 1, 6), (5, 3, 4, 4)])
@pytest.mark.parametrize("order", [LAST, PLAIN, [0, 3, 1, 2], [3, 2, 1, 0]])
def test_dimensions_of_one_element_have_their_declared_place(
    shape: tuple[int, ...], order: list[int]
) -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        doubled = emit(relax.op.add(x, relax.const(randoms(1, shape[1], 1, 1))))
        return emit(relax.op.nn.relu(doubled))

    explicit = assert_round_trip(module_of(build, shape, order, [order]), randoms(*shape))
    assert extents(explicit["main"].params[0]) == [shape[axis] for axis in order]
    assert all(found == order for found in orders_of(explicit).values() if len(found) == 4)
    assert "permute_dims" not in operators(explicit)


def test_open_extents_keep_their_place() -> None:
    n, h = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("h", "int64")

    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        weight = relax.const(randoms(8, 6, 3, 3))
        made = emit(relax.op.nn.conv2d(x, weight, padding=1))
        return emit(relax.op.mean(made, axis=[2, 3]))

    explicit = assert_round_trip(module_of(build, (n, 6, h, 7)), randoms(3, 6, 5, 7))
    shape = [as_extent(extent) for extent in explicit["main"].params[0].ty.shape.values]
    assert [str(extent) for extent in shape] == ["n", "h", "7", "6"]


def test_values_of_other_ranks() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        scaled = emit(relax.op.multiply(x, relax.const(randoms(1, 1, 4))))
        return emit(relax.op.sum(scaled, axis=[0]))

    for order in ([0, 2, 1], [2, 1, 0], [1, 0, 2]):
        assert_round_trip(module_of(build, (2, 3, 4), order), randoms(2, 3, 4))


QUICK = ("mobilenet_v3_large", "squeezenet1_1")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in models.names()],
)
def test_networks_go_there_and_back(name: str) -> None:
    image_size = 107 if name == "inception_v3" else 64
    network = models.build(name, image_size=image_size, width=0.25, classes=10)
    module = canonicalize(models.to_relax(network))
    count = len(network.outputs)
    orders = [[LAST], [LAST if len(value.shape) == 4 else [0, 1] for value in network.outputs]]
    main = module["main"].with_attrs(dict(zip(DECLARED, orders, strict=True)))
    module.update_func(module.get_global_var("main"), main)
    module = relax.transform.CanonicalizeBindings()(module)
    explicit = assert_round_trip(module)
    assert extents(explicit["main"].params[0])[-1] == 3
    # Where a network itself turns images, what follows may lie in plain order.
    assert name == "convnext_tiny" or all(
        str(value.attrs.data_layout) == "NHWC"
        for value in bindings(explicit).values()
        if operator_name(value) == "nn.conv2d"
    )
    assert count == len(explicit["main"].attrs["output_memory_orders"])


def test_an_explicit_module_compiles_like_any_other(tmp_path: Any) -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(relax.op.nn.relu(convolution(emit, x)))

    x = randoms(2, 6, 9, 7)
    outputs = []
    for module in (module_of(build), explicit_dim_orders(annotate_dim_orders(module_of(build)))):
        relay_layout.compile(module).save(tmp_path / "model.rla")
        session = relay_layout.load(tmp_path / "model.rla")
        assert (session.inputs[0].shape, session.inputs[0].dim_order) == ((2, 6, 9, 7), tuple(LAST))
        given = np.ascontiguousarray(x.transpose(LAST)).transpose(0, 3, 1, 2)
        outputs += session.run({"x": given}).values()
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)


def test_errors() -> None:
    module = module_of(lambda emit, x: emit(relax.op.nn.relu(x)))
    with pytest.raises(LayoutError) as raised:
        explicit_dim_orders(module)
    assert str(raised.value) == (
        "function 'main' is not annotated with dim orders: call annotate_dim_orders first"
    )
    wrong = module_of(lambda emit, x: emit(relax.op.nn.relu(x)), inputs=[0, 1, 1, 2])
    with pytest.raises(LayoutError) as raised:
        annotate_dim_orders(wrong)
    assert str(raised.value) == (
        "dim_order (0, 1, 1, 2): not an order of the dimensions of 'ABCD'; write each of 0 to 3 once"
    )
    main = annotate_dim_orders(module)["main"].with_attr("dim_orders", {"x": LAST, "gv": [0, 1]})
    module.update_func(module.get_global_var("main"), main)
    with pytest.raises(LayoutError) as raised:
        explicit_dim_orders(module)
    assert str(raised.value) == "dim_order (0, 1) does not fit 'gv', which has 4 dimensions"
