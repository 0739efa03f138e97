"""Convolutions of every rank, plain and transposed: converted, run, and counted beside Relax's own pass."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.errors import LayoutError
from relay_layout.graph import build_graph
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.convert_layout import ConversionReport, convert_layout
from relay_layout.targets import resolve_target
from tests.layout_graphs import execute
from tests.relax_modules import main_of, module_giving

op = relax.op
TARGET = resolve_target("x86-64-v3", threads=2)
RNG = np.random.default_rng(0)
Step = Callable[[relax.Expr], relax.Expr]


def constant(*shape: int) -> relax.Expr:
    return relax.const(RNG.uniform(-1, 1, shape).astype("float32"))


def module_of(shape: Sequence[int | relax.Expr], *steps: Step) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    value: relax.Expr = data
    with main_of(data) as builder:
        for step in steps:
            value = builder.emit(step(value))
        builder.result = relax.Tuple([value])
    return builder.finalize()


def transforms(module: tvm.IRModule) -> int:
    """Transforms of activations that a module does at run time."""
    moves = ("permute_dims", "layout_transform")
    nodes = build_graph(module["main"]).nodes
    return sum(node.operator in moves and node.operands[0].constant is None for node in nodes)


def ours(
    module: tvm.IRModule, desired: str | Mapping[str, Sequence[str]], skip_layers: Sequence[int] = ()
) -> tuple[tvm.IRModule, ConversionReport]:
    if isinstance(desired, str):
        request = LayoutRequest.parse(desired, skip_layers=skip_layers)
    else:
        request = LayoutRequest.parse(desired_layouts=desired, skip_layers=skip_layers)
    return convert_layout(module, request, TARGET)


def assert_same_numbers(left: tvm.IRModule, right: tvm.IRModule, shape: Sequence[int]) -> None:
    image = RNG.uniform(-1, 1, shape).astype("float32")
    (want,), (have,) = execute(left, image), execute(right, image)
    np.testing.assert_allclose(have, want, 1e-4, 1e-5 * float(np.abs(want).max()))


SHAPES = {1: (2, 8, 9), 2: (2, 8, 7, 6), 3: (2, 8, 4, 5, 3)}
FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def plain(rank: int, *, strides: int = 1, groups: int = 1) -> Step:
    function = getattr(op.nn, f"conv{rank}d")
    weight = constant(8, 8 // groups, *[3] * rank)
    return lambda x: function(x, weight, padding=1, strides=strides, groups=groups)


def transposed(rank: int, groups: int = 1, dilation: int = 1) -> Step:
    function = getattr(op.nn, f"conv{rank}d_transpose")
    weight = constant(8, 8 // groups, *[3] * rank)
    options = {"strides": [2] * rank, "padding": [1] * rank, "output_padding": [1] * rank}
    return lambda x: function(x, weight, groups=groups, dilation=[dilation] * rank, **options)


OPERATORS = [f"nn.conv{rank}d{suffix}" for suffix in ("", "_transpose") for rank in (1, 2, 3)]


def rank_of(operator: str) -> int:
    return int(operator.removeprefix("nn.conv")[0])


def between(operator: str, groups: int = 1) -> tvm.IRModule:
    """A convolution, ReLU, the operator with strides, ReLU, a convolution."""
    rank = rank_of(operator)
    middle = transposed(rank, groups) if "transpose" in operator else plain(rank, strides=2, groups=groups)
    return module_of(SHAPES[rank], plain(rank), op.nn.relu, middle, op.nn.relu, plain(rank))


def relax_layouts(operator: str) -> dict[str, list[str]]:
    """What Relax's pass is asked: channels last for data and kernels."""
    rank = rank_of(operator)
    spatial = LAST[rank][1:-1]
    return {
        f"relax.nn.conv{rank}d": [LAST[rank], f"O{spatial}I"],
        f"relax.nn.conv{rank}d_transpose": [LAST[rank], f"I{spatial}O"],
    }


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_named_layout_holds_from_end_to_end(operator: str, groups: int) -> None:
    rank = rank_of(operator)
    module = between(operator, groups)
    for layout in (LAST[rank], f"{FIRST[rank]}4c"):
        converted, report = ours(module, layout)
        assert set(report.layouts.values()) == {f"{layout}->{layout}"}
        assert transforms(converted) == report.layout_transforms == 2
        assert_same_numbers(module, converted, SHAPES[rank])


@pytest.mark.parametrize("operator", OPERATORS)
def test_relax_does_not_leave_fewer_transforms(operator: str) -> None:
    module = between(operator)
    theirs = relax.transform.ConvertLayout(relax_layouts(operator))(module)
    converted, _ = ours(module, LAST[rank_of(operator)])
    assert transforms(converted) == 2 <= transforms(theirs)


