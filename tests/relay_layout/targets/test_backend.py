"""A backend from outside: it only runs NHWC with channels in multiples of 32."""

from collections.abc import Callable, Sequence
from math import nan
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.errors import LayoutError
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.convert_layout import ConvertLayout, convert_layout
from relay_layout.targets import resolve_target
from relay_layout.targets.backend import OperatorView, Requirement
from tests.layout_graphs import execute
from tests.relax_modules import main_of

op = relax.op
TARGET = resolve_target("native", threads=2)
IMAGE = np.random.default_rng(5).uniform(-1, 1, (2, 3, 8, 7)).astype("float32")
DATA, KERNEL = "NHWC[a=32]", "O[a=32]HWI[a=32]"


class Accelerator:
    """Convolutions and pooling; everything else may have any layout."""

    name = "accelerator"

    def __init__(self, data: str = DATA, kernel: str = KERNEL) -> None:
        self.data = data
        self.kernel = kernel
        self.asked: list[OperatorView] = []

    def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
        self.asked.append(operator)
        if operator.operator == "nn.conv2d":
            if operator.attributes["groups"] != 1:
                return []
            return [Requirement([self.data, self.kernel], [self.data])]
        if operator.operator == "nn.max_pool2d":
            return [Requirement([self.data], [self.data])]
        return None


