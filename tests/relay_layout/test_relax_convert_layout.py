"""Where Relax's own ConvertLayout falls short: the same graphs, with ours beside it.

Theirs is called only where it fails in a stable way. Counts are of transforms of activations; transforms of
weights and constants are counted apart.
"""

from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.graph import Node, build_graph
from relay_layout.layout_request import LayoutRequest
from relay_layout.models import build, to_relax
from relay_layout.rewrite.convert_layout import ConversionReport, convert_layout
from relay_layout.targets import resolve_target
from scripts import compare_relax
from tests.layout_graphs import execute
from tests.relax_modules import main_of

op = relax.op
TARGET = resolve_target("native", threads=2)
CHANNELS_LAST = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
Emit = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]
RNG = np.random.default_rng(0)
IMAGE = RNG.uniform(-1, 1, (1, 8, 8, 8)).astype("float32")


def constant(*shape: int) -> relax.Expr:
    return relax.const(RNG.uniform(0.5, 1.5, shape).astype("float32"))


def integers(*values: object) -> relax.Expr:
    return relax.const(np.array(values, "int64"), "int64")


def conv(builder: relax.BlockBuilder, data: relax.Expr, outputs: int = 8) -> relax.Var:
    inputs = int(data.ty.shape.values[1])
    return builder.emit(op.nn.conv2d(data, constant(outputs, inputs, 3, 3), padding=1))


def module_of(emit: Emit) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType(IMAGE.shape, "float32"))
    with main_of(data) as builder:
        builder.result = relax.Tuple([emit(builder, data)])
    return builder.finalize()


def between(middle: Callable[[relax.Var], relax.Expr]) -> Emit:
    """A convolution, an operator, a convolution."""
    return lambda builder, data: conv(builder, builder.emit(middle(conv(builder, data))))


def transforms(module: tvm.IRModule, *, of_constants: bool = False) -> int:
    """Transforms of activations, or of weights and constants, that a module does at run time."""

    def counts(node: Node) -> bool:
        moved = node.operator in ("permute_dims", "layout_transform")
        return moved and (node.operands[0].constant is not None) == of_constants

    return sum(map(counts, build_graph(module["main"]).nodes))


def ours(module: tvm.IRModule, layout: str) -> tuple[tvm.IRModule, ConversionReport]:
    return convert_layout(module, LayoutRequest.parse(layout), TARGET)


def theirs(module: tvm.IRModule, layouts: dict[str, list[str]] = CHANNELS_LAST) -> tvm.IRModule:
    return relax.transform.ConvertLayout(layouts)(module)


def assert_same_numbers(left: tvm.IRModule, right: tvm.IRModule) -> None:
    for want, have in zip(execute(left, IMAGE), execute(right, IMAGE), strict=True):
        np.testing.assert_allclose(have, want, 1e-4, 1e-4 * float(np.abs(want).max()))


ZERO_POINTS = relax.const(np.zeros(8, "int8"), "int8")
BOXES = relax.const(np.array([[0, 0, 0, 5, 5]], "float32"))


def selected(data: relax.Expr) -> relax.Expr:
    return op.where(op.greater(data, relax.const(0.5)), data, op.negative(data))


def quantized(data: relax.Expr) -> relax.Expr:
    narrow = op.quantize(data, constant(8), ZERO_POINTS, 1)
    return op.dequantize(narrow, constant(8), ZERO_POINTS, 1)


CARRIED: dict[str, Emit] = {
    "pad": between(lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1])),
    "clip": between(lambda x: op.clip(x, 0, 6)),
    "leaky relu": between(lambda x: op.nn.leakyrelu(x, 0.1)),
    "softplus": between(op.nn.softplus),
    "log softmax": between(lambda x: op.nn.log_softmax(x, 1)),
    "where": between(selected),
    "cumulative sum": between(lambda x: op.cumsum(x, 1)),
    "topk": between(lambda x: op.topk(x, 8, 1, ret_type="values")),
    "regions": between(lambda x: op.vision.roi_align(x, BOXES, (4, 4), 1.0, 2)),
    "quantize": between(quantized),
    "bias of lower rank": between(lambda x: op.add(x, constant(8, 1, 1))),
}


@pytest.mark.parametrize("name", CARRIED)
def test_operators_that_relax_stops_at_carry_the_layout(name: str) -> None:
    module = module_of(CARRIED[name])
    converted, report = ours(module, "NHWC")
    assert transforms(theirs(module)) >= 4
    assert transforms(converted) == report.layout_transforms == 2
    assert_same_numbers(module, converted)


