"""Transforms between layouts: numbers beside numpy's, and loops that whole vectors can be written in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.relax_pipeline import pipeline
from relay_layout.targets import resolve_target
from tests.legalizing import legalized
from tests.relax_modules import module_giving
from topi_ext.codegen.build import PIPELINE
from topi_ext.ir import loads_of, nodes_of

TARGET = resolve_target("native", threads=1)

Index = Callable[..., list[Any]]


def blocked(n: Any, c: Any, h: Any, w: Any) -> list[Any]:
    return [n, c // 8, h, w, c % 8]


def plain(n: Any, c: Any, h: Any, w: Any, lane: Any) -> list[Any]:
    return [n, c * 8 + lane, h, w]


def module_of(shape: list[Any], index: Index, filler: float | None = None) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    return module_giving(relax.op.layout_transform(data, index, filler), data)


def compiled(module: tvm.IRModule) -> Callable[[np.ndarray], np.ndarray]:
    built = tvm.compile(
        module,
        TARGET.tvm_target,
        relax_pipeline=pipeline(TARGET, desired_layout="none"),
        tir_pipeline=PIPELINE,
    )
    machine = relax.VirtualMachine(built, tvm.cpu())
    return lambda data: machine["main"](tvm.runtime.tensor(data)).numpy()


def loops(module: tvm.IRModule) -> tirx.PrimFunc:
    lowered = legalized(module)
    (function,) = [each for each in lowered.functions.values() if isinstance(each, tirx.PrimFunc)]
    return function


def into_blocks(data: np.ndarray) -> np.ndarray:
    batch, channels, *image = data.shape
    return data.reshape(batch, channels // 8, 8, *image).transpose(0, 1, 3, 4, 2)


@pytest.mark.parametrize("channels", [8, 24])
def test_into_blocks_and_back(channels: int) -> None:
    data = np.random.default_rng(0).random((2, channels, 5, 7), "float32")
    held = compiled(module_of([2, channels, 5, 7], blocked))(data)
    np.testing.assert_array_equal(held, into_blocks(data))
    np.testing.assert_array_equal(compiled(module_of(list(held.shape), plain))(held), data)


def test_any_batch_and_width() -> None:
    run = compiled(module_of([tirx.Var("n", "int64"), 16, 3, tirx.Var("w", "int64")], blocked))
    for batch, width in ((1, 1), (3, 18)):
        data = np.random.default_rng(0).random((batch, 16, 3, width), "float32")
        np.testing.assert_array_equal(run(data), into_blocks(data))


@pytest.mark.parametrize(
    ("shape", "index"), [([2, 16, 5, 7], blocked), ([2, 2, 5, 7, 8], plain)], ids=["into blocks", "back"]
)
def test_loops_are_those_of_the_result(shape: list[int], index: Index) -> None:
    (store,) = nodes_of(loops(module_of(shape, index)).body, tirx.BufferStore)
    assert all(isinstance(place, tirx.Var) for place in store.indices)


def test_neighbours_that_stay_so_are_copied_as_they_lie() -> None:
    """Blocks to channels last: loops over the data, whose innermost one is a vector in both."""

    def last(n: Any, c: Any, h: Any, w: Any, lane: Any) -> list[Any]:
        return [n, h, w, c * 8 + lane]

    module = module_of([2, 3, 5, 7, 8], last)
    (load,) = loads_of(loops(module).body)
    assert all(isinstance(place, tirx.Var) for place in load.indices)
    data = np.random.default_rng(0).random((2, 3, 5, 7, 8), "float32")
    np.testing.assert_array_equal(compiled(module)(data), data.transpose(0, 2, 3, 1, 4).reshape(2, 5, 7, 24))


def test_filled_transforms_are_right() -> None:
    data = np.random.default_rng(0).random((1, 13, 2, 3), "float32")
    want = np.pad(data, [(0, 0), (0, 3), (0, 0), (0, 0)], constant_values=7)
    run = compiled(module_of([1, 13, 2, 3], blocked, 7.0))
    np.testing.assert_array_equal(run(data), into_blocks(want))
