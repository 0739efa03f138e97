"""ConvertLayout on small modules: how many transforms it leaves, and what it refuses."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.choice.plan import plan_layout
from relay_layout.errors import LayoutError
from relay_layout.explanation.transforms import transforms_of
from relay_layout.ir import operator_name
from relay_layout.layout_request import LayoutRequest
from relay_layout.relax_pipeline import pipeline
from relay_layout.rewrite.convert_layout import ConvertLayout, convert_layout
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of, module_giving

TARGET = resolve_target("native", threads=2)
FIXED_TARGET = resolve_target("x86-64-v3", threads=1, shipped_records=False)
"""One that chooses alike on every machine."""
IMAGE = np.random.default_rng(1).standard_normal((2, 16, 9, 7), dtype="float32")
Emit = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]


def weight(outputs: int, inputs: int, size: int = 3, seed: int = 0) -> relax.Expr:
    values = np.random.default_rng(seed).standard_normal((outputs, inputs, size, size), dtype="float32")
    return relax.const(values * 0.1)


def conv(
    builder: relax.BlockBuilder, data: relax.Expr, outputs: int, seed: int = 0, **attributes: object
) -> relax.Expr:
    inputs = int(data.ty.shape.values[1])
    groups = int(attributes.get("groups", 1))
    attributes.setdefault("padding", 1)
    return builder.emit(relax.op.nn.conv2d(data, weight(outputs, inputs // groups, seed=seed), **attributes))


def module_of(emit: Emit, shape: tuple[int, ...] = (1, 16, 9, 9)) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = emit(builder, data)
            if isinstance(result, (list, tuple)):
                result = relax.Tuple([builder.emit_output(value) for value in result])
            else:
                result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.finalize()


def run(module: tvm.IRModule, image: np.ndarray, layout: str) -> list[np.ndarray]:
    executable = tvm.compile(
        module, TARGET.tvm_target, relax_pipeline=pipeline(TARGET, desired_layout=layout)
    )
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(image))
    return [tensor.numpy() for tensor in (result if not isinstance(result, tvm.runtime.Tensor) else [result])]


def chain(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    return builder.emit(relax.op.nn.relu(conv(builder, data, 32)))


def residual(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    first = builder.emit(relax.op.nn.relu(conv(builder, data, 32)))
    second = conv(builder, first, 32, seed=1)
    return conv(builder, builder.emit(relax.op.add(first, second)), 16, seed=2)


def inception(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    branches = [conv(builder, data, 16, seed=seed) for seed in range(3)]
    return conv(builder, builder.emit(relax.op.concat(branches, axis=1)), 16, seed=9)


def pooled(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    pool = builder.emit(relax.op.nn.max_pool2d(conv(builder, data, 32), (3, 3), (2, 2), (1, 1, 1, 1)))
    average = builder.emit(relax.op.nn.avg_pool2d(pool, (2, 2), (1, 1)))
    return builder.emit(relax.op.mean(average, axis=[2, 3]))


def clipped(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    return conv(builder, builder.emit(relax.op.clip(conv(builder, data, 32), 0, 6)), 32, seed=1)


def scalar_and_bias(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    bias = relax.const(np.arange(32, dtype="float32").reshape(32, 1, 1))
    biased = builder.emit(relax.op.add(conv(builder, data, 32), bias))
    return conv(builder, builder.emit(relax.op.multiply(biased, relax.const(0.5, "float32"))), 16, seed=1)


def negative_axes(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    left = conv(builder, data, 32)
    joined = builder.emit(relax.op.concat([left, left], axis=-3))
    return builder.emit(relax.op.sum(joined, axis=[-1, -2], keepdims=True))


def grouped(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    return conv(builder, conv(builder, data, 16, groups=4), 16, seed=1, groups=16)


def transposed(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    last = builder.emit(relax.op.permute_dims(conv(builder, data, 32), [0, 2, 3, 1]))
    first = builder.emit(relax.op.permute_dims(builder.emit(relax.op.nn.relu(last)), [0, 3, 1, 2]))
    return conv(builder, first, 16, seed=1)


def two_outputs(builder: relax.BlockBuilder, data: relax.Var) -> list[relax.Expr]:
    first = conv(builder, data, 32)
    return [first, conv(builder, first, 16, seed=1)]


def normalized(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    vectors = [relax.const(np.linspace(0.5, 1.5, 32, dtype="float32")) for _ in range(4)]
    norm = builder.emit(relax.op.nn.batch_norm(conv(builder, data, 32), *vectors, axis=1, training=False))
    return conv(builder, builder.emit(relax.TupleGetItem(norm, 0)), 16, seed=1)


def odd_channels(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    return conv(builder, conv(builder, conv(builder, data, 58), 27, seed=1), 10, seed=2)


MODULES: dict[str, tuple[Emit, dict[str, int]]] = {
    # Emitter, and transforms left for NHWC and NCHW16c: one in, one out unless something saves one.
    "chain": (chain, {"NHWC": 2, "NCHW16c": 2}),
    "residual": (residual, {"NHWC": 2, "NCHW16c": 2}),
    "inception": (inception, {"NHWC": 2, "NCHW16c": 2}),
    "pooled": (pooled, {"NHWC": 1, "NCHW16c": 1}),
    "clipped": (clipped, {"NHWC": 2, "NCHW16c": 2}),
    "scalar_and_bias": (scalar_and_bias, {"NHWC": 2, "NCHW16c": 2}),
    "negative_axes": (negative_axes, {"NHWC": 1, "NCHW16c": 1}),
    "grouped": (grouped, {"NHWC": 2, "NCHW16c": 2}),
    "transposed": (transposed, {"NHWC": 2, "NCHW16c": 2}),
    "normalized": (normalized, {"NHWC": 2, "NCHW16c": 2}),
    "two_outputs": (two_outputs, {"NHWC": 3, "NCHW16c": 3}),
}


@pytest.mark.parametrize("layout", ["NHWC", "NCHW16c"])
@pytest.mark.parametrize("name", MODULES)
def test_transforms_left(name: str, layout: str) -> None:
    emit, expected = MODULES[name]
    module, report = convert_layout(module_of(emit), LayoutRequest.parse(layout), TARGET)
    assert report.layout_transforms == expected[layout], module.script(show_meta=False)
    assert report.layout_transforms_weights == 0
    assert set(report.layouts.values()) == {f"{layout}->{layout}"}


@pytest.mark.parametrize("layout", ["auto", "none", "NHWC", "NCHW8c", "NCHW16c", "NCHW4c", "NWHC"])
@pytest.mark.parametrize("name", [*MODULES, "odd_channels"])
def test_numbers_do_not_change(name: str, layout: str) -> None:
    emit = odd_channels if name == "odd_channels" else MODULES[name][0]
    module = module_of(emit, IMAGE.shape)
    for left, right in zip(reference(emit), run(module, IMAGE, layout), strict=True):
        difference = np.abs(left - right).max() / np.abs(left).max()
        assert difference < 1e-5, f"{name} in {layout}"


@cache
def reference(emit: Emit) -> list[np.ndarray]:
    """What the network computes as it was made."""
    module = module_of(emit, IMAGE.shape)
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(IMAGE))
    tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [tensor.numpy() for tensor in tensors]


def test_back_to_nchw() -> None:
    converted, _ = convert_layout(module_of(residual), LayoutRequest.parse("NHWC"), TARGET)
    back, report = convert_layout(converted, LayoutRequest.parse("NCHW"), TARGET)
    assert report.layout_transforms == 0
    calls = [operator_name(binding.value) for block in back["main"].body.blocks for binding in block.bindings]
    assert "permute_dims" not in calls


def test_shared_input_is_transformed_once() -> None:
    converted, report = convert_layout(module_of(inception), LayoutRequest.parse("NHWC"), TARGET)
    calls = [
        operator_name(binding.value) for block in converted["main"].body.blocks for binding in block.bindings
    ]
    assert calls.count("permute_dims") == report.layout_transforms == 2


def test_skipped_layers_keep_their_layout() -> None:
    request = LayoutRequest.parse("NHWC", skip_layers=[1])
    _, report = convert_layout(module_of(residual), request, TARGET)
    assert list(report.layouts.values()) == ["NHWC->NHWC", "NCHW->NCHW", "NHWC->NHWC"]


@pytest.mark.parametrize("skipped", range(3))
def test_the_choice_that_costs_least_leaves_skipped_layers_alone(skipped: int) -> None:
    request = LayoutRequest.parse("auto", skip_layers=[skipped])
    _, report = convert_layout(module_of(residual, (1, 16, 56, 56)), request, FIXED_TARGET)
    layouts = list(report.layouts.values())
    assert layouts[skipped] == "NCHW->NCHW"
    assert "NCHW->NCHW" not in layouts[:skipped] + layouts[skipped + 1 :]


@pytest.mark.parametrize("skipped", range(3))
def test_numbers_do_not_change_around_skipped_layers(skipped: int) -> None:
    request = LayoutRequest.parse("auto", skip_layers=[skipped])
    module, _ = convert_layout(module_of(residual, IMAGE.shape), request, FIXED_TARGET)
    (found,) = run(module, IMAGE, "none")
    (expected,) = reference(residual)
    assert np.abs(found - expected).max() / np.abs(expected).max() < 1e-5


def test_transforms_around_skipped_layers_are_where_they_cost_least() -> None:
    """Past the slice, which has a quarter of the channels."""

    def skipped_and_sliced(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        part = builder.emit(relax.op.strided_slice(conv(builder, data, 64), [1], [0], [16]), "part")
        return conv(builder, part, 16, seed=1)

    module = module_of(skipped_and_sliced, (1, 16, 56, 56))
    plan = plan_layout(module, LayoutRequest.parse("auto", skip_layers=[0]), FIXED_TARGET)
    moved = [each.value.name for each in transforms_of(plan, plan.solution.signatures)]
    assert moved[0] == "part"


def test_without_convolutions_none_can_be_skipped() -> None:
    def rectified(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return relax.op.nn.relu(data)

    with pytest.raises(LayoutError) as raised:
        convert_layout(module_of(rectified), LayoutRequest.parse("NHWC", skip_layers=[0]), TARGET)
    assert str(raised.value) == (
        "there is no convolution 0 to skip; the model has none, counted from 0 without transposed ones"
    )


def test_weights_given_as_parameters_are_counted_apart() -> None:
    data = relax.Var("data", relax.TensorType((1, 16, 9, 9), "float32"))
    kernel = relax.Var("kernel", relax.TensorType((32, 16, 3, 3), "float32"))
    _, report = convert_layout(
        module_giving(relax.op.nn.conv2d(data, kernel, padding=1), data, kernel),
        LayoutRequest.parse("NHWC"),
        TARGET,
    )
    assert (report.layout_transforms, report.layout_transforms_weights) == (2, 1)


def test_explicit_kernel_layout() -> None:
    converted = ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"]})(module_of(chain))
    assert 'kernel_layout="OHWI"' in converted.script(show_meta=False)


def test_symbolic_batch_converts() -> None:
    from tvm import tirx

    data = relax.Var("data", relax.TensorType((tirx.Var("n", "int64"), 16, 9, 9), "float32"))
    with main_of(data) as builder:
        builder.result = residual(builder, data)
    module = builder.finalize()
    _, report = convert_layout(module, LayoutRequest.parse("NCHW16c"), TARGET)
    assert report.layout_transforms == 2
    image = np.random.default_rng(1).standard_normal((3, 16, 9, 9), dtype="float32")
    (output,) = run(module, image, "NCHW16c")
    (reference,) = run(module_of(residual, (3, 16, 9, 9)), image, "none")
    np.testing.assert_allclose(output, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"desired_layout": "NCHWD"},
            "layout 'NCHWD' does not fit nn.conv2d 'lv', whose data has the axes N, C, H and W; "
            "use e.g. 'NCHW'",
        ),
        (
            {"desired_layouts": {"nn.conv2d": ["NHWC", "HW"]}},
            "layout 'HW' does not fit the kernel of nn.conv2d 'lv', which has the axes O, I, H, W; "
            "use e.g. 'OIHW', or 'default'",
        ),
        (
            {"desired_layouts": {"nn.conv9d": ["NHWC", "default"]}},
            "desired layouts of 'nn.conv9d': Relay has no such operator; did you mean nn.conv3d?",
        ),
        (
            {"desired_layouts": {"nn.conv2d": ["NHWC", "HWIO", "NHWC"]}},
            "desired layouts of nn.conv2d: 3 given, expected two (data, kernel)",
        ),
        (
            {"desired_layout": "NHWC", "skip_layers": [0, 9, 7]},
            "there is no convolution 7 to skip; the model has 1, counted from 0 without transposed ones",
        ),
    ],
)
def test_wrong_requests(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(LayoutError) as raised:
        convert_layout(module_of(chain), LayoutRequest.parse(**arguments), TARGET)
    assert str(raised.value) == message


def test_kernels_whose_blocks_do_not_divide_are_told() -> None:
    def single(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, data, 24)

    request = LayoutRequest.parse(desired_layouts={"nn.conv2d": ["NHWC", "OIHW16o"]})
    _, report = convert_layout(module_of(single), request, TARGET)
    assert list(report.not_converted.values()) == [
        "OIHW16o: a block of 16 does not divide O of 'constant', 24"
    ]


def test_depthwise_convolutions_may_have_layouts_of_their_own() -> None:
    def both(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, conv(builder, data, 16, groups=16), 32, seed=1)

    desired = {"nn.conv2d": ["NHWC", "OHWI"], "nn.depthwise_conv2d": ["NCHW", "OIHW"]}
    request = LayoutRequest.parse(desired_layouts=desired)
    _, report = convert_layout(module_of(both), request, TARGET)
    assert list(report.layouts.values()) == ["NCHW->NCHW", "NHWC->NHWC"]


def test_an_interrupt_within_a_pass_stays_one() -> None:
    @tvm.transform.module_pass(opt_level=0)
    def interrupted(module: tvm.IRModule, context: object) -> tvm.IRModule:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tvm.transform.Sequential([interrupted])(tvm.IRModule())