def constant(*shape: int) -> Any:
    return relax.const(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"))


def module(build: Callable[..., Any]) -> tvm.IRModule:
    """A function of one image whose builder may emit intermediate values."""
    image = relax.Var("image", relax.TensorType(IMAGE.shape, "float32"))
    with main_of(image) as builder:
        builder.result = relax.Tuple([builder.emit(build(builder.emit, image))])
    return builder.finalize()


def network(between: Callable[[Any], Any]) -> Callable[..., Any]:
    """Two convolutions with an operator between them."""

    def build(emit: Any, image: Any) -> Any:
        first = emit(op.nn.conv2d(image, constant(20, 3, 3, 3), padding=1))
        return op.nn.conv2d(emit(between(first)), constant(5, 20, 3, 3), padding=1)

    return build


def converted(build: Callable[..., Any], backend: Accelerator | None = None) -> tuple[tvm.IRModule, int]:
    """The module as the backend wants it, which must compute the same; and how many transforms it has."""
    before = module(build)
    after, report = convert_layout(before, LayoutRequest(backend=backend or Accelerator()), TARGET)
    for want, have in zip(execute(before, IMAGE), execute(after, IMAGE), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    return after, report.layout_transforms


def shapes(converted_module: tvm.IRModule, operator: str) -> list[tuple[int, ...]]:
    """The result shapes of an operator's calls."""
    return [
        tuple(int(extent) for extent in binding.var.ty.shape.values)
        for block in converted_module["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and binding.value.op.name == f"relax.{operator}"
    ]


def shuffled(x: Any, groups: int = 2) -> Any:
    """The channels of groups interleaved."""
    n, c, h, w = map(int, x.ty.shape.values)
    builder = relax.BlockBuilder.current()
    split = builder.emit(op.reshape(x, (n, groups, c // groups, h, w)))
    turned = builder.emit(op.permute_dims(split, [0, 2, 1, 3, 4]))
    return op.reshape(turned, (n, c, h, w))


KEEP_ZEROS: dict[str, Callable[[Any], Any]] = {
    "relu": op.nn.relu,
    "bias": lambda x: op.add(x, constant(20, 1, 1)),
    "scale": lambda x: op.multiply(x, constant(1, 20, 1, 1)),
    "itself": lambda x: op.subtract(x, x),
    "pool": lambda x: op.nn.max_pool2d(x, (2, 2)),
    "bounds": lambda x: op.clip(x, 0, 6),
    "a factor": lambda x: op.multiply(x, relax.const(0.5)),
    "a divisor": lambda x: op.divide(x, relax.const(0.5)),
    "padded pixels": lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 0, 1]),
    "rows joined": lambda x: op.concat([x, x], axis=2),
    "rows of it": lambda x: op.strided_slice(x, [2], [1], [5]),
    "mean of pixels": lambda x: op.mean(x, [2, 3], keepdims=True),
    "pixels in a row": lambda x: op.reshape(x, (2, 20, 1, 56)),
}
MAKE_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": op.sigmoid,
    "a scalar": lambda x: op.add(x, relax.const(1.0)),
    "softmax": lambda x: op.nn.softmax(x, axis=1),
    "clip": lambda x: op.clip(x, 1, 2),
    "an infinite factor": lambda x: op.minimum(op.multiply(x, relax.const(float("inf"))), relax.const(9.0)),
    "divided by itself": lambda x: op.divide(x, x),
    "a divisor of each channel": lambda x: op.divide(x, constant(20, 1, 1)),
    "filled pixels": lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 0, 1], "constant", 0.5),
    "channels joined": lambda x: op.strided_slice(op.concat([x, x], axis=1), [1], [3], [23]),
}


@pytest.mark.parametrize("name", KEEP_ZEROS)
def test_padding_passes_what_keeps_zeros(name: str) -> None:
    after, transforms = converted(network(KEEP_ZEROS[name]))
    assert transforms == 2
    assert [shape[-1] for shape in shapes(after, "nn.conv2d")] == [32, 32]


@pytest.mark.parametrize("name", MAKE_NUMBERS)
def test_padding_is_cut_off_before_what_makes_numbers_of_zeros(name: str) -> None:
    after, transforms = converted(network(MAKE_NUMBERS[name]))
    assert transforms > 2
    assert [shape[-1] for shape in shapes(after, "nn.conv2d")] == [32, 32]


@pytest.mark.parametrize("groups", [2, 5, 20])
def test_channels_are_shuffled_between_aligned_convolutions(groups: int) -> None:
    after, transforms = converted(network(lambda x: shuffled(x, groups)))
    # In, cut off, added again where the shuffle moves everything anyway, and out.
    assert transforms == (4 if groups < 20 else 2)
    assert [shape[-1] for shape in shapes(after, "nn.conv2d")] == [32, 32]
    assert len(shapes(after, "permute_dims")) == (3 if groups < 20 else 2)


def test_two_shuffles_split_and_joined_again() -> None:
    def between(x: Any) -> Any:
        builder = relax.BlockBuilder.current()
        halves = builder.emit(op.split(builder.emit(shuffled(x, 4)), 2, axis=1))
        left, right = (builder.emit(relax.TupleGetItem(halves, place)) for place in range(2))
        joined = builder.emit(op.concat([builder.emit(op.nn.conv2d(left, constant(10, 10, 1, 1))), right], 1))
        return shuffled(joined)

    after, _ = converted(network(between))
    assert [shape[-1] for shape in shapes(after, "nn.conv2d")] == [32, 32, 32]


@pytest.mark.parametrize("shape", [(1, 1, 1, 8), (1, 1, 8, 1), (2, 1, 4, 4)])
def test_a_dimension_of_one_element_is_padded(shape: tuple[int, ...]) -> None:
    image = relax.Var("image", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        first = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(image, constant(1, 1, 1, 1)))))
        result = builder.emit(relax.Tuple([builder.emit(op.nn.conv2d(first, constant(3, 1, 1, 1)))]))
        builder.emit_func_output(result)
    before = builder.finalize()
    after, _ = convert_layout(before, LayoutRequest(backend=Accelerator()), TARGET)
    data = np.random.default_rng(1).uniform(-1, 1, shape).astype("float32")
    for want, have in zip(execute(before, data), execute(after, data), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    assert [size[-1] for size in shapes(after, "nn.conv2d")] == [32, 32]


def test_blocks_become_aligned_channels() -> None:
    class Mixed(Accelerator):
        def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
            if operator.operator == "nn.relu":
                return [Requirement(["NCHW4c"], ["NCHW4c"])]
            return super().requirements(operator)

    after, transforms = converted(network(op.nn.relu), Mixed())
    assert transforms == 4
    assert shapes(after, "nn.relu") == [(2, 5, 8, 7, 4)]


def test_an_open_extent_is_not_aligned() -> None:
    class Rows(Accelerator):
        def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
            return [Requirement(["NC[a=4]HW"], ["NC[a=4]HW"])] if operator.operator == "nn.relu" else None

    extents = [2, tvm.tirx.Var("c", "int64"), 4, 4]
    image = relax.Var("image", relax.TensorType(extents, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        builder.emit_func_output(builder.emit(op.nn.relu(image)))
    _, report = convert_layout(builder.finalize(), LayoutRequest(backend=Rows()), TARGET)
    assert report.layout_transforms == 0


def test_channels_that_fit_are_not_padded() -> None:
    after, _ = converted(lambda emit, image: op.nn.conv2d(image, constant(32, 3, 1, 1)))
    assert shapes(after, "nn.pad") == [(2, 8, 7, 32)]


def test_what_the_backend_does_not_run_stays() -> None:
    after, transforms = converted(lambda emit, image: op.nn.conv2d(image, constant(6, 1, 3, 3), groups=3))
    assert transforms == 0
    assert shapes(after, "nn.conv2d") == [(2, 6, 6, 5)]


def test_convolutions_to_skip_are_not_the_backends() -> None:
    request = LayoutRequest(backend=Accelerator(), skip_layers=frozenset([0]))
    _, report = convert_layout(module(network(op.nn.relu)), request, TARGET)
    assert list(report.layouts.values()) == ["NCHW->NCHW", "NHWC->NHWC"]


def test_the_backend_sees_the_operator() -> None:
    backend = Accelerator()
    converted(lambda emit, image: op.nn.conv2d(image, constant(6, 3, 3, 3), strides=2), backend)
    seen = next(view for view in backend.asked if view.operator == "nn.conv2d")
    assert [tensor.shape for tensor in seen.inputs] == [(2, 3, 8, 7), (6, 3, 3, 3)]
    assert [tensor.letters for tensor in (*seen.inputs, *seen.outputs)] == ["NCHW", "OIHW", "NCHW"]
    assert [tensor.is_constant for tensor in seen.inputs] == [False, True]
    assert list(seen.attributes["strides"]) == [2, 2]


def test_channels_behind_a_transposition_are_channels() -> None:
    """What is asked for NHWC there lies so already: a requirement costs no transform."""

    class Last(Accelerator):
        def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
            if operator.operator == "nn.softmax":
                return [Requirement(["NHWC"], ["NHWC"])]
            return super().requirements(operator)

    def build(emit: Any, image: Any) -> Any:
        last = emit(op.permute_dims(emit(op.nn.conv2d(image, constant(32, 3, 3, 3))), [0, 2, 3, 1]))
        return op.nn.softmax(last)

    after, transforms = converted(build, Last())
    assert transforms == 1
    assert shapes(after, "nn.softmax") == [(2, 6, 5, 32)]


@pytest.mark.parametrize(
    ("data", "kernel", "groups", "why"),
    [
        (DATA, "OHWI", 1, ": NHWC[a=32]: C of the data would be 32, but I of the kernel 3"),
        ("NH[a=16]WC", "OHWI", 1, ": NH[a=16]WC: H of the data are pixels, which are not padded"),
        (DATA, KERNEL, 3, ": NHWC[a=32]: C of the data are channels of groups, which are not padded"),
        ("NCHW2c", "OIHW", 1, ""),
    ],
)
def test_what_does_not_fit_of_a_requirement_is_told(data: str, kernel: str, groups: int, why: str) -> None:
    class One(Accelerator):
        def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
            fits = operator.operator != "nn.conv2d"
            return None if fits else [Requirement([self.data, self.kernel], [self.data])]

    before = module(lambda emit, image: op.nn.conv2d(image, constant(6, 3 // groups, 3, 3), groups=groups))
    request = LayoutRequest(backend=One(data, kernel))
    _, report = convert_layout(before, request, TARGET)
    (reason,) = report.not_converted.values()
    assert reason == (
        f"backend accelerator requires {data}, {kernel} -> {data}, in which nn.conv2d cannot run here{why}"
    )


def test_a_requirement_of_what_is_there_is_met() -> None:
    class Same(Accelerator):
        def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
            layouts = [Requirement(["NCHW2c", "OIHW"], ["NCHW2c"]), Requirement(["NCHW", "OIHW"], ["NCHW"])]
            return layouts if operator.operator == "nn.conv2d" else None

    before = module(lambda emit, image: op.nn.conv2d(image, constant(6, 3, 3, 3)))
    _, report = convert_layout(before, LayoutRequest(backend=Same()), TARGET)
    assert not report.not_converted


def test_requirements_must_have_the_letters_of_the_operator() -> None:
    with pytest.raises(LayoutError) as raised:
        converted(lambda emit, image: op.nn.conv2d(image, constant(6, 3, 3, 3)), Accelerator(kernel="OHWC"))
    assert str(raised.value) == (
        "backend accelerator, input of nn.conv2d: layout OHWC is required of a tensor whose dimensions are "
        "called OIHW"
    )


def test_requirements_that_are_no_layouts_name_the_backend() -> None:
    with pytest.raises(LayoutError, match=r"^backend accelerator, input of nn\.conv2d: layout 'OHWO': "):
        converted(lambda emit, image: op.nn.conv2d(image, constant(6, 3, 3, 3)), Accelerator(kernel="OHWO"))


def test_requirements_must_be_complete() -> None:
    backend = Accelerator()
    backend.requirements = lambda operator: [Requirement([DATA], [DATA])]  # type: ignore[method-assign]
    with pytest.raises(LayoutError) as raised:
        converted(lambda emit, image: op.nn.conv2d(image, constant(6, 3, 3, 3)), backend)
    assert str(raised.value) == (
        "backend accelerator, input of nn.conv2d: 1 layouts are required for 2 tensors"
    )


class Eager(Accelerator):
    """It asks for padding without looking at the operator."""

    def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
        return [Requirement([self.data, self.kernel], [self.data])] if "conv" in operator.operator else None


@pytest.mark.parametrize(
    ("data", "kernel", "groups", "channels"),
    [
        ("NHWC[a=8]", "O[a=8]HWI[a=8]", 3, (6, 1)),
        ("NHWC[a=8]", "O[a=8]HWI", 3, (6, 1)),
        ("NHWC[a=8]", "OHWI", 1, (6, 3)),
        ("NHWC[a=8]", "O[a=8]HWI[a=4]", 1, (6, 3)),
        ("NHW[a=8]C", "OHWI", 1, (6, 3)),
    ],
    ids=["depthwise", "depthwise result", "data alone", "unlike", "pixels"],
)
def test_padding_that_is_no_channels_leaves_the_convolution(
    data: str, kernel: str, groups: int, channels: tuple[int, int]
) -> None:
    after, transforms = converted(
        lambda emit, image: op.nn.conv2d(image, constant(*channels, 3, 3), groups=groups), Eager(data, kernel)
    )
    assert transforms == 0
    assert shapes(after, "nn.conv2d") == [(2, 6, 6, 5)]


def test_alignment_that_pads_nothing_takes_groups() -> None:
    after, _ = converted(
        lambda emit, image: op.nn.conv2d(image, constant(6, 1, 3, 3), groups=3),
        Eager("NHWC[a=3]", "O[a=3]HWI"),
    )
    assert shapes(after, "nn.conv2d") == [(2, 6, 5, 6)]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda: "NHWC", "requirements gave 'NHWC'; give a list of Requirement, or None"),
        (lambda: ["NHWC"], "requirements gave ['NHWC']; give a list of Requirement, or None"),
        (lambda: {}["NHWC"], "requirements raised KeyError: 'NHWC'"),
        (lambda: [Requirement("NHWC", [DATA])], "'NHWC' of a requirement is no list of layouts"),
        (lambda: [Requirement([DATA, DATA], DATA)], f"'{DATA}' of a requirement is no list of layouts"),
        (
            lambda: [Requirement([DATA], [DATA], "3")],  # type: ignore[arg-type]
            "microseconds='3' of a requirement is no number",
        ),
        (lambda: [Requirement([DATA], [DATA], nan)], "microseconds=nan of a requirement is no number"),
        (
            lambda: [Requirement([DATA], [DATA], -0.5)],
            "microseconds=-0.5 of a requirement is below 0: nothing costs less",
        ),
    ],
    ids=["text", "no requirement", "raises", "inputs", "outputs", "text as a cost", "no cost", "a gain"],
)
def test_an_answer_that_is_none_is_told_with_the_backend(answer: Callable[[], Any], told: str) -> None:
    backend = Accelerator()
    backend.requirements = lambda operator: answer()  # type: ignore[method-assign]
    with pytest.raises(LayoutError) as raised:
        converted(lambda emit, image: op.nn.conv2d(image, constant(6, 3, 3, 3)), backend)
    assert str(raised.value) == f"backend accelerator, nn.conv2d: {told}"


def test_any_layout_is_not_written_with_a_star() -> None:
    with pytest.raises(LayoutError, match="'\\*' is no layout to require; None stands for"):
        converted(lambda emit, image: op.nn.conv2d(image, constant(6, 3, 3, 3)), Accelerator(kernel="*"))


def test_a_backend_without_its_method_is_refused() -> None:
    with pytest.raises(LayoutError, match="it needs a name, which is text, and a method requirements"):
        ConvertLayout(backend="accelerator")  # type: ignore[arg-type]
