"""Backends that take over regions, and what crosses their borders."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax.dpl import is_const, is_op, wildcard

import relay_layout
from relay_layout.errors import LayoutError, VerificationError
from relay_layout.ir import constant_array, operator_name
from relay_layout.partition import Contract, Region, guard_partitions, partition
from tests.relax_modules import main_of


def randoms(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype="float32")


class Accelerator:
    """Runs convolutions with relu in numpy, on channels last and in multiples of 8."""

    name = "accelerator"

    def __init__(self, layouts: Callable[[Region], Contract | str] | None = None) -> None:
        convolution = is_op("relax.nn.conv2d")(wildcard(), is_const())
        self.patterns: Sequence[tuple[str, Any]] = [
            ("convolution_relu", is_op("relax.nn.relu")(convolution)),
            ("convolution", convolution),
        ]
        self.seen: list[tuple[list[int], list[int]]] = []
        self._layouts = layouts

    def accept(self, region: Region) -> Contract | str:
        if self._layouts is not None:
            return self._layouts(region)
        steps = steps_of(region.function)
        symbol = f"tests.accelerator.{region.name}"

        def run(data: Any, *results: Any) -> None:
            value = np.from_dlpack(data).transpose(0, 3, 1, 2)
            value = value[:, : region.inputs[0].shape[1]]
            made = []
            for step in steps:
                value = step(value)
                made.append(value)
            for result, value in zip(results, made[-len(results) :], strict=True):
                self.seen.append((list(data.shape), list(result.shape)))
                held = np.from_dlpack(result)
                held[...] = 0
                held[..., : value.shape[1]] = value.transpose(0, 2, 3, 1)

        tvm.register_global_func(symbol, run, override=True)
        return Contract(symbol, ["NHWC[a=8]"], ["NHWC[a=8]"] * len(region.outputs))


def steps_of(function: relax.Function) -> list[Callable[[np.ndarray], np.ndarray]]:
    """What each composite of a region computes, one after the other."""
    steps: list[Callable[[np.ndarray], np.ndarray]] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Function):
                for inner in binding.value.body.blocks[0].bindings:
                    operator = operator_name(inner.value)
                    if operator == "nn.conv2d":
                        weight = constant_array(inner.value.args[1])
                        padding = int(inner.value.attrs.padding[0])
                        steps.append(partial(correlate, weight=weight, padding=padding))
                    else:
                        assert operator == "nn.relu"
                        convolution = steps.pop()
                        steps.append(partial(rectified, convolution))
    return steps


def rectified(before: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
    return np.maximum(before(value), 0)


def correlate(data: np.ndarray, weight: np.ndarray, padding: int) -> np.ndarray:
    """A convolution of stride 1 of NCHW and OIHW."""
    data = np.pad(data, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(data, weight.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def network(middle: bool = True) -> tvm.IRModule:
    """A tanh, convolutions of 5, 6 and 11 channels with relu, one of them read twice, and a sum."""
    x = relax.Var("x", relax.TensorType((2, 5, 9, 7), "float32"))
    with main_of(x) as builder:
        value = builder.emit(relax.op.tanh(x))
        value = builder.emit(relax.op.nn.conv2d(value, relax.const(randoms(6, 5, 3, 3)), padding=1))
        value = builder.emit(relax.op.nn.relu(value))
        if middle:
            value = builder.emit(relax.op.sigmoid(value))
        last = builder.emit(relax.op.nn.conv2d(value, relax.const(randoms(11, 6, 1, 1))))
        summed = builder.emit(relax.op.sum(value, axis=[1]))
        builder.result = relax.Tuple([last, summed])
    return builder.finalize()


def outputs_of(module: tvm.IRModule, folder: Path, **options: Any) -> list[np.ndarray]:
    relay_layout.compile(module, **options).save(folder / "model.rla")
    return list(relay_layout.load(folder / "model.rla").run({"x": randoms(2, 5, 9, 7)}).values())


def calls(module: tvm.IRModule, operator: str) -> list[Any]:
    return [
        binding.value
        for block in module["main"].body.blocks
        for binding in block.bindings
        if operator_name(binding.value) == operator
    ]


@pytest.mark.parametrize(("layout", "middle"), [("auto", True), ("NHWC", True), ("none", False)])
def test_a_backend_runs_its_regions(layout: str, middle: bool, tmp_path: Path) -> None:
    expected = outputs_of(network(middle), tmp_path)
    backend = Accelerator()
    module = partition(network(middle), [backend])
    outputs = outputs_of(module, tmp_path, desired_layout=layout)
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)
    assert [data for data, _ in backend.seen] == [[2, 9, 7, 8]] * 2
    assert [result for _, result in backend.seen] == [[2, 9, 7, 8], [2, 9, 7, 16]]


def test_every_tensor_crosses_as_stated() -> None:
    module = partition(network(), [Accelerator()])
    assert [variable.name_hint for variable in module.get_global_vars()] == ["main"]
    crossed = calls(module, "call_dps_packed")
    assert len(crossed) == 2
    for call in crossed:
        (argument,) = call.args[1].fields
        assert int(argument.ty.shape.values[3]) % 8 == 0 and int(call.ty.shape.values[3]) % 8 == 0
    assert not calls(module, "nn.conv2d")


def test_the_choice_of_layouts_takes_the_border_into_account(tmp_path: Path) -> None:
    """Between two regions nothing is transposed: what is there runs channels last."""
    module = partition(network(), [Accelerator()])
    transposes = len(calls(module, "permute_dims"))
    converted = relay_layout.convert(module, desired_layout="auto")
    assert transposes == 4
    assert len(calls(converted.module, "permute_dims")) < transposes


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("it takes 8 bits only", "refuses region '{name}': it takes 8 bits only"),
        (Contract("f", [], ["NHWC"]), "region '{name}', input: 0 layouts are stated for 1 tensors"),
        (
            Contract("f", ["NHW"], ["NHWC"]),
            "region '{name}', input 0: layout NHW is stated of a tensor whose dimensions are called NCHW",
        ),
        (
            Contract("f", ["NCHW4c"], ["NHWC"]),
            "region '{name}', input 0: layout NCHW4c does not fit the shape (2, 5, 9, 7)",
        ),
        (Contract("f", "NHWC", ["NHWC"]), "region '{name}': 'NHWC' of a contract is no list of layouts"),
        (None, "region '{name}': accept gave None; give a Contract, or text that says why not"),
    ],
)
def test_what_does_not_fit_is_refused(answer: Any, message: str) -> None:
    with pytest.raises(LayoutError) as raised:
        partition(network(), [Accelerator(lambda region: answer)])
    text = str(raised.value)
    name = text.split("region '")[1].split("'")[0]
    separator = " " if isinstance(answer, str) else ", "
    assert text == f"backend accelerator{separator}{message.format(name=name)}"


def test_what_a_backend_raises_names_it() -> None:
    def accept(region: Region) -> Contract:
        raise KeyError(len(region.inputs))

    with pytest.raises(LayoutError, match=r"^backend accelerator, region '\w+': accept raised KeyError: 1$"):
        partition(network(), [Accelerator(accept)])


@pytest.mark.parametrize(
    ("backends", "message"),
    [
        (None, "backends are a list, not None"),
        (
            ["accelerator"],
            "backend 'accelerator' is none: it needs a name, which is text, a list of patterns, and a method "
            "accept(region)",
        ),
    ],
)
def test_what_is_no_backend(backends: Any, message: str) -> None:
    with pytest.raises(LayoutError) as raised:
        partition(network(), backends)
    assert str(raised.value) == message


def test_blocks_where_they_fit(tmp_path: Path) -> None:
    """A statement in blocks, of a region whose channels they divide."""
    expected = outputs_of(network(), tmp_path)

    def layouts(region: Region) -> Contract | str:
        blocked = f"NCHW{region.inputs[0].shape[1]}c"

        def run(data: Any, result: Any) -> None:
            value = np.from_dlpack(data).transpose(0, 1, 4, 2, 3)[:, 0]
            for step in steps_of(region.function):
                value = step(value)
            np.from_dlpack(result)[...] = value

        tvm.register_global_func(f"tests.blocks.{region.name}", run, override=True)
        return Contract(f"tests.blocks.{region.name}", [blocked], [None])

    outputs = outputs_of(partition(network(), [Accelerator(layouts)]), tmp_path)
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)


def test_regions_of_both_layouts_are_asked_in_their_own_letters() -> None:
    """A contract for NHWC transposes what goes into a region in NCHW, and not what goes into one in NHWC."""
    x = relax.Var("x", relax.TensorType((2, 5, 9, 7), "float32"))
    with main_of(x) as builder:
        first = builder.emit(relax.op.nn.conv2d(x, relax.const(randoms(8, 5, 1, 1))))
        turned = builder.emit(relax.op.permute_dims(first, [0, 2, 3, 1]))
        weight = relax.const(randoms(1, 1, 8, 6))
        last = relax.op.nn.conv2d(turned, weight, data_layout="NHWC", kernel_layout="HWIO")
        builder.result = builder.emit(last)
    seen: dict[tuple[Any, ...], str] = {}

    def layouts(region: Region) -> Contract:
        seen.update({tensor.shape: tensor.letters for tensor in (*region.inputs, *region.outputs)})
        return Contract("tests.never_run", ["NHWC"], ["NHWC"])

    module = partition(builder.finalize(), [Accelerator(layouts)])
    assert seen == {
        (2, 5, 9, 7): "NCHW",
        (2, 8, 9, 7): "NCHW",
        (2, 9, 7, 8): "NHWC",
        (2, 9, 7, 6): "NHWC",
    }
    crossed = [call.args[1].fields[0].ty.shape.values for call in calls(module, "call_dps_packed")]
    assert [list(map(int, shape)) for shape in crossed] == [[2, 9, 7, 5], [2, 9, 7, 8]]


def test_a_region_without_convolutions_is_called_as_those_around_it() -> None:
    x = relax.Var("x", relax.TensorType((2, 5, 9, 7), "float32"))
    with main_of(x) as builder:
        turned = builder.emit(relax.op.permute_dims(x, [0, 2, 3, 1]))
        inside = builder.emit(relax.op.nn.gelu(turned))
        back = builder.emit(relax.op.permute_dims(inside, [0, 3, 1, 2]))
        builder.result = builder.emit(relax.op.nn.conv2d(back, relax.const(randoms(8, 5, 1, 1))))
    seen: list[str] = []

    def layouts(region: Region) -> Contract:
        seen.extend(tensor.letters for tensor in (*region.inputs, *region.outputs))
        return Contract("tests.never_run", [None], [None])

    backend = Accelerator(layouts)
    backend.patterns = [("gelu", is_op("relax.nn.gelu")(wildcard()))]
    partition(builder.finalize(), [backend])
    assert seen == ["NHWC", "NHWC"]


def unguarded() -> tvm.IRModule:
    """Regions as TVM's own passes make them."""
    patterns = [(f"accelerator.{name}", pattern) for name, pattern in Accelerator().patterns]
    module = relax.transform.FuseOpsByPattern(patterns, bind_constants=True)(network())
    return relax.transform.MergeCompositeFunctions()(module)


def test_regions_of_other_passes_are_guarded(tmp_path: Path) -> None:
    expected = outputs_of(network(), tmp_path)
    for output, wanted in zip(
        outputs_of(guard_partitions(unguarded(), [Accelerator()]), tmp_path), expected, strict=True
    ):
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)


def test_a_region_without_its_backend_is_refused() -> None:
    with pytest.raises(LayoutError) as raised:
        guard_partitions(unguarded(), [])
    assert str(raised.value).endswith("belongs to backend 'accelerator', which is not among none")


def test_a_region_called_from_elsewhere_is_refused() -> None:
    module = unguarded()
    called = next(variable for variable in module.get_global_vars() if variable.name_hint != "main")
    kind = module[called].params[0].ty
    builder = relax.BlockBuilder(module)
    y = relax.Var("y", kind)
    with builder.function("aside", [y]):
        builder.emit_func_output(builder.emit(relax.Call(called, [y])))
    with pytest.raises(VerificationError) as raised:
        guard_partitions(builder.finalize(), [Accelerator()])
    assert str(raised.value) == f"function 'aside' calls region '{called.name_hint}' past its guard"