@pytest.mark.parametrize("function", [op.argmax, op.argmin])
def test_extremes_along_channels_need_one_transform(function: Callable[..., relax.Expr]) -> None:
    module = module_of(lambda builder, data: builder.emit(function(conv(builder, data), 1, keepdims=True)))
    converted, _ = ours(module, "NHWC")
    assert (transforms(converted), transforms(theirs(module))) == (1, 2)
    assert_same_numbers(module, converted)


def test_layer_norm_over_channels_and_rows_permutes_its_parameters() -> None:
    def norm(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        parameters = [constant(6, 8), constant(6, 8)]
        return builder.emit(op.nn.layer_norm(conv(builder, data, 6), *parameters, axes=[1, 2]))

    module = module_of(norm)
    converted, _ = ours(module, "NHWC")
    assert_same_numbers(module, converted)


def test_relax_gets_layer_norm_over_channels_and_rows_wrong() -> None:
    def norm(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        parameters = [constant(8, 8), constant(8, 8)]
        return builder.emit(op.nn.layer_norm(conv(builder, data), *parameters, axes=[1, 2]))

    module = module_of(norm)
    (want,), (have,) = execute(module, IMAGE), execute(theirs(module), IMAGE)
    assert np.abs(want - have).max() > 1e-2


def test_transforms_that_are_not_inverse_are_not_cancelled() -> None:
    """Channels last twice is no identity, whatever the shapes at the ends."""

    def turned(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        once = builder.emit(op.permute_dims(data, [0, 2, 3, 1]))
        return builder.emit(op.nn.relu(conv(builder, builder.emit(op.permute_dims(once, [0, 2, 3, 1])))))

    module = module_of(turned)
    converted, _ = ours(module, "NHWC")
    assert_same_numbers(module, converted)


def test_relax_cancels_transforms_that_are_not_inverse() -> None:
    def turned(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        once = builder.emit(op.layout_transform(data, lambda n, c, h, w: (n, h, w, c)))
        return builder.emit(op.layout_transform(once, lambda n, c, h, w: (n, h, w, c)))

    module = module_of(turned)
    (want,) = execute(module, IMAGE)
    (have,) = execute(relax.transform.OptimizeLayoutTransform()(module), IMAGE)
    assert np.abs(want - have).max() > 1e-2


def stacked(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    value = conv(builder, data)
    largest = builder.emit(op.max(builder.emit(op.stack([value, value], 1)), [1], keepdims=True))
    return conv(builder, builder.emit(op.squeeze(largest, [1])))


def squeezed(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    mean = builder.emit(op.mean(conv(builder, data), [-1], keepdims=True))
    return builder.emit(op.squeeze(mean, [-1]))


VECTORS = [constant(8), constant(8)]
ERRORS: dict[str, tuple[Emit, int]] = {
    "stack": (stacked, 2),
    "negative squeeze": (squeezed, 2),
    "layer norm over channels": (between(lambda x: op.nn.layer_norm(x, *VECTORS, axes=[1])), 2),
    "group norm": (
        between(lambda x: op.nn.group_norm(x, *VECTORS, num_groups=2, channel_axis=1, axes=[2, 3])),
        2,
    ),
    "instance norm": (between(lambda x: op.nn.instance_norm(x, *VECTORS, channel_axis=1, axes=[2, 3])), 2),
    "transposed convolution": (between(lambda x: op.nn.conv2d_transpose(x, constant(8, 8, 2, 2))), 2),
    "scatter": (between(lambda x: op.scatter_nd(x, integers([0, 1]), constant(1, 8, 8))), 4),
    "resize": (between(lambda x: op.image.resize2d(x, (6, 6))), 2),
    "match cast": (
        lambda builder, data: conv(
            builder, builder.match_cast(conv(builder, data), relax.TensorType(IMAGE.shape, "float32"))
        ),
        2,
    ),
    "1-D convolution": (
        lambda builder, data: builder.emit(
            op.nn.conv1d(builder.emit(op.reshape(conv(builder, data), (1, 8, 64))), constant(8, 8, 3))
        ),
        2,
    ),
}


@pytest.mark.parametrize("layout", ["NHWC", "NCHW4c"])
@pytest.mark.parametrize("name", ERRORS)
def test_graphs_on_which_relax_stops_with_an_error_convert(name: str, layout: str) -> None:
    emit, most = ERRORS[name]
    module = module_of(emit)
    converted, report = ours(module, layout)
    assert report.verified
    assert transforms(converted) <= most
    assert_same_numbers(module, converted)


def test_rms_norm_over_channels_and_rows_converts_to_what_it_means() -> None:
    """TVM lowers it over the last dimensions only, so that there is no original to run."""
    weight = constant(8, 8)
    module = module_of(between(lambda x: op.nn.rms_norm(x, weight, axes=[1, 2])))
    converted, _ = ours(module, "NHWC")
    first, norm, second = build_graph(module["main"]).nodes
    assert (first.operator, norm.operator, second.operator) == ("nn.conv2d", "nn.rms_norm", "nn.conv2d")

    def meant(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        value = builder.emit(op.nn.conv2d(data, first.operands[1].expression, padding=1))
        mean = builder.emit(op.mean(op.multiply(value, value), [1, 2], keepdims=True))
        scale = builder.emit(op.rsqrt(op.add(mean, relax.const(1e-5))))
        scaled = op.multiply(op.multiply(value, scale), op.reshape(weight, (8, 8, 1)))
        return builder.emit(op.nn.conv2d(builder.emit(scaled), second.operands[1].expression, padding=1))

    assert_same_numbers(module_of(meant), converted)


STOPS: dict[str, tuple[Emit, dict[str, list[str]]]] = {
    "default": (between(op.nn.relu), {"relax.nn.conv2d": ["NHWC", "default"]}),
    "stack": (stacked, CHANNELS_LAST),
    "layer norm": (ERRORS["layer norm over channels"][0], {"relax.nn.conv2d": ["NCHW4c", "OIHW4o"]}),
    "group norm": (ERRORS["group norm"][0], {"relax.nn.conv2d": ["NCHW4c", "OIHW4o"]}),
    "instance norm": (ERRORS["instance norm"][0], {"relax.nn.conv2d": ["NCHW4c", "OIHW4o"]}),
}


@pytest.mark.parametrize("name", STOPS)
def test_relax_stops_with_an_error(name: str) -> None:
    emit, layouts = STOPS[name]
    with pytest.raises(Exception, match=r"Check failed|Invalid|relax\.nn"):
        theirs(module_of(emit), layouts)


def test_default_is_a_layout_of_kernels() -> None:
    module = module_of(between(op.nn.relu))
    request = LayoutRequest.parse(desired_layouts={"nn.conv2d": ["NHWC", "default"]})
    assert convert_layout(module, request, TARGET)[1].layout_transforms == 2


def shared(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    return builder.emit(op.add(conv(builder, data), conv(builder, data)))


def permuted(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    last = builder.emit(op.permute_dims(conv(builder, data), [0, 2, 3, 1]))
    first = builder.emit(op.permute_dims(builder.emit(op.nn.relu(last)), [0, 3, 1, 2]))
    return conv(builder, first)


@pytest.mark.parametrize(("emit", "relax_leaves"), [(shared, 3), (permuted, 5)], ids=["shared", "permuted"])
def test_nothing_is_transformed_twice(emit: Emit, relax_leaves: int) -> None:
    module = module_of(emit)
    converted, _ = ours(module, "NHWC")
    assert (transforms(converted), transforms(theirs(module))) == (2, relax_leaves)
    assert_same_numbers(module, converted)


def two_blocks() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(IMAGE.shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            first = builder.emit_output(conv(builder, data))
        with builder.dataflow():
            second = conv(builder, builder.emit(op.nn.relu(first)))
            result = builder.emit_output(relax.Tuple([second]))
        builder.emit_func_output(result)
    return builder.finalize()


def test_dataflow_blocks_see_each_other() -> None:
    module = two_blocks()
    converted, _ = ours(module, "NHWC")
    assert (transforms(converted), transforms(theirs(module))) == (2, 4)
    assert_same_numbers(module, converted)


def test_constants_are_transformed_at_compile_time() -> None:
    module = module_of(between(op.nn.relu))
    converted, report = ours(module, "NHWC")
    assert report.layout_transforms_weights == transforms(converted, of_constants=True) == 0
    assert transforms(theirs(module), of_constants=True) == 2


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_a_whole_network_keeps_two_transforms_at_most(name: str) -> None:
    module = to_relax(build(name))
    converted, report = ours(module, "NHWC")
    assert report.layout_transforms == transforms(converted) <= min(2, transforms(theirs(module)))
    assert transforms(converted, of_constants=True) == 0


@pytest.mark.parametrize("name", compare_relax.GRAPHS)
def test_graphs_of_many_concats_keep_two_transforms(name: str) -> None:
    row = compare_relax.compare(name, compare_relax.GRAPHS[name](), "NHWC")
    assert row.is_comparable and row.ours.transforms == 2 < row.theirs.transforms


def test_a_hundred_random_graphs_never_keep_more_transforms_than_relax_leaves() -> None:
    graphs = islice(compare_relax.random_graphs(), 100)
    rows = [compare_relax.compare(name, module, "NHWC") for name, module in graphs]
    more = [str(row) for row in rows if row.is_comparable and row.ours.transforms > row.theirs.transforms]
    assert not more, "\n".join(more)