@pytest.mark.parametrize("operator", OPERATORS)
def test_any_kernel_layout_may_be_named(operator: str) -> None:
    rank = rank_of(operator)
    module = module_of(SHAPES[rank], transposed(rank) if "transpose" in operator else plain(rank))
    spatial = LAST[rank][1:-1]
    for kernel in (f"IO{spatial}", f"O{spatial[::-1]}I"):
        converted, _ = ours(module, {operator: [LAST[rank], kernel]})
        (node,) = (node for node in build_graph(converted["main"]).nodes if node.operator == operator)
        layouts = (str(node.attributes.data_layout), str(node.attributes.kernel_layout))
        assert layouts == (LAST[rank], kernel)
        assert_same_numbers(module, converted, SHAPES[rank])


@pytest.mark.parametrize("operator", OPERATORS[2:])
def test_auto_leaves_channels_first_where_that_costs_most(operator: str) -> None:
    """Plain vector loops gather along rows; transforms are worth it from some tens of channels on."""
    rank = rank_of(operator)
    function = getattr(op.nn, operator.removeprefix("nn."))
    extent = {1: 4096, 2: 64, 3: 24}[rank]
    module = module_of((1, 64, *[extent] * rank), lambda x: function(x, constant(64, 64, *[3] * rank)))
    _, report = ours(module, "auto")
    (layouts,) = report.layouts.values()
    assert FIRST[rank] not in layouts.split("->")


@pytest.mark.parametrize("operator", [name for name in OPERATORS if "transpose" in name])
def test_dilated_transposed_convolutions_convert(operator: str) -> None:
    rank = rank_of(operator)
    module = module_of(SHAPES[rank], transposed(rank, 2, 2))
    converted, _ = ours(module, LAST[rank])
    assert_same_numbers(module, converted, SHAPES[rank])


@pytest.mark.parametrize("operator", OPERATORS)
def test_any_batch_converts(operator: str) -> None:
    rank = rank_of(operator)
    middle = transposed(rank) if "transpose" in operator else plain(rank)
    symbolic = module_of((tvm.tirx.Var("n", "int64"), *SHAPES[rank][1:]), middle)
    converted, report = ours(symbolic, LAST[rank])
    assert report.layout_transforms == 2
    assert_same_numbers(symbolic, converted, (3, *SHAPES[rank][1:]))


def test_weights_that_are_inputs_are_transformed() -> None:
    shapes = ((1, 4, 5, 5), (4, 6, 3, 3))
    data, weight = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in zip(("data", "weight"), shapes, strict=True)
    )
    _, report = ours(module_giving(op.nn.conv2d_transpose(data, weight), data, weight), "NHWC")
    assert (report.layout_transforms, report.layout_transforms_weights) == (2, 1)


def test_transposed_convolutions_follow_the_others_where_that_leaves_fewer_transforms() -> None:
    module = between("nn.conv2d_transpose")
    _, report = ours(module, {"nn.conv2d": ["NHWC", "default"]})
    assert [*report.layouts.values()] == ["NHWC->NHWC", "NHWC->NHWC", "NHWC->NHWC"]


def test_the_others_do_not_follow_transposed_convolutions() -> None:
    module = between("nn.conv2d_transpose")
    _, report = ours(module, {"nn.conv2d_transpose": ["NHWC", "default"]})
    assert [*report.layouts.values()] == ["NCHW->NCHW", "NHWC->NHWC", "NCHW->NCHW"]


def test_layers_are_counted_without_transposed_convolutions() -> None:
    """As Relay counts them, so that indices of a script keep their meaning."""
    _, report = ours(between("nn.conv2d_transpose"), "NHWC", skip_layers=[1])
    assert [*report.layouts.values()] == ["NHWC->NHWC", "NHWC->NHWC", "NCHW->NCHW"]


def test_a_layout_of_another_rank_is_refused() -> None:
    with pytest.raises(LayoutError) as refused:
        ours(between("nn.conv1d_transpose"), {"nn.conv1d_transpose": ["NHWC", "default"]})
    assert str(refused.value) == (
        "layout 'NHWC' does not fit nn.conv1d_transpose 'lv2', whose data has the axes N, C and W; "
        "use e.g. 'NWC'"
    )


def test_blocks_of_another_axis_have_no_kernel() -> None:
    _, report = ours(between("nn.conv3d_transpose"), {"nn.conv3d_transpose": ["NCDHW4w", "default"]})
    assert report.not_converted["lv2"] == "there is no convolution kernel for data in NCDHW4w"
